//! What an action's form asks for, and the action that its fields make.

use farmhand_core::definition::{JobSpec, Overlap, ParamSpec, ParamType, param_text, parse_params};
use farmhand_store::Role;
use maud::{Markup, html};

use super::many;
use crate::extract::{names, only};
use crate::ui::fields::run_number;
use crate::ui::parts::link;
use crate::ui::runs;
use crate::{App, Problem};
use farmhand_control::actions::{Cancel, Cordon, Drain, Pause, Resume, Retry, Submit, Uncordon};
use farmhand_control::{Action, BulkAction, Many, jobs};

farmhand_core::words! {
    /// What can be done from a page; the word is in its address.
    Verb {
        Run = "run",
        Pause = "pause",
        Resume = "resume",
        Cancel = "cancel",
        Retry = "retry",
        Cordon = "cordon",
        Drain = "drain",
        ResumeNode = "resume-node",
        CancelMany = "cancel-runs",
        RetryMany = "retry-runs",
    }
}

impl Verb {
    pub fn role(self) -> Role {
        match self {
            Self::Run => Role::Submitter,
            _ => Role::Operator,
        }
    }

    /// The field that names what it is done to.
    pub fn about(self) -> &'static str {
        match self {
            Self::Run | Self::Pause | Self::Resume => "job",
            Self::Cancel | Self::Retry | Self::CancelMany | Self::RetryMany => "run",
            Self::Cordon | Self::Drain | Self::ResumeNode => "node",
        }
    }

    pub fn button(self) -> &'static str {
        match self {
            Self::Run => "Run now",
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::Cancel => "Cancel the run",
            Self::Retry => "Run again",
            Self::Cordon => "Cordon",
            Self::Drain => "Drain",
            Self::ResumeNode => "Resume",
            Self::CancelMany => "Cancel these runs",
            Self::RetryMany => "Run these again",
        }
    }

    /// The names that its form has; parameters are beside them.
    fn names(self) -> Vec<&'static str> {
        if self.bulk().is_some() {
            let filter = names::<runs::Ask>().unwrap_or_default();
            return [filter, &many::OWN].concat();
        }
        let chosen: &[&str] = match self {
            Self::Run => &["overlap"],
            Self::Pause => &["reason"],
            Self::Cancel => &["firing"],
            Self::Retry => &["from_failed"],
            Self::Drain => &["deadline"],
            _ => &[],
        };
        [&[self.about(), "key", "sure"], chosen].concat()
    }

    /// What is misspelt, or said twice, is not dropped: the rest would be done to more than was meant.
    fn check(self, fields: &[(String, String)]) -> Result<(), Problem> {
        let mut named = fields.to_vec();
        named.retain(|(name, _)| self != Self::Run || !name.starts_with(PARAM));
        only(named.iter().map(|(name, _)| name), &self.names())?;
        let many = |name: &str| self.bulk().is_some() && name == "run";
        let twice = fields
            .iter()
            .enumerate()
            .find(|(at, (name, _))| !many(name) && fields[..*at].iter().any(|(before, _)| before == name));
        match twice {
            Some((_, (name, _))) => Err(Problem::bad_request(format!("{name} is there twice"))),
            None => Ok(()),
        }
    }

    /// Whether it ends something.
    pub fn ends(self) -> bool {
        matches!(self, Self::Cancel | Self::CancelMany | Self::Drain)
    }

    /// Of one that is done with each of many runs.
    pub fn bulk(self) -> Option<BulkAction> {
        match self {
            Self::CancelMany => Some(BulkAction::Cancel),
            Self::RetryMany => Some(BulkAction::Retry),
            _ => None,
        }
    }
}

/// An action as far as its form is filled in.
pub struct FormInput {
    pub verb: Verb,
    /// The job, the run or the node.
    pub about: String,
    pub action: Result<Action, Problem>,
    given: Vec<(String, String)>,
    params: Vec<(String, ParamSpec)>,
}

/// Begins the names of fields that are parameters.
const PARAM: &str = "p.";

impl FormInput {
    /// Errors: When it is not said what it is about, or the job cannot be read.
    pub async fn read(app: &App, verb: Verb, fields: &[(String, String)]) -> Result<Self, Problem> {
        verb.check(fields)?;
        let field = |wanted: &str| many::field(fields, wanted);
        if let Some(bulk) = verb.bulk() {
            return Self::many(app, verb, bulk, fields).await;
        }
        let about = field(verb.about()).map(str::to_owned).ok_or_else(|| {
            Problem::bad_request(format!(
                "the address does not say which {} is meant",
                verb.about()
            ))
        })?;
        let mut asked = Self {
            verb,
            given: fields.to_vec(),
            params: Vec::new(),
            action: Err(Problem::bad_request("nothing is asked")),
            about: about.clone(),
        };
        asked.action = match verb {
            Verb::Run => {
                let spec = spec(app, &about).await?;
                asked.params = spec.params.clone().into_iter().collect();
                let overlap = field("overlap").map_or(Ok(Overlap::Allow), str::parse);
                submission(&about, &spec, fields, overlap.map_err(Problem::bad_request)?)
            }
            Verb::Pause => Ok(Pause {
                job: about,
                reason: field("reason").map(str::to_owned),
            }
            .into()),
            Verb::Resume => Ok(Resume { job: about }.into()),
            Verb::Cancel => Ok(Cancel {
                run: run_number(&about)?,
                firing: field("firing").is_some(),
            }
            .into()),
            Verb::Retry => Ok(Retry {
                run: run_number(&about)?,
                from_failed: field("from_failed").is_some(),
            }
            .into()),
            Verb::Cordon => Ok(Cordon { node: about }.into()),
            Verb::Drain => Ok(Drain {
                node: about,
                deadline: field("deadline").map(str::to_owned),
            }
            .into()),
            Verb::ResumeNode => Ok(Uncordon { node: about }.into()),
            // They are read above.
            Verb::CancelMany | Verb::RetryMany => asked.action,
        };
        Ok(asked)
    }

    async fn many(
        app: &App,
        verb: Verb,
        bulk: BulkAction,
        fields: &[(String, String)],
    ) -> Result<Self, Problem> {
        let chosen = many::chosen(app.reading.db(), bulk, fields).await?;
        Ok(Self {
            verb,
            about: String::new(),
            given: many::fields(&chosen, fields),
            params: Vec::new(),
            action: Ok(Many {
                bulk,
                from_failed: fields.iter().any(|(name, _)| name == "from_failed"),
                chosen,
            }
            .into()),
        })
    }

    /// What the form says again when it is sent.
    pub fn carried(&self) -> Vec<(&str, &str)> {
        if self.verb.bulk().is_some() {
            let fields = self
                .given
                .iter()
                .filter(|(name, _)| !["all", "from_failed"].contains(&name.as_str()));
            return fields
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
        }
        vec![(self.verb.about(), self.about.as_str())]
    }

    pub fn title(&self) -> String {
        let about = &self.about;
        match self.verb {
            Verb::Run => format!("Run {about} now?"),
            Verb::Pause => format!("Pause {about}?"),
            Verb::Resume => format!("Resume {about}?"),
            Verb::Cancel => format!("Cancel run {about}?"),
            Verb::Retry => format!("Run {about} again?"),
            Verb::Cordon => format!("Cordon {about}?"),
            Verb::Drain => format!("Drain {about}?"),
            Verb::ResumeNode => format!("Let {about} claim again?"),
            Verb::CancelMany => "Cancel these runs?".to_owned(),
            Verb::RetryMany => "Run these again?".to_owned(),
        }
    }

    /// The page that it is about.
    pub fn back(&self) -> String {
        if self.verb.bulk().is_some() {
            let filter = self
                .carried()
                .into_iter()
                .filter(|(name, _)| !["run", "upto"].contains(name));
            return link::query("/runs", &filter.collect::<Vec<_>>());
        }
        match self.verb.about() {
            "job" => link::job(&self.about),
            "run" => format!("/runs/{}", link::encode(&self.about)),
            _ => link::node(&self.about),
        }
    }

    /// What may be chosen.
    pub fn fields(&self) -> Markup {
        html! {
            @match self.verb {
                Verb::Run => {
                    @for (name, param) in &self.params { (self.param(name, param)) }
                    div class="field" {
                        label for="overlap" { "If it runs already" }
                        select id="overlap" name="overlap" {
                            @for (value, words) in OVERLAPS { option value=(value) selected[self.given("overlap") == value] { (words) } }
                        }
                    }
                },
                Verb::Pause => (self.text("reason", "Why, for the others (may be empty)", "")),
                Verb::Drain => (self.text("deadline", "End what still runs after (empty: wait for it)", "10m")),
                Verb::Cancel => (self.tick("firing", "Also cancel the rest of this firing")),
                Verb::Retry | Verb::RetryMany => {
                    @if self.verb == Verb::RetryMany && self.given("run").is_empty() {
                        (self.tick("all", "Every run that the filter finds, not only those of the newest firing of each job"))
                    }
                    (self.tick("from_failed", "Of a flow, only what did not succeed"))
                },
                _ => {},
            }
        }
    }

    fn given(&self, name: &str) -> &str {
        let found = self.given.iter().find(|(n, _)| n == name);
        found.map_or("", |(_, value)| value)
    }

    fn param(&self, name: &str, param: &ParamSpec) -> Markup {
        let field = format!("{PARAM}{name}");
        let default = param.default.as_ref().map(param_text);
        html! {
            div class="field" {
                label for=(field) { code { (name) } " " small { (word(param.kind)) @if param.required { ", needed" } } }
                input id=(field) name=(field) value=(self.given(&field)) placeholder=[default] autocomplete="off";
            }
        }
    }

    fn text(&self, name: &str, words: &str, example: &str) -> Markup {
        html! {
            div class="field" {
                label for=(name) { (words) }
                input id=(name) name=(name) value=(self.given(name)) placeholder=(example) autocomplete="off";
            }
        }
    }

    fn tick(&self, name: &str, words: &str) -> Markup {
        html! {
            label class="check" {
                input type="checkbox" name=(name) value="yes" checked[!self.given(name).is_empty()];
                (words)
            }
        }
    }
}

fn word(kind: ParamType) -> &'static str {
    match kind {
        ParamType::String => "text",
        ParamType::Integer => "whole number",
        ParamType::Number => "number",
        ParamType::Boolean => "true or false",
        ParamType::Duration => "duration, as in 5m",
        ParamType::Date => "date, as in 2026-12-24",
    }
}

const OVERLAPS: [(&str, &str); 4] = [
    ("allow", "run beside it"),
    ("skip", "do not run, record it as skipped"),
    ("queue", "run after it"),
    ("replace", "end it, and run instead"),
];

async fn spec(app: &App, name: &str) -> Result<JobSpec, Problem> {
    let listed = jobs::one(app.reading.db(), name).await?;
    Ok(jobs::spec(&listed)?)
}

fn submission(
    job: &str,
    spec: &JobSpec,
    fields: &[(String, String)],
    overlap: Overlap,
) -> Result<Action, Problem> {
    let given: Vec<(String, String)> = fields
        .iter()
        .filter_map(|(name, value)| Some((name.strip_prefix(PARAM)?.to_owned(), value.clone())))
        .filter(|(_, value)| !value.is_empty())
        .collect();
    let params = parse_params(spec, &given).map_err(|e| Problem::bad_request(e.to_string()))?;
    Ok(Submit {
        job: job.to_owned(),
        params,
        overlap,
    }
    .into())
}
