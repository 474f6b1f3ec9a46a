//! Whose memory is it? Every block belongs to the query whose task asked for it, until it is freed, wherever that is:
//! `cargo run --example allocator`

use quotient::{Attributes, Governor};

// One line in the program; without it nothing is tracked and nothing is slower.
#[cfg(not(test))] // The tests of the examples have one for all of them.
#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

const MIB: u64 = 1 << 20;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .init_sql(
            "CREATE RESOURCE GROUP cache   TO (user='cache')   WITH ('cpu_core_limit'='1');
             CREATE RESOURCE GROUP reports TO (user='reports') WITH ('cpu_core_limit'='1')",
        )
        .build()?;
    let cache = governor.admit(&Attributes::new().user("cache")).await?;
    let report = governor.admit(&Attributes::new().user("reports")).await?;

    // A query makes a table and gives it to somebody else: it stays the maker's until it is freed.
    let table = cache.run(async { vec![1_u8; 32 << 20] }).await?;
    let (sum, table) = report
        .run(async move {
            let copy = table[..8 << 20].to_vec();
            let sum: u64 = copy.iter().map(|byte| u64::from(*byte)).sum();
            (sum, table)
        })
        .await?;
    println!("sum {sum}");
    for query in [&cache, &report] {
        let usage = query.usage();
        let (now, peak) = (usage.memory / MIB, usage.memory_peak / MIB);
        println!(
            "{:<8} {now:>3} MiB now, {peak:>3} MiB at most",
            query.group()
        );
    }
    assert!(cache.usage().memory >= 32 * MIB);
    assert!(report.usage().memory < 8 * MIB && report.usage().memory_peak >= 8 * MIB);

    drop(table); // By this thread, which is in no group: `cache` gets it back all the same.
    let mut usage = cache.usage().memory;
    while usage >= 32 * MIB {
        a_moment().await;
        usage = cache.usage().memory;
    }
    println!("cache    {:>3} MiB after the table is gone", usage / MIB);

    let answer = governor
        .execute("SELECT name, memory, memory_peak FROM groups ORDER BY name")
        .await?;
    println!("{}", answer[0]);
    Ok(())
}

async fn a_moment() {
    tokio::time::sleep(std::time::Duration::from_millis(1)).await;
}
