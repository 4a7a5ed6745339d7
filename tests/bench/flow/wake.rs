//! From the end of a task to the return of whoever slept in the opening of its FIFO.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use farmhand::flow::fifo::{Directory, Fifos, Status};

/// For a sleeper to have gone to sleep.
const ASLEEP: Duration = Duration::from_millis(1);

pub fn table(rounds: usize) {
    println!("\nwake-up of one sleeper, µs");
    println!("{:<28} {:>8} {:>8} {:>8}", "through", "p50", "p99", "longest");
    row("a FIFO of the flow", fifo(rounds));
    row("a byte in a pipe", pipe(rounds));
}

fn row(name: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |part: usize| times[(times.len() * part / 100).min(times.len() - 1)].as_micros();
    println!("{name:<28} {:>8} {:>8} {:>8}", at(50), at(99), at(100));
}

fn fifo(rounds: usize) -> Vec<Duration> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let deps = Directory::create(&dir.path().join("deps")).expect("a directory");
    let mut fifos = Fifos::new(deps).expect("descriptors");
    let (tell, told) = channel::<std::path::PathBuf>();
    let (back, backs) = channel();
    std::thread::spawn(move || {
        for path in told {
            drop(File::open(path));
            let _ = back.send(Instant::now());
        }
    });
    let mut times = Vec::new();
    for round in 0..rounds {
        let name = format!("n{round}");
        fifos.announce(&name).expect("a FIFO");
        let _ = tell.send(fifos.directory().path().join(&name));
        std::thread::sleep(ASLEEP);
        let before = Instant::now();
        fifos.complete(&name, &Status::ok(), before).expect("completed");
        times.push(backs.recv().expect("it is back").duration_since(before));
        fifos.settle(Duration::from_secs(1));
    }
    times
}

fn pipe(rounds: usize) -> Vec<Duration> {
    let mut ends = [0; 2];
    // SAFETY: makes two descriptors, which are owned from here on.
    let (mut read, write) = unsafe {
        assert_eq!(libc::pipe(ends.as_mut_ptr()), 0);
        (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1]))
    };
    let (back, backs) = channel();
    std::thread::spawn(move || {
        while matches!(read.read(&mut [0]), Ok(1)) {
            let _ = back.send(Instant::now());
        }
    });
    let mut times = Vec::new();
    for _ in 0..rounds {
        std::thread::sleep(ASLEEP);
        let before = Instant::now();
        std::io::Write::write_all(&mut &write, b"x").expect("a byte");
        times.push(backs.recv().expect("it is back").duration_since(before));
    }
    times
}
