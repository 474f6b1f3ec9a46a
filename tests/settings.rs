//! The governor's variables: StarTree's properties files, SET GLOBAL, SHOW VARIABLES, and what each refuses.

#![allow(clippy::unwrap_used)]

use quotient::settings::{Scheduler, SettingsError, VARIABLES, Variable};
use quotient::sql::{NoticeKind, SqlErrorKind};
use quotient::{Error, Governor, Settings};

// ---- properties files -------------------------------------------------------------------------------------------------

/// The second source's three examples, letter by letter.
const ENABLE: &str = "pinot.query.scheduler.name=MemoryThrottledFCFS\n";
const EXAMPLE: &str = "\
pinot.query.scheduler.name=MemoryThrottledFCFS
pinot.query.scheduler.throttle.memoryUsagePercentageThreshold=90
pinot.query.scheduler.throttle.maxRunningQueriesUpdateFrequencyMs=1000
";
const FULL: &str = "\
# Query runner pool sizing still controls the upper bound for concurrent query execution.
pinot.server.query.executor.num.groups.limit=100
pinot.server.query.executor.num.groups.per.query=10

# Enable memory-aware scheduling.
pinot.query.scheduler.name=MemoryThrottledFCFS
pinot.query.scheduler.throttle.memoryUsagePercentageThreshold=90
pinot.query.scheduler.throttle.maxRunningQueriesUpdateFrequencyMs=1000
";

#[test]
fn the_sources_three_examples_load_unchanged() {
    let mut expected = Settings::default();
    expected.query_scheduler_name = Scheduler::MemoryThrottledFcfs;
    assert_eq!(Settings::from_properties(ENABLE).unwrap(), expected);
    expected.memory_usage_percentage_threshold = 90.0;
    expected.max_running_queries_update_frequency_ms = 1_000;
    assert_eq!(Settings::from_properties(EXAMPLE).unwrap(), expected);
    assert_eq!(Settings::from_properties(FULL).unwrap(), expected);
}

#[test]
fn the_defaults_are_those_of_the_source() {
    let settings = Settings::from_properties("").unwrap();
    assert_eq!(settings, Settings::default());
    for spec in &VARIABLES {
        assert_eq!(settings.get(spec.variable), spec.default, "{}", spec.name);
        let mut copy = settings.clone();
        copy.set(spec.variable, spec.example).unwrap();
        copy.set(spec.variable, spec.default).unwrap();
        assert_eq!(copy, settings);
    }
}

#[test]
fn names_classes_blanks_and_forms_of_writing() {
    for text in [
        "pinot.query.scheduler.name: memorythrottledfcfs",
        "pinot.query.scheduler.name = MemoryThrottledFCFS  \r\n",
        "pinot.query.scheduler.name ai.startree.query.scheduler.MemoryThrottledFCFSQueryScheduler",
        "pinot.query.scheduler.name=MemoryThrottled\\\n   FCFS",
        "pinot.query.scheduler.name=\\u004demoryThrottledFCFS",
        "pinot.query.scheduler.name=fcfs\n! the last one counts\npinot.query.scheduler.name=MemoryThrottledFCFS",
    ] {
        let settings = Settings::from_properties(text).unwrap();
        assert_eq!(
            settings.query_scheduler_name,
            Scheduler::MemoryThrottledFcfs,
            "{text:?}"
        );
    }
    let threads = "pinot.query.scheduler.query_runner_threads=40";
    assert_eq!(
        Settings::from_properties(threads)
            .unwrap()
            .query_runner_threads,
        40
    );
    let decimal = "pinot.query.scheduler.throttle.memoryUsagePercentageThreshold=99.95";
    let settings = Settings::from_properties(decimal).unwrap();
    assert_eq!(
        settings.get(Variable::MemoryUsagePercentageThreshold),
        "99.95"
    );
}

#[test]
fn an_illegal_threshold_is_refused_with_the_way_out() {
    for value in [
        "0",
        "100",
        "-1",
        "101",
        "0.0",
        "ninety",
        "90%",
        "",
        "NaN",
        "1e1",
        "99.9999999999999999999",
    ] {
        let text =
            format!("# a\npinot.query.scheduler.throttle.memoryUsagePercentageThreshold={value}");
        let error = Settings::from_properties(&text).unwrap_err();
        let SettingsError::BadValue {
            line,
            variable,
            value: found,
            ..
        } = &error
        else {
            panic!("{error}")
        };
        assert_eq!(
            (*line, *variable),
            (Some(2), Variable::MemoryUsagePercentageThreshold)
        );
        assert_eq!(found, value);
        assert_eq!(
            error.to_string(),
            format!(
                "line 2: illegal value {value:?} of pinot.query.scheduler.throttle.memoryUsagePercentageThreshold; \
                 allowed is more than 0 and less than 100, decimals allowed, such as 90"
            )
        );
    }
}

#[test]
fn a_key_of_ours_that_is_not_known_is_an_error_and_others_are_ignored() {
    let text =
        "pinot.server.port=8098\n\npinot.query.scheduler.throttle.memoryUsagePercentagThreshold=90";
    assert_eq!(
        Settings::from_properties(text).unwrap_err().to_string(),
        "line 3: unknown key pinot.query.scheduler.throttle.memoryUsagePercentagThreshold; \
         did you mean pinot.query.scheduler.throttle.memoryUsagePercentageThreshold?"
    );
    assert!(Settings::from_properties("pinot.query.schedulers=1\nfoo").is_ok());
    for text in [
        "pinot.query.scheduler.name=priority",
        "pinot.query.scheduler.query_runner_threads=-1",
    ] {
        assert!(
            matches!(
                Settings::from_properties(text),
                Err(SettingsError::BadValue { .. })
            ),
            "{text}"
        );
    }
}

#[tokio::test]
async fn fields_out_of_range_stop_the_start() {
    for threshold in [0.0, 100.0, -5.0, f64::NAN, f64::INFINITY] {
        let mut settings = Settings::new();
        settings.memory_usage_percentage_threshold = threshold;
        let error = Governor::builder().settings(settings).build().unwrap_err();
        assert!(
            matches!(error, Error::Settings(SettingsError::BadValue { .. })),
            "{error}"
        );
        assert!(error.to_string().starts_with("illegal value"), "{error}");
    }
    let mut settings = Settings::new();
    settings.long_poll_threshold_ms = 0;
    assert!(Governor::builder().settings(settings).build().is_err());
}

// ---- SQL --------------------------------------------------------------------------------------------------------------

async fn execute(governor: &Governor, text: &str) -> String {
    let outputs = governor.execute(text).await;
    let outputs = outputs.unwrap_or_else(|error| panic!("{text}: {error}"));
    outputs.iter().map(ToString::to_string).collect()
}

#[tokio::test]
async fn set_global_and_show_variables() {
    let governor = Governor::builder().build().unwrap();
    let table = execute(&governor, "SHOW VARIABLES").await;
    let expected = [
        "variable_name                           | value       | default_value | allowed",
        "----------------------------------------+-------------+---------------+------------------------------------------------------------------",
        "query_scheduler_name                    | round_robin | round_robin   | round_robin, fcfs or MemoryThrottledFCFS",
        "memory_usage_percentage_threshold       | 95          | 95            | more than 0 and less than 100, decimals allowed",
        "max_running_queries_update_frequency_ms | 1000        | 1000          | a whole number, 1 or more",
        "query_runner_threads                    | 0           | 0             | a whole number; 0 is no limit, with MemoryThrottledFCFS 16 per worker",
        "long_poll_threshold_ms                  | 5           | 5             | a whole number, 1 or more",
        "(5 rows)",
    ];
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines[2..], expected[2..]);
    assert_eq!(lines[0], expected[0]);
    let script =
        "SET GLOBAL Query_Runner_Threads = 40; set global memory_usage_percentage_threshold='97.5';
        SET GLOBAL query_scheduler_name = fcfs";
    execute(&governor, script).await;
    let settings = governor.settings();
    assert_eq!(
        (
            settings.query_runner_threads,
            settings.memory_usage_percentage_threshold
        ),
        (40, 97.5)
    );
    assert_eq!(settings.query_scheduler_name, Scheduler::Fcfs);
    let some = governor
        .execute("SHOW VARIABLES LIKE '%threshold%'")
        .await
        .unwrap();
    let names: Vec<String> = some[0]
        .rows()
        .iter()
        .map(|row| row[0].to_string())
        .collect();
    assert_eq!(
        names,
        [
            "memory_usage_percentage_threshold",
            "long_poll_threshold_ms"
        ]
    );
    assert_eq!(some[0].rows()[0][1].to_string(), "97.5");
}

#[tokio::test]
async fn what_is_refused_changes_nothing_and_says_what_is_allowed() {
    let governor = Governor::builder().build().unwrap();
    for (text, code, hint) in [
        (
            "SET GLOBAL query_runner_thread = 4",
            "unknown_variable",
            "did you mean query_runner_threads?",
        ),
        (
            "SET GLOBAL x = 4",
            "unknown_variable",
            "variables are query_scheduler_name",
        ),
        (
            "SET GLOBAL memory_usage_percentage_threshold = 100",
            "bad_value",
            "more than 0 and less than 100",
        ),
        (
            "SET GLOBAL memory_usage_percentage_threshold = 0",
            "bad_value",
            "more than 0 and less than 100",
        ),
        (
            "SET GLOBAL memory_usage_percentage_threshold = -1",
            "bad_value",
            "= '90'",
        ),
        (
            "SET GLOBAL max_running_queries_update_frequency_ms = 0",
            "bad_value",
            "1 or more",
        ),
        (
            "SET GLOBAL query_scheduler_name = 'priority'",
            "bad_value",
            "round_robin, fcfs or MemoryThrottledFCFS",
        ),
        (
            "SET GLOBAL query_runner_threads = 1.5",
            "bad_value",
            "a whole number",
        ),
        (
            "SET GLOBAL query_runner_threads = 99999999999999999999",
            "bad_value",
            "a whole number",
        ),
        (
            "SET GLOBAL long_poll_threshold_ms = '5ms'",
            "bad_value",
            "a whole number",
        ),
        ("SET query_runner_threads = 1", "syntax", "expected GLOBAL"),
        ("SET GLOBAL query_runner_threads 1", "syntax", "expected ="),
        (
            "SET GLOBAL query_runner_threads =",
            "syntax",
            "a value in quotes",
        ),
        (
            "SET GLOBAL query_runner_threads = 1 2",
            "syntax",
            "the end of the statement",
        ),
        ("SET GLOBAL = 1", "syntax", "the name of a variable"),
        (
            "SHOW VARIABLES LIKE threads",
            "syntax",
            "a pattern in quotes",
        ),
        ("SHOW VARIABELS", "syntax", "did you mean VARIABLES?"),
    ] {
        let Err(Error::Sql(error)) = governor.execute(text).await else {
            panic!("accepted: {text}")
        };
        assert_eq!(error.kind.code(), code, "{text}");
        let picture = error.render(text);
        assert!(picture.contains(hint), "{text}\n{picture}");
        assert_eq!(governor.settings(), Settings::default(), "{text}");
    }
}

#[tokio::test]
async fn a_refused_value_is_drawn_where_it_stands() {
    let governor = Governor::builder().build().unwrap();
    let script = "SHOW VARIABLES;\nSET GLOBAL memory_usage_percentage_threshold = 120";
    let Err(Error::Sql(error)) = governor.execute(script).await else {
        panic!("accepted")
    };
    let picture = error.render(script);
    let expected = [
        "error[22023]: 'memory_usage_percentage_threshold' cannot be \"120\": it is illegal",
        " --> line 2, column 48, statement 2 (1 applied)",
        "  |",
        "2 | SET GLOBAL memory_usage_percentage_threshold = 120",
        "  |                                                ^^^",
        "  = allowed is more than 0 and less than 100, decimals allowed, as in SET GLOBAL memory_usage_percentage_threshold = '90'",
    ];
    assert_eq!(picture.lines().collect::<Vec<_>>(), expected, "\n{picture}");
}

#[tokio::test]
async fn a_variable_that_changes_nothing_yet_says_so() {
    let governor = Governor::builder().build().unwrap();
    for (text, notice) in [
        (
            "SET GLOBAL memory_usage_percentage_threshold = 80",
            Some("query_scheduler_name is round_robin, not MemoryThrottledFCFS"),
        ),
        (
            "SET GLOBAL query_scheduler_name = fcfs",
            Some("query_runner_threads is 0"),
        ),
        ("SET GLOBAL query_runner_threads = 8", None),
        ("SET GLOBAL query_scheduler_name = fcfs", None),
        (
            "SET GLOBAL query_scheduler_name = MemoryThrottledFCFS",
            None,
        ),
        ("SET GLOBAL memory_usage_percentage_threshold = 90", None),
    ] {
        let outputs = governor.execute(text).await.unwrap();
        let notices = outputs[0].notices();
        assert_eq!(notices.len(), usize::from(notice.is_some()), "{text}");
        if let (Some(said), Some(expected)) = (notices.first(), notice) {
            assert_eq!(said.kind, NoticeKind::NoEffect);
            assert!(said.message.contains(expected), "{}", said.message);
        }
    }
}

#[tokio::test]
async fn init_sql_may_set_variables_and_is_one_with_the_rest() {
    let mut settings = Settings::new();
    settings.query_runner_threads = 3;
    let script = "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='1'); SET GLOBAL query_runner_threads = 8";
    let governor = Governor::builder()
        .settings(settings)
        .init_sql(script)
        .build()
        .unwrap();
    assert_eq!(governor.settings().query_runner_threads, 8);
    let bad = "CREATE RESOURCE GROUP g WITH ('concurrency_limit'='1');\nSET GLOBAL query_runner_threads = many";
    let Err(Error::Sql(error)) = Governor::builder().init_sql(bad).build() else {
        panic!("accepted")
    };
    assert_eq!((error.statement, error.line()), (2, 2));
    assert!(matches!(error.kind, SqlErrorKind::BadValue { .. }));
    let bad =
        "SET GLOBAL query_runner_threads = 8; SHOW RESOURCE GROUPS; DROP RESOURCE GROUP nobody";
    let Err(Error::Sql(error)) = Governor::builder().init_sql(bad).build() else {
        panic!("accepted")
    };
    assert_eq!(error.statement, 3);
}
