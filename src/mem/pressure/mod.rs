//! How much memory there may be, and how much is in use: the kernel's figures beside our own.
//!
//! Mechanism; any thread. Reads a few files of /proc and /sys, about 50 µs in all: once when a governor is built,
//! then whenever somebody asks. What the files mean is in [`files`], which is pure.

pub mod files;

use super::{OwnerHandle, is_installed, root_used};
use crate::unit::Bytes;
use files::{CgroupPaths, Version};
use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

/// The memory of the process and of its surroundings at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Reading {
    /// What the governor may use: explicit, else the cgroup's limit, else the physical memory.
    pub limit: Bytes,
    /// What the allocator has given out, with what is reserved beside it. None where nothing is tracked.
    pub root: Option<Bytes>,
    /// What is reserved, where nothing is tracked. Part of `root` where that is known.
    pub reserved: Bytes,
    /// What the kernel keeps in memory for the process. None where it does not tell.
    pub resident: Option<Bytes>,
    /// The cgroup that is nearest to its limit. None without one that has a limit.
    pub cgroup: Option<CgroupMemory>,
}

/// A cgroup's memory at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupMemory {
    /// Its hard limit.
    pub limit: Bytes,
    /// All that is charged to it, page cache included.
    pub current: Bytes,
    /// The part of `current` that the kernel can take back at once: clean page cache.
    pub reclaimable: Bytes,
}

impl CgroupMemory {
    /// What is in use: `current` less what can be taken back.
    pub fn used(&self) -> Bytes {
        Bytes(self.current.0.saturating_sub(self.reclaimable.0))
    }

    fn room(&self) -> u64 {
        self.limit.0.saturating_sub(self.used().0)
    }
}

impl Reading {
    /// Memory used, to be compared with `limit`: the greatest of what the allocator counts with the reservations, and
    /// what the cgroup holds. Where nothing is tracked, the resident size stands in for the allocator's count.
    ///
    /// The cgroup's figure covers what no allocator sees: C code, mapped files, kernel buffers. It counts only if the
    /// cgroup has a limit: one without may hold the whole machine's programs.
    pub fn used(&self) -> Bytes {
        let own = match self.root {
            Some(root) => root,
            None => Bytes(self.resident.unwrap_or_default().0.max(self.reserved.0)),
        };
        self.cgroup.map_or(own, |cgroup| own.max(cgroup.used()))
    }
}

/// What is tracked inside the process: asked at each reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tracked {
    /// The allocator's count with the reservations; none without the allocator.
    pub root: Option<Bytes>,
    /// What is reserved, where nothing is tracked.
    pub reserved: Bytes,
}

impl Tracked {
    /// What there is of `governor`, and of the process around it.
    pub fn by(governor: &OwnerHandle) -> Tracked {
        if is_installed() {
            Tracked {
                root: Some(Bytes(root_used())),
                reserved: Bytes(0),
            }
        } else {
            Tracked {
                root: None,
                reserved: Bytes(governor.used()),
            }
        }
    }
}

/// Reads all of it. Made once per governor; cheap enough to be asked many times a second.
pub struct Probe {
    limit: Bytes,
    cgroups: Vec<Level>,
    tracked: Box<dyn Fn() -> Tracked + Send + Sync>,
}

/// One cgroup on the way from the process's own up to the root.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Level {
    version: Version,
    directory: PathBuf,
}

impl Probe {
    /// A probe for a governor with this limit; `tracked` is asked at each reading and must not block.
    pub fn new(limit: Bytes, tracked: impl Fn() -> Tracked + Send + Sync + 'static) -> Probe {
        Probe {
            limit,
            cgroups: levels(),
            tracked: Box::new(tracked),
        }
    }

    /// The probe of a governor with this owner.
    pub fn of(governor: Arc<OwnerHandle>, limit: Bytes) -> Probe {
        Probe::new(limit, move || Tracked::by(&governor))
    }

    /// The memory of this moment.
    pub fn read(&self) -> Reading {
        let tracked = (self.tracked)();
        Reading {
            limit: self.limit,
            root: tracked.root,
            reserved: tracked.reserved,
            resident: resident(),
            cgroup: nearest_to_its_limit(&self.cgroups),
        }
    }
}

impl fmt::Debug for Probe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Probe")
            .field("limit", &self.limit)
            .field("cgroups", &self.cgroups)
            .finish_non_exhaustive()
    }
}

/// What a process here may use: the least of its cgroups' limits and the physical memory.
pub fn available() -> Bytes {
    let info = rustix::system::sysinfo();
    let physical = (info.totalram as u64).saturating_mul(u64::from(info.mem_unit.max(1)));
    let limits = levels().into_iter().filter_map(|level| level.limit());
    Bytes(limits.map(|limit| limit.0).fold(physical, u64::min))
}

fn resident() -> Option<Bytes> {
    files::resident(&fs::read_to_string("/proc/self/status").ok()?)
}

/// The process's own cgroup and those above it, as far as they can be seen from here.
fn levels() -> Vec<Level> {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    let paths = CgroupPaths::find(&read("/proc/self/cgroup"), &read("/proc/self/mountinfo"));
    let level = |version| move |directory| Level { version, directory };
    let v2 = paths.v2.into_iter().map(level(Version::V2));
    let v1 = paths.v1.into_iter().map(level(Version::V1));
    v2.chain(v1).collect()
}

fn nearest_to_its_limit(levels: &[Level]) -> Option<CgroupMemory> {
    let read = levels.iter().filter_map(Level::read);
    read.min_by_key(CgroupMemory::room)
}

impl Level {
    fn limit(&self) -> Option<Bytes> {
        files::limit(&self.text(self.version.limit_file())?)
    }

    /// None if it has no limit, or none that can be read.
    fn read(&self) -> Option<CgroupMemory> {
        let limit = self.limit()?;
        let current = files::number(&self.text(self.version.current_file())?)?;
        let stat = self.text("memory.stat").unwrap_or_default();
        Some(CgroupMemory {
            limit,
            current,
            reclaimable: files::reclaimable(self.version, &stat).min(current),
        })
    }

    fn text(&self, file: &str) -> Option<String> {
        fs::read_to_string(self.directory.join(file)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn cgroup(limit: u64, current: u64, reclaimable: u64) -> CgroupMemory {
        CgroupMemory {
            limit: Bytes(limit),
            current: Bytes(current),
            reclaimable: Bytes(reclaimable),
        }
    }

    #[test]
    fn used_is_the_greatest_figure_that_is_about_this_process() {
        let nothing = Reading::default();
        let tracked = Reading {
            root: Some(Bytes(5 * GIB)),
            resident: Some(Bytes(9 * GIB)),
            ..nothing
        };
        let untracked = Reading {
            root: None,
            ..tracked
        };
        let full = Some(cgroup(16 * GIB, 14 * GIB, 2 * GIB));
        let cached = Some(cgroup(16 * GIB, 14 * GIB, 13 * GIB));
        let reserving = Reading {
            reserved: Bytes(11 * GIB),
            ..untracked
        };
        let table = [
            (nothing, 0),
            // What is resident says nothing more where every block is counted.
            (tracked, 5),
            (untracked, 9),
            (reserving, 11),
            (
                Reading {
                    cgroup: full,
                    ..tracked
                },
                12,
            ),
            (
                Reading {
                    cgroup: cached,
                    ..tracked
                },
                5,
            ),
            (
                Reading {
                    cgroup: full,
                    ..untracked
                },
                12,
            ),
        ];
        for (reading, used) in table {
            assert_eq!(reading.used(), Bytes(used * GIB), "{reading:?}");
        }
    }

    #[test]
    fn more_reclaimable_than_there_is_leaves_nothing_used() {
        assert_eq!(cgroup(9, 3, 7).used(), Bytes(0));
    }

    #[test]
    fn levels_are_read_from_their_directories_and_the_fullest_counts() {
        let root = std::env::temp_dir().join(format!("quotient-cgroup-{}", std::process::id()));
        let write = |path: &str, files: &[(&str, &str)]| {
            let directory = root.join(path);
            fs::create_dir_all(&directory).unwrap();
            for (name, text) in files {
                fs::write(directory.join(name), text).unwrap();
            }
            Level {
                version: Version::V2,
                directory,
            }
        };
        let stat = "anon 10\nfile 70\ninactive_file 40\nactive_file 20\nfile_dirty 5\n";
        let own = write(
            "slice/own",
            &[
                ("memory.max", "max\n"),
                ("memory.current", "100\n"),
                ("memory.stat", stat),
            ],
        );
        let slice = write(
            "slice",
            &[
                ("memory.max", "1000\n"),
                ("memory.current", "600\n"),
                ("memory.stat", stat),
            ],
        );
        let top = write(
            "",
            &[
                ("memory.max", "100000\n"),
                ("memory.current", "700\n"),
                ("memory.stat", ""),
            ],
        );
        let broken = write("broken", &[("memory.max", "x\n")]);

        assert_eq!(nearest_to_its_limit(std::slice::from_ref(&own)), None);
        assert_eq!(own.limit(), None);
        assert_eq!(
            nearest_to_its_limit(&[broken, own, slice, top]),
            Some(cgroup(1000, 600, 55))
        );
        fs::remove_dir_all(root).unwrap();
    }

    #[test]
    fn this_process_has_a_size_below_its_limit() {
        let probe = Probe::new(available(), || Tracked {
            root: Some(Bytes(7)),
            reserved: Bytes(3),
        });
        let reading = probe.read();
        assert_eq!((reading.root, reading.reserved), (Some(Bytes(7)), Bytes(3)));
        assert!(reading.resident.unwrap() > Bytes(1 << 16), "{reading:?}");
        assert!(reading.resident.unwrap() < reading.limit, "{reading:?}");
    }
}
