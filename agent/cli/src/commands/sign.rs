//! `farmhand job sign`, and the signatures that `job apply` finds beside job files.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use clap::Args;
use farmhand_store::signatures::Signed;
use serde_json::json;

use super::job_files::read_files;
use super::{Exit, Failure, Outcome, job_files, key, out};
use farmhand_control::definitions::{self, Signatures, Wanted};
use farmhand_policy::trust::{DEFAULT_FILE, Document, PrivateKey, Trust};

#[derive(Args, Debug)]
pub(crate) struct SignArgs {
    /// Job files; of a directory all *.toml in it and below it. FILE.sig is written beside each
    #[arg(required = true)]
    path: Vec<PathBuf>,
    #[command(flatten)]
    environment: job_files::EnvironmentArgs,
    /// The file of the private key
    #[arg(long, value_name = "FILE", env = "FARMHAND_SIGNING_KEY")]
    key: PathBuf,
    /// Sign anew what has not changed since it was signed, so that nodes refuse what was signed before
    #[arg(long)]
    again: bool,
}

/// Writes the signature of each file beside it.
pub(crate) fn run(args: &SignArgs, as_json: bool) -> Outcome {
    let key = key::read(&args.key)?;
    let mut by_file: BTreeMap<String, Vec<Wanted>> = BTreeMap::new();
    for job in read_files(&args.path, &args.environment, as_json)?.jobs {
        by_file.entry(job.source.clone()).or_default().push(job);
    }
    if by_file.contains_key("-") {
        return Err(Failure::usage("standard input has no place for a signature").next("sign a file"));
    }
    let mut told = Vec::new();
    for (file, jobs) in &by_file {
        let before = read(file)?;
        let mut lines = String::new();
        for job in jobs {
            let old = before.get(&job.name);
            let kept = old.filter(|old| !args.again && old.0.spec_is(&job.spec) && made_by(&key, &old.1));
            let (document, signed) = match kept {
                Some(kept) => kept.clone(),
                None => sign(&key, job, old.map(|old| old.0.serial))?,
            };
            lines.push_str(&serde_json::to_string(&signed).map_err(|e| unsigned(&job.name, e))?);
            lines.push('\n');
            told.push(
                json!({"job_id": job.name, "file": file, "serial": document.serial, "new": kept.is_none()}),
            );
            if !as_json {
                let what = if kept.is_some() { "=" } else { "+" };
                out::line(&format!("{what} {}  serial {}", job.name, document.serial));
            }
        }
        write(&beside(file), &lines)
            .map_err(|why| Failure::broken(format!("cannot write {}", beside(file).display())).why(why))?;
    }
    if as_json {
        out::json(&told);
    } else {
        out::note(&format!("signed by {}", key.name()));
    }
    Ok(Exit::Ok)
}

fn unsigned(job: &str, why: impl std::fmt::Display) -> Failure {
    Failure::broken(format!("job {job} cannot be signed")).why(why)
}

fn made_by(key: &PrivateKey, signed: &Signed) -> bool {
    signed.key == key.name() && key.public().verifies(&signed.document, &signed.signature)
}

/// Seconds that the serial before may be ahead of this clock.
const FURTHEST: u64 = 366 * 86_400;

/// Serials are seconds: whoever signs later has the higher one without asking anybody.
fn sign(key: &PrivateKey, job: &Wanted, before: Option<u64>) -> Result<(Document, Signed), Failure> {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(1, |d| d.as_secs());
    let serial = before.map_or(now, |before| now.max(before.saturating_add(1)));
    // The line before is anybody's, and nodes refuse what is below the highest serial for ever.
    if serial > now.saturating_add(FURTHEST) {
        let why = format!(
            "its line in FILE.sig has the serial {}, more than a year ahead of this clock; delete the line unless nodes have seen it",
            serial - 1
        );
        return Err(unsigned(&job.name, why));
    }
    let document = Document::new(&job.name, serial, &job.spec).map_err(|why| unsigned(&job.name, why))?;
    let text = document.text().map_err(|why| unsigned(&job.name, why))?;
    Ok((document, key.sign(text)))
}

fn beside(file: &str) -> PathBuf {
    PathBuf::from(format!("{file}.sig"))
}

/// What is signed of a file, by job; nothing when there is no FILE.sig.
fn read(file: &str) -> Result<Signatures, Failure> {
    let path = beside(file);
    let text = match std::fs::read_to_string(&path) {
        Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Signatures::new()),
        text => text.map_err(|e| Failure::usage(format!("cannot read {}", path.display())).why(e))?,
    };
    Ok(definitions::parse_signatures(&path.display().to_string(), &text)?)
}

fn write(path: &Path, text: &str) -> std::io::Result<()> {
    let new = path.with_extension("sig.new");
    let mut file = std::fs::File::create(&new)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, path)
}

/// Adds to jobs the signatures that lie beside their files, and holds them against trusted keys.
/// Errors: 4 when a file has changed since it was signed, or, with keys asked for, a job is not signed by one of them.
pub(super) fn attach(jobs: &mut [Wanted], keys: Option<&Path>) -> Result<(), Failure> {
    definitions::attach(jobs, read)?;
    let here = Path::new(DEFAULT_FILE);
    let Some(file) = keys.or(Some(here).filter(|file| file.exists())) else {
        return Ok(());
    };
    let trusted =
        Trust::read(file).map_err(|why| Failure::usage("the trusted keys cannot be read").why(why))?;
    if keys.is_some() {
        return Ok(definitions::must_be_trusted(jobs, &trusted)?);
    }
    for (job, why) in definitions::untrusted(jobs, &trusted) {
        out::note(&format!("warning: this node would not execute job {job}: {why}"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use farmhand_core::definition::JobSpec;

    use super::*;

    fn wanted(file: &Path, retries: u32) -> Wanted {
        let mut spec = JobSpec::default();
        spec.retry.max = retries;
        Wanted {
            name: "a".to_owned(),
            spec,
            source: file.display().to_string(),
            signed: None,
        }
    }

    #[test]
    fn a_signature_is_found_beside_its_file_and_not_taken_for_another_definition() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("jobs.toml");
        let key = PrivateKey::create("alice", &dir.path().join("k")).unwrap();
        let mut jobs = [wanted(&file, 1)];
        attach(&mut jobs, None).unwrap();
        assert_eq!(jobs[0].signed, None);
        let (document, signed) = sign(&key, &jobs[0], None).unwrap();
        let (later, _) = sign(&key, &jobs[0], Some(document.serial + 100)).unwrap();
        assert_eq!(
            later.serial,
            document.serial + 101,
            "a clock that was set back changes nothing"
        );
        write(&beside(&jobs[0].source), &serde_json::to_string(&signed).unwrap()).unwrap();
        attach(&mut jobs, None).unwrap();
        assert_eq!(jobs[0].signed.as_ref(), Some(&signed));
        let refused = attach(&mut [wanted(&file, 2)], None).unwrap_err();
        assert!(
            refused.to_string().contains("changed since it was signed"),
            "{refused}"
        );
    }

    #[test]
    fn a_serial_that_somebody_put_far_ahead_is_not_signed() {
        let dir = tempfile::tempdir().unwrap();
        let key = PrivateKey::create("alice", &dir.path().join("k")).unwrap();
        let job = wanted(&dir.path().join("jobs.toml"), 1);
        let refused = sign(&key, &job, Some(u64::MAX - 1)).unwrap_err();
        assert!(refused.to_string().contains("ahead of this clock"), "{refused}");
    }
}
