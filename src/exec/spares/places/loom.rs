//! Invariant 2 over stand-ins: a level-1 queue that is a number under a lock, as `Core::summon` and the spare
//! threads use it.
//!
//! The fences stand for the total order of SeqCst operations, which loom takes for acquire and release only.

use super::*;
use crate::sync::atomic::fence;
use std::sync::Arc;

struct Model {
    places: Places,
    /// Tasks of groups that a spare may serve.
    queue: Mutex<usize>,
    ran: AtomicUsize,
    /// The worker whose poll was late has found nothing to do, and sleeps. Under a lock, as the list of sleepers is.
    asleep: Mutex<bool>,
}

impl Model {
    fn new(late: usize) -> Arc<Model> {
        let places = Places::new(Caps {
            spares: 2,
            aside: 0,
            lost: 0,
        });
        for _ in 0..late {
            places.now_absent(None, Some(Absence::Late));
        }
        Arc::new(Model {
            places,
            queue: Mutex::new(0),
            ran: AtomicUsize::new(0),
            asleep: Mutex::new(false),
        })
    }

    /// `activate`, then `notify`: the spare serves on the thread that calls for it.
    fn push(&self) {
        *self.queue.lock() += 1;
        fence(SeqCst);
        self.notify();
    }

    fn notify(&self) {
        if self.wake() {
            self.work();
        } else if self.places.is_open()
            && let Some(role) = self.summon()
        {
            self.serve(role);
        }
    }

    fn wake(&self) -> bool {
        std::mem::take(&mut *self.asleep.lock())
    }

    fn summon(&self) -> Option<Role> {
        let queue = self.queue.lock();
        self.places.claim(|_| *queue > 0)
    }

    /// A spare thread.
    fn serve(&self, mut role: Role) {
        loop {
            match self.places.review(role) {
                Some(next) => role = next,
                None => {
                    // `stand_down`: what it leaves behind must be noticed.
                    if *self.queue.lock() > 0 {
                        self.notify();
                    }
                    return;
                }
            }
            if self.run() {
                continue;
            }
            self.places.leave(role);
            fence(SeqCst);
            match self.summon() {
                Some(next) => role = next,
                None => return,
            }
        }
    }

    fn run(&self) -> bool {
        let mut queue = self.queue.lock();
        let found = *queue > 0;
        *queue -= usize::from(found);
        self.ran.fetch_add(usize::from(found), SeqCst);
        found
    }

    /// The late poll ends: its worker serves again until it finds nothing.
    fn back(&self) {
        self.places.now_absent(Some(Absence::Late), None);
        fence(SeqCst);
        self.work();
    }

    /// It says that it sleeps, then looks once more, as `Sleepers` wants it.
    fn work(&self) {
        loop {
            while self.run() {}
            *self.asleep.lock() = true;
            fence(SeqCst);
            if *self.queue.lock() == 0 || !self.wake() {
                return;
            }
        }
    }

    /// The watchdog finds a late poll.
    fn mark(&self) {
        self.places.now_absent(None, Some(Absence::Late));
        fence(SeqCst);
        self.notify();
    }
}

fn check(late: usize, pushes: usize, threads: &'static [fn(&Model)]) {
    let mut builder = ::loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(move || {
        let model = Model::new(late);
        let others: Vec<_> = threads
            .iter()
            .map(|run| {
                let m = model.clone();
                ::loom::thread::spawn(move || run(&m))
            })
            .collect();
        model.push();
        others.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(model.ran.load(SeqCst), pushes, "work is stranded");
        assert_eq!(model.places.serving(), 0, "a stand-in is left over");
    });
}

#[test]
fn an_armed_spare_that_retires_does_not_miss_an_activation() {
    check(1, 2, &[Model::push]);
}

#[test]
fn two_spares_and_two_activations() {
    check(2, 3, &[Model::push, Model::push]);
}

#[test]
fn a_poll_found_late_while_a_group_activates() {
    check(0, 1, &[Model::mark]);
}

#[test]
fn a_late_poll_that_ends_while_a_group_activates() {
    // Whoever comes first: the worker that is back, or the spare.
    check(1, 1, &[Model::back]);
}
