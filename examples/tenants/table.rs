//! The data: two years of orders, some million rows, in bit-packed columns.
//!
//! [`row`] is the definition of the data. The service packs it into columns and answers from those; the clients
//! walk it row by row (see `ledger`) and so know every answer without sharing a line of the query code.

/// Days in the table; rows are in the order of their day.
pub(crate) const DAYS: u32 = 730;
/// Every day has as many orders as any other, so that equal ranges are equal work.
pub(crate) const ROWS_PER_DAY: u32 = 11_500;
/// Rows in the table (8 395 000).
pub(crate) const ROWS: u32 = DAYS * ROWS_PER_DAY;
/// Distinct customers.
pub(crate) const CUSTOMERS: u32 = 100_000;
/// Distinct regions.
pub(crate) const REGIONS: u32 = 8;
/// Distinct products.
pub(crate) const PRODUCTS: u32 = 64;
/// Rows that a compaction rewrites as one unit.
pub(crate) const BLOCK: u32 = 2048;
/// Whole blocks in the table.
pub(crate) const BLOCKS: u32 = ROWS / BLOCK;

/// One order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) customer: u32,
    pub(crate) region: u32,
    pub(crate) product: u32,
    /// In cents.
    pub(crate) amount: u32,
}

/// The order at `index`: the same on every machine and in every process.
pub(crate) fn row(index: u32) -> Row {
    let h = mix(u64::from(index) ^ 0x5eed_0f0e_de25_0001);
    let pick = |shift: u32, below: u32| (((h >> shift) & 0xffff_ffff) % u64::from(below)) as u32;
    Row {
        customer: pick(0, CUSTOMERS),
        region: pick(20, REGIONS),
        product: pick(25, PRODUCTS),
        amount: 1 + pick(32, 100_000),
    }
}

/// SplitMix64's finaliser: a bijection that spreads every bit.
pub(crate) fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Unsigned numbers of a fixed width, packed without gaps.
pub(crate) struct Column {
    bits: u32,
    len: u32,
    words: Vec<u64>,
}

impl Column {
    /// An empty column for numbers below `below`.
    pub(crate) fn below(below: u32) -> Self {
        Column {
            bits: below.saturating_sub(1).max(1).ilog2() + 1,
            len: 0,
            words: vec![0],
        }
    }

    pub(crate) fn push(&mut self, value: u32) {
        let at = u64::from(self.len) * u64::from(self.bits);
        let (word, shift) = ((at / 64) as usize, (at % 64) as u32);
        // One word of slack at the end, so that `decode` can always look at two.
        self.words.resize(word + 2, 0);
        let wide = u128::from(value) << shift;
        self.words[word] |= wide as u64;
        self.words[word + 1] |= (wide >> 64) as u64;
        self.len += 1;
    }

    /// Unpacks the numbers from row `from` on into `out`.
    pub(crate) fn decode(&self, from: u32, out: &mut [u32]) {
        debug_assert!(from as usize + out.len() <= self.len as usize);
        let mask = (1u64 << self.bits) - 1;
        let mut at = u64::from(from) * u64::from(self.bits);
        for value in out {
            let (word, shift) = ((at / 64) as usize, at % 64);
            let low = self.words[word] >> shift;
            let high = (self.words[word + 1] << 1) << (63 - shift);
            *value = ((low | high) & mask) as u32;
            at += u64::from(self.bits);
        }
    }

    /// Bytes that the packed numbers take.
    pub(crate) fn bytes(&self) -> usize {
        self.words.len() * 8
    }
}

/// Rows by column. A day needs no column: it follows from the row's place.
pub(crate) struct Table {
    pub(crate) customer: Column,
    pub(crate) region: Column,
    pub(crate) product: Column,
    pub(crate) amount: Column,
}

impl Table {
    /// A table without rows.
    pub(crate) fn empty() -> Self {
        Table {
            customer: Column::below(CUSTOMERS),
            region: Column::below(REGIONS),
            product: Column::below(PRODUCTS),
            amount: Column::below(100_001),
        }
    }

    /// Both years.
    pub(crate) fn generate() -> Self {
        let mut table = Table::empty();
        (0..ROWS).for_each(|index| table.push(row(index)));
        table
    }

    pub(crate) fn push(&mut self, row: Row) {
        self.customer.push(row.customer);
        self.region.push(row.region);
        self.product.push(row.product);
        self.amount.push(row.amount);
    }

    pub(crate) fn bytes(&self) -> usize {
        [&self.customer, &self.region, &self.product, &self.amount]
            .iter()
            .map(|column| column.bytes())
            .sum()
    }
}
