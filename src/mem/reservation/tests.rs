//! Reservations over real balances, on tokio's paused clock. Test threads.

use super::*;
use crate::mem::OwnerHandle;
use crate::mem::promise;
use crate::mem::shortfall::MemoryScope;
use crate::unit::Nanos;
use futures::FutureExt;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::{Wake, Waker};
use tokio::time::sleep;

const MS: u64 = 1_000_000;

/// A governor of 1000 bytes with groups of 100, whose requests wait for 50 ms.
struct House {
    governor: Payer,
}

struct Room {
    desk: Arc<Desk>,
    query: Payer,
}

fn house() -> House {
    let governor = OwnerHandle::open_governor();
    governor.set_limit(Some(1000));
    House { governor }
}

impl House {
    fn group(&self, limit: u64) -> Room {
        let group = OwnerHandle::open_group(&self.governor);
        group.set_limit(Some(limit));
        let desk = Desk::new("bi".into(), group.clone());
        desk.set_queue_timeout(Nanos(50 * MS));
        let query = OwnerHandle::open_query(&group);
        Room { desk, query }
    }
}

impl Room {
    fn try_reserve(&self, bytes: u64) -> Result<Reservation, MemoryError> {
        try_reserve(self.desk.clone(), self.query.clone(), bytes)
    }

    fn reserve(&self, bytes: u64) -> Reserving {
        Reserving::new(self.desk.clone(), self.query.clone(), bytes)
    }

    fn used(&self) -> u64 {
        self.desk.owner().used()
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_are_charged_while_the_reservation_lives() {
    let house = house();
    let room = house.group(100);
    let mut held = room.try_reserve(60).unwrap();
    assert_eq!(
        (held.size(), room.used(), house.governor.used()),
        (60, 60, 60)
    );
    held.try_grow(40).unwrap();
    assert_eq!(room.query.used(), 100);
    assert_eq!(held.shrink(30), 30);
    let part = held.split(50);
    assert_eq!((held.size(), part.size(), room.used()), (20, 50, 70));
    drop(part);
    assert_eq!(held.free(), 20);
    assert_eq!((held.size(), held.shrink(1)), (0, 0));
    assert_eq!((room.used(), house.governor.used()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_refusal_says_whose_limit_and_how_far() {
    let house = house();
    let room = house.group(100);
    let _held = room.try_reserve(60).unwrap();
    let full = MemoryError::Full {
        group: "bi".into(),
        asked: 50,
        scope: MemoryScope::Group,
        limit: 100,
        used: 60,
        waiting: 0,
    };
    assert_eq!(room.try_reserve(50).unwrap_err(), full);
    assert!(full.is_transient());
    let never = MemoryError::TooLarge {
        group: "bi".into(),
        asked: 101,
        scope: MemoryScope::Group,
        limit: 100,
    };
    assert_eq!(room.try_reserve(101).unwrap_err(), never);
    assert_eq!(room.reserve(101).await.unwrap_err(), never);
    assert!(!never.is_transient());
    assert_eq!(room.used(), 60);
    // The governor's limit counts where it is the nearer one.
    let roomy = house.group(5000);
    let error = roomy.try_reserve(1001).unwrap_err();
    assert!(matches!(
        error,
        MemoryError::TooLarge {
            scope: MemoryScope::Governor,
            limit: 1000,
            ..
        }
    ));
    let error = roomy.try_reserve(941).unwrap_err();
    assert!(matches!(
        error,
        MemoryError::Full {
            scope: MemoryScope::Governor,
            used: 60,
            ..
        }
    ));
}

#[tokio::test(start_paused = true)]
async fn who_waits_is_served_when_bytes_come_back_in_order() {
    let house = house();
    let room = house.group(100);
    let mut held = room.try_reserve(90).unwrap();
    let mut large = room.reserve(50);
    let mut small = room.reserve(10);
    assert!((&mut large).now_or_never().is_none());
    assert!(
        (&mut small).now_or_never().is_none(),
        "it would fit, but is second"
    );
    assert_eq!(room.desk.waiting(), 2);
    assert!(matches!(
        room.try_reserve(1),
        Err(MemoryError::Full { waiting: 2, .. })
    ));
    held.shrink(40);
    assert_eq!(room.used(), 100);
    assert_eq!((&mut large).now_or_never().unwrap().unwrap().size(), 50);
    // That reservation is dropped by now.
    assert_eq!((&mut small).now_or_never().unwrap().unwrap().size(), 10);
    assert_eq!((room.used(), room.desk.waiting()), (50, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_at_the_groups_timeout_and_lets_the_next_one_in() {
    let house = house();
    let room = house.group(100);
    let _held = room.try_reserve(80).unwrap();
    let start = Instant::now();
    let (large, small) = tokio::join!(room.reserve(50), async {
        sleep(Duration::from_millis(10)).await;
        let small = room.reserve(20).await;
        (small, start.elapsed())
    });
    let waited = Duration::from_millis(50);
    assert!(
        matches!(large, Err(MemoryError::TimedOut { waited: w, asked: 50, .. }) if w == waited),
        "{large:?}"
    );
    let (small, when) = small;
    assert_eq!((small.unwrap().size(), when), (20, waited));
}

#[tokio::test(start_paused = true)]
async fn whoever_is_dropped_while_it_waits_holds_up_nobody() {
    let house = house();
    let room = house.group(100);
    let _held = room.try_reserve(80).unwrap();
    let mut large = room.reserve(50);
    let mut small = room.reserve(20);
    assert!((&mut large).now_or_never().is_none());
    assert!((&mut small).now_or_never().is_none());
    drop(large);
    assert_eq!(room.used(), 100, "the next one was served at once");
    // Served, and dropped before it could know.
    drop(small);
    assert_eq!((room.used(), room.desk.waiting()), (80, 0));
}

#[tokio::test(start_paused = true)]
async fn a_future_that_was_never_polled_has_no_place() {
    let house = house();
    let room = house.group(100);
    drop(room.reserve(10));
    assert_eq!((room.used(), room.desk.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn growing_waits_too_and_changes_nothing_if_it_is_dropped() {
    let house = house();
    let room = house.group(100);
    let other = room.try_reserve(50).unwrap();
    let mut mine = room.try_reserve(30).unwrap();
    assert!(mine.grow(40).now_or_never().is_none());
    assert_eq!((mine.size(), room.used(), room.desk.waiting()), (30, 80, 0));
    drop(other);
    mine.grow(40).await.unwrap();
    assert_eq!((mine.size(), room.used()), (70, 70));
}

#[tokio::test(start_paused = true)]
async fn memory_that_is_freed_without_a_word_is_noticed_by_the_first_who_waits() {
    let house = house();
    let room = house.group(100);
    // As the allocator charges: nobody is told when it is credited.
    room.query.try_charge(70).unwrap();
    let start = Instant::now();
    let free = async {
        sleep(Duration::from_millis(7)).await;
        room.query.credit(70);
    };
    let (held, ()) = tokio::join!(room.reserve(60), free);
    assert_eq!(
        (held.unwrap().size(), start.elapsed()),
        (60, Duration::from_millis(10))
    );
}

/// A foreign waker that uses the desk from inside, which hangs under the desk's lock.
struct Nosy {
    desk: Arc<Desk>,
    woken: AtomicU64,
    panics: bool,
}

impl Nosy {
    fn woken(&self) -> u64 {
        self.woken.load(SeqCst)
    }
}

impl Wake for Nosy {
    fn wake(self: Arc<Self>) {
        self.woken.fetch_add(1, SeqCst);
        let _ = self.desk.waiting();
        if self.panics {
            std::panic::resume_unwind(Box::new("a waker that panics"));
        }
    }
}

impl Drop for Nosy {
    fn drop(&mut self) {
        let _ = self.desk.waiting();
    }
}

impl Room {
    /// Polls `reserving` with a waker of its own, in vain.
    fn poll_once(&self, reserving: &mut Reserving, panics: bool) -> Arc<Nosy> {
        let nosy = Arc::new(Nosy {
            desk: self.desk.clone(),
            woken: AtomicU64::new(0),
            panics,
        });
        let waker = Waker::from(nosy.clone());
        let polled = Pin::new(reserving).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        nosy
    }
}

/// Wakers may differ by `will_wake` and be of one task: waking the one before would poll for ever.
#[tokio::test(start_paused = true)]
async fn only_the_waker_of_the_last_poll_is_woken() {
    let house = house();
    let room = house.group(100);
    let held = room.try_reserve(60).unwrap();
    let (mut first, mut second) = (room.reserve(50), room.reserve(50));
    let before: Vec<_> = (0..3).map(|_| room.poll_once(&mut first, false)).collect();
    let behind: Vec<_> = (0..3).map(|_| room.poll_once(&mut second, false)).collect();
    let (last, last_behind) = (
        room.poll_once(&mut first, false),
        room.poll_once(&mut second, false),
    );
    assert!(before.iter().chain(&behind).all(|nosy| nosy.woken() == 0));
    drop(held);
    assert_eq!((last.woken(), last_behind.woken()), (1, 1));
    assert!(before.iter().chain(&behind).all(|nosy| nosy.woken() == 0));
}

#[tokio::test(start_paused = true)]
async fn a_waker_that_panics_keeps_nobody_asleep() {
    let house = house();
    let room = house.group(100);
    let held = room.try_reserve(60).unwrap();
    let (mut first, mut second, mut third) = (room.reserve(50), room.reserve(50), room.reserve(90));
    let panics = room.poll_once(&mut first, true);
    let other = room.poll_once(&mut second, false);
    let third_panics = room.poll_once(&mut third, true);
    drop(held);
    assert_eq!((panics.woken(), other.woken()), (1, 1));
    assert_eq!(
        third_panics.woken(),
        1,
        "it is the first now, and looks by itself"
    );
    drop((first, second));
    assert_eq!(room.used(), 90);
    drop(third);
    assert_eq!((room.used(), room.desk.waiting()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn room_that_another_group_leaves_under_the_governors_limit_is_found() {
    let house = house();
    let (a, b) = (house.group(900), house.group(900));
    let held = a.try_reserve(800).unwrap();
    let free = async {
        sleep(Duration::from_millis(12)).await;
        drop(held);
    };
    let (served, ()) = tokio::join!(b.reserve(300), free);
    assert_eq!(served.unwrap().size(), 300);
}

#[tokio::test(start_paused = true)]
async fn a_limit_that_is_lowered_refuses_who_waits_for_more() {
    let house = house();
    let room = house.group(100);
    let _held = room.try_reserve(60).unwrap();
    let lower = async {
        sleep(Duration::from_millis(3)).await;
        room.desk.owner().set_limit(Some(40));
        room.desk.settle();
    };
    let (refused, ()) = tokio::join!(room.reserve(50), lower);
    assert!(matches!(
        refused,
        Err(MemoryError::TooLarge { limit: 40, .. })
    ));
}

#[test]
fn without_timers_the_wait_ends_when_memory_is_given_back() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let house = house();
    let room = house.group(100);
    let held = room.try_reserve(60).unwrap();
    std::panic::set_hook(Box::new(|_| {}));
    let served = runtime.block_on(async {
        let mut waits = room.reserve(50);
        assert!((&mut waits).now_or_never().is_none());
        drop(held);
        waits.await
    });
    let _ = std::panic::take_hook();
    assert_eq!(served.unwrap().size(), 50);
}

#[test]
fn what_is_allocated_of_a_reservation_does_not_count_twice() {
    let house = house();
    let room = house.group(100);
    let owner = room.query.owner().0;
    room.query.try_charge(20).unwrap(); // allocated before
    let mut held = room.try_reserve(50).unwrap();
    assert_eq!(room.used(), 70);
    promise::try_charge(owner, 50).unwrap();
    assert_eq!(room.used(), 70, "taken out of the reservation");
    promise::try_charge(owner, 10).unwrap();
    assert_eq!(room.used(), 80, "beyond it");
    assert!(promise::try_charge(owner, 30).is_err());
    assert_eq!(room.used(), 80, "nothing of a refused one stays");
    promise::credit(owner, 40);
    assert_eq!(room.used(), 80, "reserved again");
    // 40 bytes are live, and 40 of the 50 reserved ones are free for others.
    assert_eq!(held.shrink(20), 20);
    assert_eq!(room.used(), 70);
    drop(held);
    assert_eq!(room.used(), 40);
    promise::credit(owner, 40);
    assert_eq!((room.used(), house.governor.used()), (0, 0));
}

#[test]
fn a_reservation_keeps_its_owner_open() {
    let house = house();
    let room = house.group(100);
    let held = room.try_reserve(50).unwrap();
    let governor = Arc::downgrade(&house.governor);
    drop((house, room));
    assert_eq!(governor.upgrade().map(|governor| governor.used()), Some(50));
    drop(held);
    assert!(governor.upgrade().is_none());
}
