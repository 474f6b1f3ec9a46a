//! Who is wanted in whose place; pure.

use super::*;

fn places(spares: usize, aside: usize, lost: usize) -> Places {
    Places::new(Caps {
        spares,
        aside,
        lost,
    })
}

fn claim_all(places: &Places) -> Vec<Role> {
    std::iter::from_fn(|| places.claim(|_| true)).collect()
}

#[test]
fn a_late_worker_wants_a_spare_and_one_that_is_not_there_a_full_stand_in() {
    let cases = [
        (Absence::Late, Role::Spare),
        (Absence::Blocked, Role::Full),
        (Absence::Aside, Role::Full),
    ];
    for (why, role) in cases {
        let places = places(2, 2, 2);
        assert!(!places.is_open());
        places.now_absent(None, Some(why));
        assert!(places.is_open());
        assert_eq!(claim_all(&places), [role], "{why:?}");
        assert!(!places.is_open());
        places.now_absent(Some(why), None);
        assert_eq!(places.review(role), None, "{why:?}");
        assert_eq!(places.serving(), 0);
    }
}

#[test]
fn caps_bound_each_kind() {
    let places = places(2, 3, 1);
    for why in [
        Absence::Late,
        Absence::Blocked,
        Absence::Aside,
        Absence::Aside,
    ] {
        for _ in 0..2 {
            places.now_absent(None, Some(why));
        }
    }
    // Two late and two blocked share two spares, four stepped aside share three.
    assert_eq!(claim_all(&places), [Role::Full; 5]);
    // One of the blocked is lost for good: its place is another one, and a late worker gets the spare.
    assert!(places.lose(Some(Absence::Blocked)));
    assert_eq!(claim_all(&places), [Role::Spare]);
    assert!(!places.lose(None), "one at most");
    assert_eq!(places.serving(), 6);
}

#[test]
fn a_spare_becomes_a_full_stand_in_when_the_worker_turns_out_to_be_blocked() {
    let places = places(1, 0, 0);
    places.now_absent(None, Some(Absence::Late));
    assert_eq!(claim_all(&places), [Role::Spare]);
    places.now_absent(Some(Absence::Late), Some(Absence::Blocked));
    assert!(!places.is_open() && places.wants_full());
    assert_eq!(places.review(Role::Spare), Some(Role::Full));
    places.now_absent(Some(Absence::Blocked), Some(Absence::Late));
    assert_eq!(places.review(Role::Full), Some(Role::Spare));
}

#[test]
fn nobody_is_sent_where_there_is_nothing_to_do() {
    let places = places(1, 0, 0);
    places.now_absent(None, Some(Absence::Late));
    assert_eq!(places.claim(|role| role == Role::Full), None);
    assert!(places.is_open(), "the place stays open");
}
