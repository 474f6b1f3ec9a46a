//! Contracts of the policy at its edges: empty systems, long polls on many workers, credit, hostile numbers.
//! All in virtual time, by direct calls.

use quotient::sched::Config;
use quotient::sched::fair::{Fair, Slot};
use quotient::sched::feedback::{Feedback, Stream, Turn};
use quotient::unit::{Nanos, QueryId, Weight};

const MS: u64 = 1_000_000;

fn ms(n: u64) -> Nanos {
    Nanos::from_millis(n)
}

fn group(fair: &mut Fair, weight: u64) -> Slot {
    fair.add(Weight::new(weight))
}

/// One slice of `slot` on worker 0, after which it has nothing more to do.
fn serve_and_idle(fair: &mut Fair, slot: Slot, from: Nanos, to: Nanos) {
    fair.wake(slot, from, false);
    fair.dequeue(slot);
    fair.start(0, slot, from);
    fair.stop(0, to, 1);
    assert!(!fair.has_work(slot));
}

#[test]
fn an_empty_system_forgets_who_was_ahead() {
    let mut fair = Fair::new(Config::default(), 2);
    let (a, b) = (group(&mut fair, 1), group(&mut fair, 1));
    serve_and_idle(&mut fair, a, ms(0), ms(2_000));
    // Nobody works. b comes, then a: neither owes the other anything for the two seconds.
    fair.wake(b, ms(5_000), false);
    fair.wake(a, ms(5_001), false);
    assert_eq!(fair.vruntime(a), fair.vruntime(b));
}

#[test]
fn a_returning_group_is_placed_by_the_least_group_even_if_a_running_one_leads_the_queue() {
    let mut fair = Fair::new(Config::default(), 16);
    let (a, other, back) = (
        group(&mut fair, 1),
        group(&mut fair, 1),
        group(&mut fair, 1),
    );
    fair.wake(a, ms(0), false);
    fair.wake(other, ms(0), false);
    for (worker, slot, time) in [(0, a, 90), (1, other, 100)] {
        fair.start(worker, slot, ms(0));
        fair.stop(worker, ms(time), 1);
    }
    // a is first by what it was charged, but runs on 16 workers: it stands at 90 + 16 × 20 ms.
    for worker in 0..16 {
        assert_eq!(fair.first(), Some(a));
        fair.start(worker, a, ms(100));
    }
    fair.wake(back, ms(120), true);
    assert_eq!(
        fair.vruntime(back),
        Nanos(100 * MS - 33_333_333),
        "half of 100 ms × 2 ÷ 3 behind `other`"
    );
}

#[test]
fn of_the_workers_that_serve_the_group_ahead_the_one_that_just_began_gives_way() {
    let mut fair = Fair::new(Config::default(), 16);
    let (a, back) = (group(&mut fair, 1), group(&mut fair, 1));
    fair.wake(a, ms(0), false);
    for worker in 0..16 {
        let since = if worker == 3 { ms(20) } else { ms(0) };
        fair.start(worker, a, since);
    }
    // The others are past the end of their slices and ask at their next poll boundary anyway.
    let now = Nanos(20 * MS + 10_000);
    assert_eq!(fair.wake(back, now, true), Some(3));
}

#[test]
fn levels_forget_who_was_ahead_when_the_group_was_empty() {
    let base = ms(200);
    let long = Stream::Query(QueryId(1));
    let old = Nanos(6_000 * MS);
    for (used_before, cpu_before) in [(long, old), (Stream::Loose, Nanos::ZERO)] {
        let mut queue = Feedback::new(base);
        for _ in 0..10_000 {
            queue.push(used_before, cpu_before, ());
            let turn = queue.begin().expect("one waits");
            queue.take(turn);
            queue.charge(turn, ms(1));
        }
        // Empty. From now on a short task and an old query always wait; the other kind than before first.
        let push = |queue: &mut Feedback<()>, short: bool| {
            if short {
                queue.push(Stream::Loose, Nanos::ZERO, ());
            } else {
                queue.push(long, old, ());
            }
        };
        push(&mut queue, used_before == long);
        push(&mut queue, used_before != long);
        let mut served = [0u32; 2];
        for _ in 0..4_583 {
            let Turn { stream, level } = queue.begin().expect("two wait");
            queue.take(Turn { stream, level });
            queue.charge(Turn { stream, level }, ms(1));
            served[usize::from(stream == long)] += 1;
            push(&mut queue, stream != long);
        }
        assert!(served[0].abs_diff(3_583) <= 2, "{served:?}");
    }
}
