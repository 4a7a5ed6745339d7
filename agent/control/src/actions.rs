//! What people do with a farm. Each action is declared once: its fields, its route, who may do it, the command that does
//! the same.

use farmhand_core::definition::{Overlap, param_text};
use farmhand_core::run::RunState;
use farmhand_core::text::shell_word;
use farmhand_store::Role;
use jiff::Timestamp;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use utoipa::ToSchema;
use utoipa::openapi::HttpMethod;

use crate::Refusal;
use crate::ask::{pair, words};
use crate::choice::{BulkAction, Chosen};

/// The least role whose token may change definitions: who can change them has commands run on every node.
pub const DEFINES: Role = Role::Admin;

/// What an action is done to.
#[derive(Clone, Copy, Debug)]
pub enum About<'a> {
    /// One job, by its name.
    Job(&'a str),
    /// One run, by its number.
    Run(i64),
    /// Jobs, by their names.
    Jobs(&'a [String]),
    /// Runs of any jobs.
    Many,
    /// One node, by its address.
    Node(&'a str),
    /// Something else that is not of one job, by its name.
    Shared(&'a str),
}

/// The fields of an action. Its doc comment and theirs are what the API's description says.
pub trait Act: DeserializeOwned + ToSchema + Send {
    const METHOD: HttpMethod;
    /// Where the API has it. What stands in braces is a field; the other fields are the body.
    const PATH: &'static str;
    /// The least role that may do it.
    const ROLE: Role;
    /// Whether it is done once for a key, however often the request is repeated.
    const ONCE: bool = false;

    /// Errors: 2 for fields that make no sense.
    fn action(self) -> Result<Action, Refusal>;
}

macro_rules! actions {
    ($($name:ident: $method:ident $path:literal, $role:expr $(, once: $once:literal)?;)+) => {
        /// Something to be done.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Action {
            $($name($name),)+
            /// Cancel or run again each of many.
            Many(Many),
        }

        $(
            impl Act for $name {
                const METHOD: HttpMethod = HttpMethod::$method;
                const PATH: &'static str = $path;
                const ROLE: Role = $role;
                $(const ONCE: bool = $once;)?

                fn action(self) -> Result<Action, Refusal> {
                    Ok(Action::$name(self))
                }
            }

            impl From<$name> for Action {
                fn from(action: $name) -> Self {
                    Self::$name(action)
                }
            }
        )+

        impl Action {
            /// The least role that may do it.
            pub fn role(&self) -> Role {
                match self {
                    // It ends the runs of others.
                    Self::Submit(Submit { overlap: Overlap::Replace, .. }) | Self::Many(_) => Role::Operator,
                    $(Self::$name(_) => $name::ROLE,)+
                }
            }
        }
    };
}

actions! {
    Submit: Post "/api/v1/jobs/{job}/runs", Role::Submitter, once: true;
    Pause: Post "/api/v1/jobs/{job}/pause", Role::Operator;
    Resume: Post "/api/v1/jobs/{job}/resume", Role::Operator;
    Backfill: Post "/api/v1/jobs/{job}/backfill", Role::Operator;
    Rollback: Post "/api/v1/jobs/{job}/rollback", DEFINES;
    DeleteJobs: Delete "/api/v1/jobs/{job}", DEFINES;
    Cancel: Post "/api/v1/runs/{run}/cancel", Role::Operator;
    Retry: Post "/api/v1/runs/{run}/retry", Role::Operator, once: true;
    Replay: Post "/api/v1/runs/{run}/replay", Role::Operator;
    Cordon: Post "/api/v1/nodes/{node}/cordon", Role::Operator;
    Drain: Post "/api/v1/nodes/{node}/drain", Role::Operator;
    Uncordon: Post "/api/v1/nodes/{node}/resume", Role::Operator;
    RemoveNode: Delete "/api/v1/nodes/{node}", Role::Operator;
    Release: Post "/api/v1/leases/{node}/release", Role::Admin;
    SetPool: Put "/api/v1/pools/{pool}/size", Role::Operator;
    TestTarget: Post "/api/v1/targets/{target}/test", Role::Operator;
}

/// Run a job now
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Submit {
    /// Its name
    pub job: String,
    /// Parameters by name; those not given have their defaults
    #[serde(default)]
    pub params: Map<String, Value>,
    /// What else of the job is live: run beside it (`allow`, the default), only if there is nothing (`skip`), after it
    /// (`queue`), instead of it (`replace`)
    #[serde(default = "beside")]
    #[schema(value_type = String, pattern = "^(allow|skip|queue|replace)$")]
    pub overlap: Overlap,
}

fn beside() -> Overlap {
    Overlap::Allow
}

/// Stop a job's schedule; it can still be run by hand
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Pause {
    /// Its name
    pub job: String,
    /// Why, for the others
    pub reason: Option<String>,
}

/// Start a paused job's schedule again; what fell into the pause is recorded as skipped
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Resume {
    /// Its name
    pub job: String,
}

/// Make runs for instants of the past that have none
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Backfill {
    /// Its name
    pub job: String,
    /// RFC 3339, or a date or time on the clock of the job's zone
    pub from: String,
    /// Itself not included; now, when it is left out
    pub to: Option<String>,
    /// Refuse when there are more runs to make than this; 100, when it is left out
    #[serde(default = "hundred")]
    #[schema(minimum = 1, maximum = 10000)]
    pub max: u32,
}

fn hundred() -> u32 {
    100
}

/// Make an earlier revision of a job the present one, as a new revision
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Rollback {
    /// Its name
    pub job: String,
    /// The revision's number
    pub rev: i64,
}

/// Delete jobs and withdraw their runs that wait; what runs goes on, and their history stays
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct DeleteJobs {
    /// Their names, with commas between them: all are deleted, or none
    #[serde(deserialize_with = "words")]
    #[schema(value_type = String)]
    pub job: Vec<String>,
}

/// End a run; one that is running gets SIGTERM, and SIGKILL after its grace
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Cancel {
    /// Its number
    pub run: i64,
    /// Also the rest of this firing: all shards, or the runs of each node
    #[serde(default)]
    pub firing: bool,
}

/// Run a finished run's job again, with its parameters, as a new run
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Retry {
    /// Its number
    pub run: i64,
    /// Of a flow, only the tasks that did not succeed
    #[serde(default)]
    pub from_failed: bool,
}

/// Run lines of a stream that were given up again, in new runs
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Replay {
    /// The number of the run that gave them up
    pub run: i64,
    /// The lines' numbers; all that are left, when none is named
    #[serde(default)]
    pub items: Vec<i64>,
}

/// Let a node claim nothing more; what it runs goes on
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Cordon {
    /// Its address
    pub node: String,
}

/// As cordon, and let what it runs come to its end
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Drain {
    /// Its address
    pub node: String,
    /// A duration, as in 10m: what still runs after it is ended and runs elsewhere
    pub deadline: Option<String>,
}

/// Let a cordoned or draining node claim again
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Uncordon {
    /// Its address
    pub node: String,
}

/// Forget a node that has left the farm
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct RemoveNode {
    /// Its address
    pub node: String,
}

/// End a node's session now and free its runs, without waiting until its processes must be dead
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct Release {
    /// Its address
    pub node: String,
    /// This session, and no later one; the present one when it is left out
    pub session: Option<i64>,
    /// The node's address once more: that the runs may then run twice is understood
    pub confirm: Option<String>,
}

/// Resize a pool at once; runs in it go on, and the size stays until its job file has another
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct SetPool {
    /// Its name
    pub pool: String,
    /// Places on the farm (`pool`), on each node (`node_pool`); 0 lets nothing start
    #[schema(minimum = 0, maximum = 1000000)]
    pub size: u32,
}

/// Have an agent send a test message now
#[derive(Clone, Debug, PartialEq, Deserialize, ToSchema)]
pub struct TestTarget {
    /// Its name
    pub target: String,
}

/// Each of many runs.
#[derive(Clone, Debug, PartialEq)]
pub struct Many {
    pub bulk: BulkAction,
    pub chosen: Chosen,
    /// Of flows, only what did not succeed.
    pub from_failed: bool,
}

/// End many runs; those that are running get SIGTERM, and SIGKILL after their grace
#[derive(Deserialize, ToSchema)]
pub struct CancelRuns {
    /// By number; with these nothing else is looked at. At most 10,000
    #[serde(default)]
    runs: Vec<i64>,
    job: Option<String>,
    /// Due and running, when it is left out
    #[serde(default)]
    state: Vec<RunState>,
    /// Its address
    node: Option<String>,
    /// A label that the `where` of its job asks for, as the job is defined now: `key=value`
    label: Option<String>,
    /// A parameter's value, as text: `name=value`. A run that was not given it has the default of its definition
    param: Option<String>,
    /// By their end or, if they have not ended, by their due instant
    since: Option<Timestamp>,
    until: Option<Timestamp>,
}

impl Act for CancelRuns {
    const METHOD: HttpMethod = HttpMethod::Post;
    const PATH: &'static str = "/api/v1/runs/cancel";
    const ROLE: Role = Role::Operator;

    fn action(self) -> Result<Action, Refusal> {
        let chosen = Chosen {
            runs: self.runs,
            job: self.job,
            states: self.state,
            node: self.node,
            label: pair("label", self.label.as_deref())?,
            param: pair("param", self.param.as_deref())?,
            since: self.since,
            until: self.until,
            ..Chosen::default()
        };
        let bulk = BulkAction::Cancel;
        Ok(Many {
            bulk,
            chosen,
            from_failed: false,
        }
        .into())
    }
}

/// Run the jobs of many finished runs again, with their parameters, as new runs
#[derive(Deserialize, ToSchema)]
pub struct RetryRuns {
    /// By number; with these nothing else is looked at. At most 1,000
    #[serde(default)]
    runs: Vec<i64>,
    job: Option<String>,
    /// Failed, timed_out and lost, when it is left out
    #[serde(default)]
    state: Vec<RunState>,
    /// Its address
    node: Option<String>,
    /// A label that the `where` of its job asks for, as the job is defined now: `key=value`
    label: Option<String>,
    /// A parameter's value, as text: `name=value`. A run that was not given it has the default of its definition
    param: Option<String>,
    /// By their end
    since: Option<Timestamp>,
    until: Option<Timestamp>,
    /// Of flows, only the tasks that did not succeed
    #[serde(default)]
    from_failed: bool,
    /// Every run that matches. When it is left out, of each job only those of the newest firing
    #[serde(default)]
    all: bool,
}

impl Act for RetryRuns {
    const METHOD: HttpMethod = HttpMethod::Post;
    const PATH: &'static str = "/api/v1/runs/retry";
    const ROLE: Role = Role::Operator;
    const ONCE: bool = true;

    fn action(self) -> Result<Action, Refusal> {
        let chosen = Chosen {
            runs: self.runs,
            job: self.job,
            states: self.state,
            node: self.node,
            label: pair("label", self.label.as_deref())?,
            param: pair("param", self.param.as_deref())?,
            since: self.since,
            until: self.until,
            upto: None,
            all: self.all,
        };
        let (bulk, from_failed) = (BulkAction::Retry, self.from_failed);
        Ok(Many {
            bulk,
            chosen,
            from_failed,
        }
        .into())
    }
}

impl From<Many> for Action {
    fn from(many: Many) -> Self {
        Self::Many(many)
    }
}

impl Action {
    /// What it is done to.
    pub fn about(&self) -> About<'_> {
        match self {
            Self::Submit(Submit { job, .. })
            | Self::Pause(Pause { job, .. })
            | Self::Resume(Resume { job })
            | Self::Backfill(Backfill { job, .. })
            | Self::Rollback(Rollback { job, .. }) => About::Job(job),
            Self::DeleteJobs(DeleteJobs { job }) => About::Jobs(job),
            Self::Cancel(Cancel { run, .. })
            | Self::Retry(Retry { run, .. })
            | Self::Replay(Replay { run, .. }) => About::Run(*run),
            Self::Many(_) => About::Many,
            Self::Cordon(Cordon { node })
            | Self::Drain(Drain { node, .. })
            | Self::Uncordon(Uncordon { node })
            | Self::RemoveNode(RemoveNode { node })
            | Self::Release(Release { node, .. }) => About::Node(node),
            Self::SetPool(SetPool { pool, .. }) => About::Shared(pool),
            Self::TestTarget(TestTarget { target }) => About::Shared(target),
        }
    }

    /// Whether an agent's login may not do it: definitions and nodes are the operators'.
    pub fn is_operators(&self) -> bool {
        matches!(
            self,
            Self::Rollback(_) | Self::DeleteJobs(_) | Self::RemoveNode(_)
        )
    }

    /// What it is, in a word.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Submit(_) => "submit",
            Self::Pause(_) => "pause",
            Self::Resume(_) => "resume",
            Self::Backfill(_) => "backfill",
            Self::Rollback(_) => "rollback",
            Self::DeleteJobs(_) => "delete",
            Self::Cancel(_) => "cancel",
            Self::Retry(_) => "retry",
            Self::Replay(_) => "replay",
            Self::Many(Many {
                bulk: BulkAction::Cancel,
                ..
            }) => "cancel_many",
            Self::Many(_) => "retry_many",
            Self::Cordon(_) => "cordon",
            Self::Drain(_) => "drain",
            Self::Uncordon(_) => "uncordon",
            Self::RemoveNode(_) => "node_remove",
            Self::Release(_) => "release",
            Self::SetPool(_) => "set_pool",
            Self::TestTarget(_) => "notify_test",
        }
    }

    /// The command that does the same.
    pub fn cli(&self) -> String {
        let run = |words: &str, run: i64| format!("farmhand run {words} {run}");
        match self {
            Self::Submit(Submit { job, params, overlap }) => {
                let mut text = with("job run", job);
                for (name, value) in params {
                    let pair = format!("{name}={}", param_text(value));
                    text.push_str(&format!(" -p {}", shell_word(&pair)));
                }
                if *overlap != Overlap::Allow {
                    text.push_str(&format!(" --overlap {overlap}"));
                }
                text
            }
            Self::Cancel(Cancel { run: id, firing }) => run("cancel", *id) + flag(*firing, " --firing"),
            Self::Retry(Retry { run: id, from_failed }) => {
                run("retry", *id) + flag(*from_failed, " --from-failed")
            }
            Self::Replay(Replay { run: id, items }) => {
                let items: String = items.iter().map(|item| format!(" --item {item}")).collect();
                run("replay", *id) + &items
            }
            Self::Many(Many {
                bulk,
                chosen,
                from_failed,
            }) => {
                let words = match bulk {
                    BulkAction::Cancel => "farmhand run cancel",
                    BulkAction::Retry => "farmhand run retry",
                };
                format!(
                    "{words}{}{}",
                    chosen.options(),
                    flag(*from_failed, " --from-failed")
                )
            }
            Self::Pause(Pause { job, reason }) => {
                with("job pause", job) + &option("--reason", reason.as_deref())
            }
            Self::Resume(Resume { job }) => with("job resume", job),
            Self::Backfill(Backfill { job, from, to, max }) => {
                let (from, to) = (option("--from", Some(from)), option("--to", to.as_deref()));
                format!("{}{from}{to} --max {max}", with("job backfill", job))
            }
            Self::Rollback(Rollback { job, rev }) => format!("{} {rev}", with("job rollback", job)),
            Self::DeleteJobs(DeleteJobs { job }) => {
                let names: Vec<String> = job.iter().map(|name| shell_word(name)).collect();
                format!("farmhand job rm --yes {}", names.join(" "))
            }
            Self::Cordon(Cordon { node }) => with("node cordon", node),
            Self::Drain(Drain { node, deadline }) => {
                with("node drain", node) + &option("--deadline", deadline.as_deref())
            }
            Self::Uncordon(Uncordon { node }) => with("node resume", node),
            Self::RemoveNode(RemoveNode { node }) => with("node rm", node),
            Self::Release(Release { node, .. }) => with("lease release", node) + " --force",
            Self::SetPool(SetPool { pool, size }) => format!("{} {size}", with("pool set", pool)),
            Self::TestTarget(TestTarget { target }) => with("notify test", target),
        }
    }
}

fn with(words: &str, name: &str) -> String {
    // A name that begins with a dash would be read as a flag.
    let dashes = flag(name.starts_with('-'), "-- ");
    format!("farmhand {words} {dashes}{}", shell_word(name))
}

fn option(name: &str, value: Option<&str>) -> String {
    value.map_or_else(String::new, |value| {
        format!(" {}", shell_word(&format!("{name}={value}")))
    })
}

fn flag(set: bool, text: &'static str) -> &'static str {
    if set { text } else { "" }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_action_has_its_command() {
        let job = || "it's".to_owned();
        let twins: [(Action, &str); _] = [
            (
                Submit {
                    job: job(),
                    params: Map::from_iter([("since".to_owned(), Value::from("5 m"))]),
                    overlap: Overlap::Queue,
                }
                .into(),
                r"farmhand job run 'it'\''s' -p 'since=5 m' --overlap queue",
            ),
            (
                Cancel { run: 7, firing: true }.into(),
                "farmhand run cancel 7 --firing",
            ),
            (
                Many {
                    bulk: BulkAction::Retry,
                    chosen: Chosen {
                        job: Some(job()),
                        states: vec![farmhand_core::run::RunState::Failed],
                        ..Chosen::default()
                    },
                    from_failed: true,
                }
                .into(),
                r"farmhand run retry '--job=it'\''s' --state=failed --yes --from-failed",
            ),
            (
                Many {
                    bulk: BulkAction::Cancel,
                    chosen: Chosen {
                        runs: vec![7, 9],
                        ..Chosen::default()
                    },
                    from_failed: false,
                }
                .into(),
                "farmhand run cancel 7 9",
            ),
            (
                Drain {
                    node: "-n".to_owned(),
                    deadline: Some("5m".to_owned()),
                }
                .into(),
                "farmhand node drain -- -n --deadline=5m",
            ),
        ];
        for (action, twin) in twins {
            assert_eq!(action.cli(), twin);
        }
    }
}
