//! The program `quotient`: the real one is run.
#![cfg(feature = "cli")]
#![allow(clippy::unwrap_used)]

use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

struct Run {
    code: i32,
    out: String,
    err: String,
}

/// Runs the program over a script on its standard input.
fn quotient(arguments: &[&str], script: &[u8]) -> Run {
    let mut child = Command::new(env!("CARGO_BIN_EXE_quotient"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let script = script.to_vec();
    let writer = std::thread::spawn(move || {
        // One that does not read its input is wrong about its arguments, which it says.
        let _ = stdin.write_all(&script);
    });
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap();
    Run {
        code: output.status.code().expect("no signal"),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

fn json(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|error| panic!("{error}: {}", run.out))
}

const SHOP: &str = "-- Groups of the shop.
CREATE RESOURCE GROUP bi TO (user='bi'), (user='bi', db='sales') WITH ('cpu_core_limit'='3', 'concurrency_limit'='4');
CREATE RESOURCE GROUP etl TO (role='loader') WITH ('cpu_core_limit'='1');
SET GLOBAL query_runner_threads = 40;
SHOW RESOURCE GROUPS;
";

// ---- check ---------------------------------------------------------------------------------------------------------

#[test]
fn a_script_with_nothing_wrong_is_passed() {
    let run = quotient(&["check", "-", "--cores", "4"], SHOP.as_bytes());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    assert_eq!(
        run.out,
        "(standard input): 2 groups with 3 classifiers on 4 workers: 0 errors, 0 warnings\n"
    );
    let empty = quotient(&["check", "-"], b"");
    assert_eq!(empty.code, 0, "{}", empty.out);
}

#[test]
fn every_error_is_shown_with_its_picture_not_only_the_first() {
    let script = "CREATE RESOURCE GROUP bi TO (usr='bi') WITH ('cpu_core_limit'='3');
CREATE RESOURCE GRUOP etl WITH ('cpu_core_limit'='1');
CREATE RESOURCE GROUP ml WITH ('big_query_action'='switch_group(slow)');
SET GLOBAL query_runner_threads = many;
CREATE RESOURCE GROUP slow WITH ('cpu_core_limit'='1');
ALTER RESOURCE GROUP slow WITH ('mem_limit'='120%')";
    let run = quotient(&["check", "-"], script.as_bytes());
    assert_eq!(run.code, 1);
    let first = "error[42704]: unknown classifier key 'usr'
 --> (standard input):1:30
  |
1 | CREATE RESOURCE GROUP bi TO (usr='bi') WITH ('cpu_core_limit'='3');
  |                              ^^^
  = did you mean user?
";
    assert!(run.out.starts_with(first), "{}", run.out);
    let run = quotient(&["check", "-", "--json"], script.as_bytes());
    let answer = json(&run);
    assert_eq!((run.code, &answer["errors"]), (1, &4.into()));
    let found: Vec<(u64, &str)> = answer["findings"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| one["level"] == "error")
        .map(|one| (one["line"].as_u64().unwrap(), one["code"].as_str().unwrap()))
        .collect();
    let expected = [
        (1, "unknown_classifier_key"),
        (2, "syntax"),
        (4, "bad_value"),
        (6, "bad_value"),
    ];
    assert_eq!(
        found, expected,
        "the third line names a group that comes later"
    );
    // What was not refused is there.
    assert_eq!(answer["groups"], 2);
}

/// Each kind of warning, where it stands, and that leaving its cause out leaves nothing to be said.
#[test]
fn what_is_said_in_vain_is_warned_of() {
    let script = "CREATE RESOURCE GROUP bi TO (user='bi', plan_cpu_cost_range='[0, 100)') WITH ('cpu_core_limit'='1');
CREATE RESOURCE GROUP late TO (user='bi', plan_cpu_cost_range='[5, 6)') WITH ('cpu_core_limit'='1');
CREATE RESOURCE GROUP etl TO (role='loader') WITH ('max_queued_queries'='3');
CREATE RESOURCE GROUP fast TO (user='kiosk') WITH ('type'='short_query', 'cpu_core_limit'='6');
CREATE RESOURCE GROUP alone WITH ('cpu_core_limit'='1');
CREATE RESOURCE GROUP slow WITH ('cpu_core_limit'='1');
CREATE RESOURCE GROUP ml TO (user='ml') WITH ('big_query_action'='switch_group(slow)', 'big_query_cpu_second_limit'='9');
CREATE RESOURCE GROUP wide TO (user='w') WITH ('max_cpu_cores'='16')";
    let kinds = |arguments: &[&str]| -> Vec<String> {
        let answer = json(&quotient(arguments, script.as_bytes()));
        let findings = answer["findings"].as_array().unwrap().clone();
        let text = |one: &Value| format!("{} {}", one["line"], one["code"].as_str().unwrap());
        findings.iter().map(text).collect()
    };
    assert_eq!(
        kinds(&["check", "-", "--json", "--cores", "4"]),
        [
            "2 never_matches",
            "2 shadowed",
            "3 no_effect",
            "4 reservations",
            "5 never_matches",
            "8 clamped",
        ]
    );
    // On a larger machine two of them are true, and one kind may be left out.
    assert_eq!(
        kinds(&[
            "check",
            "-",
            "--json",
            "--cores",
            "16",
            "--allow",
            "never_matches"
        ]),
        ["2 shadowed", "3 no_effect"]
    );
    let run = quotient(&["check", "-", "--cores", "4"], script.as_bytes());
    assert_eq!(run.code, 1);
    let picture = "warning[reservations]: 6 workers are reserved over all groups, and 3 of 4 can be: fast 3 of 6
 --> (standard input):4:23";
    assert!(run.out.contains(picture), "{}", run.out);
}

// ---- classify -----------------------------------------------------------------------------------------------------

#[test]
fn a_request_goes_where_explain_classify_says() {
    let arguments = [
        "classify", "-", "--user", "bi", "--db", "sales", "--role", "loader",
    ];
    let run = quotient(&arguments, SHOP.as_bytes());
    assert_eq!(run.code, 0, "{}", run.err);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let explained = runtime.block_on(async {
        let governor = quotient::Governor::builder()
            .init_sql(SHOP_GROUPS)
            .build()
            .unwrap();
        let text = "EXPLAIN CLASSIFY (user='bi', db='sales', role='loader')";
        governor.execute(text).await.unwrap().remove(0).to_string()
    });
    assert_eq!(run.out, explained);

    let run = quotient(&[&arguments[..], &["--json"]].concat(), SHOP.as_bytes());
    let answer = json(&run);
    assert_eq!(answer["group"], "bi");
    assert_eq!(answer["decided_by"], "classifier");
    assert_eq!(answer["classifier"], answer["candidates"][0]["classifier"]);
    assert_eq!(answer["candidates"][0]["verdict"], "chosen");
    assert_eq!(answer["candidates"][0]["terms"][1]["asks"], "sales");
    let nobody = json(&quotient(&["classify", "-", "--json"], SHOP.as_bytes()));
    assert_eq!(
        (&nobody["group"], &nobody["decided_by"]),
        (&"default_wg".into(), &"nobody".into())
    );
}

const SHOP_GROUPS: &str = "
CREATE RESOURCE GROUP bi TO (user='bi'), (user='bi', db='sales') WITH ('cpu_core_limit'='3', 'concurrency_limit'='4');
CREATE RESOURCE GROUP etl TO (role='loader') WITH ('cpu_core_limit'='1')";

#[test]
fn a_request_that_cannot_be_stated_and_a_script_that_cannot_be_read_are_told_apart() {
    for (arguments, code, err) in [
        (
            &["classify", "-", "--source-ip", "10.0.0.0/8"][..],
            2,
            "it is no address",
        ),
        (
            &["classify", "-", "--query-type", "selct"],
            2,
            "did you mean select?",
        ),
        (
            &["classify", "-", "--plan-cpu-cost", "-nan"],
            2,
            "no finite decimal",
        ),
        (
            &["classify", "-", "--resource-group", "bx"],
            2,
            "bx does not exist",
        ),
        (&["classify", "-", "--usr", "x"], 2, "--user"),
        (&["classify", "-", "--plan-cpu-cost", "-1.5"], 0, ""),
    ] {
        let run = quotient(arguments, SHOP.as_bytes());
        assert_eq!(run.code, code, "{arguments:?}: {}", run.err);
        assert!(run.err.contains(err), "{arguments:?}: {}", run.err);
    }
    let broken = quotient(
        &["classify", "-", "--user", "bi"],
        b"CREATE RESOURCE GRUOP x",
    );
    assert_eq!(broken.code, 1);
    assert!(broken.out.contains("did you mean GROUP?"), "{}", broken.out);
}

// ---- simulate -----------------------------------------------------------------------------------------------------

#[test]
fn shares_come_out_by_weight_and_the_same_each_time() {
    let script = format!(
        "{SHOP_GROUPS};
         -- load: user=bi tasks=8 poll=1ms
         -- load: name=nightly role=loader tasks=8 poll=1ms"
    );
    let arguments = ["simulate", "-", "--cores", "4", "--for", "4s", "--json"];
    let first = quotient(&arguments, script.as_bytes());
    assert_eq!(first.code, 0, "{}{}", first.out, first.err);
    let answer = json(&first);
    let seconds = |at: usize| answer["groups"][at]["cpu_seconds"].as_f64().unwrap();
    assert_eq!(answer["groups"][0]["group"], "bi");
    assert_eq!(answer["groups"][1]["loads"][0], "nightly");
    // 16 worker seconds, three to one, to within a poll per worker and the credit of a return.
    assert!((seconds(0) - 12.0).abs() < 0.05, "{}", seconds(0));
    assert!((seconds(0) + seconds(1) - 16.0).abs() < 1e-6);
    let again = quotient(&arguments, script.as_bytes());
    assert_eq!(first.out, again.out);
}

#[test]
fn queries_wait_are_refused_and_time_out_at_the_gate_of_their_group() {
    let script =
        "CREATE RESOURCE GROUP g TO (user='u') WITH ('cpu_core_limit'='1', 'concurrency_limit'='2',
                    'max_queued_queries'='5', 'queue_timeout'='150ms')";
    // 100 a second of 50 ms each, two at a time: 40 a second can be served.
    let load = "user=u queries=100/s cpu=50ms poll=1ms until=1s";
    let arguments = [
        "simulate", "-", "--cores", "4", "--for", "3s", "--load", load, "--json",
    ];
    let run = quotient(&arguments, script.as_bytes());
    assert_eq!(run.code, 0, "{}{}", run.out, run.err);
    let queries = &json(&run)["groups"][0]["queries"];
    let n = |key: &str| queries[key].as_u64().unwrap();
    assert_eq!(n("arrived"), 100);
    assert_eq!(n("finished") + n("refused") + n("timed_out"), 100);
    assert_eq!((n("running"), n("waiting")), (0, 0));
    assert!((38..=46).contains(&n("finished")), "{queries}");
    assert!(n("refused") > 40, "{queries}");
    let longest = queries["wait"]["max_seconds"].as_f64().unwrap();
    assert!((0.1..=0.151).contains(&longest), "{queries}");
    let least = queries["response"]["mean_seconds"].as_f64().unwrap();
    assert!(least > 0.05, "{queries}");

    let text = quotient(&arguments[..arguments.len() - 1], script.as_bytes());
    assert!(
        text.out.starts_with("3s of virtual time on 4 workers, "),
        "{}",
        text.out
    );
    assert!(text.out.contains("mean_response_ms"), "{}", text.out);
}

#[test]
fn caps_reservations_and_the_governors_limit_hold_in_the_simulation() {
    let script = "CREATE RESOURCE GROUP capped TO (user='c') WITH ('max_cpu_cores'='0.5');
                  CREATE RESOURCE GROUP kept TO (user='k') WITH ('exclusive_cpu_cores'='2');
                  CREATE RESOURCE GROUP mass TO (user='m') WITH ('cpu_core_limit'='9');
                  SET GLOBAL query_runner_threads = 1;
                  -- load: user=c tasks=8
                  -- load: user=k tasks=8
                  -- load: user=m tasks=64
                  -- load: name=one-by-one group=default_wg queries=10/s cpu=1ms";
    let arguments = ["simulate", "-", "--cores", "4", "--for", "2s", "--json"];
    let answer = json(&quotient(&arguments, script.as_bytes()));
    let of = |name: &str| {
        let groups = answer["groups"].as_array().unwrap();
        groups
            .iter()
            .find(|one| one["group"] == name)
            .unwrap()
            .clone()
    };
    let cpu = |name: &str| of(name)["cpu_seconds"].as_f64().unwrap();
    assert!(cpu("capped") <= 1.06, "{}", cpu("capped"));
    assert!(cpu("kept") >= 3.9, "{}", cpu("kept"));
    assert_eq!(of("kept")["reserved"], 2);
    assert_eq!(of("default_wg")["queries"]["arrived"], 20);
}

#[test]
fn a_load_that_is_none_is_told_where_it_stands() {
    for (load, column, message, note) in [
        ("usr=x", 10, "a load has no \"usr\"", "did you mean user?"),
        (
            "user=x tasks",
            17,
            "\"tasks\" is not key=value",
            "for example",
        ),
        (
            "user=x tasks=0",
            17,
            "tasks is a whole number from 1",
            "for example",
        ),
        ("user=x poll=1ns", 17, "a poll lasts", "for example"),
        ("user=x queries=50", 17, "queries is a rate", "for example"),
        (
            "user=x queries=1/s tasks=3",
            17,
            "tasks or queries, not both",
            "for example",
        ),
        ("user=x user=y", 17, "user is given twice", "for example"),
        (
            "group=nobody tasks=1",
            9,
            "nobody does not exist",
            "SHOW RESOURCE GROUPS",
        ),
        (
            "source_ip=ten tasks=1",
            10,
            "it is no address",
            "an address",
        ),
    ] {
        let script = format!("{SHOP_GROUPS};\n-- load: {load}");
        let run = quotient(&["simulate", "-", "--json"], script.as_bytes());
        assert_eq!(run.code, 1, "{load}: {}{}", run.out, run.err);
        let finding = &json(&run)["findings"][0];
        assert_eq!(finding["column"], column, "{load}: {finding}");
        assert!(
            finding["message"].as_str().unwrap().contains(message),
            "{load}: {finding}"
        );
        assert!(
            finding["notes"].to_string().contains(note),
            "{load}: {finding}"
        );
        // On the command line it is an argument that is wrong.
        let run = quotient(&["simulate", "-", "--load", load], SHOP_GROUPS.as_bytes());
        assert_eq!(run.code, 2, "{load}: {}", run.out);
        assert!(run.err.contains(message), "{load}: {}", run.err);
    }
    let none = quotient(&["simulate", "-"], SHOP_GROUPS.as_bytes());
    assert_eq!(none.code, 2);
    assert!(none.err.contains("there is no load"), "{}", none.err);
    let forever = [
        "simulate",
        "-",
        "--for",
        "1h",
        "--load",
        "user=bi tasks=1 poll=1us",
    ];
    let run = quotient(&forever, SHOP_GROUPS.as_bytes());
    assert_eq!(run.code, 2);
    assert!(run.err.contains("polls would be simulated"), "{}", run.err);
}

// ---- the program ---------------------------------------------------------------------------------------------------

#[test]
fn wrong_arguments_and_unreadable_files_are_exit_code_2() {
    for (arguments, err) in [
        (&[][..], "Usage: quotient"),
        (&["chek", "x.sql"], "check"),
        (&["check"], "<FILE>"),
        (&["check", "/no/such/file.sql"], "/no/such/file.sql: "),
        (&["check", "/"], "/: "),
        (&["check", "-", "--cores", "0"], "1..=1024"),
        (&["check", "-", "--cores", "4000000"], "1..=1024"),
        (&["check", "-", "--memory", "much"], "16GiB"),
        (&["simulate", "-", "--for", "0s"], "from 1ms to 1h"),
    ] {
        let run = quotient(arguments, b"");
        assert_eq!(run.code, 2, "{arguments:?}: {}{}", run.out, run.err);
        assert!(run.err.contains(err), "{arguments:?}: {}", run.err);
        assert!(run.out.is_empty(), "{arguments:?}: {}", run.out);
    }
    let run = quotient(&["check", "-"], b"CREATE \xff\xfe");
    assert_eq!(run.code, 2);
    assert!(run.err.contains("no UTF-8 from byte 7 on"), "{}", run.err);
    let help = quotient(&["--help"], b"");
    assert_eq!(help.code, 0);
    assert!(
        help.out.contains("Exit codes: 0 nothing found"),
        "{}",
        help.out
    );
}

/// The guide's script is run, and what the guide shows of the answers is in them. `QUOTIENT_WRITE_DOCS=1` prints them.
#[test]
fn the_guide_shows_what_the_program_prints() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let guide = std::fs::read_to_string(root.join("docs/guide/cli.md")).unwrap();
    let blocks = |kind: &str| -> Vec<&str> {
        let open = format!("```{kind}\n");
        let behind = guide.split(&open).skip(1);
        behind
            .map(|rest| rest.split("```").next().unwrap())
            .collect()
    };
    let script = blocks("sql").concat();
    let folder = std::env::temp_dir().join(format!("quotient-cli-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("groups.sql"), &script).unwrap();
    let run = |command: &str| {
        let output = Command::new(env!("CARGO_BIN_EXE_quotient"))
            .args([command, "groups.sql", "--cores", "4"])
            .current_dir(&folder)
            .output()
            .unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let printed = run("check") + &run("simulate");
    std::fs::remove_dir_all(&folder).unwrap();
    if std::env::var_os("QUOTIENT_WRITE_DOCS").is_some() {
        println!("{printed}");
    }
    let shown: Vec<&str> = blocks("text")
        .into_iter()
        .filter(|block| !block.starts_with("cargo"))
        .collect();
    assert!(shown.len() >= 2);
    let plain = |text: &str| -> String {
        text.lines()
            .map(|line| format!("{}\n", line.trim_end()))
            .collect()
    };
    for block in shown {
        assert!(
            plain(&printed).contains(&plain(block)),
            "not printed:\n{block}\nprinted:\n{printed}"
        );
    }
}

/// Whatever the script is, the program ends with one of its codes, in words.
#[test]
fn hostile_scripts_are_refused_in_order() {
    let deep = format!(
        "SELECT {}1{} FROM groups",
        "(".repeat(50_000),
        ")".repeat(50_000)
    );
    let chain = format!(
        "CREATE RESOURCE GROUP g TO {} WITH ('cpu_weight'='1')",
        vec!["(user='u')"; 20_000].join(", ")
    );
    let many = "CREATE RESOURCE GROUP 1;".repeat(20_000);
    let scripts: [&[u8]; 9] = [
        b"\0",
        b"'",
        b"/*",
        b";;;;",
        "-- load: ٣=٣ \u{202e}=\u{0} tasks=9\u{a0}9".as_bytes(),
        "-- load:\n-- load: =\n-- load: ==== \u{1f980}=\u{1f980}".as_bytes(),
        deep.as_bytes(),
        chain.as_bytes(),
        many.as_bytes(),
    ];
    for (i, script) in scripts.into_iter().enumerate() {
        for command in ["check", "classify", "simulate"] {
            for arguments in [&[command, "-"][..], &[command, "-", "--json"]] {
                let run = quotient(arguments, script);
                assert!(
                    (0..=2).contains(&run.code),
                    "{i} {arguments:?}: {}",
                    run.err
                );
                assert!(
                    !run.err.contains("panicked"),
                    "{i} {arguments:?}: {}",
                    run.err
                );
                if run.code < 2 && arguments.contains(&"--json") {
                    json(&run);
                }
            }
        }
    }
    // A reader that goes away early is no reason to panic.
    let mut child = Command::new(env!("CARGO_BIN_EXE_quotient"))
        .args(["check", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    child
        .stdin
        .take()
        .unwrap()
        .write_all(many.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
