//! `farmhand ack`: say that a cause is known.

use clap::Args;
use farmhand_control::{Action, Answer};
use farmhand_store::acknowledgements::acknowledgements;
use farmhand_store::{Db, reading};
use serde_json::json;

use super::{DatabaseArgs, Exit, Outcome, act, out};

#[derive(Args, Debug)]
pub(crate) struct AckArgs {
    /// What is known, as `farmhand status` names it: failing:backup
    #[arg(value_name = "CAUSE", required_unless_present_any = ["list", "remove"])]
    causes: Vec<String>,
    /// How long it does not lead, at most 30 d
    #[arg(long = "for", value_name = "DURATION", default_value = "8h")]
    lasts: String,
    /// What the others should know, in one line
    #[arg(long)]
    note: Option<String>,
    /// Show what is acknowledged
    #[arg(long, conflicts_with_all = ["causes", "remove", "note"])]
    list: bool,
    /// Take the acknowledgement of this cause back
    #[arg(long, value_name = "CAUSE", conflicts_with_all = ["causes", "note"])]
    remove: Option<String>,
    #[command(flatten)]
    database: DatabaseArgs,
}

pub(super) async fn run(args: &AckArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    if args.list {
        return list(&db, as_json).await;
    }
    let removal = (args.remove.iter()).map(|cause| Action::Unacknowledge { cause: cause.clone() });
    let actions = args.causes.iter().map(|cause| Action::Acknowledge {
        cause: cause.clone(),
        lasts: Some(args.lasts.clone()),
        note: args.note.clone(),
    });
    let mut answers: Vec<Answer> = Vec::new();
    for action in removal.chain(actions) {
        let answer = act::act(&db, &action, None).await?;
        if !as_json {
            act::say(&answer);
        }
        answers.push(answer);
    }
    if as_json {
        out::json(&answers);
    }
    Ok(Exit::Ok)
}

/// All that have not expired, and whether there is such a cause now that they hold for.
async fn list(db: &Db, as_json: bool) -> Outcome {
    let all = acknowledgements(db).await?;
    let farm = reading::whole_farm(db).await?;
    if as_json {
        let rows: Vec<_> = (all.iter())
            .map(|known| {
                let mut row = json!(known);
                row["holds"] = json!(farm.acknowledged.contains_key(&known.cause));
                row
            })
            .collect();
        out::json(&rows);
        return Ok(Exit::Ok);
    }
    let rows = all.iter().map(|known| {
        let holds = farm.acknowledged.contains_key(&known.cause);
        vec![
            known.cause.to_string(),
            if holds { "yes" } else { "no" }.to_owned(),
            known.told.by.clone(),
            out::time(known.told.until),
            known.told.note.clone().unwrap_or_default(),
        ]
    });
    out::table(&["CAUSE", "HOLDS", "BY", "UNTIL", "NOTE"], rows.collect());
    Ok(Exit::Ok)
}
