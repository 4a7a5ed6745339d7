//! One run of the suite: the farm, the plan, the rest at the end, the verdict.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde::Serialize;

use super::field::Field;
use super::gather::{self, Reader};
use super::jobs;
use super::lateness::Timed;
use super::leftovers::Holdings;
use super::nodes::Nodes;
use super::oracle::{self, History, OTHER, Surprise, Takeover, Verdict};
use super::plan::{Fault, Plan};
use super::soak::Samples;
use super::targets::{self, Mismatch, Span};
use super::{effects, leftovers, place, stalls, table};

/// For a farm to come to rest when nothing is done to it any more.
const REST: Duration = Duration::from_secs(150);

/// A node that nothing was done to for so long is as well as one that nothing was ever done to.
const SETTLED: Duration = Duration::from_secs(8);

/// What a run of the suite is told beside its plan.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Added to every bound on lateness, for a machine that is busy with other things. Safety has none.
    pub tolerance: Duration,
    /// Where samples are written while it runs.
    pub samples: Option<PathBuf>,
    /// Say what happens on standard error.
    pub talk: bool,
    /// Set while it runs: no fault begins any more, and what there was is judged.
    pub stop: Option<&'static AtomicBool>,
}

impl Options {
    fn is_stopped(&self) -> bool {
        self.stop.is_some_and(|stop| stop.load(Ordering::Relaxed))
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    pub verdict: Verdict,
    pub mismatches: Vec<Mismatch>,
    /// Due instants, times instances, that were matched to a record.
    pub instants: usize,
    /// Those of them whose record is that of a skip.
    pub skipped: usize,
    /// From each instant to the first line of its run, where nothing makes it wait.
    pub begun: Vec<Timed>,
    pub faults: BTreeMap<String, Met>,
    pub windows: usize,
    pub surprises: Vec<Surprise>,
    pub lasted: Duration,
    pub submitted: usize,
    /// The farm's directory, kept when something was found.
    pub kept: Option<PathBuf>,
    /// The longest that this machine kept a ready thread waiting.
    pub stall: Duration,
    /// How often that was so long that it counts as a fault.
    pub stalls: usize,
}

/// Faults of one name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Met {
    pub begun: usize,
    /// Of these: whoever they were to hit was there.
    pub hit: usize,
}

impl Outcome {
    pub fn is_clean(&self) -> bool {
        self.verdict.undeclared().next().is_none() && self.mismatches.is_empty()
    }

    pub fn count(&self) -> usize {
        self.faults.values().map(|met| met.begun).sum()
    }
}

/// Runs a plan in a network of its own, on the calling thread's behalf.
///
/// # Panics
/// When the farm cannot be built.
pub fn run(plan: &Plan, options: &Options) -> Outcome {
    let (plan, options) = (plan.clone(), options.clone());
    // A thread of its own, so that whoever calls stays in the network it is in.
    let whole = std::thread::spawn(move || {
        place::enter_hub();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(4)
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(suite(&plan, &options))
    });
    match whole.join() {
        Ok(outcome) => outcome,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

async fn suite(plan: &Plan, options: &Options) -> Outcome {
    let field = Arc::new(Field::new(&plan.shape).await);
    let first = field.client().await.expect("a database");
    let before = leftovers::holdings(&field, &first).await;
    drop(first);
    field.apply_jobs().await;
    let from = now(&field).await + Duration::from_secs(1);
    let begun = Instant::now();
    let stall = Arc::new(Mutex::new(Duration::ZERO));
    let side = [
        tokio::spawn(submit(field.clone())),
        tokio::spawn(table::fill(field.clone())),
        tokio::spawn(supervise(field.clone())),
        tokio::spawn(stalls::feel(field.clone(), stall.clone())),
        tokio::spawn(watch(field.clone(), options.clone())),
    ];
    let samples = options.samples.clone().map(Samples::new);
    let sampling = samples.clone().map(|samples| {
        let (field, of) = (field.clone(), plan.shape.spared.unwrap_or(0));
        tokio::spawn(async move { samples.take(&field, of).await })
    });
    let faults = inflict(&field, plan, begun, options).await;
    let lasted = begun.elapsed();
    if let Some(sampling) = sampling {
        sampling.abort();
    }
    side[..2].iter().for_each(tokio::task::JoinHandle::abort);
    let (left, to) = come_to_rest(&field, &before, options).await;
    side.iter().for_each(tokio::task::JoinHandle::abort);
    let clock_error = Duration::from_millis(20);
    let span = Span {
        from,
        to,
        clock_error,
    };
    let mut outcome = judge(&field, left, samples.as_ref(), span, options).await;
    outcome.faults = faults;
    outcome.lasted = lasted;
    outcome.stall = *stall.lock().expect("no panic under it");
    for task in side {
        let _ = task.await;
    }
    if !outcome.is_clean() {
        match Arc::try_unwrap(field) {
            Ok(mut field) => outcome.kept = Some(field.keep()),
            Err(_) => eprintln!("the farm's directory could not be kept"),
        }
    }
    outcome
}

/// Each fault at its time, each for itself; returns when the last is over.
async fn inflict(
    field: &Arc<Field>,
    plan: &Plan,
    begun: Instant,
    options: &Options,
) -> BTreeMap<String, Met> {
    let mut faults: BTreeMap<String, Met> = BTreeMap::new();
    let mut going_on = Vec::new();
    for event in &plan.events {
        let at = begun + Duration::from_millis(event.at_ms);
        if !wait_until(at, options).await {
            break;
        }
        faults.entry(event.fault.name()).or_default().begun += 1;
        if options.talk {
            eprintln!("{:>8.3} s {}", begun.elapsed().as_secs_f64(), told(field, event));
        }
        going_on.push((event.fault.name(), apart(effects::happen(field.clone(), *event))));
    }
    wait_until(begun + Duration::from_millis(plan.shape.lasts_ms), options).await;
    for (name, thread) in going_on {
        while !thread.is_finished() {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let hit = thread.join().expect("a fault is done to the end");
        faults.entry(name).or_default().hit += usize::from(hit);
    }
    faults
}

/// Whether that was reached, or it is to stop before.
async fn wait_until(at: Instant, options: &Options) -> bool {
    while Instant::now() < at && !options.is_stopped() {
        let next = at.min(Instant::now() + Duration::from_millis(200));
        tokio::time::sleep_until(next.into()).await;
    }
    !options.is_stopped()
}

/// On a thread of its own: servers are stopped and started by waiting for them, and no timer may wait with them.
fn apart(fault: impl Future<Output = bool> + Send + 'static) -> std::thread::JoinHandle<bool> {
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        runtime.block_on(fault)
    })
}

fn told(field: &Field, event: &super::plan::Event) -> String {
    let name = |n: usize| field.sites[n].name.clone();
    let who = match event.fault {
        Fault::Rack { first, size } => format!("{} to {}", name(first), name(first + size - 1)),
        fault => fault.agent().map_or("farm".to_owned(), name),
    };
    let declared = if event.declared { " (declared)" } else { "" };
    format!(
        "{who}: {} for {} ms{declared}",
        event.fault.name(),
        event.lasts_ms
    )
}

/// An application that submits, and asks again with the same key until it has an answer.
async fn submit(field: Arc<Field>) {
    for number in 0_u64.. {
        tokio::time::sleep(Duration::from_millis(900)).await;
        let key = format!("key {number}");
        loop {
            let once = async {
                let client = field.client().await?;
                let sql = "SELECT farmhand.submit('submitted', idempotency_key => $1)";
                let row = client.query_one(sql, &[&key]).await.ok()?;
                Some(row.get::<_, i64>(0))
            };
            let answer = tokio::time::timeout(Duration::from_secs(4), once).await;
            if let Ok(Some(run)) = answer {
                field.submitted.lock().expect("no panic under it").push(run);
                break;
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }
}

async fn supervise(field: Arc<Field>) {
    loop {
        tokio::time::sleep(Duration::from_millis(500)).await;
        field.supervise().await;
    }
}

/// Looks at what the witnesses say while it goes on, and says what it sees.
async fn watch(field: Arc<Field>, options: Options) {
    let mut reader = Reader::default();
    let mut told = 0;
    loop {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let history = History {
            lines: reader.read(&field.dir().join("witness")).to_vec(),
            unfinished: true,
            ..history(&field, &options)
        };
        let verdict = oracle::check(&history);
        // What a window that is not over yet will excuse is told too, and judged at the end.
        let found: Vec<_> = verdict.undeclared().collect();
        if options.talk && found.len() > told {
            found[told..]
                .iter()
                .for_each(|v| eprintln!("so far: {:?} {}", v.broken, v.what));
        }
        told = found.len();
    }
}

/// Heals everything, lets the schedules go on for a moment, ends them, and waits until nothing is left.
async fn come_to_rest(field: &Field, before: &Holdings, options: &Options) -> (Vec<String>, Timestamp) {
    for site in &field.sites {
        site.start().await;
        site.agent.lock().await.ready_within(REST).await;
    }
    tokio::time::sleep(Duration::from_secs(4)).await;
    // The last instants before this may wait for an agent that wakes up a little late.
    let to = now(field).await - Duration::from_secs(2);
    // A table's job ends with its rows.
    for name in jobs::names().filter(|name| *name != table::JOB) {
        field.farmhand(&["job", "pause", name]).await;
    }
    let deadline = Instant::now() + REST + options.tolerance;
    loop {
        remove_nodes(field).await;
        let left = match field.client().await {
            Some(client) => leftovers::left(field, &client, before).await,
            None => vec!["no database".to_owned()],
        };
        if left.is_empty() || Instant::now() > deadline {
            return (left, to);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
}

/// Those that a site had for a while.
fn other_addresses(field: &Field) -> BTreeSet<String> {
    let done = field.done.lock().expect("no panic under it");
    let had = done.iter().filter(|d| d.other_address.is_some());
    had.filter_map(|d| Some(format!("{}{OTHER}", d.node.as_ref()?)))
        .collect()
}

/// Addresses that no agent has any more, as soon as their sessions are over.
async fn remove_nodes(field: &Field) {
    let gone = other_addresses(field);
    let Some(client) = field.client().await else {
        return;
    };
    let sql = "SELECT address FROM farmhand.node";
    let rows = client.query(sql, &[]).await.unwrap_or_default();
    for address in rows
        .iter()
        .map(|row| row.get::<_, String>(0))
        .filter(|a| gone.contains(a))
    {
        let _ = field.try_farmhand(&["node", "rm", &address]).await;
    }
}

async fn now(field: &Field) -> Timestamp {
    let client = field.client().await.expect("a database");
    let row = client.query_one("SELECT clock_timestamp()", &[]).await;
    row.expect("the time").get(0)
}

fn history(field: &Field, options: &Options) -> History {
    History {
        kinds: jobs::kinds(),
        nodes: field.sites.iter().map(|s| s.name.clone()).collect(),
        windows: field.windows.lock().expect("no panic under it").clone(),
        done: field.done.lock().expect("no panic under it").clone(),
        submitted: field.submitted.lock().expect("no panic under it").clone(),
        surprises: field.surprises.lock().expect("no panic under it").clone(),
        takeover: Some(takeover(field, options)),
        ..History::default()
    }
}

fn takeover(field: &Field, options: &Options) -> Takeover {
    Takeover {
        tolerance: options.tolerance,
        shortest: field.shortest_lease,
        settled: SETTLED,
    }
}

async fn judge(
    field: &Field,
    left: Vec<String>,
    samples: Option<&Samples>,
    span: Span,
    options: &Options,
) -> Outcome {
    let lines = Reader::default().read(&field.dir().join("witness")).to_vec();
    let mut history = history(field, options);
    let client = field.client().await.expect("a database");
    let clocks = field.clocks.lock().expect("no panic under it").clone();
    let records = gather::records(&client, &lines, &clocks).await;
    let records = records.expect("the records");
    (history.lines, history.rows, history.left) = (lines, records.rows, left);
    history.panics = leftovers::panics(field).await;
    let mut outcome = Outcome {
        windows: history.windows.len(),
        submitted: history.submitted.len(),
        surprises: history.surprises.clone(),
        stalls: history.done.iter().filter(|d| d.what == stalls::STALLED).count(),
        ..Outcome::default()
    };
    let nodes = Nodes {
        timeline: history.timeline(takeover(field, options), &oracle::lives(&history.lines)),
        removed: other_addresses(field),
        relabelled: gather::relabelled(field, &clocks),
        clocks,
    };
    for definition in jobs::definitions() {
        let matched = targets::check(&definition, &records.scheduled, &span, &nodes);
        outcome.mismatches.extend(matched.mismatches);
        outcome.instants += matched.instants;
        outcome.skipped += matched.skipped;
        outcome.begun.extend(matched.begun);
    }
    history
        .left
        .extend(samples.iter().flat_map(|s| s.grown(&outcome.begun)));
    outcome.verdict = oracle::check(&history);
    outcome
}
