//! What a thread of the pool does in the instant between a closure's end and its publication.

use super::job::Closure;
use super::meter::Meter;
use super::pool::{Pool, Work};
use super::threads::Source;
use super::{Cause, Setup};
use crate::clock::Clock;
use crate::exec::account::Account;
use crate::sched::Config;
use crate::sched::fair::Slot;
use crate::unit::Weight;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

/// Only a bug waits it out.
const LONG: Duration = Duration::from_secs(120);

/// A closure of which everything is planned.
#[derive(Default)]
struct Planned {
    /// When it runs.
    run: Option<Box<dyn FnOnce() + Send>>,
    /// When the thread asks whether somebody waits for it: after its run, and before the thread looks for the next.
    asked: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// Its handle is dropped in the instant before it is published, and this is its output's destructor.
    unwanted: Option<Unwanted>,
    is_published: bool,
}

struct Unwanted(Option<Box<dyn FnOnce() + Send>>);

impl Drop for Unwanted {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(|it| it());
    }
}

impl Closure for Planned {
    fn run(&mut self, _: &mut Meter) {
        self.run.take().into_iter().for_each(|run| run());
    }

    fn is_awaited(&self) -> bool {
        let asked = self.asked.lock().unwrap().take();
        asked.into_iter().for_each(|asked| asked());
        true
    }

    fn publish(&mut self) -> Option<Waker> {
        self.is_published = true;
        None
    }

    fn is_left_with_output(&self) -> bool {
        self.is_published && self.unwanted.is_some()
    }

    fn refuse(self: Box<Self>, _: &dyn Fn(&Account) -> Cause) {}

    fn must_end(&self) -> bool {
        false
    }
}

struct Scene {
    _runtime: tokio::runtime::Runtime,
    pool: Arc<Pool>,
    slot: Slot,
}

/// A pool of so many threads.
fn scene(threads: usize) -> Scene {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.build().unwrap();
    let setup = Setup {
        threads,
        queue: 100,
        keep_alive: LONG,
        source: Source::Own,
        refusal: |_, _| unreachable!("nothing is refused"),
    };
    let pool = Arc::new(Pool::new(setup, Config::default(), Clock::tsc()));
    pool.inside_of(runtime.handle());
    let slot = pool.add_group(Weight::MIN);
    Scene {
        _runtime: runtime,
        pool,
        slot,
    }
}

impl Scene {
    fn bring(&self, work: Work) {
        bring(&self.pool, self.slot, work);
    }
}

fn bring(pool: &Arc<Pool>, slot: Slot, work: Work) {
    let mut state = pool.lock();
    state.policy.push_on(slot, pool.clock.now(), 0, work);
    pool.answer(state);
}

/// A closure that comes in the instant after another one has ended, whose handle is dropped in that instant, and
/// whose output's destructor waits for a message. What tells that the later one runs, and what ends the destructor.
fn two(scene: &Scene) -> (Receiver<()>, Sender<()>) {
    let ((runs, told), (end, ended)) = (channel(), channel::<()>());
    let later = Planned {
        run: Some(Box::new(move || runs.send(()).unwrap())),
        ..Planned::default()
    };
    let (pool, slot) = (scene.pool.clone(), scene.slot);
    scene.bring(Box::new(Planned {
        asked: Mutex::new(Some(Box::new(move || bring(&pool, slot, Box::new(later))))),
        unwanted: Some(Unwanted(Some(Box::new(move || {
            let _ = ended.recv();
        })))),
        ..Planned::default()
    }));
    (told, end)
}

#[test]
fn a_closure_that_was_taken_does_not_wait_for_the_destructor_of_an_output_that_nobody_wants() {
    for threads in [1, 2] {
        let scene = scene(threads);
        let (told, end) = two(&scene);
        told.recv_timeout(LONG).expect("it waits for a destructor");
        drop(end);
        scene.pool.close();
        scene.pool.wait_until_quiet();
    }
}

#[test]
fn the_pool_is_not_quiet_before_the_last_destructor_has_ended() {
    let scene = scene(1);
    let (told, end) = two(&scene);
    told.recv_timeout(LONG).expect("it waits for a destructor");
    let over = Arc::new(AtomicBool::new(false));
    let (pool, seen) = (scene.pool.clone(), over.clone());
    scene.pool.close();
    let waiting = std::thread::spawn(move || {
        pool.wait_until_quiet();
        assert!(seen.load(SeqCst), "a destructor was still under way");
    });
    // It has a moment to be wrong.
    std::thread::sleep(Duration::from_millis(100));
    assert!(!scene.pool.is_quiet());
    over.store(true, SeqCst);
    drop(end);
    waiting.join().unwrap();
}
