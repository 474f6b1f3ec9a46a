use quotient::sched::Config;
use quotient::sched::sim::{Rng, Setup, Sim, bursts, job, random, steady};
use quotient::unit::Nanos;
fn main() {
    let period = Nanos::from_millis(4);
    for len in [400, 1600, 6400] {
        let mut sim = Sim::new(Setup {
            workers: 5,
            config: Config {
                period,
                ..Config::default()
            },
            seed: 16866729094420893981,
            ..Setup::default()
        });
        let loads = [
            (2u64, 2, 1044, 2, 1000, 0, 10, 1000),
            (10, 2, 385222, 4, 306174, 2, 24, 385617),
            (9, 1, 114396, 1, 4200049, 0, 41, 1474492),
        ];
        let gs: Vec<_> = loads.iter().map(|l| sim.group(l.0)).collect();
        let mut rng = Rng::new(5);
        for (&g, l) in gs.iter().zip(&loads) {
            for _ in 0..l.1 {
                sim.spawn(g, None, Nanos(0), steady(Nanos(l.2)));
            }
            for _ in 0..l.3 {
                sim.spawn(
                    g,
                    None,
                    Nanos(0),
                    random((Nanos(1000), Nanos(l.2)), (Nanos(1000), Nanos(l.4)), 4),
                );
            }
            for _ in 0..l.5 {
                sim.spawn(g, None, Nanos(0), bursts(5, Nanos(l.2), Nanos(l.4)));
            }
            for _ in 0..l.6 * len / 400 {
                let q = sim.query();
                let at = rng.time(Nanos(0), Nanos::from_millis(len));
                for _ in 0..2 {
                    sim.spawn(g, Some(q), at, job(Nanos(l.7), Nanos(l.2)));
                }
            }
        }
        for i in 0..16 {
            sim.run_for(Nanos::from_millis(len / 16));
            if len == 6400 || i == 15 {
                println!(
                    "{} {:?} plain {:?} v {:?} given {:?} ent {:?}",
                    sim.now(),
                    gs.iter().map(|&g| sim.lag(g) / 1000).collect::<Vec<_>>(),
                    gs.iter()
                        .map(|&g| sim.plain_lag(g) / 1000)
                        .collect::<Vec<_>>(),
                    gs.iter().map(|&g| sim.vruntime(g)).collect::<Vec<_>>(),
                    gs.iter().map(|&g| sim.given(g)).collect::<Vec<_>>(),
                    gs.iter().map(|&g| sim.entitled(g)).collect::<Vec<_>>()
                );
            }
        }
        println!(
            "worst {:?}",
            gs.iter().map(|&g| sim.worst_lag(g)).collect::<Vec<_>>()
        );
    }
}
