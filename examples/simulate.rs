use quotient::sched::sim::{Setup, Sim, bursts, steady};
use quotient::unit::Nanos;
fn main() {
    noisy();
    let ms = Nanos::from_millis;
    let us = Nanos::from_micros;
    // return
    for workers in [1, 2, 4] {
        let mut sim = Sim::new(Setup {
            workers,
            ..Setup::default()
        });
        let (a, b) = (sim.group(1), sim.group(1));
        for _ in 0..16 {
            sim.spawn(a, None, ms(0), steady(us(50)));
            sim.spawn(b, None, ms(1000), steady(us(50)));
        }
        sim.run_until(ms(1000));
        let mut w = vec![];
        for _ in 0..40 {
            let (x, y) = (sim.given(a).0, sim.given(b).0);
            sim.run_for(ms(5));
            w.push(((sim.given(b).0 - y) * 100 / (sim.given(b).0 - y + sim.given(a).0 - x)) as u64);
            if w.len() == 20 {
                println!(
                    "W={workers} first 100ms {}",
                    sim.given(b).0 as f64 / (100e6 * workers as f64)
                );
            }
        }
        println!(
            "{w:?} lag {} {} worst {} {} unserved {} wasted {}",
            sim.lag(a),
            sim.lag(b),
            sim.worst_lag(a),
            sim.worst_lag(b),
            sim.longest_unserved(a),
            sim.wasted()
        );
    }
    // idle system starvation
    let mut sim = Sim::new(Setup::default());
    let (a, b) = (sim.group(1), sim.group(1));
    for _ in 0..4 {
        sim.spawn(a, None, ms(0), quotient::sched::sim::job(ms(1000), us(50)));
    }
    for _ in 0..4 {
        sim.spawn(b, None, ms(5000), steady(us(50)));
        sim.spawn(a, None, ms(5001), steady(us(50)));
    }
    sim.run_until(ms(8000));
    println!(
        "after idle: a {} b {} unserved {}",
        sim.given(a),
        sim.given(b),
        sim.longest_unserved(a)
    );
    // 20 vs 1
    let mut sim = Sim::new(Setup::default());
    let (a, b) = (sim.group(1), sim.group(1));
    for _ in 0..8 {
        sim.spawn(a, None, ms(0), steady(ms(20)));
        sim.spawn(b, None, ms(0), steady(ms(1)));
    }
    sim.run_until(ms(60000));
    println!(
        "20/1: a {} b {} worst {} {} wasted {}",
        sim.given(a),
        sim.given(b),
        sim.worst_lag(a),
        sim.worst_lag(b),
        sim.wasted()
    );
    // backlog + bursty
    let mut sim = Sim::new(Setup::default());
    let (a, b) = (sim.group(1), sim.group(1));
    for _ in 0..4 {
        sim.spawn(a, None, ms(0), steady(us(50)));
        sim.spawn(b, None, ms(0), bursts(100, us(50), ms(30)));
    }
    sim.run_until(ms(60000));
    println!(
        "bursty: a {} b {} plain {} {} worst {} {} wasted {}",
        sim.given(a),
        sim.given(b),
        sim.plain_lag(a),
        sim.plain_lag(b),
        sim.worst_lag(a),
        sim.worst_lag(b),
        sim.wasted()
    );
    // never idle
    for w in [1, 2, 4] {
        let mut sim = Sim::new(Setup {
            workers: w,
            ..Setup::default()
        });
        let (a, b) = (sim.group(10), sim.group(1));
        sim.spawn(a, None, ms(0), steady(us(50)));
        for _ in 0..1000 {
            sim.spawn(b, None, ms(0), steady(us(50)));
            sim.spawn(a, None, ms(10000), steady(us(50)));
        }
        sim.run_until(ms(10000));
        let (x, y, e) = (sim.given(a).0, sim.given(b).0, sim.entitled(a).0);
        println!(
            "never idle: {} {} lag {} {} worst {}",
            x,
            y,
            sim.lag(a),
            sim.lag(b),
            sim.worst_lag(a)
        );
        sim.run_for(ms(100));
        println!(
            "   then a {} b {} entitled {} wasted {}",
            sim.given(a).0 - x,
            sim.given(b).0 - y,
            sim.entitled(a).0 - e,
            sim.wasted()
        );
    }
    let t = std::time::Instant::now();
    let mut sim = Sim::new(Setup {
        workers: 256,
        ..Setup::default()
    });
    let gs: Vec<_> = (0..1000).map(|i| sim.group(1 + i % 10)).collect();
    for (i, &g) in gs.iter().enumerate() {
        for _ in 0..2 {
            sim.spawn(g, None, ms(0), steady(us(50)));
        }
        if i % 4 == 0 {
            sim.spawn(g, None, ms(0), bursts(3, us(30), ms(2)));
        }
    }
    sim.run_until(ms(20));
    println!(
        "big {:?} polls {} wasted {}",
        t.elapsed(),
        gs.iter().map(|&g| sim.polls(g)).sum::<u64>(),
        sim.wasted()
    );
}
#[allow(dead_code)]
fn noisy() {
    let ms = Nanos::from_millis;
    let us = Nanos::from_micros;
    for (rate_gap, burst, poll) in [
        (2000, 1, 1000),
        (2000, 1, 100),
        (20000, 20, 1000),
        (20000, 20, 50),
        (50000, 400, 50),
    ] {
        let mut sim = Sim::new(Setup::default());
        let (a, b) = (sim.group(1), sim.group(1));
        for _ in 0..1000 {
            sim.spawn(a, None, ms(0), steady(us(poll)));
        }
        let mut rng = quotient::sched::sim::Rng::new(3);
        let mut at = ms(100);
        let mut jobs = vec![];
        while at < ms(10_000) {
            for _ in 0..burst {
                jobs.push((
                    at,
                    sim.spawn(b, None, at, quotient::sched::sim::job(us(50), us(50))),
                ));
            }
            at = at.plus(rng.gap(us(rate_gap)));
        }
        sim.run_until(ms(11_000));
        let mut l: Vec<_> = jobs
            .iter()
            .map(|&(at, t)| sim.finished(t).unwrap().since(at))
            .collect();
        l.sort();
        println!(
            "noisy gap {rate_gap} burst {burst} poll {poll}: p50 {} p99 {} max {}",
            l[l.len() / 2],
            l[l.len() * 99 / 100],
            l[l.len() - 1]
        );
    }
}
