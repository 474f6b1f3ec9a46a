//! All networks of a catalog as a forest: those around an address lie on one way up.
//!
//! Pure. Two networks either nest or are apart. Numbered in the order "outer before inner, left before right",
//! everything inside a network has the numbers that follow its own. The addresses between two borders share their
//! innermost network, so one binary search over the borders finds it.

use super::super::rank::canonical;
use super::{NONE, Symbol};
use ipnet::IpNet;
use std::net::IpAddr;

/// The networks; their numbers are 1 to [`len`](Networks::len).
#[derive(Debug, Default)]
pub(super) struct Networks {
    v4: Borders<u32>,
    v6: Borders<u128>,
    /// By number, from 0 = none: the next larger network around it, and the last number inside it.
    around: Vec<Symbol>,
    last_inside: Vec<Symbol>,
    /// Sorted; number = place + 1.
    sorted: Vec<IpNet>,
}

/// From each start on, the innermost network is the one beside it.
#[derive(Debug)]
struct Borders<A> {
    starts: Vec<A>,
    innermost: Vec<Symbol>,
}

impl<A> Default for Borders<A> {
    fn default() -> Self {
        Borders {
            starts: Vec::new(),
            innermost: Vec::new(),
        }
    }
}

impl Networks {
    pub(super) fn new(networks: impl IntoIterator<Item = IpNet>) -> Networks {
        // ipnet's order: IPv4 first, then by address, then the shorter prefix: outer before inner.
        let mut sorted: Vec<IpNet> = networks.into_iter().map(canonical).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let mut forest = Networks {
            around: vec![NONE; sorted.len() + 1],
            last_inside: (0..=sorted.len()).map(|n| n as Symbol).collect(),
            ..Networks::default()
        };
        let numbered = || sorted.iter().zip(1..);
        let v4 = numbered().filter_map(|(net, number)| match net {
            IpNet::V4(net) => Some((net.network().to_bits(), net.broadcast().to_bits(), number)),
            IpNet::V6(_) => None,
        });
        let v6 = numbered().filter_map(|(net, number)| match net {
            IpNet::V6(net) => Some((net.network().to_bits(), net.broadcast().to_bits(), number)),
            IpNet::V4(_) => None,
        });
        forest.v4 = forest.sweep(v4, |address| address.checked_add(1));
        forest.v6 = forest.sweep(v6, |address| address.checked_add(1));
        forest.sorted = sorted;
        forest
    }

    /// How many networks there are.
    pub(super) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The number of a network of the catalog, and the last number inside it.
    pub(super) fn numbers(&self, network: IpNet) -> Option<(Symbol, Symbol)> {
        let place = self.sorted.binary_search(&canonical(network)).ok()?;
        let last = *self.last_inside.get(place + 1)?;
        Some((place as Symbol + 1, last))
    }

    /// The smallest network that holds the address, or `NONE`.
    pub(super) fn innermost(&self, address: IpAddr) -> Symbol {
        match address.to_canonical() {
            IpAddr::V4(address) => self.v4.find(address.to_bits()),
            IpAddr::V6(address) => self.v6.find(address.to_bits()),
        }
    }

    /// The next larger network around this one, or `NONE`.
    #[inline]
    pub(super) fn around(&self, network: Symbol) -> Symbol {
        self.around.get(network as usize).copied().unwrap_or(NONE)
    }

    /// Walks the networks of one family from left to right, outer before inner, each as (first address, last
    /// address, number), with the open ones on a stack.
    fn sweep<A: Copy + Ord>(
        &mut self,
        networks: impl Iterator<Item = (A, A, Symbol)>,
        next: impl Fn(A) -> Option<A>,
    ) -> Borders<A> {
        let mut borders = Borders::default();
        let mut open: Vec<(A, Symbol)> = Vec::new();
        for (first, last, number) in networks {
            while let Some(closed) = open.pop_if(|(end, _)| *end < first) {
                borders.close(closed.0, &open, &next);
            }
            let outer = open.last().map_or(NONE, |&(_, outer)| outer);
            if let Some(slot) = self.around.get_mut(number as usize) {
                *slot = outer;
            }
            for &(_, outer) in &open {
                if let Some(slot) = self.last_inside.get_mut(outer as usize) {
                    *slot = number;
                }
            }
            borders.begin(first, number);
            open.push((last, number));
        }
        while let Some(closed) = open.pop() {
            borders.close(closed.0, &open, &next);
        }
        borders
    }
}

impl<A: Copy + Ord> Borders<A> {
    /// From `start` on, `network` is the innermost.
    fn begin(&mut self, start: A, network: Symbol) {
        if self.starts.last() == Some(&start) {
            self.innermost.pop();
        } else {
            self.starts.push(start);
        }
        self.innermost.push(network);
    }

    /// A network ends at `end`, and the innermost of the `open` ones shows again.
    fn close(&mut self, end: A, open: &[(A, Symbol)], next: impl Fn(A) -> Option<A>) {
        if let Some(start) = next(end) {
            self.begin(start, open.last().map_or(NONE, |&(_, outer)| outer));
        }
    }

    #[inline]
    fn find(&self, address: A) -> Symbol {
        let begun = self.starts.partition_point(|start| *start <= address);
        let place = begun.checked_sub(1);
        place
            .and_then(|place| self.innermost.get(place))
            .copied()
            .unwrap_or(NONE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chain(networks: &Networks, address: &str) -> Vec<String> {
        let mut chain = Vec::new();
        let mut at = networks.innermost(address.parse().expect("an address"));
        while at != NONE {
            chain.push(networks.sorted[at as usize - 1].to_string());
            at = networks.around(at);
        }
        chain
    }

    #[test]
    fn an_address_sees_the_networks_around_it_from_inside_out() {
        let texts = [
            "0.0.0.0/0",
            "10.0.0.0/8",
            "10.0.0.0/31",
            "10.255.255.255/32",
            "255.255.255.255/32",
            "::/0",
            "2001:db8::/32",
            "::ffff:10.0.0.0/104",
        ];
        let networks = Networks::new(texts.iter().map(|text| text.parse().expect("a network")));
        assert_eq!(networks.len(), 7, "the mapped one is 10.0.0.0/8 again");
        assert_eq!(
            chain(&networks, "10.0.0.1"),
            ["10.0.0.0/31", "10.0.0.0/8", "0.0.0.0/0"]
        );
        assert_eq!(chain(&networks, "10.0.0.2"), ["10.0.0.0/8", "0.0.0.0/0"]);
        assert_eq!(
            chain(&networks, "10.255.255.255"),
            ["10.255.255.255/32", "10.0.0.0/8", "0.0.0.0/0"]
        );
        assert_eq!(chain(&networks, "11.0.0.0"), ["0.0.0.0/0"]);
        assert_eq!(
            chain(&networks, "::ffff:255.255.255.255"),
            ["255.255.255.255/32", "0.0.0.0/0"]
        );
        assert_eq!(
            chain(&networks, "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff"),
            ["2001:db8::/32", "::/0"]
        );
        assert_eq!(chain(&networks, "2001:db9::"), ["::/0"]);
        let inside = |text: &str| networks.numbers(text.parse().expect("a network"));
        assert_eq!(inside("0.0.0.0/0"), Some((1, 5)));
        assert_eq!(inside("10.0.0.0/8"), Some((2, 4)));
        assert_eq!(inside("255.255.255.255/32"), Some((5, 5)));
        assert_eq!(inside("::/0"), Some((6, 7)));
        assert_eq!(inside("12.0.0.0/8"), None);
    }

    #[test]
    fn without_networks_no_address_is_in_one() {
        let none = Networks::new([]);
        assert_eq!(chain(&none, "10.0.0.1"), [""; 0]);
        assert_eq!(chain(&none, "::1"), [""; 0]);
    }
}
