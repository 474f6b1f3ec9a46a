//! Where scenarios run.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An empty directory, removed in the end.
pub struct Room(PathBuf);

static NEXT: AtomicUsize = AtomicUsize::new(0);

impl Room {
    pub fn new() -> Room {
        let number = NEXT.fetch_add(1, Ordering::SeqCst);
        let name = format!("quotient-fs-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Room(path)
    }

    pub fn path(&self) -> PathBuf {
        self.0.clone()
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Bytes whose like comes again after 251, which no power of two is a multiple of.
pub fn pattern(length: usize) -> Vec<u8> {
    let mut bytes = (0..251).collect::<Vec<u8>>().repeat(length / 251 + 1);
    bytes.truncate(length);
    bytes
}
