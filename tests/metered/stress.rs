//! On real threads: streams come, go, give up and are killed while weights, rates and capacities change.

use super::{alter, governor, group, support};
use quotient::Attributes;
use quotient::io::{IoResource, Metered};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// A small generator: the test's choices differ from task to task, and not from run to run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (self.0 >> 33) % sides
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_happens_at_once_what_was_granted_is_what_passed() {
    let _watch = support::watch("metered streams under stress", String::new);
    let governor = governor(&[
        ("a", "max_io_bytes_per_second=50MB io_weight=1"),
        ("b", "io_weight=5"),
        ("c", "type=short_query cpu_core_limit=1"),
    ]);
    let groups = ["a", "b", "c"].map(|name| group(&governor, name));
    let resources = [
        IoResource::new("disk", 40_000_000),
        IoResource::new("link", 60_000_000),
    ];
    let mut queries = Vec::new();
    let mut tasks = Vec::new();
    for number in 0..48_u64 {
        let name = ["a", "b", "c"][number as usize % 3];
        let query = governor.admit(&Attributes::new().user(name)).await.unwrap();
        let resources = resources.clone();
        tasks.push(query.spawn(async move {
            let mut dice = Dice(number);
            for _ in 0..12 {
                let (near, far) = tokio::io::duplex(16 << 10);
                let mut near = Metered::new(near).with_resource(&resources[0]);
                let mut far = Metered::new(far).with_resource(&resources[0]);
                if dice.roll(2) == 0 {
                    far = far.with_resource(&resources[1]);
                }
                let bytes = vec![1; 1 + dice.roll(30_000) as usize];
                let mut buf = vec![0; 1 + dice.roll(30_000) as usize];
                for _ in 0..10 {
                    let patience = Duration::from_micros(dice.roll(4_000));
                    let both = async {
                        let (read, written) = tokio::join!(far.read(&mut buf), near.write(&bytes));
                        read.unwrap() + written.unwrap()
                    };
                    let _ = timeout(patience, both).await;
                }
            }
        }));
        queries.push(query);
    }
    let mut dice = Dice(99);
    let mut killed = 0;
    while tasks.iter().any(|task| !task.is_finished()) {
        tokio::time::sleep(Duration::from_millis(3)).await;
        let rate = ["0", "1000000", "50MB", "1GB"][dice.roll(4) as usize];
        alter(&governor, "a", rate).await;
        let weight = 1 + dice.roll(100);
        let script = format!("ALTER RESOURCE GROUP b WITH ('io_weight'='{weight}')");
        governor.execute(&script).await.unwrap();
        for resource in &resources {
            resource.set_bytes_per_second([0, 5, 50, 500][dice.roll(4) as usize] * 1_000_000);
        }
        if killed < 6 && dice.roll(8) == 0 {
            queries[killed].kill("planned");
            killed += 1;
        }
    }
    for task in tasks {
        let _ = task.await;
    }
    // Nobody is left, and each resource has let through what its streams passed: everything went over the disk.
    let passed: u64 = groups.iter().map(|group| group.usage().io_bytes).sum();
    assert_eq!(resources[0].bytes(), passed);
    assert!(resources[1].bytes() < passed);
    assert!(resources.iter().all(|resource| resource.usage().is_empty()));
    // And it works as before.
    resources[0].set_bytes_per_second(0);
    let mut stream = Metered::in_group(&groups[1], tokio::io::sink()).with_resource(&resources[0]);
    stream.write_all(&[0; 100_000]).await.unwrap();
    assert_eq!(resources[0].bytes(), passed + 100_000);
}
