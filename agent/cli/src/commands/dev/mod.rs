//! `farmhand dev`: a whole farm on one machine, and nothing of it left after Ctrl-C.

mod agents;
mod end;
mod kin;
mod orphans;
mod ready;
mod signals;
mod tour;

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use farmhand_control::Asker;
use farmhand_store::acting::{Acting, Deed};
use farmhand_store::tokens::revoke_token;
use farmhand_store::{Db, DbConfig, PasswordIn, Role, StoreError, migrate};

use super::{Exit, Failure, Kind, Outcome, database, settings, token};
use crate::embedded::{Embedded, EmbeddedError, Place};
use crate::examples;
use agents::Agents;
use signals::{Event, Signals};

#[derive(Args, Debug)]
pub(crate) struct DevArgs {
    /// How many agents to start
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=32))]
    agents: u16,
    /// Where agent 1 listens; the others take the next free ports
    #[arg(long, default_value_t = 7070, value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Keeps everything: database, state, logs and example jobs
    #[arg(long, value_name = "DIR", default_value = ".farmhand-dev")]
    data: PathBuf,
    /// How long a node's lease lives unrenewed, 3s to 1h
    #[arg(long, value_name = "DURATION", default_value = "6s", value_parser = settings::lease_ttl)]
    lease_ttl: Duration,
}

/// A PostgreSQL that ends again within this time is not started a third time.
const STAYS_UP: Duration = Duration::from_secs(10);

/// Runs until a signal ends it. On the main thread, before there are others: the signals are blocked here for
/// all of them, and children get their death signal when *this* thread ends.
pub(super) fn run(args: &DevArgs) -> Outcome {
    forget_settings();
    let signals = Signals::take()?;
    orphans::adopt()?;
    let dir = directory(&args.data)?;
    let _lock = lock(&dir)?;
    let server = start_database(&dir)?;
    let url = server.place().url();
    write_whole(&dir.join("url"), &format!("{url}\n"))?;
    let mut farm = Farm {
        agents: Agents::new(&dir, &url, args)?,
        server,
        signals,
    };
    let outcome = farm.live(&dir, args);
    farm.end();
    outcome
}

/// What the shell's variables set is for other farms: neither the connections of this process heed it nor its children.
fn forget_settings() {
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("FARMHAND_") {
            // SAFETY: there is no other thread yet.
            unsafe { std::env::remove_var(name) };
        }
    }
}

struct Farm {
    agents: Agents,
    server: Embedded,
    signals: Signals,
}

impl Farm {
    fn live(&mut self, dir: &Path, args: &DevArgs) -> Outcome {
        let url = self.server.place().url();
        let config = DbConfig::from_url(&url, PasswordIn::Allowed)?;
        runtime()?
            .block_on(migrate::migrate(&config))
            .map_err(|e| self.unmigrated(e, &config))?;
        let login = self.login(dir, &config)?;
        let work = dir.join("work");
        examples::write(&dir.join("table"), &examples::fitted_table(&url, &work))?;
        give_jobs(&dir.join("jobs"), &examples::fitted(&url, &work), |jobs| {
            apply(&url, jobs)
        })?;
        self.agents.start_all()?;
        if !ready::wait(&mut self.agents, &self.signals, args.lease_ttl)? {
            return Ok(Exit::Ok);
        }
        tour::print(dir, &login, &self.agents, &self.server, args.lease_ttl);
        self.watch(dir, args.lease_ttl)
    }

    fn unmigrated(&self, error: StoreError, config: &DbConfig) -> Failure {
        let changed = matches!(error, StoreError::MigrationChanged { .. });
        let failure = database::located(error, Asker::Owner, config);
        if !changed {
            return failure;
        }
        let dir = self.agents.dir().display();
        failure.next(format!(
            "choose another directory with --data, or remove {dir}: a new farm begins there"
        ))
    }

    /// A token for everything, in a file of its owner's alone. It is part of an address that no browser sends on: what
    /// stands behind `#` stays with the page, which shows it to the login once.
    fn login(&self, dir: &Path, config: &DbConfig) -> Result<String, Failure> {
        const VALID: Duration = Duration::from_secs(30 * 86_400);
        let token = runtime()?.block_on(async {
            let db = Db::connect(config).await?;
            let deed = Deed::of("farmhand dev", "token_revoke", "farmhand token revoke dev");
            revoke_token(&Acting::begin(&db, deed), "dev", "farmhand dev").await?;
            token::create(&db, "dev", (Role::Admin, &[]), VALID).await
        })?;
        let path = dir.join("token");
        let _ = fs::remove_file(&path);
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "{}", token.0)?;
        let first = self.agents.all().first();
        let listen = first.map_or_else(String::new, |agent| agent.listen.to_string());
        Ok(format!("http://{listen}/login#{}", token.0))
    }

    /// Until a signal, or until PostgreSQL does not stay up.
    fn watch(&mut self, dir: &Path, ttl: Duration) -> Outcome {
        let mut restarted: Option<Instant> = None;
        loop {
            match self.signals.wait(Duration::from_millis(500)) {
                Event::End => return Ok(Exit::Ok),
                Event::Look => self.agents.look(),
                Event::Child | Event::Nothing => {}
            }
            orphans::reap(&self.kept());
            for dead in self.agents.reap() {
                tour::print_death(&dead, ttl);
            }
            let Some(status) = self.server.ended() else {
                continue;
            };
            if restarted.is_some_and(|at| at.elapsed() < STAYS_UP) {
                let log = self.server.place().log.display().to_string();
                return Err(
                    Failure::new(Kind::Away, "the farm's PostgreSQL ended again at once")
                        .why(status)
                        .next(format!("look into {log}, and start again: the data is kept")),
                );
            }
            say(&format!(
                "\nPostgreSQL ended: {status}. Running jobs go on if it answers again within {:.1} s.",
                tour::alone(ttl)
            ));
            self.server = start_database(dir)?;
            restarted = Some(Instant::now());
            say("PostgreSQL answers again.");
        }
    }

    /// Those whose ends somebody else learns of by waiting for them.
    fn kept(&self) -> Vec<i32> {
        let agents = self.agents.all().iter().filter_map(|agent| agent.pid());
        agents.map(u32::cast_signed).chain([self.server.pid()]).collect()
    }

    /// Everything within ten seconds: first the agents, which end their jobs themselves; then whatever is
    /// still there; the database last, since the agents close their sessions in it.
    fn end(self) {
        say("ending the farm …");
        let left = end::agents(self.agents.dir(), &self.signals, self.server.pid());
        self.server.stop(Duration::from_millis(2500));
        orphans::reap(&[]);
        match left.as_slice() {
            [] => say("ended; nothing is left running"),
            left => say(&format!("ended; the kernel has not ended yet: pid {left:?}")),
        }
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, Failure> {
    Ok(tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?)
}

fn directory(wanted: &Path) -> Result<PathBuf, Failure> {
    let failed = |error| Failure::broken(format!("cannot use {}", wanted.display())).why(error);
    fs::create_dir_all(wanted).map_err(failed)?;
    wanted.canonicalize().map_err(failed)
}

/// Two farms in one directory would share names and data.
fn lock(dir: &Path) -> Result<File, Failure> {
    let path = dir.join("lock");
    let mut file = OpenOptions::new()
        .create(true)
        .read(true)
        .write(true)
        .truncate(false)
        .open(&path)
        .map_err(|error| {
            Failure::broken(format!("cannot open {}", path.display()))
                .why(error)
                .next(
                    "if another user (root, with sudo) has run a farm there, remove the directory as that user, or choose \
                     another one with --data",
                )
        })?;
    if file.try_lock().is_err() {
        let mut pid = String::new();
        file.read_to_string(&mut pid)?;
        return Err(
            Failure::refused(format!("a farm runs in {} already", dir.display()))
                .why(format!("farmhand dev, pid {}", pid.trim()))
                .next("end it, or choose another directory with --data"),
        );
    }
    file.set_len(0)?;
    writeln!(file, "{}", std::process::id())?;
    Ok(file)
}

fn start_database(dir: &Path) -> Result<Embedded, Failure> {
    say(&format!("starting PostgreSQL in {}", dir.display()));
    let place = Place::prepare(dir).inspect(|place| {
        if let Some(before) = &place.put_aside {
            say(&format!(
                "the data of an earlier farm in this directory is now in {}",
                before.display()
            ));
        }
    });
    let server = place.and_then(Embedded::start);
    server.map_err(|error| {
        let kind = match error {
            EmbeddedError::Busy { .. } => Kind::Refused,
            _ => Kind::Broken,
        };
        let failure = Failure::new(kind, "there is no PostgreSQL for the farm").why(&error);
        error
            .advice()
            .into_iter()
            .fold(failure, |failure, advice| failure.next(advice))
    })
}

/// Writes the example jobs into the directory `jobs`, unless it is there, and applies them once. Until they are applied a mark
/// lies beside it, so that the next start applies them where this one is interrupted.
fn give_jobs(
    jobs: &Path,
    files: &[(&str, String)],
    apply: impl FnOnce(&Path) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mark = jobs.with_extension("unapplied");
    if !jobs.exists() {
        File::create(&mark)?;
        examples::write(jobs, files)?;
    }
    if mark.exists() {
        apply(jobs)?;
        fs::remove_file(mark)?;
    }
    Ok(())
}

/// As a user would: the command says what is wrong with a file.
fn apply(url: &str, jobs: &Path) -> Result<(), Failure> {
    let mut command = agents::farmhand(url)?;
    let status = command
        .args(["job", "apply"])
        .arg(jobs)
        .stdout(std::io::stderr())
        .status()?;
    if status.success() {
        return Ok(());
    }
    Err(Failure::broken("the example jobs were not applied").why(status))
}

/// For people. A terminal that is gone must not keep the farm from being ended.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// Readers see the old file or the new one.
fn write_whole(path: &Path, text: &str) -> Result<(), Failure> {
    let aside = path.with_extension("new");
    fs::write(&aside, text)?;
    Ok(fs::rename(&aside, path)?)
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_lock_that_cannot_be_opened_is_named_with_a_way_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        fs::create_dir(&path).unwrap();
        let said = lock(dir.path()).unwrap_err().to_string();
        assert!(said.contains(&path.display().to_string()), "{said}");
        assert!(said.contains("--data"), "{said}");
    }

    #[test]
    fn examples_are_applied_once_and_again_after_a_start_that_was_interrupted() {
        let dir = tempfile::tempdir().unwrap();
        let jobs = dir.path().join("jobs");
        let (files, applied) = ([("a.toml", String::new())], Cell::new(0));
        let give = |outcome: Result<(), Failure>| {
            give_jobs(&jobs, &files, |at| {
                assert!(at.join("a.toml").exists());
                applied.set(applied.get() + 1);
                outcome
            })
        };
        assert!(give(Err(Failure::usage("killed here"))).is_err());
        give(Ok(())).unwrap();
        give(Ok(())).unwrap();
        assert_eq!(applied.get(), 2);
    }
}
