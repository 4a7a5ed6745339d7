//! Each example on its own: its file is right, and its command does its work without a farm around it.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command as Process, Output};
use std::time::Duration;

use farmhand::embedded::Embedded;
use farmhand_core::definition::{Command, JobDefinition, load};
use farmhand_core::document::Source;
use tempfile::TempDir;

use super::embedded::{scratch, start};

/// A database, a directory to work in, and the examples that were fitted to both.
struct Bench {
    work: TempDir,
    jobs: BTreeMap<String, JobDefinition>,
    _database: Embedded,
    _data: TempDir,
}

impl Bench {
    fn new() -> Self {
        let (data, work) = (scratch(), scratch());
        let database = start(data.path());
        let jobs = fitted(&database.place().url(), work.path());
        Self {
            work,
            jobs,
            _database: database,
            _data: data,
        }
    }

    fn attempt(&self, job: &str, attempt: u32, due: &str) -> Output {
        let spec = &self.jobs[job].spec;
        let Some(Command::Shell(script)) = &spec.command else {
            panic!("{job} is no shell script")
        };
        Process::new("/bin/sh")
            .args(["-c", script])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(&spec.env)
            .env("FARMHAND_JOB", job)
            .env("FARMHAND_DUE", due)
            .env("FARMHAND_NODE", "farm-1")
            .env("FARMHAND_ATTEMPT", attempt.to_string())
            .env("FARMHAND_PROGRESS_FD", "2")
            .env("FARMHAND_INSTANCE", "0")
            .env("FARMHAND_INSTANCES", "1")
            .env(
                "FARMHAND_FENCE",
                format!("{}", 1_099_511_627_776 + u64::from(attempt)),
            )
            .current_dir("/")
            .output()
            .expect("/bin/sh runs")
    }

    /// What a run that succeeds prints.
    fn succeed(&self, job: &str, due: &str) -> String {
        let out = self.attempt(job, 1, due);
        assert!(
            out.status.success(),
            "{job}: {}\n{}",
            out.status,
            text(&out.stderr)
        );
        text(&out.stdout)
    }

    fn files(&self, dir: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.work.path().join(dir)).expect("the directory was made");
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn fitted(database_url: &str, work: &Path) -> BTreeMap<String, JobDefinition> {
    let files = farmhand::examples::fitted(database_url, work);
    let sources: Vec<Source> = files
        .into_iter()
        .map(|(name, text)| Source {
            name: name.to_owned(),
            text,
        })
        .collect();
    let jobs = load(&sources).unwrap_or_else(|mistakes| panic!("{}", mistakes.render(false, 120)));
    jobs.into_iter().map(|job| (job.name.clone(), job)).collect()
}

#[test]
fn every_file_holds_the_job_of_its_name_and_comes_due_within_half_a_minute() {
    let jobs = fitted(
        "postgresql:///x?host=/run/a \"quoted\" place",
        Path::new("/tmp/a \"quoted\" place"),
    );
    assert!(jobs.len() >= 6);
    for (name, job) in &jobs {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../deploy/examples/{name}.toml"));
        assert!(file.is_file(), "{}", file.display());
        assert!(!job.spec.schedule.is_empty(), "{name} runs by itself");
        for value in job.spec.env.values() {
            assert!(
                !value.contains("/var/tmp/") && value != "postgresql:///farmhand",
                "{name}: {value}"
            );
        }
    }
}

#[test]
fn the_heartbeat_says_where_and_when() {
    let bench = Bench::new();
    assert!(
        bench
            .succeed("heartbeat", "2026-11-21T08:00:05Z")
            .contains("run on farm-1")
    );
}

#[test]
fn samples_are_packed_once_and_read_back_whole() {
    let bench = Bench::new();
    let sample = bench.succeed("load-sampler", "2026-11-21T08:00:10Z");
    assert!(
        sample.contains("MemAvailable") && sample.contains("load"),
        "{sample}"
    );
    assert_eq!(bench.files("samples"), ["farm-1-2026-11-21T08:00:10Z.log"]);

    let said = bench.succeed("log-compressor", "2026-11-21T08:00:20Z");
    assert!(
        said.starts_with("packed 1 logs") && said.ends_with("1 kept\n"),
        "{said}"
    );
    assert_eq!(bench.files("samples"), ["farm-1-2026-11-21T08:00:10Z.log.gz"]);
    let packed = bench
        .work
        .path()
        .join("samples/farm-1-2026-11-21T08:00:10Z.log.gz");
    let back = Process::new("gzip").arg("-dc").arg(packed).output().unwrap();
    assert_eq!(text(&back.stdout), sample);

    let idle = bench.succeed("log-compressor", "2026-11-21T08:00:40Z");
    assert!(idle.starts_with("packed 0 logs"), "{idle}");
}

#[test]
fn dumps_are_readable_and_rotate() {
    let bench = Bench::new();
    let empty = bench.attempt("database-dump", 1, "2026-11-21T08:00:09Z");
    assert_eq!(text(&empty.stderr), "the dump holds nothing\n");
    assert!(
        bench
            .attempt("flaky-import", 2, "2026-11-21T08:00:09Z")
            .status
            .success()
    );
    for second in 10..17 {
        let said = bench.succeed("database-dump", &format!("2026-11-21T08:00:{second}Z"));
        assert!(said.contains("entries"), "{said}");
    }
    let kept = bench.files("dumps");
    assert_eq!(kept.len(), 5, "{kept:?}");
    assert_eq!(kept[4], "farmhand-2026-11-21T08:00:16Z.dump");
}

#[test]
fn a_dump_of_a_database_that_is_away_fails_and_leaves_no_file() {
    let mut away = Bench::new();
    let dump = away.jobs.get_mut("database-dump").unwrap();
    dump.spec.env.insert(
        "DATABASE".to_owned(),
        "postgresql:///farmhand?host=/nowhere".to_owned(),
    );
    let out = away.attempt("database-dump", 1, "2026-11-21T08:00:10Z");
    assert!(!out.status.success());
    assert!(away.files("dumps").is_empty());
}

#[test]
fn the_second_sweep_knows_what_the_first_one_saw() {
    let bench = Bench::new();
    let first = bench.succeed("checksum-sweep", "2026-11-21T08:00:10Z");
    assert!(first.contains("the first sweep"), "{first}");
    assert!(
        bench
            .succeed("checksum-sweep", "2026-11-21T08:00:35Z")
            .contains("changes since")
    );
    assert_eq!(bench.files("checksums"), ["last"]);
}

#[test]
fn the_flaky_import_fails_once_and_imports_each_instant_once() {
    let bench = Bench::new();
    let due = "2026-11-21T08:00:15Z";
    let first = bench.attempt("flaky-import", 1, due);
    assert!(!first.status.success());
    assert!(
        text(&first.stderr).contains("division by zero"),
        "{}",
        text(&first.stderr)
    );
    for attempt in [2, 3] {
        let again = bench.attempt("flaky-import", attempt, due);
        assert!(again.status.success(), "{}", text(&again.stderr));
        assert!(
            text(&again.stdout).contains("imported 1 samples"),
            "{}",
            text(&again.stdout)
        );
    }
    assert!(bench.jobs["flaky-import"].spec.retry.max >= 1);
    assert!(bench.jobs["flaky-import"].spec.retry.base <= Duration::from_secs(5));
}

#[test]
fn the_slow_example_shows_its_progress() {
    let mut bench = Bench::new();
    let slow = bench.jobs.get_mut("slow-verify").unwrap();
    slow.spec.env.insert("SLICES".to_owned(), "2".to_owned());
    let said = bench.succeed("slow-verify", "2026-11-21T08:00:30Z");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.starts_with("attempt 1 on farm-1: slice 1 of 2"), "{said}");
}

#[test]
fn the_inbox_worker_packs_a_file_per_round_and_says_when_there_is_none() {
    let bench = Bench::new();
    let due = "2026-11-21T08:00:15Z";
    assert_eq!(bench.attempt("inbox-worker", 1, due).status.code(), Some(250));
    let spec = &bench.jobs["inbox-worker"].spec;
    assert!(spec.is_continuous() && spec.idle_exit == [250]);
    for name in ["a b", "-c"] {
        std::fs::write(bench.work.path().join("inbox").join(name), name).unwrap();
    }
    for _ in 0..2 {
        assert!(bench.succeed("inbox-worker", due).starts_with("packed "));
    }
    assert_eq!(bench.attempt("inbox-worker", 1, due).status.code(), Some(250));
    assert_eq!(bench.files("inbox"), Vec::<String>::new());
    assert_eq!(bench.files("outbox"), ["-c.gz", "a b.gz"]);
}

#[test]
fn the_reader_goes_on_after_its_checkpoint() {
    let mut bench = Bench::new();
    let tree = bench.work.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    for name in ["a", "b c", "d"] {
        std::fs::write(tree.join(name), name).unwrap();
    }
    let spec = &mut bench.jobs.get_mut("read-all").unwrap().spec;
    spec.env.insert("TREE".to_owned(), tree.display().to_string());
    let due = "2026-11-21T08:00:27Z";
    let whole = bench.attempt("read-all", 1, due);
    assert_eq!(text(&whole.stdout), "3 files read\n");
    let reported = text(&whole.stderr);
    assert_eq!(reported.lines().count(), 3, "{reported}");
    let checkpoint = reported.lines().nth(1).unwrap().to_owned();
    assert!(checkpoint.ends_with("/b c"), "{checkpoint}");
    let spec = &mut bench.jobs.get_mut("read-all").unwrap().spec;
    spec.env.insert("FARMHAND_CHECKPOINT".to_owned(), checkpoint);
    assert!(bench.succeed("read-all", due).starts_with("1 files read after "));
}
