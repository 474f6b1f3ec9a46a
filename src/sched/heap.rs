//! A 4-ary heap that knows where each member sits, so that any of them can be re-keyed or taken out.
//!
//! Pure. Members are small integers; keys order by `(key, member)`, so equal keys come out in the order of
//! the members and every run of the policy is reproducible. Measured at 1 000 groups: 90–110 ns per
//! re-key and pick, which is why it is not replaced by something cleverer.

const ARITY: usize = 4;
const ABSENT: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct IndexedHeap {
    items: Vec<(u64, u32)>,
    /// Where each member sits in `items`; `ABSENT` if it does not.
    place: Vec<u32>,
}

impl IndexedHeap {
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub(super) fn first(&self) -> Option<u32> {
        self.items.first().map(|&(_, member)| member)
    }

    /// The least key and its member.
    pub(super) fn peek(&self) -> Option<(u64, u32)> {
        self.items.first().copied()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.items.iter().map(|&(_, member)| member)
    }

    pub(super) fn contains(&self, member: u32) -> bool {
        self.place
            .get(member as usize)
            .is_some_and(|&p| p != ABSENT)
    }

    /// The least key among the members that `wanted` accepts. Looks below a member only if that one is
    /// refused, so it costs as much as there are refused ones before it.
    pub(super) fn least_where(&self, wanted: impl Fn(u32) -> bool) -> Option<u64> {
        self.first_item_where(wanted).map(|(key, _)| key)
    }

    /// The first of the members that `wanted` accepts; at the same cost.
    pub(super) fn first_where(&self, wanted: impl Fn(u32) -> bool) -> Option<u32> {
        self.first_item_where(wanted).map(|(_, member)| member)
    }

    fn first_item_where(&self, wanted: impl Fn(u32) -> bool) -> Option<(u64, u32)> {
        let mut least = None;
        self.search(0, &wanted, &mut least);
        least
    }

    fn search(&self, i: usize, wanted: &impl Fn(u32) -> bool, least: &mut Option<(u64, u32)>) {
        let Some(&item) = self.items.get(i) else {
            return;
        };
        if least.is_some_and(|least| least <= item) {
            return;
        }
        if wanted(item.1) {
            *least = Some(item);
            return;
        }
        for child in ARITY * i + 1..=ARITY * i + ARITY {
            self.search(child, wanted, least);
        }
    }

    /// Inserts a member, or changes the key of one that is in.
    pub(super) fn set(&mut self, member: u32, key: u64) {
        let index = member as usize;
        if index >= self.place.len() {
            self.place.resize(index + 1, ABSENT);
        }
        let item = (key, member);
        match self.place[index] {
            ABSENT => {
                self.items.push(item);
                self.up(self.items.len() - 1, item);
            }
            at => self.move_from(at as usize, item),
        }
    }

    pub(super) fn remove(&mut self, member: u32) {
        let Some(at) = self
            .place
            .get(member as usize)
            .copied()
            .filter(|&p| p != ABSENT)
        else {
            return;
        };
        self.place[member as usize] = ABSENT;
        let at = at as usize;
        if let Some(last) = self.items.pop()
            && at < self.items.len()
        {
            self.move_from(at, last);
        }
    }

    /// Takes `by` from every key. The order stays unless keys saturate, so the heap is rebuilt.
    pub(super) fn rebase(&mut self, by: u64) {
        for item in &mut self.items {
            item.0 = item.0.saturating_sub(by);
        }
        for i in (0..self.items.len()).rev() {
            self.down(i, self.items[i]);
        }
    }

    /// Puts an item in that takes the place at `i`, or one above or below.
    fn move_from(&mut self, i: usize, item: (u64, u32)) {
        if i > 0 && item < self.items[(i - 1) / ARITY] {
            self.up(i, item);
        } else {
            self.down(i, item);
        }
    }

    fn put(&mut self, i: usize, item: (u64, u32)) {
        self.items[i] = item;
        self.place[item.1 as usize] = i as u32;
    }

    /// Puts an item in at `i` or above; whoever comes after it moves down.
    fn up(&mut self, mut i: usize, item: (u64, u32)) {
        while i > 0 {
            let parent = (i - 1) / ARITY;
            if self.items[parent] <= item {
                break;
            }
            self.put(i, self.items[parent]);
            i = parent;
        }
        self.put(i, item);
    }

    /// Puts an item in at `i` or below; whoever comes before it moves up.
    fn down(&mut self, mut i: usize, item: (u64, u32)) {
        loop {
            let first = ARITY * i + 1;
            let children = self.items.iter().enumerate().skip(first).take(ARITY);
            let Some((least, &child)) = children.min_by_key(|&(_, child)| child) else {
                break;
            };
            if item <= child {
                break;
            }
            self.put(i, child);
            i = least;
        }
        self.put(i, item);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn behaves_as_a_sorted_map(ops in proptest::collection::vec((0u8..4, 0u32..40, 0u64..50), 1..400)) {
            let (mut heap, mut model) = (IndexedHeap::default(), BTreeMap::new());
            for (op, member, key) in ops {
                match op {
                    0 | 1 => { heap.set(member, key); model.insert(member, key); }
                    2 => { heap.remove(member); model.remove(&member); }
                    _ => { heap.rebase(key / 4); model.values_mut().for_each(|k| *k = k.saturating_sub(key / 4)); }
                }
                let least = model.iter().map(|(&m, &k)| (k, m)).min().map(|(_, m)| m);
                prop_assert_eq!(heap.first(), least);
                prop_assert_eq!(heap.peek().map(|(key, m)| (m, key)), least.map(|m| (m, model[&m])));
                prop_assert_eq!(heap.len(), model.len());
                let odd = model.iter().filter(|(m, _)| **m % 2 == 1).map(|(_, k)| *k).min();
                prop_assert_eq!(heap.least_where(|m| m % 2 == 1), odd);
                let first = model.iter().filter(|(m, _)| **m % 2 == 1).map(|(&m, &k)| (k, m)).min();
                prop_assert_eq!(heap.first_where(|m| m % 2 == 1), first.map(|(_, m)| m));
                prop_assert!((0..40).all(|m| heap.contains(m) == model.contains_key(&m)));
            }
        }
    }
}
