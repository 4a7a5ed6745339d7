//! What most store tests begin with: a database, nodes with sessions, jobs with due runs.

use std::sync::OnceLock;
use std::time::Duration;

use farmhand_core::definition::{Command, JobSpec, Overlap, RunOn};
use farmhand_core::run::RunState;
use farmhand_store::jobs::{ApplyOutcome, JobChange, apply};
use farmhand_store::protocol::{
    Claimed, Finish, FinishResult, Fire, Fired, Measured, NodeInfo, Opened, Retry, claim, expire, finish,
    fire, open, overdue,
};
use farmhand_store::{AttemptOutcome, Db, LeaseIdentity, Note};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;
use jiff::Timestamp;
use serde_json::json;
use tokio::sync::mpsc;
use uuid::Uuid;

pub const TTL: Duration = Duration::from_secs(30);

pub struct Farm {
    pub test: TestDb,
    /// With the rights of an agent.
    pub db: Db,
    /// With those of the schema's owner, for what agents may not.
    pub owner: Db,
    /// A plain connection, to look behind the store's back.
    pub sql: Client,
}

impl Farm {
    pub async fn new() -> Self {
        let test = TestDb::new().await;
        let (db, owner, sql) = (test.agent_db().await, test.db().await, test.client().await);
        Self { test, db, owner, sql }
    }

    /// Opens a session under `address`.
    pub async fn node(&self, address: &str) -> LeaseIdentity {
        self.node_with(address, json!({})).await
    }

    pub async fn node_with(&self, address: &str, labels: serde_json::Value) -> LeaseIdentity {
        self.opens(info(address, Uuid::new_v4(), labels)).await
    }

    pub async fn opens(&self, node: NodeInfo) -> LeaseIdentity {
        opened(&self.db, node).await
    }

    /// Applies one job; scheduled for `next_run` when given.
    pub async fn job(&self, job_id: &str, spec: JobSpec, next_run: Option<Timestamp>) -> i64 {
        let change = JobChange {
            job_id: job_id.to_owned(),
            spec,
            next_run,
            source: "test.toml".to_owned(),
        };
        match apply(&anna(&self.owner), &[change], false, "tester")
            .await
            .unwrap()
        {
            ApplyOutcome::Done { applied, .. } => applied[0].rev,
            other => panic!("{job_id}: {other:?}"),
        }
    }

    /// Fires `job_id`, which is due at `at`, with `due` as its instants; the next one is an hour after `at`.
    pub async fn fire_at(&self, job_id: &str, at: Timestamp, due: &[Timestamp]) -> Vec<Fired> {
        let rev = self
            .i64(&format!("SELECT rev FROM farmhand.job WHERE job_id = '{job_id}'"))
            .await;
        fire(&self.db, &[firing(job_id, rev, at, due)]).await.unwrap()
    }

    /// A job with one due run that `me` then holds.
    pub async fn held_run(&self, me: &LeaseIdentity, job_id: &str, spec: JobSpec) -> Claimed {
        let at = past(60);
        self.job(job_id, spec, Some(at)).await;
        let fired = self.fire_at(job_id, at, &[at]).await;
        assert_eq!(fired.len(), 1, "{job_id} fires");
        let mut claimed = claim(&self.db, me, 1, Some(&fired[0].run_ids)).await.unwrap();
        assert_eq!(claimed.len(), 1, "{job_id} is claimed");
        claimed.remove(0)
    }

    /// Runs of a new job that are due.
    pub async fn due_runs(&self, job_id: &str, count: i64) {
        self.job(job_id, spec(), None).await;
        self.sql
            .exec_with(
                "INSERT INTO farmhand.run_live (job_id, rev, kind, instance, due_at, ready_at)
                 SELECT $1, 1, 'submitted', 0, now() - interval '1 minute', now() - interval '1 minute'
                 FROM generate_series(1, $2::bigint)",
                &[&job_id, &count],
            )
            .await;
    }

    /// Looks until `sql` counts `wanted`.
    pub async fn until(&self, sql: &str, wanted: i64) {
        for _ in 0..1000 {
            if self.i64(sql).await == wanted {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("not within 10 s: {sql} = {wanted}");
    }

    pub async fn exec(&self, sql: &str) {
        self.sql.exec(sql).await;
    }

    /// # Panics
    /// When `sql` counts anything else.
    pub async fn is(&self, sql: &str, wanted: i64) {
        assert_eq!(self.i64(sql).await, wanted, "{sql}");
    }

    pub async fn i64(&self, sql: &str) -> i64 {
        self.sql.value(sql).await
    }

    /// As the superuser: of other sessions, which the owner is told of only with `pg_read_all_stats`.
    pub async fn i64_of_sessions(&self, sql: &str) -> i64 {
        self.test.admin().await.value(sql).await
    }

    /// What the events say of runs that ended: the job, the attempt, its node, how and why.
    pub async fn ends_told(&self) -> Option<String> {
        let sql = "SELECT string_agg(concat_ws(' ', job_id, attempt, address, detail->>'outcome', detail->>'reason'), ', '
            ORDER BY event_id) FROM farmhand.event WHERE kind = 'run_ended'";
        self.text(sql).await
    }

    pub async fn text(&self, sql: &str) -> Option<String> {
        self.sql
            .query_opt(sql, &[])
            .await
            .unwrap_or_else(|e| panic!("{sql}: {e:?}"))
            .and_then(|r| r.get(0))
    }

    /// State and reason of a run, live or finished.
    pub async fn state(&self, run_id: i64) -> (String, Option<String>) {
        let row = self
            .sql
            .query_one(
                "SELECT state, reason FROM farmhand.run WHERE run_id = $1",
                &[&run_id],
            )
            .await
            .unwrap();
        (row.get(0), row.get(1))
    }

    /// # Panics
    /// When a run is not in this state, for this reason.
    pub async fn is_now(&self, run_id: i64, state: &str, reason: Option<&str>) {
        let (now, why) = self.state(run_id).await;
        assert_eq!((now.as_str(), why.as_deref()), (state, reason), "run {run_id}");
    }

    /// # Panics
    /// When `sql` gives any other text.
    pub async fn says(&self, sql: &str, wanted: Option<&str>) {
        assert_eq!(self.text(sql).await.as_deref(), wanted, "{sql}");
    }

    pub async fn renewals(&self, address: &str) -> i64 {
        self.i64(&format!(
            "SELECT renewals FROM farmhand.node WHERE address = '{address}'"
        ))
        .await
    }
}

/// Opens a session of a node whose address is free.
pub async fn opened(db: &Db, node: NodeInfo) -> LeaseIdentity {
    match open(db, &node).await.unwrap() {
        Opened::Session(session) => LeaseIdentity {
            address: node.address,
            session,
            incarnation: node.incarnation,
        },
        other => panic!("{}: {other:?}", node.address),
    }
}

/// Waits until something in the database waits for a lock, so that what comes next comes after it.
pub async fn until_blocked(farm: &Farm) {
    let sql = "SELECT count(*) FROM pg_stat_activity \
               WHERE datname = current_database() AND wait_event_type = 'Lock'";
    let admin = farm.test.admin().await;
    for _ in 0..1000 {
        if admin.value::<i64>(sql).await > 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("nothing came to wait for a lock within 10 s");
}

pub fn info(address: &str, incarnation: Uuid, labels: serde_json::Value) -> NodeInfo {
    NodeInfo {
        address: address.to_owned(),
        name: address.to_owned(),
        incarnation,
        ttl: TTL,
        slots: 8,
        labels,
        version: "test".to_owned(),
        last_session: 0,
        machine: None,
    }
}

pub fn spec() -> JobSpec {
    JobSpec {
        command: Some(Command::Argv(vec!["true".to_owned()])),
        ..JobSpec::default()
    }
}

/// A job with this rule of overlap.
pub fn overlapping(overlap: Overlap) -> JobSpec {
    JobSpec { overlap, ..spec() }
}

/// The same, in so many instances.
pub fn sharded(overlap: Overlap, instances: u32) -> JobSpec {
    JobSpec {
        instances,
        ..overlapping(overlap)
    }
}

/// The same, on each node.
pub fn on_each_node(overlap: Overlap) -> JobSpec {
    JobSpec {
        run_on: RunOn::EachNode,
        ..overlapping(overlap)
    }
}

/// Notes of the farm from now on, and the connection that hears them.
pub async fn listening(farm: &Farm) -> (Db, mpsc::Receiver<Note>) {
    let (keeper, mut notes) = Db::dedicated(&farm.test.config());
    // Its first statement connects it; from then on it listens.
    overdue(&keeper, 1).await.unwrap();
    assert!(matches!(notes.recv().await, Some(Note::Reconnected { .. })));
    (keeper, notes)
}

/// Whole seconds before this test began: the same instant however often it is asked for, and what the
/// database stores comes back equal.
pub fn past(seconds: i64) -> Timestamp {
    static BEGAN: OnceLock<Timestamp> = OnceLock::new();
    let now = BEGAN.get_or_init(|| Timestamp::from_second(Timestamp::now().as_second()).unwrap());
    *now - jiff::SignedDuration::from_secs(seconds)
}

pub fn firing(job_id: &str, rev: i64, at: Timestamp, due: &[Timestamp]) -> Fire {
    Fire {
        job_id: job_id.to_owned(),
        rev,
        seen: at,
        following: Some(Timestamp::from_second(at.as_second() + 3600).unwrap()),
        due: due.to_vec(),
        late_ms: 0,
        skipped: Vec::new(),
    }
}

pub fn success(me: &LeaseIdentity, run: &Claimed) -> Finish {
    Finish {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        address: me.address.clone(),
        session: me.session,
        state: RunState::Succeeded,
        exit_code: Some(0),
        signal: None,
        reason: None,
        measured: Measured {
            started_at: Some(Timestamp::now()),
            ran_ms: None,
            cpu_ms: Some(5),
            max_rss_bytes: Some(1 << 20),
            output_bytes: Some(3),
            output_dropped: Some(0),
        },
        again: None,
    }
}

pub fn failure(me: &LeaseIdentity, run: &Claimed, delay: Duration) -> Retry {
    Retry {
        run_id: run.run_id,
        attempt: run.attempt,
        fence: run.fence,
        address: me.address.clone(),
        session: me.session,
        outcome: AttemptOutcome::Failed,
        exit_code: Some(3),
        signal: None,
        reason: None,
        measured: Measured::default(),
        delay,
    }
}

/// As a challenger whose stopwatch ran out.
pub async fn expire_now(farm: &Farm, me: &LeaseIdentity) {
    let renewals = farm.renewals(&me.address).await;
    expire(&farm.db, &me.address, me.session, me.incarnation, renewals)
        .await
        .unwrap();
}

/// Finishes one run.
pub async fn one(farm: &Farm, end: Finish) -> FinishResult {
    finish(&farm.db, &[end]).await.unwrap().remove(0).1
}
