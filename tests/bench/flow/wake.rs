//! From the end of a task to the return of whoever slept in the opening of its FIFO.

use std::fs::File;
use std::io::Read;
use std::os::fd::FromRawFd;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use farmhand_engine::flow::fifo::{Directory, Fifos, Status};

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
    let sleeper = Sleeper::start(move || {
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
        sleeper.await_sleep_in(libc::SYS_openat);
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
    let sleeper = Sleeper::start(move || {
        while matches!(read.read(&mut [0]), Ok(1)) {
            let _ = back.send(Instant::now());
        }
    });
    let mut times = Vec::new();
    for _ in 0..rounds {
        sleeper.await_sleep_in(libc::SYS_read);
        let before = Instant::now();
        std::io::Write::write_all(&mut &write, b"x").expect("a byte");
        times.push(backs.recv().expect("it is back").duration_since(before));
    }
    times
}

struct Sleeper(libc::pid_t);

impl Sleeper {
    fn start(work: impl FnOnce() + Send + 'static) -> Self {
        let (tell, told) = channel();
        std::thread::spawn(move || {
            // SAFETY: asks for this thread's number.
            let _ = tell.send(unsafe { libc::gettid() });
            work();
        });
        Self(told.recv().expect("the thread runs"))
    }

    /// Returns once the thread is blocked in that system call.
    fn await_sleep_in(&self, call: libc::c_long) {
        let path = format!("/proc/self/task/{}/syscall", self.0);
        let blocked = || {
            let text = std::fs::read_to_string(&path).unwrap_or_default();
            text.split(' ').next().and_then(|n| n.parse().ok()) == Some(call)
        };
        let end = Instant::now() + Duration::from_secs(10);
        while !blocked() {
            assert!(Instant::now() < end, "nobody sleeps in call {call}");
            std::thread::yield_now();
        }
    }
}
