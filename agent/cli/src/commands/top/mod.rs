//! `farmhand top`: the farm as it is now, drawn again and again.

mod draw;
mod screen;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use farmhand_core::document::parse_duration;
use farmhand_store::reading::{self, FarmNow, NodeItem, QueuedRun, every};
use farmhand_store::{Db, StoreError};
use serde::Serialize;
use tokio::signal::unix::{SignalKind, signal};

use self::screen::{Key, Screen};
use super::{DatabaseArgs, Exit, Outcome, out};

/// Rows of the queue, where no screen says how many fit.
const ROWS: i64 = 200;

#[derive(Args, Debug)]
pub(crate) struct TopArgs {
    /// How often it is drawn, from 1s
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = interval)]
    every: Duration,
    /// Show one moment, and leave; without a terminal that is so anyway
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

fn interval(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if every < Duration::from_secs(1) {
        return Err("write a duration from 1s up".to_owned());
    }
    Ok(every)
}

pub(super) async fn run(args: &TopArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let first = read(&db).await?;
    if as_json {
        out::json(&first);
        return Ok(Exit::Ok);
    }
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        print(&first);
        return Ok(Exit::Ok);
    }
    live(&db, args.every, first).await
}

/// The farm at one moment.
#[derive(Serialize)]
struct Moment {
    farm: FarmNow,
    /// Open ones first.
    nodes: Vec<NodeItem>,
    queue: Vec<QueuedRun>,
}

async fn read(db: &Db) -> Result<Moment, StoreError> {
    let (farm, nodes, queue) = tokio::try_join!(
        reading::farm(db),
        every(|paging| async move { reading::nodes(db, None, &paging).await }),
        reading::queue(db, ROWS)
    )?;
    let mut nodes = nodes.items;
    nodes.sort_by_key(|node| !node.open);
    Ok(Moment { farm, nodes, queue })
}

fn print(moment: &Moment) {
    for line in draw::head(moment) {
        out::line(&line);
    }
    for list in draw::lists(moment) {
        out::line("");
        out::line(&list.title);
        if !list.rows.is_empty() {
            out::table(&list.headers.join("|"), list.rows);
        }
    }
}

/// A database that is away is waited for, with the last moment on the screen.
async fn live(db: &Db, every: Duration, mut shown: Moment) -> Outcome {
    let mut screen = Screen::open()?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut trouble = None;
    loop {
        let (width, height) = screen.size();
        screen.show(&draw::page(&shown, trouble.as_deref(), width, height));
        tokio::select! {
            _ = ticks.tick() => match read(db).await {
                Ok(now) => (shown, trouble) = (now, None),
                Err(error) if error.is_away() => trouble = Some(format!("{error}; trying on")),
                Err(error) => {
                    drop(screen);
                    return Err(error.into());
                }
            },
            key = screen.key() => match key {
                Key::Leave => return Ok(Exit::Ok),
                Key::Other => {}
            },
            _ = resized.recv() => {}
            _ = terminated.recv() => return Ok(Exit::Ok),
            _ = tokio::signal::ctrl_c() => return Ok(Exit::Ok),
        }
    }
}
