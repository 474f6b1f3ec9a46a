//! A statement's classifier to a [`ClassifierSpec`]: keys resolved, values read, everything normalised.
//!
//! Pure. Two classifiers that ask the same become equal, however they were written.

use super::classifier::{ClassifierSpec, CostRange, QueryType};
use crate::sql::ast::{CLASSIFIER_KEYS, Classifier, Condition, Test};
use crate::sql::suggest::closest;
use crate::sql::{Spanned, SqlError, SqlErrorKind, value};
use crate::unit::ClassifierId;
use ipnet::{IpNet, Ipv4Net};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Reads all conditions of a classifier.
///
/// # Errors
/// An unknown key, a key given twice, IN on a key that takes one value, a value that does not read as what its key
/// asks for, or no condition at all.
pub fn read(id: ClassifierId, written: &Classifier) -> Result<ClassifierSpec, SqlError> {
    if written.conditions.is_empty() {
        let hint = format!("at least one of {} is needed", CLASSIFIER_KEYS.join(", "));
        return Err(SqlError::new(SqlErrorKind::EmptyClassifier, written.span).with_hint(hint));
    }
    let mut spec = ClassifierSpec::empty(id);
    for (i, condition) in written.conditions.iter().enumerate() {
        known(&condition.key)?;
        if written
            .conditions
            .iter()
            .take(i)
            .any(|c| c.key == condition.key)
        {
            let key = condition.key.value.clone();
            return Err(
                SqlError::new(SqlErrorKind::Duplicate { key }, condition.key.span).with_hint(
                    "one classifier is an AND; for an OR write two: (user='a'), (user='b')",
                ),
            );
        }
        set(&mut spec, condition)?;
    }
    Ok(spec)
}

fn known(key: &Spanned<String>) -> Result<(), SqlError> {
    if CLASSIFIER_KEYS.contains(&key.as_str()) {
        return Ok(());
    }
    let kind = SqlErrorKind::UnknownClassifierKey {
        key: key.value.clone(),
    };
    Err(SqlError::new(kind, key.span)
        .with_suggestion(closest(key, CLASSIFIER_KEYS))
        .with_hint(format!("keys are {}", CLASSIFIER_KEYS.join(", "))))
}

fn set(spec: &mut ClassifierSpec, condition: &Condition) -> Result<(), SqlError> {
    let key = condition.key.as_str();
    let text = match &condition.test {
        Test::In(texts) if key == "query_type" => {
            spec.query_types = texts.iter().map(query_type).collect::<Result<_, _>>()?;
            return Ok(());
        }
        Test::In(_) => {
            let kind = SqlErrorKind::NotAList {
                key: key.to_owned(),
            };
            return Err(SqlError::new(kind, condition.key.span).with_hint(format!(
                "write {key} = 'text', and one more classifier for each further value"
            )));
        }
        Test::Equals(text) => text,
    };
    match key {
        "user" => spec.user = Some(named(key, text)?),
        "role" => spec.role = Some(named(key, text)?),
        "query_type" => spec.query_types = BTreeSet::from([query_type(text)?]),
        "db" => spec.dbs = databases(text)?,
        "source_ip" => spec.source_ip = Some(network(text)?),
        "plan_cpu_cost_range" => spec.plan_cpu_cost_range = Some(costs(key, text)?),
        _ => spec.plan_mem_cost_range = Some(costs(key, text)?),
    }
    Ok(())
}

fn misfit(key: &str, text: &Spanned<String>, why: impl Into<String>, hint: &str) -> SqlError {
    let kind = SqlErrorKind::BadValue {
        key: key.to_owned(),
        value: text.value.clone(),
        why: why.into(),
    };
    SqlError::new(kind, text.span).with_hint(hint)
}

/// A user or a role: any text but the empty one, which would ask for a request without a name.
fn named(key: &str, text: &Spanned<String>) -> Result<String, SqlError> {
    if text.is_empty() {
        return Err(misfit(
            key,
            text,
            "it is empty",
            "leave the condition out to match everybody",
        ));
    }
    Ok(text.value.clone())
}

fn query_type(text: &Spanned<String>) -> Result<QueryType, SqlError> {
    QueryType::from_name(text.trim()).ok_or_else(|| {
        let names = QueryType::ALL.map(QueryType::name);
        let hint = format!("query types are {}", names.join(", "));
        misfit("query_type", text, "there is no such type", &hint)
            .with_suggestion(closest(text, names))
    })
}

fn databases(text: &Spanned<String>) -> Result<BTreeSet<String>, SqlError> {
    match value::list(text) {
        Ok(names) => Ok(names.into_iter().map(str::to_owned).collect()),
        Err(_) => Err(misfit(
            "db",
            text,
            "a name in the list is empty",
            "a comma list of databases, as in db = 'sales, stock'",
        )),
    }
}

fn costs(key: &str, text: &Spanned<String>) -> Result<CostRange, SqlError> {
    match value::cost_range(text) {
        Ok((min, max)) => Ok(CostRange { min, max }),
        Err(why) => Err(misfit(
            key,
            text,
            why.to_string(),
            "a range is [min, max) with finite decimals and min < max, as in '[10, 1000.5)'",
        )),
    }
}

/// An address or a network. Bits behind the prefix are cut off; an IPv4 network in IPv6 form becomes IPv4.
fn network(text: &Spanned<String>) -> Result<IpNet, SqlError> {
    let bad = |why: &str| {
        let hint =
            "an address or a network of IPv4 or IPv6, as in '10.1.0.0/16' or '2001:db8::/32'";
        misfit("source_ip", text, why, hint)
    };
    let (address, prefix) = match text.trim().split_once('/') {
        None => (text.trim(), None),
        Some((address, prefix)) => (address, Some(prefix)),
    };
    let address: IpAddr = address.parse().map_err(|_| bad("it is no address"))?;
    let longest = if address.is_ipv4() { 32 } else { 128 };
    let prefix = match prefix {
        None => longest,
        Some(digits) if digits.bytes().all(|b| b.is_ascii_digit()) => {
            digits.parse().map_err(|_| bad("its prefix is no length"))?
        }
        Some(_) => return Err(bad("its prefix is no length")),
    };
    let net = IpNet::new(address, prefix).map_err(|_| bad("its prefix is too long"))?;
    Ok(unmapped(net.trunc()))
}

/// The mapped addresses are those below `::ffff:0:0/96`.
fn unmapped(net: IpNet) -> IpNet {
    if let IpNet::V6(v6) = net
        && v6.prefix_len() >= 96
        && let Some(v4) = mapped(v6.network())
        && let Ok(v4) = Ipv4Net::new(v4, v6.prefix_len() - 96)
    {
        return IpNet::V4(v4);
    }
    net
}

fn mapped(address: Ipv6Addr) -> Option<Ipv4Addr> {
    address.to_ipv4_mapped()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(key: &str, text: &str) -> Result<ClassifierSpec, SqlError> {
        let classifier = Classifier {
            conditions: vec![Condition {
                key: key.to_owned().into(),
                test: Test::Equals(text.to_owned().into()),
            }],
            span: Default::default(),
        };
        read(ClassifierId(1), &classifier)
    }

    #[test]
    fn addresses_become_masked_networks() {
        for (text, expected) in [
            ("192.168.2.1/24", "192.168.2.0/24"),
            ("10.1.2.3", "10.1.2.3/32"),
            (" 0.0.0.0/0 ", "0.0.0.0/0"),
            ("2001:db8::1/32", "2001:db8::/32"),
            ("::1", "::1/128"),
            ("::ffff:10.1.2.3", "10.1.2.3/32"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3/95", "::fffe:0:0/95"),
        ] {
            let net = one("source_ip", text).unwrap().source_ip.unwrap();
            assert_eq!(net.to_string(), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "",
            "10.1",
            "10.1.2.3/",
            "10.1.2.3/33",
            "10.1.2.3/-1",
            "10.1.2.3/+8",
            "10.1.2.3/ 8",
            "10.1.2.3/999",
            "010.1.2.3",
            "10.1.2.3/255.0.0.0",
            "::1/129",
            "fe80::1%eth0",
            "localhost",
            "１０.1.2.3",
        ] {
            let error = one("source_ip", text).unwrap_err();
            assert_eq!(error.kind.code(), "bad_value", "{text}");
        }
    }

    #[test]
    fn lists_are_sorted_and_distinct() {
        let spec = one("db", " b, a ,b").unwrap();
        assert_eq!(spec.dbs.iter().collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(
            one("db", "a, b").unwrap().identity(),
            one("db", "b,a").unwrap().identity()
        );
        assert_eq!(
            one("plan_cpu_cost_range", "[-0,1.50)").unwrap().identity(),
            one("plan_cpu_cost_range", "[0.0, 1.5)").unwrap().identity()
        );
    }

    #[test]
    fn every_known_key_can_be_set_and_comes_back_as_text() {
        for (key, text) in CLASSIFIER_KEYS.into_iter().zip([
            "u",
            "r",
            "select",
            "a, b",
            "10.0.0.0/8",
            "[1.0, 2.5)",
            "[0.0, 1000000.0)",
        ]) {
            let spec = one(key, text).unwrap();
            let back = read(ClassifierId(1), &spec.to_ast()).unwrap();
            assert_eq!(back, spec, "{key}");
            assert!(spec.identity().starts_with(&format!("({key}")), "{key}");
        }
    }
}
