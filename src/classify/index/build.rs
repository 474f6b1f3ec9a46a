//! Compiles a catalog into the tree that [`Index`] searches.
//!
//! Pure. Linear in the catalog's text but for sorting: a classifier stands in one list, or in one per database
//! that it lists.

use super::super::rank::Rank;
use super::hash::Numbers;
use super::networks::Networks;
use super::request::{ANY_QUERY_TYPE, Names, query_type_bit};
use super::{Index, Input, Match, NO_COSTS, NO_MATCH, NONE, Node, NodeId, Rule, Symbol, kind};
use crate::catalog::classifier::ClassifierSpec;

/// A list this short is faster read than divided: half a dozen rules are what one more edge costs.
const SHORT: usize = 6;
/// A rule that lists more databases than this is copied below each of them only where they are rare, so that
/// long lists of common names do not multiply: the copies of all rules together then stay in the order of the text.
const COPIES: usize = 32;

pub(super) fn compile<'a>(catalog: impl IntoIterator<Item = Input<'a>>) -> Index {
    let mut inputs: Vec<(Rank, Input<'a>)> = catalog
        .into_iter()
        .map(|input| (Rank::of(input.short_query, input.classifier), input))
        .collect();
    inputs.sort_by_key(|(rank, _)| *rank);
    let specs = || inputs.iter().map(|(_, input)| input.classifier);

    let networks = Networks::new(specs().filter_map(|spec| spec.source_ip));
    let mut next = networks.len() as Symbol + 1;
    let names = Names {
        users: number(specs().filter_map(|spec| spec.user.as_deref()), &mut next),
        roles: number(specs().filter_map(|spec| spec.role.as_deref()), &mut next),
        dbs: number(
            specs().flat_map(|spec| spec.dbs.iter().map(|db| db.as_str())),
            &mut next,
        ),
    };
    let mut index = Index {
        names,
        networks,
        matches: inputs
            .iter()
            .map(|(rank, input)| Match {
                group: input.group,
                classifier: rank.id(),
            })
            .collect(),
        ..Index::default()
    };
    let rules = (0..).zip(specs());
    let rules = rules.map(|(position, spec)| index.translate(position, spec));
    let rules: Vec<Rule> = rules.collect();
    index.grow(rules, kind::ALL);
    index
}

/// Numbers texts from `next` on, the rarest first, equally rare ones by their order.
fn number<'a>(
    texts: impl Iterator<Item = &'a str>,
    next: &mut Symbol,
) -> Numbers<Box<str>, Symbol> {
    let mut uses: Numbers<&str, usize> = Numbers::default();
    for text in texts {
        *uses.entry(text).or_default() += 1;
    }
    let mut texts: Vec<(usize, &str)> = uses.into_iter().map(|(text, uses)| (uses, text)).collect();
    texts.sort_unstable();
    let numbered = texts.into_iter().map(|(_, text)| {
        let symbol = *next;
        *next += 1;
        (Box::from(text), symbol)
    });
    numbered.collect()
}

impl Index {
    fn translate(&mut self, position: u32, spec: &ClassifierSpec) -> Rule {
        let of = |names: &Numbers<Box<str>, Symbol>, text: Option<&str>| {
            text.and_then(|text| names.get(text).copied())
                .unwrap_or(NONE)
        };
        let first_db = self.dbs.len();
        let names = &self.names.dbs;
        self.dbs
            .extend(spec.dbs.iter().map(|db| of(names, Some(db))));
        if let Some(own) = self.dbs.get_mut(first_db..) {
            own.sort_unstable();
        }
        let mut costs = NO_COSTS;
        let ranges = [spec.plan_cpu_cost_range, spec.plan_mem_cost_range];
        if ranges.iter().any(|range| range.is_some()) {
            costs = self.costs.len() as u32;
            self.costs.push(ranges);
        }
        Rule {
            position,
            user: of(&self.names.users, spec.user.as_deref()),
            role: of(&self.names.roles, spec.role.as_deref()),
            networks: spec
                .source_ip
                .and_then(|network| self.networks.numbers(network))
                .unwrap_or((NONE, Symbol::MAX)),
            dbs: (first_db as u32, self.dbs.len() as u32),
            costs,
            query_types: if spec.query_types.is_empty() {
                ANY_QUERY_TYPE
            } else {
                spec.query_types
                    .iter()
                    .fold(0, |bits, &one| bits | query_type_bit(one))
            },
        }
    }

    /// Makes a node of rules in the order of rank, which may still be divided by the kinds in `left`.
    fn grow(&mut self, rules: Vec<Rule>, left: u8) -> NodeId {
        let id = self.nodes.len() as NodeId;
        let best = rules.first().map_or(NO_MATCH, |rule| rule.position);
        self.nodes.push(Node {
            best,
            kinds: 0,
            first: 0,
            end: 0,
        });

        let mut own = Vec::new();
        let mut below: Vec<(u8, Symbol, Rule)> = Vec::new();
        if rules.len() <= SHORT {
            own = rules;
        } else {
            let mut uses: Numbers<Symbol, usize> = Numbers::default();
            for rule in &rules {
                for (_, symbols) in self.conditions(rule, left) {
                    for &symbol in symbols {
                        *uses.entry(symbol).or_default() += 1;
                    }
                }
            }
            let all = rules.len();
            for rule in rules {
                // What a rule costs below a condition is the length of the lists that it makes longer.
                let rarest = self
                    .conditions(&rule, left)
                    .map(|(kind, symbols)| {
                        let lists = symbols.iter().filter_map(|symbol| uses.get(symbol));
                        (lists.sum::<usize>(), kind, symbols)
                    })
                    .filter(|&(cost, _, symbols)| symbols.len() <= COPIES || cost <= all)
                    .min_by_key(|&(cost, _, _)| cost)
                    .map(|(_, kind, symbols)| (kind, symbols));
                match rarest {
                    Some((kind, symbols)) => {
                        below.extend(symbols.iter().map(|&symbol| (kind, symbol, rule)));
                    }
                    None => own.push(rule),
                }
            }
        }

        let first = self.rules.len() as u32;
        self.rules.extend(own);
        let end = self.rules.len() as u32;
        // Stable: each child's rules stay in the order of rank.
        below.sort_by_key(|&(_, symbol, _)| symbol);
        let mut kinds = 0;
        for child in below.chunk_by(|a, b| a.1 == b.1) {
            let Some(&(kind, symbol, _)) = child.first() else {
                continue;
            };
            kinds |= kind;
            let rules = child.iter().map(|&(_, _, rule)| rule).collect();
            let to = self.grow(rules, left & !kind);
            self.edges.insert((id, symbol), to);
        }
        if let Some(node) = self.nodes.get_mut(id as usize) {
            *node = Node {
                best,
                kinds,
                first,
                end,
            };
        }
        id
    }

    /// The rule's conditions of the kinds in `left`, each as the symbols whose edges lead to it.
    fn conditions<'a>(
        &'a self,
        rule: &'a Rule,
        left: u8,
    ) -> impl Iterator<Item = (u8, &'a [Symbol])> {
        let dbs = self.dbs.get(rule.dbs.0 as usize..rule.dbs.1 as usize);
        [
            (kind::USER, std::slice::from_ref(&rule.user)),
            (kind::DB, dbs.unwrap_or_default()),
            (kind::ROLE, std::slice::from_ref(&rule.role)),
            (kind::NETWORK, std::slice::from_ref(&rule.networks.0)),
        ]
        .into_iter()
        .filter(move |(kind, symbols)| {
            left & kind != 0 && symbols.first().is_some_and(|&symbol| symbol != NONE)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unit::{ClassifierId, GroupId};
    use std::collections::BTreeSet;

    /// The lengths of a catalog's lists, longest first.
    fn lists(count: u64, spec: impl Fn(&mut ClassifierSpec, u64)) -> Vec<u32> {
        let specs: Vec<ClassifierSpec> = (0..count)
            .map(|n| {
                let mut one = ClassifierSpec::empty(ClassifierId(n));
                spec(&mut one, n);
                one
            })
            .collect();
        let index = compile(specs.iter().map(|classifier| Input {
            group: GroupId(1),
            short_query: false,
            classifier,
        }));
        assert_eq!(index.len(), specs.len());
        let mut lists: Vec<u32> = index
            .nodes
            .iter()
            .map(|node| node.end - node.first)
            .collect();
        lists.sort_by_key(|&length| std::cmp::Reverse(length));
        lists
    }

    #[test]
    fn common_conditions_are_divided_until_lists_are_short() {
        // Every user, role, database and network alone is common: 1 000 of 10 000 have it.
        let grid = lists(10_000, |spec, n| {
            let digit = |place: u32| n / 10_u64.pow(place) % 10;
            spec.user = Some(format!("u{}", digit(0)));
            spec.role = Some(format!("r{}", digit(1)));
            spec.dbs = [format!("d{}", digit(2))].into();
            spec.source_ip = format!("10.{}.0.0/16", digit(3)).parse().ok();
        });
        assert!(grid[0] <= SHORT as u32, "{}", grid[0]);
        let one_user = lists(10_000, |spec, n| {
            spec.user = Some("app".to_owned());
            spec.dbs = [format!("d{n}")].into();
        });
        assert!(one_user[0] <= SHORT as u32, "{}", one_user[0]);
        let nested = lists(33, |spec, n| {
            spec.source_ip = format!("10.0.0.0/{n}").parse().ok();
        });
        assert!(nested[0] <= SHORT as u32, "{}", nested[0]);
    }

    #[test]
    fn a_database_that_is_in_every_classifier_does_not_keep_them_together() {
        let lists = lists(1_000, |spec, n| {
            spec.dbs = [format!("d{n}"), "common".to_owned()].into();
        });
        assert_eq!(
            lists[0], 1_000,
            "who asks for `common` alone meets them all"
        );
        assert_eq!(lists[1], 1, "whoever states another database does not");
    }

    #[test]
    fn long_lists_of_common_databases_are_not_copied() {
        let names: BTreeSet<String> = (0..200).map(|n| format!("d{n}")).collect();
        let all = lists(300, |spec, n| {
            spec.dbs = names.clone();
            spec.plan_cpu_cost_range = Some(crate::catalog::classifier::CostRange {
                min: n as f64,
                max: n as f64 + 1.0,
            });
        });
        assert_eq!(all, [300], "one list of each, instead of 200 of each");
    }
}
