//! The clients' own knowledge of the data: every answer, computed row by row when the clients start.
//!
//! Nothing here touches the columns or the queries. Look-ups are answered from an index by customer, aggregations
//! from running totals by day, compactions from running totals by block.

use crate::query::{Answer, Query};
use crate::table::{
    BLOCK, BLOCKS, CUSTOMERS, DAYS, PRODUCTS, REGIONS, ROWS, ROWS_PER_DAY, mix, row,
};

/// Totals of (rows, cents).
type Total = (u64, u64);

/// What the clients expect.
pub(crate) struct Ledger {
    /// Where a customer's orders begin in `orders`; one more entry than customers.
    begin: Vec<u32>,
    /// (row, cents), by customer, then by row.
    orders: Vec<(u32, u32)>,
    /// Totals of all days before a day, by day, region, product.
    before_day: Vec<Total>,
    /// Answers for all blocks before a block.
    before_block: Vec<Answer>,
}

impl Ledger {
    /// Walks the rows three times.
    pub(crate) fn compute() -> Self {
        let (begin, orders) = by_customer();
        Ledger {
            begin,
            orders,
            before_day: by_day(),
            before_block: by_block(),
        }
    }

    /// The answer that `query` must have. `query` must lie within the table.
    pub(crate) fn expect(&self, query: Query) -> Answer {
        match query {
            Query::Lookup {
                customer,
                from,
                days,
            } => self.lookup(customer, from, days),
            Query::Aggregate { region, from, days } => self.aggregate(region, from, days),
            Query::Compact { from, blocks } => {
                let (last, first) = (
                    self.before_block[(from + blocks) as usize],
                    self.before_block[from as usize],
                );
                Answer {
                    rows: last.rows - first.rows,
                    sum: last.sum - first.sum,
                    check: last.check.wrapping_sub(first.check),
                }
            }
        }
    }

    fn lookup(&self, customer: u32, from: u32, days: u32) -> Answer {
        let (begin, end) = (
            self.begin[customer as usize],
            self.begin[customer as usize + 1],
        );
        let wanted = from * ROWS_PER_DAY..(from + days) * ROWS_PER_DAY;
        let mut answer = Answer::default();
        for (row, amount) in &self.orders[begin as usize..end as usize] {
            if wanted.contains(row) {
                answer.rows += 1;
                answer.sum += u64::from(*amount);
                answer.check = answer.check.wrapping_add(mix(u64::from(*row)));
            }
        }
        answer
    }

    fn aggregate(&self, region: u32, from: u32, days: u32) -> Answer {
        let mut answer = Answer::default();
        for product in 0..PRODUCTS {
            let last = self.before_day[cell(from + days, region, product)];
            let first = self.before_day[cell(from, region, product)];
            let (rows, sum) = (last.0 - first.0, last.1 - first.1);
            answer.rows += rows;
            answer.sum += sum;
            answer.check = answer
                .check
                .wrapping_add(mix(u64::from(product) ^ mix(rows ^ mix(sum))));
        }
        answer
    }
}

fn cell(day: u32, region: u32, product: u32) -> usize {
    ((day * REGIONS + region) * PRODUCTS + product) as usize
}

fn by_customer() -> (Vec<u32>, Vec<(u32, u32)>) {
    let mut begin = vec![0u32; CUSTOMERS as usize + 1];
    for index in 0..ROWS {
        begin[row(index).customer as usize + 1] += 1;
    }
    for customer in 1..begin.len() {
        begin[customer] += begin[customer - 1];
    }
    let mut next = begin.clone();
    let mut orders = vec![(0, 0); ROWS as usize];
    for index in 0..ROWS {
        let order = row(index);
        let place = &mut next[order.customer as usize];
        orders[*place as usize] = (index, order.amount);
        *place += 1;
    }
    (begin, orders)
}

fn by_day() -> Vec<Total> {
    let mut before = vec![(0, 0); ((DAYS + 1) * REGIONS * PRODUCTS) as usize];
    let cells = (REGIONS * PRODUCTS) as usize;
    for day in 0..DAYS {
        let (today, tomorrow) = (cell(day, 0, 0), cell(day + 1, 0, 0));
        before.copy_within(today..today + cells, tomorrow);
        for index in day * ROWS_PER_DAY..(day + 1) * ROWS_PER_DAY {
            let order = row(index);
            let total = &mut before[cell(day + 1, order.region, order.product)];
            total.0 += 1;
            total.1 += u64::from(order.amount);
        }
    }
    before
}

fn by_block() -> Vec<Answer> {
    let mut before = vec![Answer::default()];
    let mut total = Answer::default();
    for block in 0..BLOCKS {
        let mut orders: Vec<_> = (block * BLOCK..(block + 1) * BLOCK)
            .map(|index| (row(index).customer, index))
            .collect();
        // By customer and then by row is what a stable sort by customer gives.
        orders.sort_unstable();
        for (place, (customer, index)) in (0u64..).zip(orders) {
            let amount = u64::from(row(index).amount);
            total.rows += 1;
            total.sum += amount;
            total.check = total
                .check
                .wrapping_add(mix((u64::from(customer) << 32 | amount) ^ mix(place)));
        }
        before.push(total);
    }
    before
}
