//! Shares: two groups that both want every worker, four to one, and then one to four: `cargo run --example priority`
//!
//! Tokio gives a turn to every task, so that whoever spawns more of them has more of the machine. Here `batch` spawns
//! four times as many.

use quotient::{Attributes, Governor, JoinSet};
use std::time::Duration;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
pub(crate) async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let governor = Governor::builder()
        .init_sql(
            "CREATE RESOURCE GROUP interactive TO (user='web')  WITH ('cpu_core_limit'='4');
             CREATE RESOURCE GROUP batch       TO (user='cron') WITH ('cpu_core_limit'='1')",
        )
        .build()?;

    let before = share_of_interactive(&governor).await?;
    println!("4 : 1   interactive had {:.0} % of the two", before * 100.0);

    // An operator turns it round; what runs is not disturbed.
    governor
        .execute(
            "ALTER RESOURCE GROUP interactive WITH ('cpu_core_limit'='1');
             ALTER RESOURCE GROUP batch       WITH ('cpu_core_limit'='4')",
        )
        .await?;
    let after = share_of_interactive(&governor).await?;
    println!("1 : 4   interactive had {:.0} % of the two", after * 100.0);

    assert!(
        after < before,
        "the weights decide, not the number of tasks"
    );
    Ok(())
}

async fn share_of_interactive(governor: &Governor) -> Result<f64, Box<dyn std::error::Error>> {
    let web = governor.admit(&Attributes::new().user("web")).await?;
    let cron = governor.admit(&Attributes::new().user("cron")).await?;
    let mut work = JoinSet::new();
    for (query, tasks) in [(&web, 4), (&cron, 16)] {
        for _ in 0..tasks {
            work.spawn_on(compute(), query);
        }
    }
    let used = || [&web, &cron].map(|query| query.usage().cpu.as_secs_f64());
    let before = used();
    tokio::time::sleep(Duration::from_millis(400)).await;
    let after = used();
    work.shutdown().await;
    let [web, cron] = [0, 1].map(|i: usize| after[i] - before[i]);
    Ok(web / (web + cron))
}

/// A computation without end, in pieces: a task that gives way is a task that can be scheduled, and ended.
async fn compute() {
    loop {
        let piece = (0..20_000_u64).fold(0, |sum, i| std::hint::black_box(sum ^ i));
        std::hint::black_box(piece);
        quotient::task::yield_now().await;
    }
}
