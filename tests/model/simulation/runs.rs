//! The pure core above the model: schedules fire, runs move from state to state, each by the core's own functions.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_core::definition::{CatchUp, Missed, OnLost, Retry};
use farmhand_core::due::{self, DuePolicy};
use farmhand_core::run::{AfterAttempt, AttemptEnd, RunState, after_attempt};
use farmhand_core::schedule::{ParseContext, Schedule};
use farmhand_model::Chance;
use jiff::Timestamp;

use crate::coverage::Coverage;
use crate::run_states::{RunEvent, after_session_end, next};
use crate::state::{self, RUNS, Stmt};

/// A job whose present run is one of the model's rows.
#[derive(Clone)]
struct Job {
    schedule: Schedule,
    policy: DuePolicy,
    retry: Retry,
    on_lost: OnLost,
    next_run: Timestamp,
    /// The instant of the present run.
    due: Timestamp,
    run: RunState,
    takeovers: u32,
    retries: u32,
    cancel_requested: bool,
    /// How each instant ended; an instant without an end is one that is not over.
    outcomes: BTreeMap<Timestamp, RunState>,
}

/// The jobs of a farm, one per row of the model.
#[derive(Clone)]
pub struct Jobs {
    jobs: Vec<Job>,
    begun: Timestamp,
}

impl Jobs {
    pub fn new(begun: Timestamp, chance: &mut Chance) -> Self {
        let jobs = (0..RUNS).map(|r| Job::new(r, begun, chance)).collect();
        Self { jobs, begun }
    }

    /// The rows that are held from the start.
    pub fn begin(&mut self, db: &state::Db) {
        for (job, row) in self.jobs.iter_mut().zip(&db.runs) {
            if row.state == state::RunState::Running {
                job.run = RunState::Running;
            }
        }
    }

    /// One agent's look at one schedule: what `fire` does in one transaction.
    pub fn fire(&mut self, row: usize, db: &mut state::Db, now: Timestamp, covered: &mut Coverage) {
        let job = &mut self.jobs[row];
        let plan = due::plan(&job.schedule, &job.policy, job.next_run, now);
        for fold in &plan.skipped {
            let instants = job.schedule.iter_after(fold.first - Duration::from_nanos(1));
            let instants: Vec<Timestamp> = instants.take_while(|t| *t <= fold.last).collect();
            assert_eq!(instants.len() as i64, fold.count, "a fold counts its instants");
            for instant in instants {
                covered.count("fired: missed");
                job.skip(instant, covered);
            }
        }
        for instant in plan.due {
            covered.count("fired: due");
            if job.run.is_final() && db.runs[row].state == state::RunState::Final {
                (job.run, job.due) = (RunState::Due, instant);
                (job.takeovers, job.retries, job.cancel_requested) = (0, 0, false);
                db.runs[row].state = state::RunState::Due;
            } else {
                // An earlier run has not ended: `overlap = "skip"`.
                job.skip(instant, covered);
            }
        }
        job.next_run = plan.following.expect("these schedules never end");
    }

    /// Somebody cancels the present run.
    pub fn cancel(&mut self, row: usize, db: &mut state::Db, covered: &mut Coverage) {
        let job = &mut self.jobs[row];
        match job.run {
            RunState::Due => {
                job.step(RunEvent::Cancelled, covered);
                db.runs[row].state = state::RunState::Final;
            }
            RunState::Running => job.cancel_requested = true,
            _ => {}
        }
    }

    /// What the model's statement did to a row, as the core names it. A run that the core ends here ends in the
    /// model too, as it does in the statement's own transaction.
    pub fn follow(
        &mut self,
        row: usize,
        before: &state::Run,
        db: &mut state::Db,
        stmt: &Stmt,
        chance: &mut Chance,
        covered: &mut Coverage,
    ) {
        use state::RunState as Row;
        let job = &mut self.jobs[row];
        let after = &mut db.runs[row];
        let event = match (before.state, after.state, stmt) {
            (from, to, _) if from == to => return,
            (Row::Due, Row::Running, Stmt::Claim { .. }) => RunEvent::Claimed,
            (Row::Running, Row::Final, Stmt::Finish { .. }) => job.ended(AttemptEnd::Exited(0), chance),
            (Row::Running, Row::Due, Stmt::Retry { .. }) => {
                let mut ends = vec![
                    AttemptEnd::Exited(1),
                    AttemptEnd::Signalled(9),
                    AttemptEnd::TimedOut,
                    AttemptEnd::NotStarted,
                ];
                if job.cancel_requested {
                    ends = vec![AttemptEnd::Cancelled, AttemptEnd::Signalled(15)];
                }
                job.ended(chance.of(&ends), chance)
            }
            (Row::Running, Row::Due, Stmt::Release { .. }) => RunEvent::Released,
            (Row::Running, Row::Due, Stmt::Expire { .. } | Stmt::Close { .. } | Stmt::Sweep) => {
                after_session_end(job.on_lost, job.takeovers, job.cancel_requested)
            }
            (from, to, stmt) => panic!("{stmt:?} moved a run from {from:?} to {to:?}"),
        };
        job.takeovers += u32::from(event == RunEvent::TakenOver);
        job.retries += u32::from(event == RunEvent::Retried);
        job.step(event, covered);
        after.state = match job.run {
            RunState::Due => Row::Due,
            RunState::Running => Row::Running,
            _ => Row::Final,
        };
    }

    /// The core and the model agree about every row, and every instant up to `next_run` has exactly one outcome, or is the
    /// present run's.
    pub fn check(&self, db: &state::Db) {
        for (row, job) in self.jobs.iter().enumerate() {
            let same = match db.runs[row].state {
                state::RunState::Due => job.run == RunState::Due,
                state::RunState::Running => job.run == RunState::Running,
                state::RunState::Final => job.run.is_final(),
            };
            assert!(same, "run {row}: {:?} and {:?}", db.runs[row].state, job.run);
        }
    }

    /// Every instant from the beginning to `next_run` has its outcome.
    pub fn check_instants(&self) {
        for job in &self.jobs {
            let all = job.schedule.iter_after(self.begun);
            for instant in all.take_while(|t| *t < job.next_run) {
                let open = !job.run.is_final() && job.due == instant;
                let ended = job.outcomes.contains_key(&instant);
                assert!(ended != open, "{instant}: ended {ended}, open {open}");
            }
        }
    }
}

impl Job {
    fn new(row: usize, begun: Timestamp, chance: &mut Chance) -> Self {
        let expression = ["*/5 * * * * *", "@every 17s", "3,29 * * * * *"][row % 3];
        let context = ParseContext {
            job: "simulated",
            ..ParseContext::default()
        };
        let schedule = Schedule::parse(&[expression], &context).expect("a schedule of ours");
        let policy = DuePolicy {
            catch_up: CatchUp {
                runs: chance.of(&[Missed::Latest, Missed::All, Missed::Skip]),
                max: 3,
                within: None,
            },
            ..DuePolicy::default()
        };
        let first = due::next_run(&schedule, &policy, begun).expect("it fires");
        Self {
            next_run: first,
            due: begun,
            retry: Retry {
                max: chance.below(3) as u32,
                ..Retry::default()
            },
            on_lost: chance.of(&[OnLost::Rerun, OnLost::Rerun, OnLost::Fail]),
            schedule,
            policy,
            run: RunState::Due,
            takeovers: 0,
            retries: 0,
            cancel_requested: false,
            outcomes: BTreeMap::new(),
        }
    }

    fn ended(&self, end: AttemptEnd, chance: &mut Chance) -> RunEvent {
        match after_attempt(
            end,
            &self.retry,
            self.retries,
            self.cancel_requested,
            chance.draw(),
        ) {
            AfterAttempt::Final(outcome) => RunEvent::Ended(outcome),
            AfterAttempt::Retry { .. } => RunEvent::Retried,
        }
    }

    fn step(&mut self, event: RunEvent, covered: &mut Coverage) {
        covered.run(self.run, event);
        self.run = next(self.run, event).unwrap_or_else(|illegal| panic!("{illegal}"));
        if self.run.is_final() {
            let before = self.outcomes.insert(self.due, self.run);
            assert_eq!(before, None, "two outcomes of {}", self.due);
        }
    }

    fn skip(&mut self, instant: Timestamp, covered: &mut Coverage) {
        covered.run(RunState::Due, RunEvent::Skipped);
        let state = next(RunState::Due, RunEvent::Skipped).unwrap_or_else(|illegal| panic!("{illegal}"));
        let before = self.outcomes.insert(instant, state);
        assert_eq!(before, None, "two outcomes of {instant}");
    }
}
