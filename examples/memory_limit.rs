//! A query that wants more memory than its group may have is ended; its neighbours and the process live:
//! `cargo run --example memory_limit`

use quotient::{Attributes, Governor, KillReason};

#[cfg(not(test))] // The tests of the examples have one for all of them.
#[global_allocator]
static ALLOC: quotient::alloc::GroupAlloc = quotient::alloc::GroupAlloc::new();

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .init_sql("CREATE RESOURCE GROUP adhoc TO (role='analyst') WITH ('mem_limit'='64MiB')")
        .build()?;
    let analyst = Attributes::new().role("analyst");
    let modest = governor.admit(&analyst).await?;
    let greedy = governor.admit(&analyst).await?;

    let modest_rows = modest.spawn(collect(1_000));
    match greedy.run(collect(usize::MAX)).await {
        Err(error) => match error.reason() {
            Some(KillReason::MemoryLimit { limit, used, .. }) => {
                println!("greedy: ended at {used} of {limit} bytes");
                println!("        {error}");
                assert!(used <= limit);
            }
            reason => return Err(format!("ended for another reason: {reason:?}").into()),
        },
        Ok(rows) => return Err(format!("it got all it wanted: {rows} rows").into()),
    }
    println!("modest: {} rows", modest_rows.await?);

    // What the greedy one had is free again.
    let next = governor.admit(&analyst).await?;
    println!("next:   {} rows", next.run(collect(10_000)).await?);
    Ok(())
}

/// Rows of 1 KiB, as a careless query collects them: nothing here knows of limits.
async fn collect(rows: usize) -> usize {
    let mut all = Vec::new();
    for row in 0..rows {
        all.push(vec![row as u8; 1024]);
        if row % 64 == 0 {
            // Where a query that has been ended stops.
            quotient::task::checkpoint().await;
        }
    }
    all.len()
}
