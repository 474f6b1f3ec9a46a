//! The three queries, each as a future that computes about 150 µs at a time and yields in between.
//!
//! - `Lookup`: one customer's orders within some days (small: a scan of one column, few hits).
//! - `Aggregate`: turnover by product of one region within some days (large: three columns, a group-by).
//! - `Compact`: rewrites blocks sorted by customer and reads them back (background work).

use crate::host::Pace;
use crate::table::{
    BLOCK, BLOCKS, CUSTOMERS, DAYS, PRODUCTS, REGIONS, ROWS_PER_DAY, Row, Table, mix,
};
use std::sync::Arc;

/// Rows that are unpacked at once; the buffers live on the stack and stay in the first-level cache.
const TILE: u32 = 1024;
/// Rows of a look-up between two yields: about 150 µs.
const LOOKUP_STEP: u32 = 96 * TILE;
/// Rows of an aggregation between two yields: about 150 µs.
const AGGREGATE_STEP: u32 = 32 * TILE;

/// What a client asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Query {
    Lookup { customer: u32, from: u32, days: u32 },
    Aggregate { region: u32, from: u32, days: u32 },
    Compact { from: u32, blocks: u32 },
}

/// What it gets: rows found, their turnover in cents, and a number that depends on every one of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) rows: u64,
    pub(crate) sum: u64,
    pub(crate) check: u64,
}

impl Query {
    /// The query as the last part of a request's path.
    pub(crate) fn to_path(self) -> String {
        match self {
            Query::Lookup {
                customer,
                from,
                days,
            } => format!("lookup/{customer}/{from}/{days}"),
            Query::Aggregate { region, from, days } => format!("aggregate/{region}/{from}/{days}"),
            Query::Compact { from, blocks } => format!("compact/0/{from}/{blocks}"),
        }
    }

    /// The query that a path names; `None` when there is none or when it leaves the table.
    pub(crate) fn from_path(kind: &str, key: u32, from: u32, length: u32) -> Option<Query> {
        let (query, keys, end) = match kind {
            "lookup" => (
                Query::Lookup {
                    customer: key,
                    from,
                    days: length,
                },
                CUSTOMERS,
                DAYS,
            ),
            "aggregate" => (
                Query::Aggregate {
                    region: key,
                    from,
                    days: length,
                },
                REGIONS,
                DAYS,
            ),
            "compact" => (
                Query::Compact {
                    from,
                    blocks: length,
                },
                1,
                BLOCKS,
            ),
            _ => return None,
        };
        let fits = key < keys && from.checked_add(length).is_some_and(|last| last <= end);
        fits.then_some(query)
    }

    /// Runs the query at `pace`.
    pub(crate) async fn run(self, table: Arc<Table>, pace: Pace) -> Answer {
        match self {
            Query::Lookup {
                customer,
                from,
                days,
            } => lookup(&table, customer, rows(from, days), &pace).await,
            Query::Aggregate { region, from, days } => {
                aggregate(&table, region, rows(from, days), &pace).await
            }
            Query::Compact { from, blocks } => compact(&table, from, blocks, &pace).await,
        }
    }
}

fn rows(from: u32, days: u32) -> (u32, u32) {
    (from * ROWS_PER_DAY, (from + days) * ROWS_PER_DAY)
}

/// The tiles of `first..end`, as (first row, rows).
fn tiles(first: u32, end: u32) -> impl Iterator<Item = (u32, usize)> {
    (first..end)
        .step_by(TILE as usize)
        .map(move |at| (at, TILE.min(end - at) as usize))
}

async fn lookup(table: &Table, customer: u32, (first, end): (u32, u32), pace: &Pace) -> Answer {
    let mut answer = Answer::default();
    let mut at = first;
    while at < end {
        let next = end.min(at + LOOKUP_STEP);
        pace.step(|| {
            let (mut customers, mut amount) = ([0; TILE as usize], [0]);
            for (row, len) in tiles(at, next) {
                let customers = &mut customers[..len];
                table.customer.decode(row, customers);
                for (row, _) in (row..)
                    .zip(customers.iter())
                    .filter(|(_, found)| **found == customer)
                {
                    table.amount.decode(row, &mut amount);
                    answer.rows += 1;
                    answer.sum += u64::from(amount[0]);
                    answer.check = answer.check.wrapping_add(mix(u64::from(row)));
                }
            }
        })
        .await;
        at = next;
    }
    answer
}

async fn aggregate(table: &Table, region: u32, (first, end): (u32, u32), pace: &Pace) -> Answer {
    let mut groups = [(0u64, 0u64); PRODUCTS as usize];
    let mut at = first;
    while at < end {
        let next = end.min(at + AGGREGATE_STEP);
        pace.step(|| {
            let mut buffers = [[0; TILE as usize]; 3];
            for (row, len) in tiles(at, next) {
                let [regions, products, amounts] =
                    buffers.each_mut().map(|buffer| &mut buffer[..len]);
                table.region.decode(row, regions);
                table.product.decode(row, products);
                table.amount.decode(row, amounts);
                for ((&mut found, &mut product), &mut amount) in
                    regions.iter_mut().zip(products).zip(amounts)
                {
                    // Without a branch: a misprediction per hit would cost more than the addition.
                    let hit = u64::from(found == region);
                    let group = &mut groups[(product % PRODUCTS) as usize];
                    group.0 += hit;
                    group.1 += hit * u64::from(amount);
                }
            }
        })
        .await;
        at = next;
    }
    let mut answer = Answer::default();
    for (product, (rows, sum)) in (0u64..).zip(groups) {
        answer.rows += rows;
        answer.sum += sum;
        answer.check = answer
            .check
            .wrapping_add(mix(product ^ mix(rows ^ mix(sum))));
    }
    answer
}

async fn compact(table: &Table, from: u32, blocks: u32, pace: &Pace) -> Answer {
    let mut answer = Answer::default();
    for block in from..from + blocks {
        pace.step(|| {
            let mut rows = Vec::with_capacity(BLOCK as usize);
            read(table, block * BLOCK, BLOCK, &mut rows);
            rows.sort_by_key(|row| row.customer);
            let mut rewritten = Table::empty();
            rows.drain(..).for_each(|row| rewritten.push(row));
            read(&rewritten, 0, BLOCK, &mut rows);
            for (place, row) in (0u64..).zip(&rows) {
                answer.rows += 1;
                answer.sum += u64::from(row.amount);
                let value = u64::from(row.customer) << 32 | u64::from(row.amount);
                answer.check = answer.check.wrapping_add(mix(value ^ mix(place)));
            }
        })
        .await;
    }
    answer
}

/// Appends `len` rows of `table` from `first` on to `out`.
fn read(table: &Table, first: u32, len: u32, out: &mut Vec<Row>) {
    let mut buffers = [[0; TILE as usize]; 4];
    for (at, len) in tiles(first, first + len) {
        let [customers, regions, products, amounts] =
            buffers.each_mut().map(|buffer| &mut buffer[..len]);
        table.customer.decode(at, customers);
        table.region.decode(at, regions);
        table.product.decode(at, products);
        table.amount.decode(at, amounts);
        let columns = customers
            .iter()
            .zip(regions.iter())
            .zip(products.iter())
            .zip(amounts.iter());
        out.extend(
            columns.map(|(((&customer, &region), &product), &amount)| Row {
                customer,
                region,
                product,
                amount,
            }),
        );
    }
}
