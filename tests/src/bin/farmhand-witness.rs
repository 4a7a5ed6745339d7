//! The command that test jobs run: writes down when it starts, that it lives, and when it ends.
//!
//! `farmhand-witness FILE [MILLISECONDS] [ignore-term] [daemon] [exit=CODE] [say=LINES] [beat=MILLISECONDS] [lock=DIR] [until=FILE]`
//!
//! Every line is one append, so that the order of the lines is the order in which they were written,
//! whatever any clock says: `NANOSECONDS WHAT JOB RUN ATTEMPT FENCE NODE PID DUE`. With `lock` it holds a lock on a file of
//! the run's own, which the kernel frees with the last process of the attempt, and says `clash` when another has it. With `until` it lives until there is such a file. With `daemon` a child that has
//! left session, process group and parent lives on and beats too.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

use farmhand_tests::witness::boot_ns;

const BEAT: Duration = Duration::from_millis(20);

fn main() {
    let mut words = std::env::args().skip(1);
    let path = words.next().expect("a file to write to");
    let (mut lives, mut code, mut lines) = (Duration::ZERO, 0, 0);
    let (mut beat, mut locks) = (BEAT, None);
    let (mut daemon, mut awaited) = (false, None);
    for word in words {
        if let Ok(ms) = word.parse() {
            lives = Duration::from_millis(ms);
        } else if let Some(given) = word.strip_prefix("exit=") {
            code = given.parse().expect("an exit code");
        } else if let Some(given) = word.strip_prefix("say=") {
            lines = given.parse().expect("a number of lines");
        } else if let Some(given) = word.strip_prefix("beat=") {
            beat = Duration::from_millis(given.parse().expect("milliseconds"));
        } else if let Some(given) = word.strip_prefix("lock=") {
            locks = Some(given.to_owned());
        } else if let Some(given) = word.strip_prefix("until=") {
            awaited = Some(PathBuf::from(given));
        } else if word == "ignore-term" {
            // SAFETY: sets a disposition of this process.
            unsafe { libc::signal(libc::SIGTERM, libc::SIG_IGN) };
        } else if word == "daemon" {
            daemon = true;
        } else {
            panic!("what is {word}?");
        }
    }
    let open = OpenOptions::new().append(true).create(true).open(&path);
    let mut file = open.unwrap_or_else(|e| panic!("{path}: {e}"));
    // Before any fork, so that every process of the attempt shares it.
    let _lock = locks.map(|dir| hold_lock(&dir, &mut file));
    if daemon {
        leave_a_daemon(&mut file, beat);
    }
    write(&mut file, "start");
    let until = boot_ns() + lives.as_nanos() as u64;
    let mut said = 0;
    while boot_ns() < until || said < lines || awaited.as_ref().is_some_and(|file| !file.exists()) {
        if said < lines {
            said += 1;
            println!("line {said}");
        }
        std::thread::sleep(beat);
        write(&mut file, "beat");
    }
    write(&mut file, "end");
    std::process::exit(code);
}

fn write(file: &mut File, what: &str) {
    let variable = |name: &str| std::env::var(format!("FARMHAND_{name}")).unwrap_or_else(|_| "-".to_owned());
    // A kill may tear a line where the file's page ends. Its rest stands alone then, without the mark of an end.
    let line = format!(
        "\n{} {what} {} {} {} {} {} {} {} .\n",
        boot_ns(),
        variable("JOB"),
        variable("RUN"),
        variable("ATTEMPT"),
        variable("FENCE"),
        variable("NODE"),
        std::process::id(),
        variable("DUE")
    );
    file.write_all(line.as_bytes())
        .expect("the witness file takes a line");
}

/// The classic way out of every group: fork, setsid, fork; nobody waits for it.
fn leave_a_daemon(file: &mut File, beat: Duration) {
    // SAFETY: this process has one thread.
    unsafe {
        if libc::fork() != 0 {
            return;
        }
        libc::setsid();
        if libc::fork() != 0 {
            libc::_exit(0);
        }
        libc::signal(libc::SIGTERM, libc::SIG_IGN);
    }
    loop {
        std::thread::sleep(beat);
        write(file, "beat");
    }
}

fn hold_lock(dir: &str, witness: &mut File) -> File {
    let run = std::env::var("FARMHAND_RUN").expect("a command of an attempt");
    let open = OpenOptions::new()
        .append(true)
        .create(true)
        .open(format!("{dir}/{run}"));
    let lock = open.expect("a file for the run's lock");
    // SAFETY: the descriptor is open for the call.
    if unsafe { libc::flock(lock.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        write(witness, "clash");
    }
    lock
}
