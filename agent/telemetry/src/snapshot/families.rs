//! A snapshot as metric families. Every name that begins with `farmhand_farm_` is here.

use farmhand_store::snapshot::{FarmSnapshot, JobPoint};
use jiff::Timestamp;
use prometheus::proto::MetricFamily;
use prometheus::{GaugeVec, Opts, Registry};

use super::deadlines::ForPeople;

/// States that are always shown, zero included, so that a rule never compares with nothing.
const NODE_STATES: [&str; 7] = [
    "ready", "blocked", "cordoned", "draining", "expired", "lost", "closed",
];
const QUEUE_STATES: [&str; 7] = ["running", "due", "delayed", "overlap", "pool", "lock", "rate"];
const LEASE_STATES: [&str; 4] = ["healthy", "expired", "stalled", "overrun"];

/// `name [labels] "help", for each thing => [values of the labels] = value;`
macro_rules! gauges {
    ($registry:ident: $($name:literal [$($label:literal),*] $help:literal,
        for $each:pat in $all:expr => [$($labelled:expr),*] = $value:expr;)*) => {$(
        let series = gauge(&$registry, concat!("farmhand_farm_", $name), $help, &[$($label),*]);
        for $each in $all {
            series.with_label_values::<&str>(&[$($labelled),*]).set($value);
        }
    )*};
}

/// Builds the families anew, so that no series outlives what it was about.
pub(crate) fn families(
    farm: &FarmSnapshot,
    deadline: impl Fn(&JobPoint) -> Option<Timestamp>,
    people: impl Fn(&JobPoint) -> Option<ForPeople>,
) -> Vec<MetricFamily> {
    let all = Registry::new();
    let running = farm.queue.get("running").copied().unwrap_or(0);
    let unhealthy: i64 = farm.unhealthy.values().sum();
    let leases = |state: &str| match state {
        "healthy" => (running - unhealthy).max(0),
        other => farm.unhealthy.get(other).copied().unwrap_or(0),
    };
    gauges! { all:
        "snapshot_timestamp_seconds" [] "The database's clock when this snapshot of the farm was read",
            for () in [()] => [] = farm.at;
        "claims_open" [] "1 while claims are open; 0: the database was replaced or restarted, and no agent has opened them yet",
            for () in [()] => [] = f64::from(u8::from(farm.claims_open));
        "nodes" ["state"] "Nodes by state; blocked: it claims nothing, because its machine refuses to start processes, say; expired: past its lease and not yet taken over; lost: ended by another within the last day",
            for state in NODE_STATES => [state] = farm.nodes.get(state).copied().unwrap_or(0) as f64;
        "queue_depth" ["state"] "Runs that have not ended, by state; delayed: not yet ready; else the gate that holds them",
            for state in QUEUE_STATES => [state] = farm.queue.get(state).copied().unwrap_or(0) as f64;
        "oldest_due_age_seconds" [] "How long the oldest claimable run has waited",
            for () in [()] => [] = farm.oldest_due_age;
        "oldest_notification_age_seconds" [] "How long the oldest message has waited to be delivered",
            for () in [()] => [] = farm.oldest_notification_age;
        "leases" ["state"] "Leases on running runs by state; stalled: its session has ended, or it never started",
            for state in LEASE_STATES => [state] = leases(state) as f64;
        "stuck_lease_age_seconds" ["job_name", "node", "state"]
            "Since when the oldest lease of this job on this node is not healthy; the oldest hundred",
            for stuck in &farm.stuck => [&stuck.job_id, &stuck.node, &stuck.state] = stuck.age;
        "lost_node_age_seconds" ["node"] "Since when a node is lost that has not come back; the hundred lost last, within a day",
            for node in &farm.missing => [&node.address] = node.age;
        "slow_runs" [] "Runs that take longer than usual: more than twice the p95 of their job's last successes",
            for () in [()] => [] = farm.slow_runs as f64;
        "slow_run_seconds" ["job_name"]
            "How long the longest of a job's runs that take longer than usual has taken; the hundred longest",
            for slow in &farm.slow => [&slow.job_id] = slow.age;
        "oldest_snapshot_age_seconds" []
            "How long the oldest transaction has kept dead rows from being removed, which slows claiming",
            for () in [()] => [] = farm.oldest_snapshot.1;
        "oldest_snapshot_transactions" [] "How many transactions began since the oldest snapshot held open",
            for () in [()] => [] = farm.oldest_snapshot.0 as f64;
        "dead_rows" ["table"] "Rows that vacuum has not removed, as PostgreSQL estimates them",
            for (table, rows) in &farm.dead_rows => [table] = *rows as f64;
        "jobs_left_out" [] "Enabled jobs beyond the first thousand, which have no series of their own",
            for () in [()] => [] = farm.jobs_left_out as f64;
        "job_last_success_timestamp_seconds" ["job_name"] "When the job last succeeded; 0: never",
            for job in &farm.jobs => [&job.job_id] = job.last_success.map_or(0.0, seconds);
        "job_deadline_timestamp_seconds" ["job_name"]
            "By when a scheduled job must have succeeded again: the due instant after the one it owes",
            for (job, at) in farm.jobs.iter().filter_map(|job| Some((job, deadline(job)?))) => [&job.job_id] = seconds(at);
        "job_next_run_timestamp_seconds" ["job_name"] "When the job is due next",
            for (job, at) in farm.jobs.iter().filter_map(|job| Some((job, job.next_run?))) => [&job.job_id] = seconds(at);
        "job_consecutive_failures" ["job_name"] "Firings that failed since the last that succeeded",
            for job in &farm.jobs => [&job.job_id] = job.consecutive_failures as f64;
        "job_recent_takeovers" ["job_name"]
            "How many nodes or wardens ended with attempts of the job within the last hour, at least",
            for job in &farm.jobs => [&job.job_id] = job.recent_takeovers as f64;
        "job_info" ["job_name", "owner", "runbook"] "Constant 1, labelled by the job's owner and runbook; of jobs that have one of them",
            for (job, of) in farm.jobs.iter().filter_map(|job| Some((job, people(job)?))) => [&job.job_id, &of.owner, &of.runbook] = 1.0;
    }
    all.gather()
}

fn gauge(all: &Registry, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
    // Names and labels are the literals above, and each name is registered once.
    let gauge = GaugeVec::new(Opts::new(name, help), labels).unwrap_or_else(|e| unreachable!("{name}: {e}"));
    all.register(Box::new(gauge.clone()))
        .unwrap_or_else(|e| unreachable!("{name}: {e}"));
    gauge
}

fn seconds(at: Timestamp) -> f64 {
    at.as_microsecond() as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_label_is_named_job_or_instance_and_every_state_is_shown() {
        for family in super::super::sample() {
            assert!(family.name().starts_with("farmhand_farm_"));
            for metric in family.get_metric() {
                let bad = |l: &&prometheus::proto::LabelPair| ["job", "instance"].contains(&l.name());
                assert_eq!(metric.get_label().iter().find(bad), None, "{}", family.name());
            }
        }
        let empty = families(&FarmSnapshot::default(), |_| None, |_| None);
        let leases = empty.iter().find(|f| f.name() == "farmhand_farm_leases").unwrap();
        assert_eq!(leases.get_metric().len(), 4);
    }

    #[test]
    fn leases_that_are_not_healthy_are_not_counted_as_healthy() {
        let mut farm = FarmSnapshot::default();
        farm.queue.insert("running".into(), 5);
        farm.unhealthy.insert("overrun".into(), 2);
        let leases = families(&farm, |_| None, |_| None)
            .into_iter()
            .find(|f| f.name() == "farmhand_farm_leases")
            .unwrap();
        let of = |state: &str| {
            let found = leases
                .get_metric()
                .iter()
                .find(|m| m.get_label()[0].value() == state);
            found.unwrap().get_gauge().get_value()
        };
        assert_eq!((of("healthy"), of("overrun"), of("expired")), (3.0, 2.0, 0.0));
    }
}
