//! Aggregates: many values to one. NULLs do not count.
//!
//! Pure.

use super::value::compare;
use crate::sql::Value;
use crate::sql::select::Function;
use std::cmp::Ordering;

/// `values`: the column's, or for `count(*)` anything. None if a sum does not fit.
pub(super) fn fold<'a>(
    function: Function,
    values: impl Iterator<Item = &'a Value>,
) -> Option<Value> {
    let values = values.filter(|value| !matches!(value, Value::Null));
    match function {
        Function::Count => Some(Value::Int(values.count() as i64)),
        Function::Min => Some(extreme(values, Ordering::Less)),
        Function::Max => Some(extreme(values, Ordering::Greater)),
        Function::Sum => match total(values) {
            Total::Nothing => Some(Value::Null),
            Total::Whole(sum, _) => i64::try_from(sum).ok().map(Value::Int),
            Total::Parts(sum) => sum.fits().then_some(Value::Float(sum.sum)),
        },
        Function::Avg => match total(values) {
            Total::Nothing => Some(Value::Null),
            Total::Whole(sum, count) => Some(Value::Float(sum as f64 / count as f64)),
            Total::Parts(sum) => sum
                .fits()
                .then_some(Value::Float(sum.sum / sum.count as f64)),
        },
    }
}

enum Total {
    Nothing,
    Whole(i128, u64),
    Parts(Parts),
}

#[derive(Clone, Copy)]
struct Parts {
    sum: f64,
    count: u64,
    /// All that was added is finite.
    finite: bool,
}

impl Parts {
    const NONE: Parts = Parts {
        sum: 0.0,
        count: 0,
        finite: true,
    };

    fn plus(self, x: f64) -> Parts {
        Parts {
            sum: self.sum + x,
            count: self.count + 1,
            finite: self.finite && x.is_finite(),
        }
    }

    /// Infinity is a sum of infinities only.
    fn fits(&self) -> bool {
        self.sum.is_finite() || !self.finite
    }
}

fn total<'a>(values: impl Iterator<Item = &'a Value>) -> Total {
    values.fold(Total::Nothing, |total, value| match (total, value) {
        (Total::Nothing, Value::Int(n)) => Total::Whole(i128::from(*n), 1),
        (Total::Whole(sum, count), Value::Int(n)) => {
            Total::Whole(sum.saturating_add(i128::from(*n)), count + 1)
        }
        (Total::Nothing, Value::Float(x)) => Total::Parts(Parts::NONE.plus(*x)),
        (Total::Parts(parts), Value::Float(x)) => Total::Parts(parts.plus(*x)),
        (total, _) => total,
    })
}

fn extreme<'a>(values: impl Iterator<Item = &'a Value>, wanted: Ordering) -> Value {
    let better = |best: &'a Value, value: &'a Value| {
        if compare(value, best) == wanted {
            value
        } else {
            best
        }
    };
    values.reduce(better).cloned().unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(function: Function, values: &[Value]) -> Option<Value> {
        fold(function, values.iter())
    }

    #[test]
    fn nulls_do_not_count_and_nothing_is_null() {
        let values = [Value::Null, Value::Int(3), Value::Int(5)];
        assert_eq!(of(Function::Count, &values), Some(Value::Int(2)));
        assert_eq!(of(Function::Sum, &values), Some(Value::Int(8)));
        assert_eq!(of(Function::Avg, &values), Some(Value::Float(4.0)));
        assert_eq!(of(Function::Min, &values), Some(Value::Int(3)));
        assert_eq!(of(Function::Max, &values), Some(Value::Int(5)));
        for function in [Function::Sum, Function::Avg, Function::Min, Function::Max] {
            assert_eq!(of(function, &[Value::Null]), Some(Value::Null));
        }
        assert_eq!(of(Function::Count, &[]), Some(Value::Int(0)));
    }

    #[test]
    fn a_sum_beyond_64_bits_is_none_and_its_average_is_not() {
        let values = [Value::Int(i64::MAX), Value::Int(i64::MAX)];
        assert_eq!(of(Function::Sum, &values), None);
        assert_eq!(
            of(Function::Avg, &values),
            Some(Value::Float(i64::MAX as f64))
        );
        let values = [Value::Float(f64::MAX), Value::Float(f64::MAX)];
        assert_eq!(of(Function::Sum, &values), None);
        let values = [Value::Float(f64::INFINITY), Value::Float(1.0)];
        assert_eq!(
            of(Function::Sum, &values),
            Some(Value::Float(f64::INFINITY))
        );
    }
}
