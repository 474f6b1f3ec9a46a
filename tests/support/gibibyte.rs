//! A governor of 1 GiB for the tests of memory. Any thread.

use quotient::metrics::memory::GroupMemory;
use quotient::{Attributes, Governor, Query};

/// With the groups `bi` and `etl`, each for the user of its name.
pub(crate) fn governor(bi: &str, etl: &str) -> Governor {
    let group =
        |name, with| format!("CREATE RESOURCE GROUP {name} TO (user='{name}') WITH ({with});");
    Governor::builder()
        .memory_limit(1 << 30)
        .init_sql(&(group("bi", bi) + &group("etl", etl)))
        .build()
        .unwrap()
}

pub(crate) async fn query(governor: &Governor, user: &str) -> Query {
    governor.admit(&Attributes::new().user(user)).await.unwrap()
}

pub(crate) fn memory_of(governor: &Governor, group: &str) -> GroupMemory {
    governor.metrics().by_name()[group].memory
}
