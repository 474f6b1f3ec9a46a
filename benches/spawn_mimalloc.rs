//! The same shapes as `spawn`, with mimalloc as the global allocator: without glibc's arena lock in the picture.

mod support;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() {
    support::spawn::main(support::spawn::Allocator::Mimalloc);
}
