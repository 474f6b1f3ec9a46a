use quotient::sched::sim::{Setup, Sim, steady};
use quotient::unit::Nanos;
fn main() {
    for (w, wa, na, wb, nb) in [
        (6, 4, 3, 12, 5),
        (2, 1, 2, 3, 2),
        (2, 1, 2, 1, 2),
        (4, 1, 4, 3, 4),
        (4, 1, 9, 3, 4),
    ] {
        let mut sim = Sim::new(Setup {
            workers: w,
            ..Setup::default()
        });
        let (a, b) = (sim.group(wa), sim.group(wb));
        for _ in 0..na {
            sim.spawn(a, None, Nanos(0), steady(Nanos::from_millis(20)));
        }
        for _ in 0..nb {
            sim.spawn(b, None, Nanos(0), steady(Nanos::from_micros(1000)));
        }
        sim.run_for(Nanos::from_millis(60000));
        println!(
            "W {w} {wa}x{na} {wb}x{nb}  lag {} {} given {} {} entitled {} {}",
            sim.lag(a) / 1000,
            sim.lag(b) / 1000,
            sim.given(a),
            sim.given(b),
            sim.entitled(a),
            sim.entitled(b)
        );
    }
}
