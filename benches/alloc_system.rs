//! Four programs that allocate much, over system: started by `alloc_groups`.

#[path = "support/measure.rs"]
#[allow(dead_code, reason = "only the CPU time is needed")]
mod measure;
#[path = "support/programs.rs"]
mod programs;

#[global_allocator]
static ALLOCATOR: std::alloc::System = std::alloc::System;

fn main() {
    programs::main();
}
