//! The scheduling policy: pure, without clock, thread or lock.
