//! One page for the program's own metrics and its governor's.
//!
//! Pure but for the pulling; any thread. The program's come from `metrics-exporter-prometheus`, the governor's from its own
//! encoder, with exact seconds, real histograms and series that end with their group.

use crate::governor::Governor;
use crate::metrics::names;
use metrics_exporter_prometheus::PrometheusHandle;

/// What the exporter has, and then the governor's page: to be served with content type `text/plain; version=0.0.4`.
///
/// No family occurs twice: what the exporter has under a name of [`metrics::names`](crate::metrics::names), because
/// it is [published](crate::metrics::facade) as well, is left out.
///
/// # Metrics
///
/// Those of [`metrics::names`](crate::metrics::names).
///
/// # Examples
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use metrics_exporter_prometheus::PrometheusBuilder;
///
/// let handle = PrometheusBuilder::new().install_recorder()?;
/// let governor = quotient::Governor::builder().build()?;
/// let page = quotient::metrics::prometheus::render(&handle, &governor);
/// assert!(page.contains("\nquotient_catalog_version "));
/// # Ok(()) }
/// ```
pub fn render(handle: &PrometheusHandle, governor: &Governor) -> String {
    joined(&handle.render(), &governor.render_metrics())
}

fn joined(theirs: &str, ours: &str) -> String {
    let mut page = String::with_capacity(theirs.len() + ours.len());
    for line in theirs.lines() {
        if !line.is_empty() && !is_ours(named(line)) {
            page.push_str(line);
            page.push('\n');
        }
    }
    page.push_str(ours);
    page
}

/// The family or series that a line is about.
fn named(line: &str) -> &str {
    let rest = ["# HELP ", "# TYPE "]
        .iter()
        .find_map(|head| line.strip_prefix(head))
        .unwrap_or(line);
    rest.split(['{', ' ']).next().unwrap_or(rest)
}

/// Whether the name, or what it is without an exporter's endings, is one of the governor's.
fn is_ours(name: &str) -> bool {
    let known = |name: &str| names::ALL.iter().any(|metric| metric.name == name);
    let part_of_ours = |name: &str| {
        let endings = ["_bucket", "_sum", "_count"];
        known(name)
            || endings
                .iter()
                .any(|ending| name.strip_suffix(ending).is_some_and(known))
    };
    name.starts_with("quotient_")
        && (part_of_ours(name) || name.strip_suffix("_total").is_some_and(part_of_ours))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_both_have_is_the_governors() {
        let theirs = "# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total{path=\"/quotient_spares\"} 3\n\n\
                      # TYPE quotient_spares gauge\nquotient_spares 7\n\n\
                      # TYPE quotient_kill_latency_seconds_bucket_total counter\n\
                      quotient_kill_latency_seconds_bucket_total{stage=\"kill_to_drop\",le=\"1\"} 9\n\n\
                      # TYPE quotient_of_the_users_own gauge\nquotient_of_the_users_own 1";
        let page = joined(theirs, "# TYPE quotient_spares gauge\nquotient_spares 1\n");
        let expected = "# HELP requests_total Requests.\n# TYPE requests_total counter\nrequests_total{path=\"/quotient_spares\"} 3\n\
                        # TYPE quotient_of_the_users_own gauge\nquotient_of_the_users_own 1\n\
                        # TYPE quotient_spares gauge\nquotient_spares 1\n";
        assert_eq!(page, expected);
    }
}
