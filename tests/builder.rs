//! What a builder refuses, and what it begins with.

#![allow(clippy::unwrap_used, unreachable_pub, reason = "a test")]

mod live;
mod support;

use live::{multi_thread, named, watched};
use quotient::{AdmissionError, Attributes, Builder, Error, Governor};

fn build(configure: impl FnOnce(Builder) -> Builder) -> Result<Governor, Error> {
    let runtime = multi_thread(1);
    runtime.block_on(async { configure(Governor::builder()).build() })
}

#[test]
fn a_value_out_of_range_names_its_method_and_what_is_allowed() {
    type Configure = fn(Builder) -> Builder;
    let refused: [(Configure, &str); 3] = [
        (|it| it.workers(0), "workers is 0; allowed: 1 to 4096"),
        (|it| it.workers(4097), "workers is 4097; allowed: 1 to 4096"),
        (
            |it| it.memory_limit(0),
            "memory_limit is 0; allowed: 1 byte and more",
        ),
    ];
    for (configure, text) in refused {
        let error = build(configure).unwrap_err();
        assert!(matches!(error, Error::Invalid { .. }), "{error:?}");
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn a_refused_script_fails_the_build_and_starts_nothing() {
    let _watched = watched("init_sql");
    let runtime = multi_thread(1);
    let script = "CREATE RESOURCE GROUP a WITH ('cpu_core_limit'='1'); DROP RESOURCE GROUP nobody";
    let built = runtime.block_on(async { Governor::builder().init_sql(script).build() });
    let Err(Error::Sql(error)) = built else {
        panic!("{built:?}")
    };
    assert_eq!(
        (error.statement, error.applied),
        (2, 0),
        "it applies as one"
    );
    assert_eq!(runtime.metrics().num_alive_tasks(), 0, "no driver");
}

#[test]
fn scripts_follow_each_other_and_what_this_machine_lacks_is_cut_and_shown() {
    let runtime = multi_thread(1);
    let governor = runtime
        .block_on(async {
            Governor::builder()
                .workers(2)
                .init_sql("CREATE RESOURCE GROUP a WITH ('max_cpu_cores'='64')")
                .init_sql("ALTER RESOURCE GROUP a WITH ('concurrency_limit'='1')")
                .build()
        })
        .unwrap();
    let _held = governor.try_admit(&named("a")).unwrap();
    assert!(governor.try_admit(&named("a")).is_err(), "the second ran");
    let shown = runtime
        .block_on(governor.execute("SHOW RESOURCE GROUP a"))
        .unwrap();
    let shown = shown[0].to_string();
    assert!(shown.contains("which this machine cannot give"), "{shown}");
}

#[test]
fn a_request_may_choose_its_group_only_if_the_program_agrees() {
    let asked = |attributes: &Attributes, group: &str| {
        assert_eq!(group, "vip");
        attributes.get_user() == Some("root")
    };
    let governor = build(|it| {
        it.init_sql("CREATE RESOURCE GROUP vip WITH ('cpu_core_limit'='1')")
            .allow_override(asked)
    })
    .unwrap();
    let root = named("vip").user("root");
    assert_eq!(governor.classify(&root).unwrap().name(), "vip");
    let refused = AdmissionError::OverrideRefused {
        group: "vip".into(),
    };
    assert_eq!(
        governor.try_admit(&named("vip").user("ann")).unwrap_err(),
        refused
    );
    // Nobody is asked for a group that does not exist.
    let unknown = governor.try_admit(&named("nobody")).unwrap_err();
    assert!(matches!(unknown, AdmissionError::UnknownGroup { .. }));
}
