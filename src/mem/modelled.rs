//! The life of a slot under loom: closing, the last decrement and a new opener, in every interleaving.
//!
//! Mechanism; loom's threads.

mod atomic {
    pub(super) use loom::sync::atomic::{AtomicU64, Ordering};
}

#[path = "life.rs"]
mod life;

mod loom {
    use super::atomic::AtomicU64;
    use super::life::Life;
    use ::loom::sync::Arc;
    use ::loom::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use ::loom::thread;

    struct Model {
        life: Life,
        freed: AtomicU32,
    }

    impl Model {
        /// A slot that is live, with a balance.
        fn live(used: u64) -> Arc<Model> {
            let model = Model {
                life: Life(AtomicU64::new(0)),
                freed: AtomicU32::new(0),
            };
            assert!(model.life.open());
            model.life.add(used);
            Arc::new(model)
        }

        fn saw(&self, freed: bool) {
            if freed {
                self.freed.fetch_add(1, SeqCst);
            }
        }
    }

    #[test]
    fn the_closer_and_the_last_decrement_free_the_slot_once() {
        ::loom::model(|| {
            let model = Model::live(2);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let m = model.clone();
                    thread::spawn(move || m.saw(m.life.sub(1)))
                })
                .collect();
            model.saw(model.life.close());
            others.into_iter().for_each(|t| t.join().unwrap());
            assert_eq!(model.freed.load(SeqCst), 1);
            assert!(model.life.open());
        });
    }

    #[test]
    fn a_late_step_does_not_free_a_slot_that_is_in_use_again() {
        ::loom::model(|| {
            let model = Model::live(1);
            let last = {
                let m = model.clone();
                thread::spawn(move || m.saw(m.life.sub(1)))
            };
            let next = {
                let m = model.clone();
                thread::spawn(move || {
                    // The next tenant: charges, closes, and keeps its byte.
                    if m.life.open() {
                        m.life.add(1);
                        assert!(!m.life.close());
                        true
                    } else {
                        false
                    }
                })
            };
            model.saw(model.life.close());
            last.join().unwrap();
            let reopened = next.join().unwrap();
            assert_eq!(model.freed.load(SeqCst), 1);
            // A slot with a byte charged is free for nobody.
            assert_eq!(model.life.open(), !reopened);
            assert_eq!(model.life.used(), u64::from(reopened));
        });
    }

    #[test]
    fn a_limit_holds_however_many_charge_at_once() {
        ::loom::model(|| {
            let model = Model::live(0);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let m = model.clone();
                    thread::spawn(move || m.life.try_add(6, 10).is_ok())
                })
                .collect();
            let mine = model.life.try_add(4, 10).is_ok();
            let granted: Vec<bool> = others.into_iter().map(|t| t.join().unwrap()).collect();
            let sixes = granted.iter().filter(|&&granted| granted).count() as u64;
            assert!(sixes <= 1);
            assert_eq!(model.life.used(), 6 * sixes + 4 * u64::from(mine));
        });
    }
}
