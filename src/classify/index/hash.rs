//! Hash tables of short texts and small numbers.
//!
//! Pure. The keys come from the catalog, which only an administrator writes; a request only looks up, and cannot
//! make a table slow. So the hash needs speed and spread, not a secret.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// A table keyed by numbers or texts of the catalog.
pub(super) type Numbers<K, V> = HashMap<K, V, BuildHasherDefault<Fold>>;

/// Multiplies to 128 bits and folds the halves together, once per eight bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fold(u64);

/// An odd number without pattern: the fraction of the golden ratio.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

impl Fold {
    #[inline]
    fn mix(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ SPREAD).wrapping_mul(u128::from(!SPREAD | 1));
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }
}

impl Hasher for Fold {
    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        let mut words = bytes.chunks_exact(8);
        for word in &mut words {
            let mut eight = [0; 8];
            eight.copy_from_slice(word);
            self.mix(u64::from_le_bytes(eight));
        }
        let rest = words.remainder();
        if !rest.is_empty() {
            let tail = rest.iter().fold(0, |tail, &b| (tail << 8) | u64::from(b));
            self.mix(tail);
        }
    }

    #[inline]
    fn write_u8(&mut self, value: u8) {
        self.mix(u64::from(value));
    }

    #[inline]
    fn write_u32(&mut self, value: u32) {
        // One multiplication for a pair of numbers: the first stays in the upper half for the second to join.
        self.0 = self.0.rotate_left(32) ^ u64::from(value);
    }

    #[inline]
    fn finish(&self) -> u64 {
        let mut last = *self;
        last.mix(0);
        last.0
    }
}
