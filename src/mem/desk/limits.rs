//! Which of the limits above a payer is the one that counts.
//!
//! Any thread. Reads balances that change meanwhile: good for a refusal's text, not for a decision.

use super::Payer;
use crate::mem::{MemoryScope, Shortfall};

/// A payer and those above it, with whose limit each has.
fn chain(payer: &Payer) -> impl Iterator<Item = (MemoryScope, &Payer)> {
    let scope = |owner: &Payer| match owner.above() {
        None => MemoryScope::Governor,
        Some(above) if above.above().is_none() => MemoryScope::Group,
        Some(_) => MemoryScope::Query,
    };
    std::iter::successors(Some(payer), |owner| owner.above())
        .map(move |owner| (scope(owner), owner))
}

/// The least limit that a payer has to keep to: a request of more can never be served.
pub(super) fn largest(payer: &Payer, asked: u64) -> Shortfall {
    let limits = chain(payer).filter_map(|(scope, owner)| {
        let limit = owner.limit()?;
        Some(Shortfall {
            scope,
            limit,
            used: owner.used(),
            asked,
        })
    });
    limits.min_by_key(|short| short.limit).unwrap_or(Shortfall {
        scope: MemoryScope::Governor,
        limit: u64::MAX,
        used: 0,
        asked,
    })
}

/// The limit of which the least is left.
pub(super) fn nearest(payer: &Payer, asked: u64) -> Shortfall {
    let limits = chain(payer).filter_map(|(scope, owner)| {
        let (limit, used) = (owner.limit()?, owner.used());
        Some(Shortfall {
            scope,
            limit,
            used,
            asked,
        })
    });
    limits
        .min_by_key(|short| short.limit.saturating_sub(short.used))
        .unwrap_or_else(|| largest(payer, asked))
}
