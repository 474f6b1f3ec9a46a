//! What was recorded is replayed with the same picks, and a difference is found.

use quotient::sched::Config;
use quotient::sched::sim::{Rng, Setup, Sim, random, steady};
use quotient::sched::trace::{Answer, Divergence, Op, Recorder, Trace, replay};
use quotient::unit::{Nanos, Weight};

fn us(n: u64) -> Nanos {
    Nanos::from_micros(n)
}

/// A run in which all calls occur: waking, preempting, blocking, weights, many groups.
fn recorded(seed: u64) -> Trace {
    let mut sim = Sim::new(Setup {
        workers: 4,
        seed,
        record: true,
        ..Setup::default()
    });
    let groups: Vec<_> = [1, 2, 5, 40].map(|w| sim.group(w)).into();
    let mut rng = Rng::new(seed);
    for &group in &groups {
        for _ in 0..4 {
            let work = random((us(1), us(rng.between(5, 500))), (us(1), us(3_000)), 20);
            sim.spawn(group, None, us(rng.between(0, 20_000)), work);
        }
    }
    for _ in 0..3 {
        sim.spawn(groups[0], None, us(0), steady(us(700)));
    }
    sim.run_until(us(30_000));
    sim.block(groups[3]);
    sim.run_until(us(35_000));
    sim.unblock(groups[3]);
    sim.set_weight(groups[1], 9);
    sim.run_until(us(60_000));
    sim.trace().expect("it was recorded")
}

#[test]
fn a_recorded_run_is_replayed_with_the_same_answers() {
    let trace = recorded(3);
    let has = |wanted: fn(&(Op, Answer)) -> bool| trace.calls.iter().filter(|c| wanted(c)).count();
    assert!(has(|c| matches!(c, (Op::Start { .. }, _))) > 500);
    assert!(has(|c| matches!(c.1, Answer::Preempt(Some(_)))) > 10);
    assert!(has(|c| matches!(c.0, Op::Dequeue { .. })) > 10);
    let fair = replay(&trace).expect("the same answers");
    assert!(fair.working_groups().count() > 0);
}

#[test]
fn a_run_is_a_function_of_its_seed() {
    assert!(recorded(3) == recorded(3));
    assert!(recorded(3) != recorded(4));
}

#[test]
fn a_trace_survives_being_text() {
    let trace = recorded(5);
    let text = trace.to_string();
    assert!(text.lines().count() == trace.calls.len() + 1);
    assert!(text.parse::<Trace>().expect("our own text") == trace);
}

#[test]
fn every_call_has_its_line() {
    let mut recorder = Recorder::recording(Config::default(), 2);
    let a = recorder.add(Weight::new(3));
    let b = recorder.add(Weight::new(1));
    recorder.wake(a, Nanos(5), false);
    recorder.first();
    recorder.start(0, a, Nanos(7));
    recorder.dequeue(a);
    recorder.charge_running(0, Nanos(90_000));
    recorder.set_weight(a, Weight::new(9));
    recorder.wake(b, Nanos(95_000), true);
    recorder.is_behind_next(a);
    recorder.stop(0, Nanos(100_007), 4);
    recorder.stop(1, Nanos(100_007), 0);
    recorder.remove(a);
    recorder.dequeue(b);
    recorder.first();
    let trace = recorder.finish().expect("it was recorded");
    assert_eq!(
        trace.to_string(),
        "quotient-trace 1 2 100000 20000 100000000 50 200000000\n\
         add 3 = 0\n\
         add 1 = 1\n\
         wake 0 5 false = -\n\
         first = 0\n\
         start 0 0 7 = 100007 true\n\
         dequeue 0 = \n\
         charge 0 90000 = 0 89993\n\
         weight 0 9 = \n\
         wake 1 95000 true = 0\n\
         behind 0 = false\n\
         stop 0 100007 4 = 0 10007\n\
         stop 1 100007 0 = -\n\
         remove 0 = true\n\
         dequeue 1 = \n\
         first = -\n"
    );
    assert_eq!(trace.to_string().parse(), Ok(trace.clone()));
    replay(&trace).expect("the same answers");
    assert_eq!(recorder.finish(), None, "the recording has ended");
    assert!(!recorder.has_work(a), "reads go to the policy");
}

#[test]
fn a_changed_answer_is_found_where_it_is() {
    let mut trace = recorded(7);
    let changed = trace
        .calls
        .iter()
        .rposition(|c| matches!(c.1, Answer::Group(Some(_))));
    let changed = changed.expect("groups were picked");
    let (op, recorded) = trace.calls[changed];
    trace.calls[changed].1 = Answer::Group(None);
    let Err(found) = replay(&trace) else {
        panic!("it must differ");
    };
    let expected = Divergence {
        call: changed,
        op,
        recorded: Answer::Group(None),
        replayed: recorded,
    };
    assert_eq!(found, expected);
    assert!(
        found
            .to_string()
            .starts_with(&format!("call {changed} `{op}`: recorded"))
    );
}

#[test]
fn other_constants_make_other_picks() {
    let mut trace = recorded(9);
    trace.config.period = us(1_000);
    assert!(replay(&trace).is_err());
}

#[test]
fn text_that_is_no_trace_is_refused_with_its_line() {
    let head = "quotient-trace 1 2 100000 20000 100000000 50 200000000\n";
    let wrong = |text: String| text.parse::<Trace>().expect_err("not a trace").line;
    assert_eq!(wrong(String::new()), 1);
    assert_eq!(wrong("quotient-trace 2 2 1 1 1 1 1\n".into()), 1);
    for line in [
        "first",
        "first = x",
        "first 3 = 1",
        "first = 1 2",
        "start 1 0 = 5 true",
        "sleep 1 = 2",
        "wake 0 5 maybe = -",
    ] {
        assert_eq!(wrong(format!("{head}first = -\n{line}\n")), 3, "{line}");
    }
}
