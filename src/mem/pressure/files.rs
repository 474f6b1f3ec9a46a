//! What the kernel's files about memory mean: /proc/self/{cgroup, mountinfo, status} and the memory controller's.
//!
//! Pure: texts in, numbers and paths out. A text that is not as expected gives nothing instead of a guess.

use crate::unit::Bytes;
use std::path::{Component, Path, PathBuf};

/// Which of the two cgroup interfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// One hierarchy for all.
    V2,
}

impl Version {
    /// The file that holds the hard limit.
    pub const fn limit_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.limit_in_bytes",
            Version::V2 => "memory.max",
        }
    }

    /// The file that holds what is charged now.
    pub const fn current_file(self) -> &'static str {
        match self {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        }
    }
}

/// Where the memory controllers of a process are: its own cgroup's directory first, then those above it, up to the
/// mount point. Limits of all of them bind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CgroupPaths {
    /// In the hierarchy of version 2.
    pub v2: Vec<PathBuf>,
    /// In the memory controller's hierarchy of version 1.
    pub v1: Vec<PathBuf>,
}

impl CgroupPaths {
    /// From the texts of /proc/self/cgroup and /proc/self/mountinfo.
    pub fn find(cgroup: &str, mountinfo: &str) -> CgroupPaths {
        let mut found = CgroupPaths::default();
        for line in cgroup.lines() {
            // hierarchy:controllers:path
            let mut parts = line.splitn(3, ':');
            let (Some(hierarchy), Some(controllers), Some(path)) =
                (parts.next(), parts.next(), parts.next())
            else {
                continue;
            };
            if hierarchy == "0" && controllers.is_empty() {
                found.v2 = directories(path, mountinfo, Version::V2);
            } else if controllers.split(',').any(|name| name == "memory") {
                found.v1 = directories(path, mountinfo, Version::V1);
            }
        }
        found
    }
}

fn directories(cgroup: &str, mountinfo: &str, version: Version) -> Vec<PathBuf> {
    let Some((root, mount)) = mountinfo.lines().find_map(|line| mount(line, version)) else {
        return Vec::new();
    };
    // A container sees a part of the hierarchy as its mount, while its path may be the host's: what is not below the
    // mounted part is at the mount point itself.
    let below = Path::new(cgroup)
        .strip_prefix(&root)
        .unwrap_or(Path::new(""));
    let steps: Vec<_> = below
        .components()
        .filter_map(|part| match part {
            Component::Normal(name) => Some(name),
            _ => None,
        })
        .collect();
    // `..`: the process is outside of what its namespace shows.
    let outside = Path::new(cgroup)
        .components()
        .any(|part| part == Component::ParentDir);
    let deepest = if outside { 0 } else { steps.len() };
    (0..=deepest)
        .rev()
        .map(|depth| {
            let mut directory = mount.clone();
            directory.extend(&steps[..depth]);
            directory
        })
        .collect()
}

/// The root and the mount point, if the line is the mount of the hierarchy in question.
fn mount(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    // id parent device root mount-point options [optional...] - type source super-options
    let (place, kind) = line.split_once(" - ")?;
    let mut place = place.split(' ').skip(3);
    let (root, mount) = (place.next()?, place.next()?);
    let mut kind = kind.split(' ');
    let (kind, options) = (kind.next()?, kind.nth(1).unwrap_or_default());
    let fits = match version {
        Version::V2 => kind == "cgroup2",
        Version::V1 => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
    };
    fits.then(|| (unescape(root), unescape(mount)))
}

/// Blanks and backslashes are written as three octal digits.
fn unescape(text: &str) -> PathBuf {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        plain.push_str(before);
        let code = after
            .get(..3)
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        match code {
            Some(code) => {
                plain.push(char::from(code));
                rest = &after[3..];
            }
            None => {
                plain.push('\\');
                rest = after;
            }
        }
    }
    plain.push_str(rest);
    PathBuf::from(plain)
}

/// A limit: `max`, and the number that version 1 writes for none, are no limit.
pub fn limit(text: &str) -> Option<Bytes> {
    // Version 1 rounds the largest signed number down to a page, of at most 64 KiB.
    const NONE_IN_V1: u64 = (i64::MAX as u64) - (1 << 16);
    number(text).filter(|limit| (1..NONE_IN_V1).contains(&limit.0))
}

/// One number on one line.
pub fn number(text: &str) -> Option<Bytes> {
    text.trim().parse().ok().map(Bytes)
}

/// What the kernel can take back without writing: page cache, active and inactive, less what is dirty or being
/// written. Shared memory is not part of it: it is on the lists of anonymous pages.
pub fn reclaimable(version: Version, stat: &str) -> Bytes {
    // Version 1 writes each number twice: of the cgroup alone, and with those below it.
    let names = match version {
        Version::V2 => [
            "inactive_file",
            "active_file",
            "file_dirty",
            "file_writeback",
        ],
        Version::V1 => [
            "total_inactive_file",
            "total_active_file",
            "total_dirty",
            "total_writeback",
        ],
    };
    let [inactive, active, dirty, writeback] = names.map(|name| field(stat, name));
    let cached = inactive.saturating_add(active);
    Bytes(cached.saturating_sub(dirty.saturating_add(writeback)))
}

/// `name number` on a line of its own; 0 if it is not there.
fn field(stat: &str, name: &str) -> u64 {
    let find = |line: &str| {
        line.strip_prefix(name)?
            .strip_prefix(' ')?
            .trim()
            .parse()
            .ok()
    };
    stat.lines().find_map(find).unwrap_or(0)
}

/// The resident size of a process, from the text of its /proc/…/status.
pub fn resident(status: &str) -> Option<Bytes> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024).map(Bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cgroup: &str, mountinfo: &str) -> (Vec<String>, Vec<String>) {
        let found = CgroupPaths::find(cgroup, mountinfo);
        let texts = |paths: Vec<PathBuf>| paths.iter().map(|p| p.display().to_string()).collect();
        (texts(found.v2), texts(found.v1))
    }

    #[test]
    fn a_service_of_systemd_has_its_slice_and_all_above() {
        let mountinfo = "\
24 30 0:22 / /proc rw,nosuid,nodev,noexec,relatime shared:13 - proc proc rw
34 25 0:28 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:9 - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot
";
        let (v2, v1) = found("0::/system.slice/ingest.service\n", mountinfo);
        assert_eq!(
            v2,
            [
                "/sys/fs/cgroup/system.slice/ingest.service",
                "/sys/fs/cgroup/system.slice",
                "/sys/fs/cgroup",
            ]
        );
        assert!(v1.is_empty());
    }

    #[test]
    fn a_container_with_its_own_namespace_sees_itself_as_the_root() {
        let mountinfo = "\
1543 1542 0:29 / /sys/fs/cgroup ro,nosuid,nodev,noexec,relatime - cgroup2 cgroup rw,nsdelegate
";
        assert_eq!(found("0::/\n", mountinfo).0, ["/sys/fs/cgroup"]);
    }

    #[test]
    fn a_container_of_version_1_has_the_hosts_path_but_its_own_mount() {
        let cgroup = "\
12:pids:/docker/4f5e6d
9:memory:/docker/4f5e6d
4:cpu,cpuacct:/docker/4f5e6d
1:name=systemd:/docker/4f5e6d
";
        let mountinfo = "\
912 909 0:26 /docker/4f5e6d /sys/fs/cgroup/systemd ro,nosuid,nodev,noexec,relatime master:11 - cgroup cgroup rw,xattr,name=systemd
921 909 0:36 /docker/4f5e6d /sys/fs/cgroup/memory ro,nosuid,nodev,noexec,relatime master:22 - cgroup cgroup rw,memory
";
        assert_eq!(
            found(cgroup, mountinfo),
            (vec![], vec!["/sys/fs/cgroup/memory".to_owned()])
        );
        // Moved to a cgroup that is not below the mounted part: the mount is the best that can be seen.
        let elsewhere = cgroup.replace("/docker/4f5e6d", "/kubepods/pod1/c1");
        assert_eq!(found(&elsewhere, mountinfo).1, ["/sys/fs/cgroup/memory"]);
    }

    #[test]
    fn both_versions_side_by_side_are_both_found() {
        let cgroup = "4:memory:/jobs/17\n1:cpu:/\n0::/\n";
        let mountinfo = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";
        let (v2, v1) = found(cgroup, mountinfo);
        assert_eq!(v2, ["/sys/fs/cgroup/unified"]);
        assert_eq!(
            v1,
            [
                "/sys/fs/cgroup/memory/jobs/17",
                "/sys/fs/cgroup/memory/jobs",
                "/sys/fs/cgroup/memory",
            ]
        );
    }

    #[test]
    fn a_path_outside_of_the_namespace_is_not_followed() {
        let mountinfo = "34 25 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(found("0::/../other\n", mountinfo).0, ["/sys/fs/cgroup"]);
    }

    #[test]
    fn mount_points_with_blanks_are_read_back() {
        let mountinfo = "34 25 0:28 / /mnt/c\\040g\\134x rw - cgroup2 cgroup2 rw\n";
        assert_eq!(
            found("0::/a\n", mountinfo).0,
            ["/mnt/c g\\x/a", "/mnt/c g\\x"]
        );
        assert_eq!(unescape("a\\9z\\"), PathBuf::from("a\\9z\\"));
    }

    #[test]
    fn nonsense_gives_nothing() {
        for text in [
            "",
            "\n\n",
            "garbage",
            "1:2",
            "0::",
            "::::::",
            " - ",
            "a b c - cgroup2",
        ] {
            assert_eq!(found(text, text), (vec![], vec![]), "{text:?}");
        }
    }

    #[test]
    fn limits_as_the_kernel_writes_them() {
        let table = [
            ("max\n", None),
            ("8589934592\n", Some(8 << 30)),
            ("9223372036854771712\n", None), // version 1, pages of 4 KiB
            ("9223372036854710272\n", None), // pages of 64 KiB
            ("18446744073709551615\n", None),
            ("0\n", None),
            ("", None),
            ("-1\n", None),
            ("12 34\n", None),
        ];
        for (text, expected) in table {
            assert_eq!(limit(text), expected.map(Bytes), "{text:?}");
        }
        assert_eq!(number("0\n"), Some(Bytes(0)));
    }

    #[test]
    fn clean_page_cache_is_reclaimable_and_shared_memory_is_not() {
        let v2 = "\
anon 4398952448
file 2181234688
kernel 96731136
shmem 536870912
file_mapped 61440000
file_dirty 1081344
file_writeback 4096
inactive_anon 4935823360
active_anon 0
inactive_file 1100000000
active_file 540000000
";
        assert_eq!(reclaimable(Version::V2, v2), Bytes(1_638_914_560));
        let v1 = "\
cache 99
inactive_file 11
active_file 22
dirty 1
total_cache 2181234688
total_dirty 1000
total_writeback 24
total_inactive_file 4096
total_active_file 8192
";
        assert_eq!(reclaimable(Version::V1, v1), Bytes(11_264));
        assert_eq!(reclaimable(Version::V2, "file_dirty 7\n"), Bytes(0));
        assert_eq!(reclaimable(Version::V2, ""), Bytes(0));
        let huge = "inactive_file 18446744073709551615\nactive_file 9\n";
        assert_eq!(reclaimable(Version::V2, huge), Bytes(u64::MAX));
    }

    #[test]
    fn the_resident_size_is_in_kilobytes_of_1024() {
        let status = "Name:\tserver\nVmPeak:\t    3060 kB\nVmHWM:\t    1999 kB\nVmRSS:\t    1756 kB\nRssAnon:\t 90 kB\n";
        assert_eq!(resident(status), Some(Bytes(1_798_144)));
        // A kernel thread has none.
        assert_eq!(resident("Name:\tkworker\n"), None);
        assert_eq!(resident("VmRSS:\t 12 MB\n"), None);
        assert_eq!(resident("VmRSS:\t 99999999999999999999 kB\n"), None);
    }
}
