//! What one difference means for the queries and tasks of its group at this moment, in a sentence.
//!
//! Pure. Each sentence is a rule of the stage that obeys the property, with the numbers of the moment in it.

use super::{Now, NowQuery, Seen};
use crate::catalog::difference::What;
use crate::catalog::property::Key;
use crate::catalog::{ClassifierSpec, GroupSpec, GroupType};
use crate::classify::shadow::shadow_of;

/// Ids that are spelt out.
const NAMED: usize = 5;

/// Empty if there is nothing to be said.
pub(super) fn of(seen: &Seen<'_>) -> String {
    let now = seen.now;
    match &seen.difference.what {
        What::Created => {
            "requests that match its classifiers go to it from then on; what runs stays where it is"
                .into()
        }
        What::Dropped => dropped(now),
        What::Property { key, .. } => match (seen.before, seen.after) {
            // Nothing runs in a group that is not there yet.
            (Some(before), Some(after)) => property(seen, *key, before, after),
            _ => String::new(),
        },
        What::Reserved { after: 0, .. } => "no worker is kept for it any more".into(),
        What::Reserved { after, .. } => format!(
            "{} kept for it while it has work; taking {} back costs at most one poll each",
            count(*after, "worker is", "workers are"),
            if *after == 1 { "it" } else { "them" },
        ),
        What::ClassifierAdded(new) => added(seen, new),
        What::ClassifierRemoved(_) => {
            "new requests go by the other classifiers; what runs or waits stays where it is".into()
        }
        What::ClassifierRenumbered(..) => "asks the same as before".into(),
    }
}

fn added(seen: &Seen<'_>, new: &ClassifierSpec) -> String {
    let shadow = seen
        .after
        .and_then(|group| shadow_of(seen.catalog, group, new));
    match shadow {
        None => "new requests that it wins are the group's".into(),
        Some(shadow) => format!(
            "never decides: {} of {} matches whatever it matches and comes first ({})",
            shadow.by.id, shadow.by_group.name, shadow.rule
        ),
    }
}

fn dropped(now: &Now) -> String {
    let waiting = now.waited.len() as u64;
    if now.running + waiting + now.tasks == 0 {
        return "nothing is in it: it is gone at once".into();
    }
    format!(
        "drains: {} and {} keep it until they end ({}); new requests are classified anew, and one that names it is refused",
        count(now.running, "running query", "running queries"),
        count(waiting, "waiting one", "waiting ones"),
        count(now.tasks, "task", "tasks"),
    )
}

fn property(seen: &Seen<'_>, key: Key, before: &GroupSpec, after: &GroupSpec) -> String {
    let now = seen.now;
    match key {
        Key::CpuCoreLimit => {
            let share = |group: &GroupSpec, sum: u64| {
                let share = group.cpu_core_limit().get() as f64 / sum.max(1) as f64;
                (share * 1e3).round() / 10.0
            };
            format!(
                "with work in all groups {} % of the workers instead of {} %, from the next slice on",
                share(after, seen.weights.1),
                share(before, seen.weights.0),
            )
        }
        Key::MaxCpuCores => "binds from the next slice on, averaged over 100 ms".into(),
        // What this machine grants has a row of its own.
        Key::ExclusiveCpuCores => String::new(),
        Key::Type => match after.group_type() {
            GroupType::ShortQuery => "its classifiers come before those of all other groups".into(),
            _ => "its classifiers come by their conditions only".into(),
        },
        Key::MemLimit => mem_limit(after, now),
        Key::SpillMemLimitThreshold => spill(after, now),
        Key::ConcurrencyLimit => concurrency_limit(after, now),
        Key::MaxQueuedQueries => max_queued_queries(after, now),
        Key::QueueTimeout => queue_timeout(after, now),
        Key::BigQueryCpuSecondLimit => {
            let limit = after.big_query_cpu_second_limit();
            big_query(after, now, limit, |query| query.cpu)
        }
        Key::BigQueryElapsedSecondLimit => {
            let limit = after.big_query_elapsed_second_limit();
            big_query(after, now, limit, |query| query.elapsed)
        }
        Key::BigQueryScanRowsLimit => {
            let limit = after.big_query_scan_rows_limit();
            big_query(after, now, limit, |query| query.scan_rows)
        }
        Key::BigQueryMemLimit => {
            let limit = after.big_query_mem_limit();
            big_query(after, now, limit, |query| query.memory)
        }
        Key::BigQueryAction => "for queries that go over a limit from then on".into(),
        Key::QuarantineAfter | Key::QuarantineWindow => {
            "for kills from then on; what is refused already stays refused until its time is over"
                .into()
        }
        Key::IoWeight | Key::MaxIoBytesPerSecond => "from the next operation on".into(),
        Key::MemPool => String::new(),
    }
}

fn concurrency_limit(after: &GroupSpec, now: &Now) -> String {
    let (running, waiting) = (now.running, now.waited.len() as u64);
    let Some(limit) = after.concurrency_limit() else {
        return starts(waiting, now);
    };
    if running > limit {
        return format!(
            "{running} running over the new concurrency_limit of {limit} go on; no new start until {} of them have ended",
            running - limit + 1,
        );
    }
    if running == limit {
        return format!("{running} running go on; the next starts when one of them has ended");
    }
    starts(waiting.min(limit - running), now)
}

fn starts(starting: u64, now: &Now) -> String {
    if starting == 0 {
        return format!("{} running go on; nobody waits", now.running);
    }
    let waiting = now.waited.len();
    let most = match now.runner_threads {
        Some(threads) => format!(", as far as query_runner_threads = {threads} lets them"),
        None => String::new(),
    };
    format!("{starting} of {waiting} waiting start at once{most}")
}

fn max_queued_queries(after: &GroupSpec, now: &Now) -> String {
    let (room, waiting) = (after.max_queued_queries(), now.waited.len() as u64);
    if after.concurrency_limit().is_none() {
        return match waiting {
            0 => "without a concurrency_limit nobody waits for the group".into(),
            _ => format!("the {waiting} waiting stay"),
        };
    }
    if waiting > room {
        let who = count(waiting, "waiting query stays", "waiting queries stay");
        let until = match room {
            0 => "while the group is full".to_owned(),
            _ => format!("until fewer than {room} wait"),
        };
        return format!("nobody is sent away: {who}; new ones are refused {until}");
    }
    match room {
        0 => "new queries are refused at once while the group is full".into(),
        _ => format!("{waiting} of {room} places taken"),
    }
}

fn queue_timeout(after: &GroupSpec, now: &Now) -> String {
    let timeout = after.queue_timeout();
    let over = now
        .waited
        .iter()
        .filter(|waited| **waited >= timeout)
        .count() as u64;
    match (now.waited.len(), over) {
        (0, _) => "nobody waits".into(),
        (waiting, 0) => {
            format!("counted from enqueue for the {waiting} waiting too; none has waited that long")
        }
        (waiting, over) => {
            format!("{over} of {waiting} waiting have waited longer and time out at once")
        }
    }
}

fn mem_limit(after: &GroupSpec, now: &Now) -> String {
    let (limit, used) = (after.mem_limit().0, now.memory.0);
    let what = match now.reservations_only {
        true => "reserves (nothing else is tracked)",
        false => "uses",
    };
    if used <= limit {
        return format!("{what} {used} of {limit} bytes: binds at the next allocation");
    }
    let mut by_size: Vec<&NowQuery> = now.queries.iter().filter(|it| it.memory.0 > 0).collect();
    by_size.sort_by_key(|query| (std::cmp::Reverse(query.memory), query.id));
    let mut left = used;
    let mut marked = Vec::new();
    for query in by_size {
        if left <= limit {
            break;
        }
        left = left.saturating_sub(query.memory.0);
        marked.push(query.id);
    }
    let over = used - limit;
    if now.reservations_only {
        return format!(
            "{what} {used} bytes, {over} over the new limit of {limit}: they stay, new reservations wait until there is room"
        );
    }
    if marked.is_empty() {
        return format!(
            "{what} {used} bytes, {over} over the new limit of {limit}, and no query holds them: what does not fit ends \
             the query that asks"
        );
    }
    format!(
        "{what} {used} bytes, {over} over the new limit of {limit}: nothing ends by itself; the next allocation that does \
         not fit ends the query that asks, or the largest one if the asker holds less than its share; to fit, {} would \
         have to end",
        queries(&marked),
    )
}

fn spill(after: &GroupSpec, now: &Now) -> String {
    let Some(share) = after.spill_mem_limit_threshold() else {
        return "no query is asked for memory any more".into();
    };
    let threshold = (after.mem_limit().0 as f64 * share) as u64;
    match now.memory.0 > threshold {
        true => format!(
            "{} bytes are over {threshold}: registered queries are asked for memory at once",
            now.memory
        ),
        false => format!("{} of {threshold} bytes used: nobody is asked", now.memory),
    }
}

fn big_query<T: PartialOrd + Copy>(
    after: &GroupSpec,
    now: &Now,
    limit: Option<T>,
    used: impl Fn(&NowQuery) -> T,
) -> String {
    let Some(limit) = limit else {
        return "running queries are not limited by it any more".into();
    };
    let over: Vec<u64> = now
        .queries
        .iter()
        .filter(|query| !query.tripped && used(query) > limit)
        .map(|query| query.id)
        .collect();
    match over.len() {
        0 => format!(
            "binds the {} running too; none has used more",
            now.queries.len()
        ),
        _ => format!(
            "{} of {} running have used more: {} at the next check: {}",
            over.len(),
            now.queries.len(),
            after.big_query_action(),
            queries(&over),
        ),
    }
}

fn queries(ids: &[u64]) -> String {
    let named: Vec<String> = ids.iter().take(NAMED).map(u64::to_string).collect();
    let more = match ids.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let word = if ids.len() == 1 { "query" } else { "queries" };
    format!("{word} {}{more}", named.join(", "))
}

fn count(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
