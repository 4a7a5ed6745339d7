//! `farmhand top`: the farm as it is now, drawn again and again.

mod draw;
mod screen;

use std::io::{self, IsTerminal};
use std::time::Duration;

use clap::Args;
use farmhand_core::document::parse_duration;
use farmhand_store::reading::{self, FarmNow};
use farmhand_store::top::{Moment, moment};
use farmhand_store::{Db, StoreError};
use tokio::signal::unix::{SignalKind, signal};

use self::screen::{Key, Screen};
use super::{DatabaseArgs, Exit, Outcome, out};

/// Rows of each list, where no screen says how many fit.
const ROWS: i64 = 200;

#[derive(Args, Debug)]
pub struct TopArgs {
    /// How often it is drawn, from 1s
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = every)]
    every: Duration,
    /// Show one moment, and leave; without a terminal that is so anyway
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    database: DatabaseArgs,
}

fn every(text: &str) -> Result<Duration, String> {
    let every = parse_duration(text)?;
    if every < Duration::from_secs(1) {
        return Err("write a duration from 1s up".to_owned());
    }
    Ok(every)
}

pub async fn run(args: &TopArgs, as_json: bool) -> Outcome {
    let db = args.database.connect().await?;
    let first = read(&db).await?;
    if as_json {
        out::json(&first.0);
        return Ok(Exit::Ok);
    }
    if args.once || !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        print(&first);
        return Ok(Exit::Ok);
    }
    live(&db, args.every, first).await
}

/// The lists, and the verdict above them.
type Shown = (Moment, FarmNow);

async fn read(db: &Db) -> Result<Shown, StoreError> {
    tokio::try_join!(moment(db, ROWS), reading::farm(db))
}

fn print((moment, farm): &Shown) {
    for line in draw::head(moment, &farm.findings) {
        out::line(&out::printable(&line));
    }
    for list in draw::lists(moment) {
        out::line("");
        out::line(&list.title);
        if !list.rows.is_empty() {
            out::table(&list.headers, list.rows);
        }
    }
}

/// Two statements for each drawing. A database that is away is waited for, with the last moment on the screen.
async fn live(db: &Db, every: Duration, mut shown: Shown) -> Outcome {
    let mut screen = Screen::open()?;
    let mut resized = signal(SignalKind::window_change())?;
    let mut terminated = signal(SignalKind::terminate())?;
    let mut ticks = tokio::time::interval(every);
    ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    ticks.tick().await;
    let mut trouble = None;
    loop {
        let (width, height) = screen.size();
        screen.show(&draw::page(
            &shown.0,
            &shown.1.findings,
            trouble.as_deref(),
            width,
            height,
        ));
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
