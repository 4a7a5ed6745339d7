//! `farmhand job export`: stored jobs as a file.

use clap::Args;
use farmhand_control::ask::{Export, Question};
use farmhand_store::Db;

use super::{Exit, Outcome, completion, out};

#[derive(Args, Debug)]
pub(crate) struct ExportArgs {
    /// All jobs by default
    #[arg(add = completion::job_names())]
    name: Vec<String>,
    /// Only jobs that were applied from this source
    #[arg(long, value_name = "NAME")]
    source: Option<String>,
}

pub(super) async fn run(db: &Db, args: &ExportArgs, as_json: bool) -> Outcome {
    let asked = Export {
        name: args.name.clone(),
        source: args.source.clone(),
    };
    let file = asked.answer(db).await?;
    for text in &file.warnings {
        out::note(&format!("warning: {text}"));
    }
    if as_json {
        out::json(&file);
    } else {
        out::raw(file.toml.as_bytes());
    }
    Ok(Exit::Ok)
}
