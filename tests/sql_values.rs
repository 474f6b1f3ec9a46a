//! Texts of values, accepted and refused: one table per kind of quantity.

#![allow(clippy::unwrap_used)]

use quotient::sql::value::ValueError::*;
use quotient::sql::value::*;
use quotient::unit::{Bytes, Nanos};

fn n(text: &str) -> Number {
    number(text).unwrap()
}

#[test]
fn numbers_accepted_and_refused() {
    for (text, expected) in [
        ("0", Ok("0")),
        (" 12 ", Ok("12")),
        ("\t1.50\n", Ok("1.5")),
        ("007", Ok("7")),
        ("18446744073709551615", Ok("18446744073709551615")),
        ("0.000000000000000001", Ok("0.000000000000000001")),
        ("1.0000000000000000000000", Ok("1")),
        ("18446744073709551616", Err(TooLarge)),
        ("0.0000000000000000001", Err(TooPrecise)),
        ("", Err(Form)),
        (" ", Err(Form)),
        ("-1", Err(Form)),
        ("+1", Err(Form)),
        ("1e5", Err(Form)),
        (".5", Err(Form)),
        ("5.", Err(Form)),
        ("1.5.0", Err(Form)),
        ("1 000", Err(Form)),
        ("1_000", Err(Form)),
        ("1,5", Err(Form)),
        ("0x10", Err(Form)),
        ("NaN", Err(Form)),
        ("inf", Err(Form)),
        ("infinity", Err(Form)),
        ("٣", Err(Form)),
        ("１", Err(Form)),
    ] {
        let read = number(text).map(|n| n.to_string());
        assert_eq!(read, expected.map(str::to_owned), "{text:?}");
    }
    assert_eq!(number(&"9".repeat(5_000)), Err(Form));
    assert_eq!(number(&"9".repeat(500)), Err(TooLarge));
}

#[test]
fn integers_accepted_and_refused() {
    for (text, expected) in [
        ("0", Ok(0)),
        (" 7 ", Ok(7)),
        ("18446744073709551615", Ok(u64::MAX)),
        ("18446744073709551616", Err(TooLarge)),
        ("1.0", Err(Form)),
        ("-1", Err(Form)),
        ("7 s", Err(Form)),
        ("", Err(Form)),
    ] {
        assert_eq!(integer(text), expected, "{text:?}");
    }
}

#[test]
fn shares_accepted_and_refused() {
    for (text, expected) in [
        ("20%", Ok(n("0.2"))),
        (" 20 % ", Ok(n("0.2"))),
        ("0.2", Ok(n("0.2"))),
        ("1", Ok(n("1"))),
        ("100%", Ok(n("1"))),
        ("101%", Ok(n("1.01"))),
        ("0.0000000000001%", Ok(n("0.000000000000001"))),
        ("12.5%", Ok(n("0.125"))),
        ("0.00000000000000001%", Err(TooPrecise)),
        ("20%%", Err(Unit)),
        ("20 pct", Err(Unit)),
        ("%", Err(Form)),
        ("-20%", Err(Form)),
        ("NaN", Err(Form)),
        ("NaN%", Err(Form)),
    ] {
        assert_eq!(share(text), expected, "{text:?}");
    }
}

#[test]
fn bytes_accepted_and_refused() {
    for (text, expected) in [
        ("0", Ok(0)),
        ("1073741824", Ok(1 << 30)),
        ("7B", Ok(7)),
        ("1kB", Ok(1_000)),
        ("1KB", Ok(1_000)),
        ("1 mb", Ok(1_000_000)),
        ("10GB", Ok(10_000_000_000)),
        ("2Tb", Ok(2_000_000_000_000)),
        ("1k", Ok(1 << 10)),
        ("1KiB", Ok(1 << 10)),
        ("512MiB", Ok(512 << 20)),
        ("1.5 gib", Ok(3 << 29)),
        ("3G", Ok(3 << 30)),
        ("1T", Ok(1 << 40)),
        ("0.9999KiB", Ok(1_023)),
        ("16777215TiB", Ok(16_777_215 << 40)),
        ("16777216TiB", Err(TooLarge)),
        ("99999999999999999999", Err(TooLarge)),
        ("0.5", Err(RoundsToZero)),
        ("0.5B", Err(RoundsToZero)),
        ("0.0", Ok(0)),
        ("1PB", Err(Unit)),
        ("1 M B", Err(Unit)),
        ("MB", Err(Form)),
        ("-1MB", Err(Form)),
        ("1e3MB", Err(Unit)),
    ] {
        assert_eq!(bytes(text), expected.map(Bytes), "{text:?}");
    }
}

#[test]
fn memory_without_a_unit_is_a_share() {
    for (text, expected) in [
        ("20%", Ok(Memory::Share(n("0.2")))),
        ("0.2", Ok(Memory::Share(n("0.2")))),
        ("512", Ok(Memory::Share(n("512")))),
        ("512MiB", Ok(Memory::Bytes(Bytes(512 << 20)))),
        ("512 b", Ok(Memory::Bytes(Bytes(512)))),
        ("512 %b", Err(Unit)),
        ("", Err(Form)),
    ] {
        assert_eq!(memory(text), expected, "{text:?}");
    }
}

#[test]
fn durations_accepted_and_refused() {
    for (text, expected) in [
        ("300s", Ok(300_000_000_000)),
        ("300", Ok(300_000_000_000)),
        ("2m", Ok(120_000_000_000)),
        ("250ms", Ok(250_000_000)),
        ("1.5 h", Ok(5_400_000_000_000)),
        ("1d", Ok(86_400_000_000_000)),
        ("7us", Ok(7_000)),
        ("7ns", Ok(7)),
        ("0", Ok(0)),
        ("0.5ns", Err(RoundsToZero)),
        ("213504d", Err(TooLarge)),
        ("2m30s", Err(Unit)),
        ("2 min", Err(Unit)),
        ("2M", Err(Unit)),
        ("-2m", Err(Form)),
        ("s", Err(Form)),
    ] {
        assert_eq!(duration(text), expected.map(Nanos), "{text:?}");
    }
}

#[test]
fn seconds_take_no_unit() {
    assert_eq!(seconds("0.25"), Ok(Nanos::from_millis(250)));
    assert_eq!(seconds("0"), Ok(Nanos::ZERO));
    assert_eq!(seconds("5s"), Err(Form));
    assert_eq!(seconds("18446744073"), Ok(Nanos::from_secs(18_446_744_073)));
    assert_eq!(seconds("18446744074"), Err(TooLarge));
    assert_eq!(seconds("0.0000000001"), Err(RoundsToZero));
}

#[test]
fn cost_ranges_accepted_and_refused() {
    for (text, expected) in [
        ("[1.1,10.2)", Ok((1.1, 10.2))),
        ("[-1,10)", Ok((-1.0, 10.0))),
        ("[0, 10)", Ok((0.0, 10.0))),
        (" [ 0,  10) ", Ok((0.0, 10.0))),
        ("[-10,-1.5)", Ok((-10.0, -1.5))),
        ("[1, 10]", Err(Form)),
        ("(1, 10)", Err(Form)),
        ("[1,1 0)", Err(Form)),
        ("[1,1.1.0)", Err(Form)),
        ("[-1-2, 1.0)", Err(Form)),
        ("[- 1, 1.0)", Err(Form)),
        ("[+1, 2)", Err(Form)),
        ("[1e1, 20)", Err(Form)),
        ("[abc, 1000)", Err(Form)),
        ("[1000,infinity)", Err(Form)),
        ("[1000,Infinity)", Err(Form)),
        ("[1000,NaN)", Err(Form)),
        ("a [1, 10)", Err(Form)),
        ("[2, 100) b", Err(Form)),
        ("[1)", Err(Form)),
        ("[1,2,3)", Err(Form)),
        ("", Err(Form)),
        ("[1000,10)", Err(EmptyRange)),
        ("[1000,-1)", Err(EmptyRange)),
        ("[1,1)", Err(EmptyRange)),
        ("[-0,0)", Err(EmptyRange)),
    ] {
        assert_eq!(cost_range(text), expected, "{text:?}");
    }
    let huge = format!("[0,1{})", "0".repeat(400));
    assert_eq!(cost_range(&huge), Err(TooLarge));
    let full = format!("[{},{})", -f64::MAX, f64::MAX);
    assert_eq!(cost_range(&full), Ok((-f64::MAX, f64::MAX)));
    assert!(cost_range("[-0,1)").unwrap().0.is_sign_positive());
}

#[test]
fn lists_are_trimmed_and_have_no_empty_part() {
    assert_eq!(list("a"), Ok(vec!["a"]));
    assert_eq!(list(" a , b,c d "), Ok(vec!["a", "b", "c d"]));
    for text in ["", " ", ",", "a,", ",a", "a,,b", "a, ,b"] {
        assert_eq!(list(text), Err(Form), "{text:?}");
    }
}

#[test]
fn calls_have_at_most_one_argument() {
    assert_eq!(call("kill"), Ok(("kill", None)));
    assert_eq!(call(" dry_run "), Ok(("dry_run", None)));
    assert_eq!(
        call("switch_group( etl-1 )"),
        Ok(("switch_group", Some("etl-1")))
    );
    for text in ["", "()", "kill()", "a(b", "a b", "a(b)c", "a((b))", "a;b"] {
        assert_eq!(call(text), Err(Form), "{text:?}");
    }
}
