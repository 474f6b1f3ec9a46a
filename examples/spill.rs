//! An aggregation that spills: `SELECT key, count(*), sum(value) GROUP BY key` in half the memory that it wants.
//!
//! It runs twice over the same rows. First in a group without a limit, where all of its hash tables stay in memory; the
//! peak is what it wants. Then in a group whose `mem_limit` is half of that: it has registered with
//! `memory::on_pressure`, is asked for bytes when the group passes `spill_mem_limit_threshold`, writes partitions to
//! files, and merges them in the end. Both answers must be equal, and the second run must have kept to its limit.
//!
//! ```sh
//! cargo run --release --example spill
//! ```

use quotient::{Attributes, Error, Governor, Query, memory, task};
use std::collections::HashMap;
use std::fs::{self, File};
use std::hash::{BuildHasherDefault, Hasher};
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

/// Rows, and how many different keys they have.
const ROWS: u64 = 1_500_000;
const KEYS: u64 = 400_000;
/// One partition is what is written at once, and all that must fit in memory when it is merged.
const PARTITIONS: usize = 64;
/// Rows between two looks at whether memory is wanted back.
const BATCH: u64 = 512;

// A test calls it as well.
pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    runtime.block_on(compare())
}

async fn compare() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .init_sql("CREATE RESOURCE GROUP roomy TO (user='roomy') WITH ('cpu_core_limit'='1')")
        .build()?;

    let (all_in_memory, wanted) = run(&governor, "roomy").await?;
    println!("all in memory: {all_in_memory}; peak {}", MiB(wanted));

    let limit = wanted / 2;
    let tight = format!(
        "CREATE RESOURCE GROUP tight TO (user='tight')
         WITH ('mem_limit'='{limit}B', 'spill_mem_limit_threshold'='60%')"
    );
    governor.execute(&tight).await?;
    let (spilled, peak) = run(&governor, "tight").await?;
    println!(
        "half the memory: {spilled}; peak {} of {}",
        MiB(peak),
        MiB(limit)
    );

    assert_eq!(all_in_memory.answer, spilled.answer);
    assert_eq!(all_in_memory.spills, 0);
    assert!(spilled.spills > 0);
    assert!(peak <= limit, "{peak} of {limit}");
    println!(
        "{}",
        governor.execute("SHOW USAGE RESOURCE GROUPS").await?[0]
    );
    Ok(())
}

/// The aggregation as a query of `user`, and the most memory that it had.
async fn run(
    governor: &Governor,
    user: &str,
) -> Result<(Outcome, u64), Box<dyn std::error::Error>> {
    let query: Query = governor
        .admit(&Attributes::new().user(user))
        .await
        .map_err(Error::from)?;
    let directory =
        std::env::temp_dir().join(format!("quotient-spill-{}-{user}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let outcome = query.run(aggregate(directory.clone())).await;
    fs::remove_dir_all(&directory)?;
    Ok((outcome??, query.usage().memory_peak))
}

/// What a run came to.
#[derive(Debug)]
struct Outcome {
    answer: Answer,
    spills: u64,
    spilled_bytes: u64,
}

/// The result, small enough to be compared: how many groups there are, and a checksum over all of them.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    keys: u64,
    rows: u64,
    checksum: u64,
}

async fn aggregate(directory: PathBuf) -> io::Result<Outcome> {
    // Called by the governor, from a task of this query; the loop below reads it.
    let wanted = Arc::new(AtomicU64::new(0));
    let asked = wanted.clone();
    let _registration = memory::on_pressure(0, move |bytes| {
        asked.fetch_max(bytes, Relaxed);
    })
    .map_err(io::Error::other)?;

    let mut table = Table::new(directory);
    for row in 0..ROWS {
        let (key, value) = (scramble(row) % KEYS, row % 1000);
        table.add(key, value);
        if row % BATCH == 0 {
            // The end of a slice is where the governor looks, and where its callback gets a turn.
            task::yield_now().await;
            table.spill(wanted.swap(0, Relaxed))?;
        }
    }
    table.finish().await
}

/// Groups by partition of their key, and a file for each partition that was ever written out.
struct Table {
    partitions: Vec<Groups>,
    directory: PathBuf,
    spills: u64,
    spilled_bytes: u64,
}

type Groups = HashMap<u64, Group, BuildHasherDefault<Scrambler>>;

#[derive(Clone, Copy, Default)]
struct Group {
    count: u64,
    sum: u64,
}

/// A key, a count and a sum in a file.
const RECORD: usize = 24;

impl Table {
    fn new(directory: PathBuf) -> Table {
        Table {
            partitions: (0..PARTITIONS).map(|_| Groups::default()).collect(),
            directory,
            spills: 0,
            spilled_bytes: 0,
        }
    }

    fn add(&mut self, key: u64, value: u64) {
        let partition = scramble(key) as usize % PARTITIONS;
        let group = self.partitions[partition].entry(key).or_default();
        group.count += 1;
        group.sum += value;
    }

    /// Writes the largest partitions out until about `bytes` are free.
    fn spill(&mut self, bytes: u64) -> io::Result<()> {
        let mut freed = 0;
        while freed < bytes {
            let largest = (0..PARTITIONS).max_by_key(|&p| self.partitions[p].capacity());
            let Some(partition) = largest.filter(|&p| !self.partitions[p].is_empty()) else {
                return Ok(());
            };
            let groups = std::mem::take(&mut self.partitions[partition]);
            freed += (groups.capacity() * size_of::<(u64, Group)>()) as u64;
            // Some hundred kilobytes into the page cache: not worth a hop to another thread.
            let mut file = BufWriter::with_capacity(8 << 10, append(&self.file(partition))?);
            for (key, group) in &groups {
                for number in [*key, group.count, group.sum] {
                    file.write_all(&number.to_le_bytes())?;
                }
            }
            file.flush()?;
            self.spills += 1;
            self.spilled_bytes += (groups.len() * RECORD) as u64;
        }
        Ok(())
    }

    /// Merges one partition after the other: no more than one is in memory twice.
    async fn finish(mut self) -> io::Result<Outcome> {
        if self.spills > 0 {
            // What is still in memory goes first, so that there is room to merge.
            self.spill(u64::MAX)?;
        }
        let mut answer = Answer::default();
        for partition in 0..PARTITIONS {
            let mut groups = std::mem::take(&mut self.partitions[partition]);
            match File::open(self.file(partition)) {
                Ok(file) => merge(file, &mut groups)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
            for (key, group) in &groups {
                answer.keys += 1;
                answer.rows += group.count;
                let digest = scramble(*key ^ scramble(group.count ^ scramble(group.sum)));
                answer.checksum = answer.checksum.wrapping_add(digest);
            }
            drop(groups);
            task::yield_now().await;
        }
        Ok(Outcome {
            answer,
            spills: self.spills,
            spilled_bytes: self.spilled_bytes,
        })
    }

    fn file(&self, partition: usize) -> PathBuf {
        self.directory.join(partition.to_string())
    }
}

fn append(path: &Path) -> io::Result<File> {
    File::options().create(true).append(true).open(path)
}

fn merge(file: File, groups: &mut Groups) -> io::Result<()> {
    let records = file.metadata()?.len() / RECORD as u64;
    let mut file = BufReader::with_capacity(8 << 10, file);
    for _ in 0..records {
        let mut numbers = [0; 3];
        for number in &mut numbers {
            let mut bytes = [0; 8];
            file.read_exact(&mut bytes)?;
            *number = u64::from_le_bytes(bytes);
        }
        let [key, count, sum] = numbers;
        let group = groups.entry(key).or_default();
        group.count += count;
        group.sum += sum;
    }
    Ok(())
}

/// A well-mixed number for each number.
fn scramble(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[derive(Default)]
struct Scrambler(u64);

impl Hasher for Scrambler {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = scramble(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = scramble(number).rotate_left(17);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

struct MiB(u64);

impl std::fmt::Display for MiB {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:.1} MiB", self.0 as f64 / f64::from(1 << 20))
    }
}

impl std::fmt::Display for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Answer {
            keys,
            rows,
            checksum,
        } = self.answer;
        write!(f, "{rows} rows, {keys} keys, checksum {checksum:016x}")?;
        if self.spills > 0 {
            write!(
                f,
                ", {} spills of {} in all",
                self.spills,
                MiB(self.spilled_bytes)
            )?;
        }
        Ok(())
    }
}
