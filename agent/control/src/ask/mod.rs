//! What people ask of a farm. Each question is declared once: the route, its guard, its description and what a command
//! asks come from the same struct.

mod definitions;
mod events;
mod farm;
mod jobs;
mod logs;
mod nodes;
mod notify;
mod parts;
mod runs;

use farmhand_store::{Db, Role};
use serde::Serialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::Refusal;

pub use definitions::{Export, Exported};
pub use events::Events;
pub use farm::{Ahead, Explain, ExplainRun, Explained, Farm, Lanes, Names, Queue};
pub use jobs::{Days, DiffRevisions, Grid, Job, Jobs, NewestRuns, Next, Revisions};
pub use logs::{JobMatches, Log, RunMatches};
pub use nodes::{Leases, Node, Nodes, Pool, Pools};
pub use notify::{Notifications, Targets};
pub(crate) use parts::words;
pub use parts::{pair, within};
pub use runs::{Flow, Item, Items, Row, Run, Runs};

/// Something that is asked. Its doc comment, its fields and their doc comments are what the API's description says.
pub trait Question: DeserializeOwned + ToSchema + Send + Sync {
    /// Where the API has it. What stands in braces is a field; the other fields are the query.
    const PATH: &'static str;
    /// The least role that may ask.
    const ROLE: Role = Role::Viewer;
    /// Whether it searches output: such questions are answered one at a time.
    const SEARCHES: bool = false;
    /// What is answered.
    type Answer: Serialize + ToSchema;

    /// Asks the database.
    fn answer(&self, db: &Db) -> impl Future<Output = Result<Self::Answer, Refusal>> + Send;
}
