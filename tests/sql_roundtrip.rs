//! Every statement has one canonical text: what it prints reads back as the same statement.

#![allow(clippy::unwrap_used)]

use proptest::prelude::*;
use quotient::sql::ast::*;
use quotient::sql::{self, Operation, Span, Spanned, Statement};

fn name() -> impl Strategy<Value = Spanned<String>> {
    prop_oneof![
        3 => "[A-Za-z_][A-Za-z0-9_$-]{0,20}",
        1 => "[A-Za-z_][A-Za-z0-9_$-]{63}",
        1 => proptest::sample::select(vec![
            "if", "IF", "or", "replace", "to", "with", "all", "ALL", "add", "drop", "like", "create", "group",
            "groups", "resource", "verbose", "usage", "exists", "not", "in", "a--b", "a-", "_", "$x",
        ])
        .prop_filter("a name", |n| is_group_name(n))
        .prop_map(str::to_owned),
    ]
    .prop_map(Spanned::from)
}

/// Any text but for NUL, which no statement can hold.
fn text() -> impl Strategy<Value = Spanned<String>> {
    prop_oneof![
        "[a-z0-9%. ]{0,12}",
        "\\PC{0,12}",
        "[\"'`\\\\;,()=\n\r\t /*-]{0,12}",
        any::<String>(),
    ]
    .prop_map(|t| Spanned::from(t.replace('\0', "")))
}

/// Any key, known or not: the grammar does not care. Keys are read in lower case.
fn key() -> impl Strategy<Value = Spanned<String>> {
    let known = proptest::sample::select(CLASSIFIER_KEYS.to_vec()).prop_map(str::to_owned);
    prop_oneof![3 => known, 1 => text().prop_map(|t| t.value.to_ascii_lowercase())]
        .prop_map(Spanned::from)
}

fn classifier() -> impl Strategy<Value = Classifier> {
    let test = prop_oneof![
        text().prop_map(Test::Equals),
        prop::collection::vec(text(), 1..4).prop_map(Test::In),
    ];
    let condition = (key(), test).prop_map(|(key, test)| Condition { key, test });
    prop::collection::vec(condition, 1..4).prop_map(|conditions| Classifier {
        conditions,
        span: Span::default(),
    })
}

fn assignments() -> impl Strategy<Value = Vec<Assignment>> {
    let one = (key(), text()).prop_map(|(key, value)| Assignment { key, value });
    prop::collection::vec(one, 1..4)
}

fn attribute() -> impl Strategy<Value = Assignment> {
    let known = proptest::sample::select(ATTRIBUTE_KEYS.to_vec()).prop_map(str::to_owned);
    let key = prop_oneof![3 => known.prop_map(Spanned::from), 1 => key()];
    (key, text()).prop_map(|(key, value)| Assignment { key, value })
}

/// A LIKE pattern that does not end in the middle of an escape.
fn pattern() -> impl Strategy<Value = Spanned<String>> {
    text().prop_filter("a whole pattern", |it| !sql::like::ends_in_escape(it))
}

fn operation() -> impl Strategy<Value = Operation> {
    let id = || any::<u64>().prop_map(Spanned::from);
    let limit = || proptest::option::of(any::<u64>().prop_map(Spanned::from));
    prop_oneof![
        Just(Operation::ShowQueries),
        limit().prop_map(|limit| Operation::ShowRunningQueries { limit }),
        id().prop_map(Operation::Kill),
        limit().prop_map(|limit| Operation::ShowRunawayEvents { limit }),
        Just(Operation::ShowWatches),
        id().prop_map(Operation::DropWatch),
    ]
}

fn statement() -> impl Strategy<Value = Statement> {
    let create = (
        any::<bool>(),
        any::<bool>(),
        name(),
        prop::collection::vec(classifier(), 0..4),
        assignments(),
    )
        .prop_map(
            |(if_not_exists, or_replace, name, classifiers, properties)| {
                Statement::CreateGroup(CreateGroup {
                    if_not_exists,
                    or_replace,
                    name,
                    classifiers,
                    properties,
                })
            },
        );
    let action = prop_oneof![
        prop::collection::vec(classifier(), 1..4).prop_map(AlterAction::Add),
        prop::collection::vec(any::<u64>().prop_map(Spanned::from), 1..4)
            .prop_map(AlterAction::Drop),
        Just(AlterAction::DropAll),
        assignments().prop_map(AlterAction::With),
    ];
    let alter = (name(), action)
        .prop_map(|(name, action)| Statement::AlterGroup(AlterGroup { name, action }));
    let drop = (any::<bool>(), name())
        .prop_map(|(if_exists, name)| Statement::DropGroup(DropGroup { if_exists, name }));
    let which = prop_oneof![
        name().prop_map(Which::One),
        (any::<bool>(), proptest::option::of(pattern()))
            .prop_map(|(all, like)| Which::Many { all, like }),
    ];
    let show = (any::<bool>(), which)
        .prop_map(|(verbose, which)| Statement::ShowGroups(ShowGroups { verbose, which }));
    let change = prop_oneof![3 => create, 3 => alter, 1 => drop];
    let explained = change
        .clone()
        .prop_map(|it| Statement::ExplainChange(Box::new(it)));
    prop_oneof![
        7 => change,
        2 => explained,
        1 => proptest::collection::vec(attribute(), 0..4).prop_map(Statement::ExplainClassify),
        1 => show,
        1 => name().prop_map(Statement::ShowCreateGroup),
        2 => operation().prop_map(Statement::Operate),
        1 => proptest::option::of(name()).prop_map(Statement::ShowUsage),
        1 => (key(), text()).prop_map(|(key, value)| Statement::SetGlobal(Assignment { key, value })),
        1 => proptest::option::of(pattern()).prop_map(Statement::ShowVariables),
        1 => Just(Statement::ShowHistory),
        1 => any::<u64>().prop_map(|version| Statement::Rollback(version.into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_statement_prints_reads_back_as_the_same(statement in statement()) {
        let text = statement.to_string();
        let back = sql::parse(&text).map_err(|e| TestCaseError::fail(e.render(&text)))?;
        prop_assert_eq!(&back, &vec![statement], "{}", text);
        prop_assert_eq!(back[0].to_string(), text);
    }

    #[test]
    fn a_script_of_statements_reads_back_in_order(statements in prop::collection::vec(statement(), 0..5)) {
        let script: String = statements
            .iter()
            .map(|s| format!("-- ; '\n{s} /* ; */;\n"))
            .collect();
        prop_assert_eq!(sql::parse(&script).unwrap(), statements);
    }

    /// The place of a name is where its text is, whatever stands before it.
    #[test]
    fn places_point_at_what_was_written(before in "(/\\*[^*\\x00]{0,9}\\*/|[ \n\t]|--[^\n\\x00]{0,9}\n){0,6}", name in name()) {
        let script = format!("DROP RESOURCE GROUP {before} {}", sql::Name(&name.value));
        let parsed = sql::parse(&script).unwrap();
        let span = parsed[0].group().unwrap().span;
        let written: String = script.chars().skip(span.start).take(span.end - span.start).collect();
        prop_assert_eq!(written, sql::Name(&name.value).to_string());
        let line = script.chars().take(span.start).filter(|c| *c == '\n').count() + 1;
        prop_assert_eq!(span.line, line);
    }
}
