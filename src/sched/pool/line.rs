//! The closures of one group that wait, in the order in which they came; any of them can be taken out.
//!
//! Pure. What was taken from the middle leaves a gap until as many gaps as closures have come together, so that each
//! way of taking costs little on average and the line's memory is in proportion to what waits.

use crate::sched::FIRST_AVERAGE;
use crate::unit::Nanos;
use std::collections::VecDeque;

/// So many gaps are not worth closing.
const FEW: usize = 64;

#[derive(Debug)]
pub(super) struct Line<J> {
    /// In the order of their numbers. The first and the last one are no gaps.
    waiting: VecDeque<Waiting<J>>,
    len: usize,
    /// Moving average of how long the group's closures last.
    pub(super) average: Nanos,
    /// How long those that have ended had their threads, together.
    pub(super) used: Nanos,
}

#[derive(Debug)]
struct Waiting<J> {
    number: u64,
    owner: u64,
    job: Option<J>,
}

impl<J> Waiting<J> {
    fn is_gap(&self) -> bool {
        self.job.is_none()
    }
}

impl<J> Line<J> {
    pub(super) fn new() -> Line<J> {
        Line {
            waiting: VecDeque::new(),
            len: 0,
            average: FIRST_AVERAGE,
            used: Nanos::ZERO,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// `number` is larger than any before.
    pub(super) fn push(&mut self, number: u64, owner: u64, job: J) {
        self.len += 1;
        self.waiting.push_back(Waiting {
            number,
            owner,
            job: Some(job),
        });
    }

    pub(super) fn pop(&mut self) -> Option<J> {
        let first = self.waiting.pop_front()?.job;
        self.len -= usize::from(first.is_some());
        self.close_gaps();
        first
    }

    pub(super) fn take(&mut self, number: u64) -> Option<J> {
        let place = self.waiting.binary_search_by_key(&number, |it| it.number);
        let job = self.waiting.get_mut(place.ok()?)?.job.take()?;
        self.len -= 1;
        self.close_gaps();
        Some(job)
    }

    pub(super) fn take_of(&mut self, owner: u64) -> Vec<J> {
        let of_owner = self.waiting.iter_mut().filter(|it| it.owner == owner);
        let taken: Vec<J> = of_owner.filter_map(|it| it.job.take()).collect();
        self.len -= taken.len();
        self.close_gaps();
        taken
    }

    fn close_gaps(&mut self) {
        while self.waiting.front().is_some_and(Waiting::is_gap) {
            self.waiting.pop_front();
        }
        while self.waiting.back().is_some_and(Waiting::is_gap) {
            self.waiting.pop_back();
        }
        if self.waiting.len() - self.len > self.len + FEW {
            self.waiting.retain(|it| it.job.is_some());
        }
        if self.waiting.capacity() > 1_024 && self.waiting.len() < self.waiting.capacity() / 8 {
            self.waiting.shrink_to(self.waiting.len() * 2);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_plain_list(ops in proptest::collection::vec((0u8..5, 0u64..300, 0u64..4), 1..600)) {
            let (mut line, mut model) = (Line::new(), Vec::<(u64, u64)>::new());
            let mut number = 0;
            for (op, which, owner) in ops {
                match op {
                    0 | 1 => {
                        number += 1;
                        line.push(number, owner, number);
                        model.push((number, owner));
                    }
                    2 => {
                        let first = (!model.is_empty()).then(|| model.remove(0).0);
                        prop_assert_eq!(line.pop(), first);
                    }
                    3 => {
                        let at = model.iter().position(|it| it.0 == which);
                        prop_assert_eq!(line.take(which), at.map(|at| model.remove(at).0));
                    }
                    _ if which % 8 == 0 => {
                        let (out, rest) = model.iter().copied().partition(|it| it.1 == owner);
                        let out: Vec<(u64, u64)> = out;
                        model = rest;
                        prop_assert_eq!(line.take_of(owner), out.iter().map(|it| it.0).collect::<Vec<_>>());
                    }
                    _ => {}
                }
                prop_assert_eq!(line.len(), model.len());
            }
        }
    }

    #[test]
    fn its_memory_is_in_proportion_to_what_waits_however_it_left() {
        let mut line = Line::new();
        line.push(1, 0, ());
        for number in 2..100_000 {
            line.push(number, 0, ());
            line.push(number + 200_000, 0, ());
            assert!(line.take(number + 200_000).is_some());
            assert!(number % 3 == 0 || line.take(number).is_some() || number < 2);
            assert!(line.waiting.len() <= 2 * line.len() + FEW + 1);
        }
        while line.pop().is_some() {}
        assert!(line.waiting.capacity() <= 1_024);
    }
}
