//! `farmhand epoch`: which database this is, and a new epoch where no agent could know that one is needed.

use clap::{Args, Subcommand};
use farmhand_control::epochs::{bump, bump_danger, floor};
use farmhand_core::lease::FENCE_BITS;
use farmhand_store::epochs::{self, Epoch};
use serde_json::json;

use super::{DatabaseArgs, Exit, Failure, Outcome, act, out, terminal};

#[derive(Args, Debug)]
pub(crate) struct EpochArgs {
    #[command(subcommand)]
    command: Option<EpochCommand>,
    #[command(flatten)]
    database: DatabaseArgs,
}

#[derive(Subcommand, Debug)]
enum EpochCommand {
    /// Begin a new epoch, so that fences go on above those that other systems have seen; for the schema's owner
    Bump(BumpArgs),
}

#[derive(Args, Debug)]
struct BumpArgs {
    /// The highest fence that a target has stored
    #[arg(long, value_name = "FENCE", value_parser = clap::value_parser!(i64).range(1..))]
    above: Option<i64>,
    /// Do not ask
    #[arg(long)]
    yes: bool,
}

pub(super) async fn run(args: &EpochArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let shown = epochs::newest(&db).await?;
    let Some(EpochCommand::Bump(args)) = &args.command else {
        show(&shown, as_json);
        return Ok(Exit::Ok);
    };
    let floor = floor(&shown, args.above)?;
    if !args.yes {
        let danger = bump_danger(&shown, floor);
        let unasked = Failure::refused("nothing was done").why(&danger);
        terminal::agree(
            &format!("{danger}\nGo on?"),
            "nothing was done",
            unasked.next("add --yes"),
        )?;
    }
    let epoch = bump(
        &act::acting(&db, "epoch_bump", "epoch bump"),
        &shown,
        floor,
        &super::who(),
    )
    .await?;
    if as_json {
        out::json(&json!({"before": shown.epoch, "epoch": epoch, "fences_above": epoch << FENCE_BITS}));
        return Ok(Exit::Ok);
    }
    out::line(&format!(
        "epoch {epoch} follows {}; the next fence is above {}",
        shown.epoch,
        epoch << FENCE_BITS
    ));
    out::note(match shown.open_nodes {
        0 if shown.seen_epoch < shown.epoch => {
            "claims are closed until an agent has watched this database for the longest lease: start agents now"
        }
        _ => "claims are closed until an agent has watched this database for the longest lease",
    });
    Ok(Exit::Ok)
}

fn show(shown: &Epoch, as_json: bool) {
    let closed = shown.closed();
    if as_json {
        let mut told = json!(shown);
        told["closed_because"] = json!(closed);
        out::json(&told);
        return;
    }
    let cluster = |of: &Option<String>| of.clone().unwrap_or_else(|| "not told".to_owned());
    out::pairs(&[
        ("farm", shown.farm_id.to_string()),
        ("epoch", shown.epoch.to_string()),
        ("fences", format!("above {}", shown.epoch << FENCE_BITS)),
        (
            "opened",
            format!("{} by {}", out::time(shown.opened_at), shown.opened_by),
        ),
        (
            "opened on",
            format!("{}, cluster {}", shown.server, cluster(&shown.cluster)),
        ),
        (
            "answers",
            format!("{}, cluster {}", shown.server_now, cluster(&shown.cluster_now)),
        ),
        (
            "claims",
            closed.map_or_else(|| "open".to_owned(), |why| format!("closed: {}", why.because())),
        ),
    ]);
}
