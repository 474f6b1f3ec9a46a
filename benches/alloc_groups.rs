//! Four programs that allocate much, over `GroupAlloc`, compared with the others.

#[path = "support/measure.rs"]
#[allow(dead_code, reason = "only the CPU time is needed")]
mod measure;
#[path = "support/programs.rs"]
mod programs;

#[global_allocator]
static ALLOCATOR: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

fn main() {
    programs::main();
}
