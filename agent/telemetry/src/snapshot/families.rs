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

/// Builds the families anew, so that no series outlives what it was about.
pub(crate) fn families(
    farm: &FarmSnapshot,
    deadline: impl Fn(&JobPoint) -> Option<Timestamp>,
    people: impl Fn(&JobPoint) -> Option<ForPeople>,
) -> Vec<MetricFamily> {
    let mut all = Families(Registry::new());
    all.one(
        "snapshot_timestamp_seconds",
        "The database's clock when this snapshot of the farm was read",
        farm.at,
    );
    all.one(
        "claims_open",
        "1 while claims are open; 0: the database was replaced or restarted, and no agent has opened them yet",
        f64::from(u8::from(farm.claims_open)),
    );
    all.states(
        "nodes",
        "Nodes by state; blocked: its machine refuses to start processes; expired: past its lease and not yet taken over; lost: ended by another within the last day",
        &NODE_STATES,
        |state| farm.nodes.get(state).copied(),
    );
    all.states(
        "queue_depth",
        "Runs that have not ended, by state; delayed: not yet ready; else the gate that holds them",
        &QUEUE_STATES,
        |state| farm.queue.get(state).copied(),
    );
    all.one(
        "oldest_due_age_seconds",
        "How long the oldest claimable run has waited",
        farm.oldest_due_age,
    );
    all.one(
        "oldest_notification_age_seconds",
        "How long the oldest message has waited to be delivered",
        farm.oldest_notification_age,
    );
    let running = farm.queue.get("running").copied().unwrap_or(0);
    let unhealthy: i64 = farm.unhealthy.values().sum();
    all.states(
        "leases",
        "Leases on running runs by state; stalled: its session has ended, or it never started",
        &LEASE_STATES,
        |state| match state {
            "healthy" => Some((running - unhealthy).max(0)),
            other => farm.unhealthy.get(other).copied(),
        },
    );
    let stuck = all.gauge(
        "stuck_lease_age_seconds",
        "Since when the oldest lease of this job on this node is not healthy; the oldest hundred",
        &["job_name", "node", "state"],
    );
    for s in &farm.stuck {
        stuck
            .with_label_values(&[&s.job_id, &s.node, &s.state])
            .set(s.age);
    }
    let missing = all.gauge(
        "lost_node_age_seconds",
        "Since when a node is lost that has not come back; the hundred lost last, within a day",
        &["node"],
    );
    for m in &farm.missing {
        missing.with_label_values(&[&m.address]).set(m.age);
    }
    all.one(
        "slow_runs",
        "Runs that take longer than usual: more than twice the p95 of their job's last successes",
        farm.slow_runs as f64,
    );
    let slow = all.gauge(
        "slow_run_seconds",
        "How long the longest of a job's runs that take longer than usual has taken; the hundred longest",
        &["job_name"],
    );
    for s in &farm.slow {
        slow.with_label_values(&[&s.job_id]).set(s.age);
    }
    all.one(
        "oldest_snapshot_age_seconds",
        "How long the oldest transaction has kept dead rows from being removed, which slows claiming",
        farm.oldest_snapshot.1,
    );
    all.one(
        "oldest_snapshot_transactions",
        "How many transactions began since the oldest snapshot held open",
        farm.oldest_snapshot.0 as f64,
    );
    let dead = all.gauge(
        "dead_rows",
        "Rows that vacuum has not removed, as PostgreSQL estimates them",
        &["table"],
    );
    for (table, rows) in &farm.dead_rows {
        dead.with_label_values(&[table]).set(*rows as f64);
    }
    all.one(
        "jobs_left_out",
        "Enabled jobs beyond the first thousand, which have no series of their own",
        farm.jobs_left_out as f64,
    );
    all.jobs(&farm.jobs, deadline);
    let info = all.gauge(
        "job_info",
        "Constant 1, labelled by the job's owner and runbook; of jobs that have one of them",
        &["job_name", "owner", "runbook"],
    );
    for job in &farm.jobs {
        if let Some(ForPeople { owner, runbook }) = people(job) {
            info.with_label_values(&[&job.job_id, &owner, &runbook]).set(1.0);
        }
    }
    all.0.gather()
}

struct Families(Registry);

impl Families {
    fn gauge(&mut self, name: &str, help: &str, labels: &[&str]) -> GaugeVec {
        let made = GaugeVec::new(Opts::new(format!("farmhand_farm_{name}"), help), labels)
            // Names and labels are the literals above.
            .unwrap_or_else(|e| unreachable!("{name}: {e}"));
        self.0
            .register(Box::new(made.clone()))
            // Each name is registered once.
            .unwrap_or_else(|e| unreachable!("{name}: {e}"));
        made
    }

    fn one(&mut self, name: &str, help: &str, value: f64) {
        self.gauge(name, help, &[])
            .with_label_values::<&str>(&[])
            .set(value);
    }

    fn states(&mut self, name: &str, help: &str, states: &[&str], of: impl Fn(&str) -> Option<i64>) {
        let gauge = self.gauge(name, help, &["state"]);
        for state in states {
            gauge
                .with_label_values(&[state])
                .set(of(state).unwrap_or(0) as f64);
        }
    }

    fn jobs(&mut self, jobs: &[JobPoint], deadline: impl Fn(&JobPoint) -> Option<Timestamp>) {
        let success = self.gauge(
            "job_last_success_timestamp_seconds",
            "When the job last succeeded; 0: never",
            &["job_name"],
        );
        let by = self.gauge(
            "job_deadline_timestamp_seconds",
            "By when a scheduled job must have succeeded again: the due instant after the one it owes",
            &["job_name"],
        );
        let next = self.gauge(
            "job_next_run_timestamp_seconds",
            "When the job is due next",
            &["job_name"],
        );
        let failures = self.gauge(
            "job_consecutive_failures",
            "Firings that failed since the last that succeeded",
            &["job_name"],
        );
        let takeovers = self.gauge(
            "job_recent_takeovers",
            "How many nodes or wardens ended with attempts of the job within the last hour, at least",
            &["job_name"],
        );
        for job in jobs {
            let name = [job.job_id.as_str()];
            success
                .with_label_values(&name)
                .set(job.last_success.map_or(0.0, seconds));
            failures
                .with_label_values(&name)
                .set(job.consecutive_failures as f64);
            takeovers
                .with_label_values(&name)
                .set(job.recent_takeovers as f64);
            if let Some(at) = job.next_run {
                next.with_label_values(&name).set(seconds(at));
            }
            if let Some(at) = deadline(job) {
                by.with_label_values(&name).set(seconds(at));
            }
        }
    }
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
