//! A limit on one query's memory, with the allocator that counts: what it trips on, and what comes of it.

mod live;
mod support;

use live::named;
use quotient::alloc::GroupAlloc;
use quotient::{BigQueryKind, Governor, KillReason};

#[global_allocator]
static ALLOC: GroupAlloc = GroupAlloc::new();

const MIB: usize = 1 << 20;

fn governor(action: &str) -> Governor {
    let sql = format!(
        "CREATE RESOURCE GROUP slow WITH ('cpu_core_limit'='1');
         CREATE RESOURCE GROUP bi WITH ('big_query_mem_limit'='16MiB', 'big_query_action'='{action}')"
    );
    Governor::builder()
        .workers(1)
        .init_sql(&sql)
        .build()
        .unwrap()
}

#[tokio::test]
async fn memory_by_action() {
    for action in ["kill", "dry_run", "cooldown", "switch_group(slow)"] {
        let governor = governor(action);
        let query = governor.admit(&named("bi")).await.unwrap();
        let below = query.run(async {
            let held = vec![1_u8; 8 * MIB];
            quotient::task::yield_now().await;
            held.len()
        });
        assert_eq!(below.await.unwrap(), 8 * MIB, "{action}: below the limit");
        assert_eq!(governor.runaway_events().len(), 0, "{action}");

        let above = query.spawn(async {
            let held = vec![1_u8; 20 * MIB];
            quotient::task::yield_now().await;
            // Had it not been ended.
            held.len()
        });
        let ended = above.await;
        let events = governor.runaway_events();
        assert_eq!(events.len(), 1, "{action}");
        assert_eq!(
            (events[0].kind, events[0].limit),
            (BigQueryKind::Memory, 16 * MIB as u64)
        );
        assert!(
            events[0].used >= 20 * MIB as u64,
            "{action}: {}",
            events[0].used
        );
        assert_eq!(events[0].action.to_string(), action);
        match (action, ended) {
            ("kill", Err(error)) => {
                let reason = error.reason().cloned();
                let Some(KillReason::BigQuery { kind, .. }) = reason else {
                    panic!("{reason:?}");
                };
                assert_eq!(kind, BigQueryKind::Memory);
                assert!(
                    error
                        .to_string()
                        .contains("big_query_mem_limit allows 16777216 bytes"),
                    "{error}"
                );
            }
            (_, Ok(length)) if action != "kill" => assert_eq!(length, 20 * MIB, "{action}"),
            (_, other) => panic!("{action}: {other:?}"),
        }
        let shown = governor
            .execute("SELECT memory_peak_bytes FROM queries")
            .await
            .unwrap();
        let peak: usize = shown[0].rows()[0][0].to_string().parse().unwrap();
        assert!(peak >= 20 * MIB, "{action}: {peak}");
    }
}

/// What is remembered of a runaway query is the governor's: it outlives the query by far, and is made under locks that
/// no thread may keep because its query is short of memory.
#[tokio::test]
async fn what_is_remembered_of_a_runaway_is_not_its_memory() {
    let governor = Governor::builder()
        .workers(1)
        .init_sql(
            "CREATE RESOURCE GROUP bi WITH ('big_query_scan_rows_limit'='10', 'big_query_action'='dry_run')",
        )
        .build()
        .unwrap();
    let attributes = named("bi").user("x".repeat(MIB / 2));
    for _ in 0..16 {
        let query = governor.admit(&attributes).await.unwrap();
        query
            .run(async { quotient::record_scan_rows(11) })
            .await
            .unwrap();
    }
    assert_eq!(governor.runaway_events().len(), 16);
    let shown = governor
        .execute("SELECT memory FROM groups WHERE name = 'bi'")
        .await
        .unwrap();
    let used: usize = shown[0].rows()[0][0].to_string().parse().unwrap();
    assert!(used < MIB, "{used} bytes are left with the group");
}
