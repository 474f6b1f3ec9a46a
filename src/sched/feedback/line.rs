//! A queue from whose middle a task can be drawn in one step.
//!
//! Pure. Who is queued has a numbered seat. A seat that is left before its turn stays empty until the queue has passed
//! it; the first and the last seat are never empty.

use std::collections::VecDeque;

/// Seats are numbered round about.
pub(super) const SEATS: u64 = (1 << 40) - 1;

/// The most room that is worth little.
const LITTLE: usize = 16;

#[derive(Debug)]
pub(super) struct Line<T> {
    seats: VecDeque<Option<T>>,
    /// The number of the first seat.
    first: u64,
    len: usize,
}

impl<T> Default for Line<T> {
    fn default() -> Line<T> {
        Line {
            seats: VecDeque::new(),
            first: 0,
            len: 0,
        }
    }
}

impl<T> Line<T> {
    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether it has room for many, who are not there any more perhaps.
    pub(super) fn is_large(&self) -> bool {
        self.seats.capacity() > LITTLE
    }

    pub(super) fn push_back(&mut self, task: T, note: impl FnOnce(&T, u64)) {
        let seat = self.first.wrapping_add(self.seats.len() as u64) & SEATS;
        note(&task, seat);
        self.seats.push_back(Some(task));
        self.len += 1;
    }

    pub(super) fn push_front(&mut self, task: T, note: impl FnOnce(&T, u64)) {
        self.first = self.first.wrapping_sub(1) & SEATS;
        note(&task, self.first);
        self.seats.push_front(Some(task));
        self.len += 1;
    }

    pub(super) fn pop_front(&mut self) -> Option<T> {
        let task = self.leave_front()?;
        self.close_up();
        task
    }

    /// Draws out who sits in this seat, if it is the one that `is` says.
    pub(super) fn withdraw(&mut self, seat: u64, is: impl FnOnce(&T) -> bool) -> Option<T> {
        let index = usize::try_from(seat.wrapping_sub(self.first) & SEATS).ok()?;
        let task = self.seats.get_mut(index)?.take_if(|task| is(task))?;
        self.len -= 1;
        self.close_up();
        Some(task)
    }

    fn leave_front(&mut self) -> Option<Option<T>> {
        let task = self.seats.pop_front()?;
        self.first = self.first.wrapping_add(1) & SEATS;
        self.len -= usize::from(task.is_some());
        Some(task)
    }

    fn close_up(&mut self) {
        while let Some(None) = self.seats.front() {
            self.leave_front();
        }
        while let Some(None) = self.seats.back() {
            self.seats.pop_back();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn behaves_as_a_list(ops in proptest::collection::vec((0u8..5, 0usize..40), 1..300)) {
            let (mut line, mut model, mut next) = (Line::default(), VecDeque::new(), 0u32);
            let mut seats = Vec::new();
            for (op, pick) in ops {
                match op {
                    0 | 1 => {
                        line.push_back(next, |_, seat| seats.push((next, seat)));
                        model.push_back(next);
                        next += 1;
                    }
                    2 => {
                        line.push_front(next, |_, seat| seats.push((next, seat)));
                        model.push_front(next);
                        next += 1;
                    }
                    3 => prop_assert_eq!(line.pop_front(), model.pop_front()),
                    _ if seats.is_empty() => {}
                    _ => {
                        // Some of them have left long ago.
                        let (task, seat) = seats[pick % seats.len()];
                        let there = model.iter().position(|&t| t == task);
                        let found = line.withdraw(seat, |&t| t == task);
                        prop_assert_eq!(found, there.map(|at| model.remove(at).unwrap()));
                    }
                }
                prop_assert_eq!(line.len(), model.len());
                prop_assert_eq!(line.is_empty(), model.is_empty());
            }
        }
    }
}
