//! `farmhand progress`: called from inside a job, to say that it lives and how far it has come.

use std::io::Write;
use std::os::fd::{BorrowedFd, FromRawFd};

use clap::Args;
use farmhand_store::progress::MAX_CHECKPOINT;

use super::{Exit, Failure, Outcome};

/// Where the warden listens.
const VARIABLE: &str = "FARMHAND_PROGRESS_FD";

#[derive(Args, Debug)]
pub(crate) struct ProgressArgs {
    /// What the next attempt needs to go on from here; it finds it in FARMHAND_CHECKPOINT. One line of at most
    /// 4095 bytes. Without it, only a sign of life
    checkpoint: Option<String>,
}

pub(super) fn run(args: &ProgressArgs) -> Outcome {
    let line = line(args.checkpoint.as_deref().unwrap_or_default())?;
    let number = std::env::var(VARIABLE).map_err(|_| outside("is not set"))?;
    let number: i32 = (number.parse().ok())
        .filter(|n| *n > 2)
        .ok_or_else(|| outside(&format!("is \"{number}\"")))?;
    // SAFETY: F_GETFD only asks.
    if unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(Failure::broken(format!("descriptor {number} is not open here"))
            .why("the program that called this closed it, as some languages do for their children")
            .next(format!(
                "have it pass descriptor {number} on, or write the line there itself"
            )));
    }
    // SAFETY: it is open, and this process uses it for this one write only.
    let pipe = unsafe { BorrowedFd::borrow_raw(number) };
    let stat = rustix::fs::fstat(pipe).map_err(std::io::Error::from)?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::Fifo {
        return Err(
            Failure::broken(format!("descriptor {number} is something else by now"))
                .why("a program in between has used its number for a file of its own")
                .next("call `farmhand progress` from where the job's own descriptors are"),
        );
    }
    // SAFETY: as above; leaked, so that it is not closed twice.
    let mut file = std::mem::ManuallyDrop::new(unsafe { std::fs::File::from_raw_fd(number) });
    // One write of at most PIPE_BUF bytes: two reporters never mix.
    file.write_all(line.as_bytes())?;
    Ok(Exit::Ok)
}

fn line(checkpoint: &str) -> Result<String, Failure> {
    if checkpoint.contains('\n') || checkpoint.contains('\0') {
        return Err(Failure::usage("a checkpoint is one line, without NUL"));
    }
    if checkpoint.len() > MAX_CHECKPOINT {
        let what = format!(
            "the checkpoint has {} bytes, {MAX_CHECKPOINT} are the most",
            checkpoint.len()
        );
        return Err(Failure::usage(what).next("put the rest into a file, and its name into the checkpoint"));
    }
    Ok(format!("{checkpoint}\n"))
}

fn outside(how: &str) -> Failure {
    Failure::usage(format!("{VARIABLE} {how}"))
        .why("`farmhand progress` reports to the warden of the job that calls it")
        .next("call it from a job's command")
}
