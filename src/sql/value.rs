//! Texts of values to quantities: numbers, shares, bytes, times, ranges, lists.
//!
//! Pure. Leaf parsers on nom, without recursion, over texts of bounded length. Numbers are exact decimals of ASCII
//! digits, without sign and exponent; blanks may stand around a number and before its unit. Every product is checked:
//! what does not fit is refused, never wrapped and never infinite. What is left of a unit is rounded down.

use crate::unit::{Bytes, Nanos};
use nom::character::complete::{char, digit1, multispace0};
use nom::combinator::{all_consuming, opt, recognize, rest};
use nom::sequence::{delimited, preceded};
use nom::{IResult, Parser};

/// Longer texts than this are no quantities. A finite cost range in full digits stays below.
const LONGEST: usize = 1024;

/// Why a text is not the quantity that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// It does not read as one.
    #[error("it cannot be read")]
    Form,
    /// The number is right, the unit is not.
    #[error("its unit is not one of those allowed")]
    Unit,
    /// More than the quantity can hold.
    #[error("it is too large")]
    TooLarge,
    /// More than 18 digits behind the point.
    #[error("it has too many digits")]
    TooPrecise,
    /// It is not zero, but nothing is left of it once rounded down to a whole unit.
    #[error("it rounds to zero")]
    RoundsToZero,
    /// A range whose ends are equal or the wrong way round.
    #[error("its first end is not below its second")]
    EmptyRange,
}

type Read<T> = Result<T, ValueError>;

/// An exact, non-negative decimal number with at most 18 digits behind the point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Number {
    whole: u64,
    /// In units of 10^-18; below 10^18.
    fraction: u64,
}

impl Number {
    const ONE: u64 = 1_000_000_000_000_000_000;

    /// A whole number.
    pub const fn whole(n: u64) -> Number {
        Number {
            whole: n,
            fraction: 0,
        }
    }

    /// The product with a whole number, rounded down; `None` if it does not fit.
    pub fn times(self, factor: u64) -> Option<u64> {
        // Below 10^18 · 2^64, so it fits.
        let fraction = u128::from(self.fraction) * u128::from(factor) / u128::from(Number::ONE);
        self.whole
            .checked_mul(factor)?
            .checked_add(u64::try_from(fraction).ok()?)
    }

    /// Whether it is zero.
    pub const fn is_zero(self) -> bool {
        self.whole == 0 && self.fraction == 0
    }

    /// The nearest float, to within its precision.
    pub fn as_f64(self) -> f64 {
        self.whole as f64 + self.fraction as f64 / Number::ONE as f64
    }

    /// A hundred times it, if that fits.
    pub fn as_percent(self) -> Option<Number> {
        let hundredths = u128::from(self.fraction) * 100;
        let carry = u64::try_from(hundredths / u128::from(Number::ONE)).ok()?;
        Some(Number {
            whole: self.whole.checked_mul(100)?.checked_add(carry)?,
            fraction: u64::try_from(hundredths % u128::from(Number::ONE)).ok()?,
        })
    }

    /// A hundredth of it, if that can be said exactly.
    fn percent(self) -> Read<Number> {
        if !self.fraction.is_multiple_of(100) {
            return Err(ValueError::TooPrecise);
        }
        Ok(Number {
            whole: self.whole / 100,
            fraction: (self.whole % 100) * (Number::ONE / 100) + self.fraction / 100,
        })
    }

    fn from_digits((whole, fraction): (&str, Option<&str>)) -> Read<Number> {
        let whole = whole.parse().map_err(|_| ValueError::TooLarge)?;
        let digits = fraction.unwrap_or("").trim_end_matches('0');
        let missing = 18_usize
            .checked_sub(digits.len())
            .ok_or(ValueError::TooPrecise)?;
        let fraction = format!("{digits}{}", "0".repeat(missing))
            .parse()
            .map_err(|_| ValueError::TooPrecise)?;
        Ok(Number { whole, fraction })
    }
}

/// Without needless digits: `0.5`, `20`.
impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.fraction == 0 {
            return write!(f, "{}", self.whole);
        }
        let digits = format!("{:018}", self.fraction);
        write!(f, "{}.{}", self.whole, digits.trim_end_matches('0'))
    }
}

/// `digits[.digits]`
fn digits(i: &str) -> IResult<&str, (&str, Option<&str>)> {
    (digit1, opt(preceded(char('.'), digit1))).parse(i)
}

/// A number and what follows it, both without the blanks around them.
fn number_and_unit(text: &str) -> Read<(Number, &str)> {
    let (_, (number, unit)) = bounded(text, |i| {
        (preceded(multispace0, digits), preceded(multispace0, rest)).parse(i)
    })?;
    // `1e5`, `1.5.0` and the like: what follows is no unit but the rest of something else.
    if unit.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return Err(ValueError::Form);
    }
    Ok((Number::from_digits(number)?, unit.trim_end()))
}

fn bounded<'a, T>(
    text: &'a str,
    parser: impl Fn(&'a str) -> IResult<&'a str, T>,
) -> Read<(&'a str, T)> {
    if text.len() > LONGEST {
        return Err(ValueError::Form);
    }
    all_consuming(parser)
        .parse(text)
        .map_err(|_| ValueError::Form)
}

/// A product that may be rounded down, but not to zero.
fn product(number: Number, factor: u64) -> Read<u64> {
    match number.times(factor) {
        None => Err(ValueError::TooLarge),
        Some(0) if !number.is_zero() => Err(ValueError::RoundsToZero),
        Some(n) => Ok(n),
    }
}

/// A decimal number: `2`, `0.5`.
///
/// # Errors
/// It does not read as one, has a unit, or is too large or too precise.
pub fn number(text: &str) -> Read<Number> {
    match number_and_unit(text)? {
        (number, "") => Ok(number),
        _ => Err(ValueError::Form),
    }
}

/// A whole number: `12`.
///
/// # Errors
/// It does not read as one, has a fraction or a unit, or is beyond 64 bits.
pub fn integer(text: &str) -> Read<u64> {
    let (_, n) = bounded(text, |i| {
        delimited(multispace0, digit1, multispace0).parse(i)
    })?;
    n.parse().map_err(|_| ValueError::TooLarge)
}

/// A share of a whole: `20%` or `0.2`, 1 being all of it. It is not checked to be at most 1.
///
/// # Errors
/// As [`number`], or another unit than `%`.
pub fn share(text: &str) -> Read<Number> {
    match number_and_unit(text)? {
        (number, "") => Ok(number),
        (number, "%") => number.percent(),
        _ => Err(ValueError::Unit),
    }
}

/// An amount of memory or data: `512MiB`, `10 GB`, `1073741824`. Without unit it is bytes. `K`, `M`, `G`, `T` and
/// `KiB` .. `TiB` are powers of 1024, `kB` .. `TB` of 1000, in any case.
///
/// # Errors
/// As [`number`], an unknown unit, more than 64 bits, or less than one byte but not zero.
pub fn bytes(text: &str) -> Read<Bytes> {
    let (number, unit) = number_and_unit(text)?;
    Ok(Bytes(product(number, byte_unit(unit)?)?))
}

fn byte_unit(unit: &str) -> Read<u64> {
    Ok(match unit.to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(ValueError::Unit),
    })
}

/// A limit of memory: relative or absolute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// A share of the whole; 1 is all of it.
    Share(Number),
    /// So much.
    Bytes(Bytes),
}

/// `20%`, `0.2`, or bytes with a unit. Without unit it is a share: `512` is 512 times the whole, and that is not for
/// this function to refuse.
///
/// # Errors
/// As [`share`] and [`bytes()`].
pub fn memory(text: &str) -> Read<Memory> {
    let (number, unit) = number_and_unit(text)?;
    match unit {
        "" => Ok(Memory::Share(number)),
        "%" => Ok(Memory::Share(number.percent()?)),
        unit => Ok(Memory::Bytes(Bytes(product(number, byte_unit(unit)?)?))),
    }
}

/// A length of time: one number and one of `ns us ms s m h d`; without unit it is seconds.
///
/// # Errors
/// As [`number`], an unknown unit, more than 584 years, or less than 1 ns but not zero.
pub fn duration(text: &str) -> Read<Nanos> {
    let (number, unit) = number_and_unit(text)?;
    let factor = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "" | "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(ValueError::Unit),
    };
    Ok(Nanos(product(number, factor)?))
}

/// A decimal number of seconds, for keys whose name says the unit.
///
/// # Errors
/// As [`number`], more than 584 years, or less than 1 ns but not zero.
pub fn seconds(text: &str) -> Read<Nanos> {
    Ok(Nanos(product(number(text)?, 1_000_000_000)?))
}

/// A half-open range of signed decimals, `[min, max)`, both finite and `min < max`.
///
/// # Errors
/// It does not read as one, an end is not finite, or it is empty.
pub fn cost_range(text: &str) -> Read<(f64, f64)> {
    fn end(i: &str) -> IResult<&str, &str> {
        let signed = recognize((opt(char('-')), digits));
        delimited(multispace0, signed, multispace0).parse(i)
    }
    fn range(i: &str) -> IResult<&str, (&str, &str)> {
        let open = (multispace0, char('['));
        let close = (char(')'), multispace0);
        delimited(open, (end, preceded(char(','), end)), close).parse(i)
    }
    let finite = |text: &str| match text.parse::<f64>() {
        // Minus zero is zero.
        Ok(x) if x.is_finite() => Ok(x + 0.0),
        _ => Err(ValueError::TooLarge),
    };
    let (_, (min, max)) = bounded(text, range)?;
    let (min, max) = (finite(min)?, finite(max)?);
    if min < max {
        Ok((min, max))
    } else {
        Err(ValueError::EmptyRange)
    }
}

/// A comma list, each part without the blanks around it.
///
/// # Errors
/// A part is empty.
pub fn list(text: &str) -> Read<Vec<&str>> {
    text.split(',')
        .map(|part| match part.trim() {
            "" => Err(ValueError::Form),
            part => Ok(part),
        })
        .collect()
}

/// A word with or without an argument: `kill`, `switch_group(etl)`. The argument is without the blanks around it.
///
/// # Errors
/// It does not read as one.
pub fn call(text: &str) -> Read<(&str, Option<&str>)> {
    fn word(i: &str) -> IResult<&str, &str> {
        nom::bytes::complete::take_while1(|c: char| c.is_ascii_alphanumeric() || c == '_').parse(i)
    }
    fn argument(i: &str) -> IResult<&str, &str> {
        let inner = nom::bytes::complete::take_while1(|c| c != '(' && c != ')');
        delimited(char('('), inner, char(')')).parse(i)
    }
    let (_, (word, argument)) = bounded(text, |i| {
        (
            preceded(multispace0, word),
            delimited(multispace0, opt(argument), multispace0),
        )
            .parse(i)
    })?;
    Ok((word, argument.map(str::trim)))
}
