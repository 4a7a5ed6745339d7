//! The farm as a whole: its verdict, its lanes, the schedule ahead, the queue, why a job does not run.

use farmhand_core::explain::{Explanation, Gate};
use farmhand_store::names::{self, Name};
use farmhand_store::reading::{self, FarmStatus, MOST, Page, QueuedRun, Step, Window};
use farmhand_store::{Db, signatures};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::Question;
use super::parts::{filled, within, words};
use crate::Refusal;
use crate::jobs::no_job;
use crate::runs::no_run;

/// The verdict: all well, or what is late, stuck or failing
#[derive(Deserialize, ToSchema)]
pub struct Farm {}

impl Question for Farm {
    const PATH: &'static str = "/api/v1/farm";
    type Answer = FarmStatus;

    async fn answer(&self, db: &Db) -> Result<FarmStatus, Refusal> {
        Ok(reading::status(db).await?)
    }
}

/// Attempts as bars on the lanes of their nodes, with takeovers; or how many there were, when bars would be too many
#[derive(Deserialize, ToSchema)]
pub struct Lanes {
    /// An hour before `to` when it is left out.
    pub from: Option<Timestamp>,
    /// Now when it is left out; at most seven days after `from`.
    pub to: Option<Timestamp>,
    /// Addresses with commas between them; all when it is left out.
    #[serde(default, deserialize_with = "words")]
    pub node: Vec<String>,
    pub job: Option<String>,
}

impl Question for Lanes {
    const PATH: &'static str = "/api/v1/lanes";
    type Answer = reading::Lanes;

    async fn answer(&self, db: &Db) -> Result<reading::Lanes, Refusal> {
        const USUAL: SignedDuration = SignedDuration::from_hours(1);
        let out_of_range = |_| Refusal::not_understood("from or to is out of range");
        let to = match self.to {
            Some(to) => to,
            None => reading::now(db).await?,
        };
        let from = match self.from {
            Some(from) => from,
            None => to.checked_sub(USUAL).map_err(out_of_range)?,
        };
        let window = Window {
            from,
            to,
            nodes: self.node.clone(),
            job: filled(self.job.as_ref()),
        };
        Ok(reading::lanes(db, &window).await?)
    }
}

/// How often each job is due in each hour or on each day ahead, in UTC, and how long it usually takes
#[derive(Deserialize, ToSchema)]
pub struct Ahead {
    /// The next 24 hours, or the next 7 days; hours when it is left out.
    #[serde(default)]
    #[schema(inline)]
    pub by: Step,
}

impl Question for Ahead {
    const PATH: &'static str = "/api/v1/ahead";
    type Answer = reading::Ahead;

    async fn answer(&self, db: &Db) -> Result<reading::Ahead, Refusal> {
        let now = reading::now(db).await?;
        Ok(reading::ahead(db, now, self.by).await?)
    }
}

/// Why a job does not run: every gate that a run passes, and which holds it back
#[derive(Deserialize, ToSchema)]
pub struct Explain {
    /// Its name
    pub job: String,
    /// The due instant in question; now when it is left out.
    pub at: Option<Timestamp>,
}

impl Question for Explain {
    const PATH: &'static str = "/api/v1/jobs/{job}/explain";
    type Answer = Explained;

    async fn answer(&self, db: &Db) -> Result<Explained, Refusal> {
        let explanation = reading::explain(db, &self.job, self.at).await?;
        match explanation.held_by {
            Some(Gate::Exists) if self.at.is_none() => Err(no_job(db, &self.job).await),
            _ => explained(db, explanation).await,
        }
    }
}

/// Why a run does not run, where it runs, or how it ended
#[derive(Deserialize, ToSchema)]
pub struct ExplainRun {
    /// Its number
    pub run: i64,
}

impl Question for ExplainRun {
    const PATH: &'static str = "/api/v1/runs/{run}/explain";
    type Answer = Explained;

    async fn answer(&self, db: &Db) -> Result<Explained, Refusal> {
        let row = (reading::run_row(db, self.run).await?).ok_or_else(|| no_run(self.run))?;
        explained(db, reading::explain_run(db, &row).await?).await
    }
}

/// An explanation, and who would not run the job.
#[derive(Serialize, ToSchema)]
pub struct Explained {
    /// Every gate that was looked at.
    #[serde(flatten)]
    pub explanation: Explanation,
    /// Nodes that refused revisions of the job in the last day, the latest first.
    pub refusals: Vec<signatures::Refusal>,
}

async fn explained(db: &Db, explanation: Explanation) -> Result<Explained, Refusal> {
    let refusals = signatures::refusals(db, &explanation.job_id).await?;
    Ok(Explained {
        explanation,
        refusals,
    })
}

/// The runs that are due, in the order in which they are claimed; those that may not be yet, last
#[derive(Deserialize, ToSchema)]
pub struct Queue {
    /// Rows wanted; 50 when it is left out.
    #[schema(minimum = 1, maximum = 200)]
    pub limit: Option<i64>,
}

impl Question for Queue {
    const PATH: &'static str = "/api/v1/queue";
    type Answer = Page<QueuedRun>;

    async fn answer(&self, db: &Db) -> Result<Page<QueuedRun>, Refusal> {
        let limit = within("limit", self.limit, 1, MOST)?.unwrap_or(50);
        Ok(Page::whole(reading::queue(db, limit).await?))
    }
}

/// Up to 500 names that begin with a text, for a shell that completes them
#[derive(Deserialize, ToSchema)]
pub struct Names {
    #[schema(inline)]
    pub of: names::Names,
    /// How they begin; all when it is left out.
    #[serde(default)]
    pub prefix: String,
}

impl Question for Names {
    const PATH: &'static str = "/api/v1/names";
    type Answer = Page<Name>;

    async fn answer(&self, db: &Db) -> Result<Page<Name>, Refusal> {
        Ok(Page::whole(names::names(db, self.of, &self.prefix).await?))
    }
}
