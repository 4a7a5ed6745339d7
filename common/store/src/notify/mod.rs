//! Notifications: notes of what happened become messages, messages are leased to senders.
//!
//! A note is written by a trigger, in the transaction of the end that it is about. [`settle`] turns notes into messages
//! in one transaction, under a lock that one agent at a time has; so nothing is lost when an agent dies, and nothing is
//! told twice. Delivery is at least once: a sender that dies leaves its message to the next one.

mod missed;
mod outbox;
mod people;

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio_postgres::types::{Json, Type};

pub use outbox::{Delivery, Verdict, claim, drop_older_than, sent};
pub use people::{NotificationRow, TargetRow, Trouble, notifications, submit_test, targets};

use super::conn::Param;
use super::db::{Db, Stmt, Transaction, stmt};
use super::decode;
use super::error::StoreError;
use super::protocol::millis;
use super::snapshot::JobPoint;
use farmhand_core::durations::Exceeded;
use farmhand_core::notify::{
    About, Channel, End, Happening, Lost, Slow, State, TargetSpec, Tell, Topic, stored,
};
use farmhand_core::trace::traceparent;

/// Notes settled by one transaction at most.
const SET: i64 = 500;

/// What one call of [`settle`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// So many messages are to be delivered; whether notes are left.
    Done {
        /// How many messages are to be delivered.
        messages: usize,
        /// Whether notes are left.
        more: bool,
    },
    /// Another agent is at it.
    Busy,
}

#[derive(Deserialize)]
struct Note {
    id: i64,
    job_id: String,
    what: What,
    run_id: i64,
    firing: Option<i64>,
    parent_run: Option<i64>,
    attempt: i32,
    outcome: String,
    reason: Option<String>,
    exit_code: Option<i32>,
    signal: Option<i32>,
    node: Option<String>,
    due_at: Option<Timestamp>,
    at: Timestamp,
    /// Not one of several whose others are still to end well.
    whole: bool,
    exceeded: Option<Exceeded>,
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum What {
    End,
    Lost,
    Slow,
}

/// What happened to a job, and what is known of the attempt besides.
struct Noted {
    job_id: String,
    happening: Happening,
    traceparent: Option<String>,
    parent_run: Option<i64>,
}

impl Note {
    fn noted(self) -> Option<Noted> {
        let (job_id, parent_run) = (self.job_id.clone(), self.parent_run);
        let firing = self.firing.unwrap_or(self.run_id);
        let of = |due| traceparent(&job_id, due, firing, self.run_id, self.attempt);
        let traceparent = self.due_at.filter(|_| self.attempt > 0).map(of);
        Some(Noted {
            happening: self.happening()?,
            job_id,
            traceparent,
            parent_run,
        })
    }

    fn happening(self) -> Option<Happening> {
        if self.what == What::Lost {
            return Some(Happening::Lost(Lost {
                run_id: self.run_id,
                firing: self.firing,
                attempt: self.attempt,
                node: self.node.unwrap_or_default(),
                reason: self.reason,
                due: self.due_at,
                at: self.at,
            }));
        }
        if self.what == What::Slow {
            return Some(Happening::Slow(Slow {
                run_id: self.run_id,
                attempt: self.attempt,
                node: self.node.unwrap_or_default(),
                due: self.due_at,
                exceeded: self.exceeded,
            }));
        }
        let good = self.outcome == "succeeded";
        if good && !self.whole {
            return None;
        }
        let end = End {
            run_id: self.run_id,
            attempt: self.attempt,
            outcome: self.outcome,
            reason: self.reason,
            exit_code: self.exit_code,
            signal: self.signal,
            node: self.node,
            due: self.due_at,
            at: self.at,
        };
        Some(if good {
            Happening::Succeeded(end)
        } else {
            Happening::Failed(end)
        })
    }
}

#[derive(Deserialize)]
struct Job {
    job_id: String,
    #[serde(flatten)]
    state: State,
    #[serde(flatten)]
    about: About,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    #[serde(deserialize_with = "stored")]
    spec: Option<TargetSpec>,
}

#[derive(Debug, Serialize)]
struct Episode<'a> {
    job_id: &'a str,
    #[serde(flatten)]
    state: &'a State,
}

#[derive(Debug, Serialize)]
struct Outgoing<'a> {
    target: String,
    channel: Channel,
    topic: Topic,
    job_id: &'a str,
    run_id: Option<i64>,
    key: String,
    body: farmhand_core::notify::Message,
}

/// Turns notes into messages, and after them `further` happenings, each with its job: those of one call are dropped
/// when notes are left or somebody else is at it.
pub async fn settle(db: &Db, further: &[(String, Happening)]) -> Result<Settled, StoreError> {
    let mut tx = db.transaction("notify_settle").await?;
    let lock: Option<(bool,)> = tx.row(stmt!("notify_lock"), &[]).await?;
    if !lock.is_some_and(|(free,)| free) {
        tx.rollback().await?;
        return Ok(Settled::Busy);
    }
    let notes: Vec<Note> = tx.rows(stmt!("notify_notes"), &[(&SET, Type::INT8)]).await?;
    let more = i64::try_from(notes.len()).is_ok_and(|n| n >= SET);
    let ids: Vec<i64> = notes.iter().map(|n| n.id).collect();
    let mut happenings: Vec<Noted> = notes.into_iter().filter_map(Note::noted).collect();
    if !more {
        let further = missed::still(&mut tx, further).await?;
        happenings.extend(further.into_iter().map(|(job_id, happening)| Noted {
            job_id: job_id.clone(),
            happening: happening.clone(),
            traceparent: None,
            parent_run: None,
        }));
    }
    if ids.is_empty() && happenings.is_empty() {
        tx.rollback().await?;
        return Ok(Settled::Done { messages: 0, more });
    }
    let messages = write(&mut tx, &ids, &happenings).await?;
    tx.commit().await?;
    Ok(Settled::Done { messages, more })
}

async fn write(tx: &mut Transaction, notes: &[i64], happenings: &[Noted]) -> Result<usize, StoreError> {
    let mut names: Vec<&str> = happenings.iter().map(|noted| noted.job_id.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    let jobs: Vec<Job> = tx
        .rows(stmt!("notify_jobs"), &[(&names, Type::TEXT_ARRAY)])
        .await?;
    let mut jobs: BTreeMap<String, Job> = jobs.into_iter().map(|j| (j.job_id.clone(), j)).collect();
    let mut outgoing = Vec::new();
    for noted in happenings {
        let name = &noted.job_id;
        let Some(job) = jobs.get_mut(name) else { continue };
        // Nobody is to be told any more.
        if job.targets.is_empty() {
            job.state = State::default();
            continue;
        }
        let (state, tell) = std::mem::take(&mut job.state).next(name, &noted.happening);
        job.state = state;
        if let Some(mut tell) = tell {
            tell.message.about.clone_from(&job.about);
            tell.message.traceparent.clone_from(&noted.traceparent);
            tell.message.parent_run = noted.parent_run;
            outgoing.extend(addressed(name, &tell, &job.targets));
        }
    }
    let (calm, open): (Vec<&Job>, Vec<&Job>) = jobs.values().partition(|job| job.state.is_calm());
    let calm: Vec<&str> = calm.iter().map(|job| job.job_id.as_str()).collect();
    let open: Vec<Episode<'_>> = open
        .iter()
        .map(|job| Episode {
            job_id: &job.job_id,
            state: &job.state,
        })
        .collect();
    let made: Vec<Value> = tx
        .rows(
            stmt!("notify_settle"),
            &[
                (&notes, Type::INT8_ARRAY),
                (&Json(&open), Type::JSON),
                (&calm, Type::TEXT_ARRAY),
                (&Json(&outgoing), Type::JSON),
            ],
        )
        .await?;
    Ok(made.len())
}

fn addressed<'a>(job_id: &'a str, tell: &Tell, targets: &[Target]) -> Vec<Outgoing<'a>> {
    let readable = targets.iter().filter_map(|t| Some((&t.name, t.spec.as_ref()?)));
    readable
        .filter(|(_, spec)| spec.wants(tell.topic))
        .flat_map(|(name, spec)| spec.channels().into_iter().map(move |channel| (name, channel)))
        .map(|(target, channel)| Outgoing {
            target: target.clone(),
            channel,
            topic: tell.topic,
            job_id,
            run_id: tell.message.run,
            key: tell.key.clone(),
            body: tell.message.clone(),
        })
        .collect()
}

/// What only one agent does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Looking for jobs whose deadline has passed.
    Deadlines,
    /// Sending the sign of life.
    Ping,
}

impl Turn {
    fn name(self) -> &'static str {
        match self {
            Self::Deadlines => "deadlines",
            Self::Ping => "ping",
        }
    }
}

/// Takes the turn unless somebody had it within `every` by the database's clock.
pub async fn take_turn(
    db: &Db,
    turn: Turn,
    address: &str,
    every: std::time::Duration,
) -> Result<bool, StoreError> {
    let row: Option<Value> = db
        .row(
            stmt!("notify_turn"),
            &[
                (&turn.name(), Type::TEXT),
                (&address, Type::TEXT),
                (&millis(every), Type::INT8),
            ],
        )
        .await?;
    Ok(row.is_some())
}

/// Gives the turn back, if `address` still has it: whoever asks next takes it.
pub async fn give_turn_back(db: &Db, turn: Turn, address: &str) -> Result<(), StoreError> {
    let _: Option<Value> = db
        .row(
            stmt!("notify_turn_back"),
            &[(&turn.name(), Type::TEXT), (&address, Type::TEXT)],
        )
        .await?;
    Ok(())
}

/// A job whose deadline somebody wants to hear of.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Watched {
    /// What its deadline is computed from.
    #[serde(flatten)]
    pub point: JobPoint,
    /// The missed deadline that people have been told of.
    #[serde(default, deserialize_with = "decode::instant_or_none")]
    pub late_since: Option<Timestamp>,
    /// The database's clock.
    pub now: Timestamp,
}

/// What there is to look at for who has the turn of [`Turn::Deadlines`].
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Watch {
    /// The jobs, by name.
    pub jobs: Vec<Watched>,
    /// The names of the targets that want mail.
    pub mail: Vec<String>,
}

/// Takes the turn of [`Turn::Deadlines`], as [`take_turn`] does, with what there is to look at.
pub async fn watch(db: &Db, address: &str, every: std::time::Duration) -> Result<Option<Watch>, StoreError> {
    let sql = concat!(
        "WITH turn AS (",
        include_str!("../sql/notify_turn.sql"),
        ") SELECT w.* FROM turn CROSS JOIN LATERAL (",
        include_str!("../sql/notify_watch.sql"),
        ") w"
    );
    let op = "notify_watch";
    let stmt = Stmt {
        op,
        sql,
        often: false,
    };
    let every = millis(every);
    let params: [Param<'_>; 3] = [
        (&Turn::Deadlines.name(), Type::TEXT),
        (&address, Type::TEXT),
        (&every, Type::INT8),
    ];
    db.row(stmt, &params).await
}

/// Whether the farm does its work.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Health {
    /// Whether agents may claim; not after the database was replaced, until its epoch is opened.
    pub claims_open: bool,
    /// Nodes that take work and whose lease has not run out.
    pub ready: i64,
    /// Seconds that the first due instant has waited to be fired; None without a schedule.
    pub overdue: Option<f64>,
}

/// What the farm looks like now.
pub async fn health(db: &Db) -> Result<Health, StoreError> {
    db.one(stmt!("notify_health"), &[]).await
}
