//! The example that spills is run as it is: the same answer in half the memory, asserted in there.

#[path = "../examples/spill.rs"]
mod spill;

#[test]
fn an_aggregation_gives_the_same_answer_with_half_its_memory() {
    spill::main().unwrap();
}
