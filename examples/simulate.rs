//! What weights do, in virtual time: three groups on four simulated workers, driven by the scheduler's own code.
//!
//! `cargo run --features sim --example simulate`

use quotient::sched::sim::{Setup, Sim, bursts, steady};
use quotient::unit::Nanos;

fn main() {
    let mut sim = Sim::new(Setup {
        workers: 4,
        ..Setup::default()
    });
    let (micros, seconds) = (Nanos::from_micros, Nanos::from_secs);
    let groups = [
        ("reports, weight 1", sim.group(1)),
        ("queries, weight 3", sim.group(3)),
        ("alerts, weight 4", sim.group(4)),
    ];
    for _ in 0..16 {
        sim.spawn(groups[0].1, None, seconds(0), steady(Nanos::from_millis(5)));
        sim.spawn(groups[1].1, None, seconds(0), steady(micros(200)));
        // The alerts come at second 2, a burst of 20 polls per task and then a pause.
        let alerts = bursts(20, micros(50), Nanos::from_millis(1));
        sim.spawn(groups[2].1, None, seconds(2), alerts);
    }
    println!(
        "{:<20}{:>8}{:>8}{:>8}{:>8}   longest without a worker",
        "CPU, % of 4 workers", "0-1 s", "1-2 s", "2-3 s", "3-4 s"
    );
    let mut given = [[Nanos::ZERO; 5]; 3];
    for second in 1..=4 {
        sim.run_until(seconds(second));
        for (row, (_, group)) in given.iter_mut().zip(groups) {
            row[second as usize] = sim.given(group);
        }
    }
    for (row, (name, group)) in given.iter().zip(groups) {
        print!("{name:<20}");
        for pair in row.windows(2) {
            print!("{:>8.2}", pair[1].since(pair[0]).as_secs_f64() * 25.0);
        }
        println!("   {}", sim.longest_unserved(group));
    }
}
