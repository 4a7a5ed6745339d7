//! Who may do what: the one place where it is decided.

use farmhand_core::patterns::covers;
use farmhand_store::Role;
use farmhand_store::acting::Deed;
use farmhand_store::jobs::Once;

use crate::actions::{About, Action};
use crate::{Kind, Refusal};

/// What a token may do. Neither its role nor its jobs ever change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    pub token_id: i64,
    /// Its name, or that of the user whom the trusted proxy names.
    pub name: String,
    pub role: Role,
    /// Names of jobs, or how they begin, with a `*` behind; None: all, and what is not of one job.
    pub jobs: Option<Vec<String>>,
}

/// Who wants it.
#[derive(Clone, Copy, Debug)]
pub struct By<'a> {
    /// As history names them.
    pub who: &'a str,
    /// The token with which they ask; None for a login of the database, whose grants say what it may do.
    pub token: Option<&'a Token>,
    /// For what must not be done twice when the request is repeated.
    pub once: Option<Once<'a>>,
}

impl<'a> By<'a> {
    /// Who is at the command line, with a login of the database.
    pub fn login(who: &'a str) -> Self {
        Self {
            who,
            token: None,
            once: None,
        }
    }

    /// What they do, as the audit has it.
    pub fn deed(&self, action: &'static str, what: impl Into<String>) -> Deed {
        Deed {
            token_id: self.token.map(|token| token.token_id),
            ..Deed::of(self.who, action, what)
        }
    }

    /// Whether they may do it to this job; None when it is not done to one job. Of many runs each is asked about by [`By::reaches`].
    /// Errors: `Denied`, with a sentence that says what the token may do.
    pub fn may(&self, action: &Action, job: Option<&str>) -> Result<(), Refusal> {
        self.has(action.role())?;
        match (action.about(), job) {
            (About::Many, _) => Ok(()),
            (About::Jobs(jobs), _) => jobs.iter().try_for_each(|job| self.reaches(job)),
            (About::Node(name) | About::Shared(name), _) => self.shares(name),
            (About::Job(job), _) | (About::Run(_), Some(job)) => self.reaches(job),
            (About::Run(run), None) => self.shares(&format!("run {run}")),
        }
    }

    /// Whether the role is enough.
    pub fn has(&self, needs: Role) -> Result<(), Refusal> {
        match self.token {
            Some(token) if token.role < needs => Err(lacks(token.role, needs)),
            _ => Ok(()),
        }
    }

    /// Whether the job is one of theirs.
    pub fn reaches(&self, job: &str) -> Result<(), Refusal> {
        match self.restricted() {
            Some((token, jobs)) if !covers(jobs, job) => {
                Err(beyond(token, jobs, &format!("job {job} is not among them")))
            }
            _ => Ok(()),
        }
    }

    /// Whether they may act on what is not of one job.
    pub fn shares(&self, what: &str) -> Result<(), Refusal> {
        match self.restricted() {
            Some((token, jobs)) => Err(beyond(token, jobs, &format!("{what} is beyond them"))),
            None => Ok(()),
        }
    }

    /// The jobs that alone they may act on; None: all.
    pub fn jobs(&self) -> Option<&'a [String]> {
        self.restricted().map(|(_, jobs)| jobs)
    }

    fn restricted(&self) -> Option<(&'a Token, &'a [String])> {
        let token = self.token?;
        token.jobs.as_deref().map(|jobs| (token, jobs))
    }
}

/// What is said of a role that is not enough.
pub fn lacks(has: Role, needs: Role) -> Refusal {
    Refusal::new(Kind::Denied, format!("this needs the role {needs}"))
        .why(format!("the caller's role is {has}"))
        .next(format!(
            "use a token with --role {needs}, or behind a trusted proxy a user with this role"
        ))
}

fn beyond(token: &Token, jobs: &[String], what: &str) -> Refusal {
    let (name, jobs) = (&token.name, jobs.join(", "));
    Refusal::new(
        Kind::Denied,
        format!("not allowed: token {name} is restricted to {jobs}; {what}"),
    )
    .next("use a token for these jobs; `farmhand token ls` shows what each may act on")
}

#[cfg(test)]
mod tests {
    use farmhand_core::definition::Overlap;
    use serde_json::Map;

    use super::*;
    use crate::actions::*;
    use crate::{BulkAction, Chosen};

    /// Each action on the job `shop-a` or its run 7, or on what all share, and the least role for it.
    fn actions() -> Vec<(Action, Role, bool)> {
        let job = || "shop-a".to_owned();
        let node = || "n1".to_owned();
        let submit = |overlap| {
            Action::from(Submit {
                job: job(),
                params: Map::new(),
                overlap,
            })
        };
        let many: Action = Many {
            bulk: BulkAction::Cancel,
            chosen: Chosen::default(),
            from_failed: false,
        }
        .into();
        let backfill: Action = Backfill {
            job: job(),
            from: String::new(),
            to: None,
            max: 1,
        }
        .into();
        let release: Action = Release {
            node: node(),
            session: None,
            confirm: None,
        }
        .into();
        vec![
            (submit(Overlap::Allow), Role::Submitter, true),
            (submit(Overlap::Queue), Role::Submitter, true),
            (submit(Overlap::Replace), Role::Operator, true),
            (
                Cancel {
                    run: 7,
                    firing: false,
                }
                .into(),
                Role::Operator,
                true,
            ),
            (
                Retry {
                    run: 7,
                    from_failed: false,
                }
                .into(),
                Role::Operator,
                true,
            ),
            (many, Role::Operator, true),
            (
                Pause {
                    job: job(),
                    reason: None,
                }
                .into(),
                Role::Operator,
                true,
            ),
            (Resume { job: job() }.into(), Role::Operator, true),
            (backfill, Role::Operator, true),
            (Cordon { node: node() }.into(), Role::Operator, false),
            (
                Drain {
                    node: node(),
                    deadline: None,
                }
                .into(),
                Role::Operator,
                false,
            ),
            (Uncordon { node: node() }.into(), Role::Operator, false),
            (release, Role::Admin, false),
            (Rollback { job: job(), rev: 1 }.into(), Role::Admin, true),
            (DeleteJobs { job: vec![job()] }.into(), Role::Admin, true),
            (
                Replay {
                    run: 7,
                    items: Vec::new(),
                }
                .into(),
                Role::Operator,
                true,
            ),
            (RemoveNode { node: node() }.into(), Role::Operator, false),
            (
                TestTarget {
                    target: "ops".to_owned(),
                }
                .into(),
                Role::Operator,
                false,
            ),
            (
                SetPool {
                    pool: "p".to_owned(),
                    size: 1,
                }
                .into(),
                Role::Operator,
                false,
            ),
        ]
    }

    #[test]
    fn role_and_jobs_of_a_token_say_what_it_may_do() {
        let roles = [Role::Viewer, Role::Submitter, Role::Operator, Role::Admin];
        for (action, needs, of_a_job) in actions() {
            for role in roles {
                for (jobs, its_own) in [(None, true), (Some("shop-*"), true), (Some("shop"), false)] {
                    let token = Token {
                        token_id: 1,
                        name: "ci".to_owned(),
                        role,
                        jobs: jobs.map(|jobs| vec![jobs.to_owned()]),
                    };
                    let by = By {
                        who: "ci",
                        token: Some(&token),
                        once: None,
                    };
                    let reached = match (&action, jobs) {
                        // Of many each run is asked about.
                        (Action::Many(_), _) | (_, None) => true,
                        _ => of_a_job && its_own,
                    };
                    let answer = by.may(&action, Some("shop-a"));
                    assert_eq!(answer.is_ok(), role >= needs && reached, "{action:?} {token:?}");
                    assert!(answer.is_ok() || answer.is_err_and(|refusal| refusal.kind == Kind::Denied));
                    assert_eq!(by.reaches("shop-a").is_ok(), its_own, "{token:?}");
                    assert_eq!(by.shares("n1").is_ok(), jobs.is_none(), "{token:?}");
                }
            }
            let login = By::login("ann");
            assert!(login.may(&action, Some("shop-a")).is_ok(), "{action:?}");
        }
    }
}
