//! `farmhand lock`: a command that holds named locks; with `--local` it needs no database.

mod farm;

use std::io::ErrorKind;
use std::os::fd::AsRawFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use farmhand_core::document::parse_duration;
use farmhand_engine::locks::{self, LockError, Locks, VARIABLE};
use farmhand_os::signal::{Signals, unblock_all};
use rustix::event::{PollFd, PollFlags, poll};

use super::{DatabaseArgs, Failure, Outcome, out};

/// On the whole farm: a lease in the database, under one name. The command's standard input is empty. When the lease cannot be
/// renewed, or after kill -9 of this process, the command and all that it started are killed before another gets the lock;
/// then the exit code is 5. FARMHAND_FENCE is a number that grows each time the lock is taken.
///
/// With --local: among this user's processes on this machine, without a database. The command and all that has inherited
/// the locks hold them, also after kill -9. Tasks of flows with `# LOCK:` or `locks` take the same locks.
///
/// The exit code is the command's.
#[derive(Args, Debug)]
pub(crate) struct LockArgs {
    /// With --local several, all of them at once. =SEATS: so many may hold it at a time, each with a number from 1 in FARMHAND_SLOT
    #[arg(required = true, value_name = "NAME[=SEATS]", value_parser = name)]
    names: Vec<(String, u32)>,
    /// Among this user's processes on this machine
    #[arg(long)]
    local: bool,
    /// Do not wait for locks that are held
    #[arg(short = 'n', long, conflicts_with = "wait")]
    no_wait: bool,
    /// Wait at most so long; a number alone is seconds
    #[arg(short, long, value_name = "TIME", value_parser = seconds)]
    wait: Option<Duration>,
    /// The exit code when the locks are held by others
    #[arg(short = 'E', long, value_name = "CODE", default_value = "1")]
    conflict_exit_code: u8,
    /// How long the lease lasts after a renewal, 3s to 1m: so long after kill -9 another waits
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_duration, conflicts_with = "local")]
    ttl: Duration,
    #[command(flatten)]
    database: DatabaseArgs,
    /// The command
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<String>,
}

fn name(text: &str) -> Result<(String, u32), String> {
    let (name, seats) = match text.rsplit_once('=') {
        Some((name, seats)) => (name, seats.parse().ok().filter(|n| (1..=1000).contains(n))),
        None => (text, Some(1)),
    };
    match seats {
        Some(seats) if !name.is_empty() => Ok((name.to_owned(), seats)),
        _ => Err("write NAME, or NAME=SEATS with 1 to 1000 seats".to_owned()),
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    match text.parse() {
        Ok(seconds) => Duration::try_from_secs_f64(seconds).map_err(|e| e.to_string()),
        Err(_) => parse_duration(text),
    }
}

pub(super) fn run(args: &LockArgs) -> Outcome {
    let mut names = args.names.clone();
    names.sort();
    names.dedup();
    if let Some(twice) = names.windows(2).find(|pair| pair[0].0 == pair[1].0) {
        return Err(Failure::usage(format!(
            "`{}` is named with two numbers of seats",
            twice[0].0
        )));
    }
    if !args.local {
        let [(name, 1)] = names.as_slice() else {
            return Err(
                Failure::usage("a lock of the whole farm has one name and no seats").next(
                    "name one, or add --local; as many runs as a pool has places: `pool` in a job file",
                ),
            );
        };
        let threads = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()?;
        std::process::exit(threads.block_on(farm::run(args, name))?);
    }
    let locks = Locks::open(names.iter().map(|(name, seats)| (name.as_str(), *seats)))?;
    let Some(places) = take(args, &names, &locks)? else {
        let said: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
        out::note(&format!("held by others: {}", said.join(", ")));
        std::process::exit(args.conflict_exit_code.into());
    };
    for file in locks.files() {
        // What the command starts and leaves behind goes on holding them.
        // SAFETY: changes a flag of an open descriptor.
        unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFD, 0) };
    }
    let slot = names.iter().zip(places).find(|((_, seats), _)| *seats > 1);
    std::process::exit(execute(&args.command, slot.map(|(_, place)| place))?)
}

fn take(args: &LockArgs, names: &[(String, u32)], locks: &Locks) -> Result<Option<Vec<usize>>, Failure> {
    let began = Instant::now();
    loop {
        let places = locks.try_take(names.iter().map(|(name, _)| name.as_str()))?;
        let waited = began.elapsed();
        if places.is_some() || args.no_wait || args.wait.is_some_and(|wait| waited >= wait) {
            return Ok(places);
        }
        let left = args.wait.map_or(locks::LOOK, |wait| wait - waited);
        std::thread::sleep(left.min(locks::LOOK));
    }
}

/// Its exit code, as a shell says it. SIGTERM and SIGHUP are handed on; from a terminal the command has Ctrl-C anyway.
fn execute(words: &[String], slot: Option<usize>) -> Result<i32, Failure> {
    let signals = Signals::block()?;
    let (program, arguments) = words.split_first().ok_or_else(|| Failure::usage("no command"))?;
    let mut command = Command::new(program);
    command.args(arguments);
    if let Some(slot) = slot {
        command.env("FARMHAND_SLOT", slot.to_string());
    }
    // SAFETY: a plain system call; the mask that was just set is not for the command.
    unsafe { command.pre_exec(unblock_all) };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(error) => {
            out::note(&format!("{program} cannot be executed: {error}"));
            return Ok(if error.kind() == ErrorKind::NotFound {
                127
            } else {
                126
            });
        }
    };
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(status.code().or(status.signal().map(|s| 128 + s)).unwrap_or(1));
        }
        // Whatever ends the sleep, everything is looked at.
        let _ = poll(&mut [PollFd::from_borrowed_fd(signals.fd(), PollFlags::IN)], None);
        for signal in signals.take() {
            if [libc::SIGTERM, libc::SIGHUP].contains(&signal) {
                // SAFETY: a child of this process that it has not waited for.
                unsafe { libc::kill(child.id().cast_signed(), signal) };
            }
        }
    }
}

impl From<LockError> for Failure {
    fn from(error: LockError) -> Self {
        Self::broken(error.to_string()).next(format!(
            "repair that, or name another directory in {VARIABLE}, for all processes of this user alike"
        ))
    }
}
