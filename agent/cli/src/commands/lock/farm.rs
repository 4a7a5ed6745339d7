//! `farmhand lock NAME -- CMD` on the whole farm: a named lease, and a warden of its own that ends the command with it.

use std::fs::DirBuilder;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use farmhand_control::Asker;
use farmhand_core::definition::Command;
use farmhand_core::lease::{BootInstant, LeaseTiming, Stopwatch};
use farmhand_os::clock::{SLEW_LIMIT, boot_now, slewed_beyond};
use farmhand_store::leases::{self, Acquired};
use farmhand_store::{Db, StoreError};
use farmhand_warden_client::wire::{
    AttemptId, AttemptResult, Ending, Event, KillReason, Serving, SpawnRequest,
};
use farmhand_warden_client::{
    Item, Launch, Notice, Notices, OutputReader, Paths, Stream, WardenClient, WardenError, is_alive,
};
use tokio::signal::unix::{Signal, SignalKind, signal};
use uuid::Uuid;

use super::LockArgs;
use crate::commands::database::located;
use crate::commands::{Failure, Kind, out};

/// Between two looks at a lease that another holds, and at what the command has written.
const LOOK: Duration = Duration::from_millis(250);
const OUTPUT_EVERY: Duration = Duration::from_millis(50);
/// Between SIGTERM and SIGKILL.
const GRACE: Duration = Duration::from_secs(10);
/// The warden runs this one.
const COMMAND: AttemptId = AttemptId {
    run_id: 1,
    attempt: 1,
};
/// How the names of state directories begin.
const TEMPORARY: &str = "farmhand-lock-";
/// What a client that was killed left behind is removed after that.
const LEFT_FOR: Duration = Duration::from_secs(60);

/// A lease that this process was granted, and when it asked for it.
struct Granted {
    fence: i64,
    sent: BootInstant,
}

/// The exit code: the command's, or the one for a lock that others hold.
pub(super) async fn run(args: &LockArgs, name: &str) -> Result<i32, Failure> {
    let timing = LeaseTiming::new(args.ttl).map_err(|e| Failure::usage(e.to_string()))?;
    let timing = timing.with_slewed_clock(slewed_beyond(SLEW_LIMIT));
    let config = args.database.config()?;
    let config = config.with_timeouts(timing.renew_every(), timing.renew_every());
    let db = Db::new(&config);
    let acquired = acquire(args, name, timing, &db).await;
    let granted = match acquired.map_err(|e| located(e, Asker::Application, &config))? {
        Ok(granted) => granted,
        Err(by) => {
            out::note(&format!("held by {by}: {name}"));
            return Ok(args.conflict_exit_code.into());
        }
    };
    let fence = granted.fence;
    let code = match Held::start(args, granted, timing).await {
        Ok(mut held) => {
            let code = held.run(&db, name, fence, timing).await;
            // Where that cannot be said, the lease lapses after the warden's deadline.
            held.end().await?;
            let _ = std::fs::remove_dir_all(&held.dir);
            code
        }
        Err(failure) => Err(failure),
    };
    // Nothing of the command lives. Unconfirmed, it lapses.
    let _ = leases::release(&db, name, fence).await;
    code
}

/// Or who holds it. A short outage while waiting only makes it wait longer.
async fn acquire(
    args: &LockArgs,
    name: &str,
    timing: LeaseTiming,
    db: &Db,
) -> Result<Result<Granted, String>, StoreError> {
    let began = Instant::now();
    let mut watch: Stopwatch<String> = Stopwatch::default();
    let mut answered = false;
    let mut told = false;
    let mut by = "others".to_owned();
    loop {
        let sent = boot_now();
        let ripe = watch.ripe(sent).into_iter().next();
        match leases::acquire(db, name, timing.ttl(), ripe.as_deref()).await {
            Ok(Acquired::Granted(fence)) if boot_now() < timing.soft_deadline(sent, GRACE) => {
                return Ok(Ok(Granted { fence, sent }));
            }
            // Too late to be used: nothing was started.
            Ok(Acquired::Granted(fence)) => _ = leases::release(db, name, fence).await,
            Ok(Acquired::Held { key, ttl: None }) => {
                watch.reset();
                by = key;
            }
            Ok(Acquired::Held { key, ttl: Some(ttl) }) => {
                "others".clone_into(&mut by);
                let wait = LeaseTiming::at_least(ttl).challenge_after();
                watch.observe(boot_now(), [(key, wait)]);
            }
            Ok(Acquired::Closed) => {
                watch.reset();
                "no one: claims are closed".clone_into(&mut by);
                if !told {
                    out::note("claims are closed: `farmhand epoch` says why; nothing is locked meanwhile");
                    told = true;
                }
            }
            Err(error) if answered && !error.is_permanent() && !error.is_refusal() => watch.reset(),
            Err(error) => return Err(error),
        }
        answered = true;
        if slewed_beyond(SLEW_LIMIT) {
            watch.reset();
        }
        let waited = began.elapsed();
        if args.no_wait || args.wait.is_some_and(|wait| waited >= wait) {
            return Ok(Err(by));
        }
        let left = args.wait.map_or(LOOK, |wait| wait - waited);
        tokio::time::sleep(left.min(LOOK)).await;
    }
}

/// A command under its warden.
struct Held {
    dir: PathBuf,
    client: WardenClient,
    notices: Notices,
    output: OutputReader,
    request: SpawnRequest,
}

impl Held {
    async fn start(args: &LockArgs, granted: Granted, timing: LeaseTiming) -> Result<Self, Failure> {
        let request = request(args, granted.fence)?;
        let dir = state_dir()?;
        let serving = Serving {
            session: granted.fence,
            incarnation: Uuid::new_v4(),
        };
        let deadline = timing.holder_deadline(granted.sent);
        let soft = timing.soft_deadline(granted.sent, GRACE);
        // It serves no node, so no agent adopts it.
        let lease = (serving, String::new());
        let launch = Launch::new(dir.clone(), lease, deadline.0, soft.0);
        let (client, notices) = launch.start().await.map_err(not_started)?;
        Ok(Self {
            output: OutputReader::new(Paths::new(&dir).attempt_dir(COMMAND), 0),
            dir,
            client,
            notices,
            request,
        })
    }

    /// Until the command has ended, by itself or with the lease; or cannot be watched any more, and then it may live.
    async fn run(&mut self, db: &Db, name: &str, fence: i64, timing: LeaseTiming) -> Result<i32, Failure> {
        self.client
            .spawn(self.request.clone())
            .await
            .map_err(not_started)?;
        let mut signals = [
            signal(SignalKind::terminate())?,
            signal(SignalKind::hangup())?,
            signal(SignalKind::interrupt())?,
        ];
        let renewing = renew(db.clone(), name.to_owned(), fence, timing, self.client.clone());
        let mut renewing = tokio::spawn(renewing);
        let mut output = tokio::time::interval(OUTPUT_EVERY);
        let result = loop {
            tokio::select! {
                notice = self.notices.recv() => match notice {
                    Some(Notice::Event(Event::Exited(report))) => break report.result,
                    Some(Notice::Event(_)) => {}
                    Some(Notice::Gone) | None => break None,
                },
                // It is not this process's any more, or the warden does not answer.
                _ = &mut renewing => break None,
                _ = output.tick() => self.pass_on()?,
                () = any(&mut signals) => self.client.kill(COMMAND, GRACE, KillReason::Cancel).await.unwrap_or_default(),
            }
        };
        renewing.abort();
        if let Some(result) = &result {
            self.pass_on()?;
            if let Some(missing) = self.output.finish(result.output.bytes) {
                pass(missing)?;
            }
            let _ = self.client.shutdown(Duration::ZERO).await;
        }
        match result {
            Some(result) if result.killed != Some(KillReason::Lease) => Ok(code(&result)),
            _ => Err(Failure::new(
                Kind::Away,
                format!("the command was ended with its lease on {name}"),
            )
            .why("the database confirmed no renewal in time, or the lease was released by hand")
            .next("run `farmhand doctor`; a longer --ttl rides out a longer outage")),
        }
    }

    /// Returns when nothing of it lives.
    async fn end(&self) -> io::Result<()> {
        self.client.proof().kill_warden()?;
        self.client.proof().tree_gone().await.map(|_| ())
    }

    fn pass_on(&mut self) -> io::Result<()> {
        while let Some(item) = self.output.next()? {
            pass(item)?;
        }
        Ok(())
    }
}

/// The deadline moves only after a renewal that was confirmed; returns when there is nothing left to renew.
async fn renew(db: Db, name: String, fence: i64, timing: LeaseTiming, client: WardenClient) {
    let mut pause = timing.renew_every();
    loop {
        tokio::time::sleep(pause).await;
        let sent = boot_now();
        pause = match leases::renew(&db, &name, fence).await {
            Ok(false) => return,
            // The warden's timer goes on.
            Err(_) => LOOK,
            Ok(true) => {
                let (deadline, soft) = (timing.holder_deadline(sent), timing.soft_deadline(sent, GRACE));
                // Who renewed beside a warden that can act on nothing would renew for ever.
                if client.set_deadline(deadline.0, soft.0).await.is_err() {
                    return;
                }
                timing.renew_every()
            }
        };
    }
}

async fn any(signals: &mut [Signal; 3]) {
    let [a, b, c] = signals;
    tokio::select! {
        _ = a.recv() => {}
        _ = b.recv() => {}
        _ = c.recv() => {}
    }
}

fn request(args: &LockArgs, fence: i64) -> Result<SpawnRequest, Failure> {
    let mut request = SpawnRequest::new(COMMAND, fence, Command::Argv(args.command.clone()));
    let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
        Some((name.into_string().ok()?, value.into_string().ok()?))
    };
    request.env = std::env::vars_os().filter_map(text).collect();
    request.env.insert("FARMHAND_FENCE".to_owned(), fence.to_string());
    let here = std::env::current_dir()?;
    request.cwd = Some(here.to_str().map(str::to_owned).ok_or_else(|| {
        Failure::usage(format!(
            "the directory {} has a name that is not UTF-8",
            here.display()
        ))
    })?);
    let umask = rustix::process::umask(rustix::fs::Mode::empty());
    rustix::process::umask(umask);
    request.umask = Some(umask.bits());
    Ok(request)
}

fn pass(item: Item) -> io::Result<()> {
    match item {
        Item::Chunk {
            stream: Stream::Stdout,
            bytes,
            ..
        } => io::stdout().write_all(&bytes).and_then(|()| io::stdout().flush()),
        Item::Chunk {
            stream: Stream::Agent,
            bytes,
            ..
        } => {
            let text = String::from_utf8_lossy(&bytes);
            out::note(&format!("farmhand: {}", text.trim_end()));
            Ok(())
        }
        Item::Chunk { bytes, .. } => io::stderr().write_all(&bytes),
        Item::Dropped { bytes, .. } => {
            out::note(&format!("{bytes} bytes of output were dropped"));
            Ok(())
        }
    }
}

/// As a shell says it.
fn code(result: &AttemptResult) -> i32 {
    if let Ending::StartFailed(failure) = &result.ending {
        out::note(&failure.message);
    }
    let signal = || result.signal().map(|signal| 128 + signal);
    result.exit_code().or_else(signal).unwrap_or(1)
}

fn not_started(error: WardenError) -> Failure {
    Failure::broken("the command was not started").why(error)
}

/// A new one of this user's alone. What clients left behind that were killed is removed.
fn state_dir() -> io::Result<PathBuf> {
    let temporary = std::fs::canonicalize(std::env::temp_dir())?;
    for entry in std::fs::read_dir(&temporary)?.flatten() {
        if entry
            .file_name()
            .to_str()
            .is_some_and(|n| n.starts_with(TEMPORARY))
            && is_left(&entry.path())
        {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let path = temporary.join(format!("{TEMPORARY}{}-{}", std::process::id(), boot_now().0));
    DirBuilder::new().mode(0o700).create(&path)?;
    Ok(path)
}

fn is_left(dir: &Path) -> bool {
    let Ok(found) = std::fs::symlink_metadata(dir) else {
        return false;
    };
    let age = found.modified().ok().and_then(|at| at.elapsed().ok());
    found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && age.is_some_and(|age| age > LEFT_FOR)
        && !is_alive(&Paths::new(dir))
}
