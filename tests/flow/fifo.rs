//! No wake-up is lost: the protocol of `docs/internals/fifo.md`, beside a control that loses some.
//!
//! `FARMHAND_FIFO_OPENS` sets the number of opens at random moments for each kind of reader. The full proof:
//!
//!     FARMHAND_FIFO_OPENS=1000000 cargo test -p farmhand-tests --test flow random_moment -- --nocapture

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use farmhand_engine::flow::fifo::{Directory, Fifos, Notice, Status, WaitError, status, wait};

/// Within this a reader must be back.
const BOUND: Duration = Duration::from_millis(50);
/// After this one that is not back is lost: no machine that does anything at all keeps a thread off its
/// processors for as long.
const LOST: Duration = Duration::from_secs(20);
/// Likewise for the control, which would otherwise take a second for each of its thousands.
const CONTROL_LOST: Duration = Duration::from_millis(500);

fn opens() -> u64 {
    let set = std::env::var("FARMHAND_FIFO_OPENS").ok();
    set.map_or(1_000, |n| n.parse().expect("FARMHAND_FIFO_OPENS is a number"))
}

fn fresh() -> (tempfile::TempDir, Fifos) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let fifos = Fifos::new(Directory::create(&dir.path().join("deps")).unwrap()).unwrap();
    (dir, fifos)
}

/// A thread that does something with a path and says when it is back.
fn reader(path: PathBuf, to_the_end: bool) -> Arc<AtomicBool> {
    let back = Arc::new(AtomicBool::new(false));
    let said = back.clone();
    std::thread::spawn(move || {
        let mut file = File::open(path).expect("it can be opened");
        if to_the_end {
            file.read_to_end(&mut Vec::new()).expect("it can be read");
        }
        said.store(true, SeqCst);
    });
    back
}

fn is_back_within(back: &AtomicBool, time: Duration, mut meanwhile: impl FnMut()) -> bool {
    let end = Instant::now() + time;
    while !back.load(SeqCst) {
        if Instant::now() > end {
            return false;
        }
        meanwhile();
        std::thread::yield_now();
    }
    true
}

/// The protocol that loses wake-ups: rename, open read-write, close, unlink.
fn plain(dir: &Path, name: &str) {
    let gone = dir.join(format!(".gone-{name}"));
    fs::rename(dir.join(name), &gone).unwrap();
    drop(fs::OpenOptions::new().read(true).write(true).open(&gone).unwrap());
    fs::remove_file(&gone).unwrap();
}

fn make_fifo(path: &Path) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    // SAFETY: a path that ends in NUL.
    assert_eq!(unsafe { libc::mkfifo(path.as_ptr(), 0o600) }, 0);
}

/// Wakes the lost reader of a control, so that its thread can end.
fn rescue(fd: &File) {
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    drop(fs::OpenOptions::new().read(true).write(true).open(path).unwrap());
}

/// As one that has looked the name up and not yet come to the FIFO's lock: it holds the directory entry from
/// before the completion and opens it after.
fn on_its_way(path: &Path) -> File {
    let open = fs::OpenOptions::new()
        .read(true)
        .custom_flags(libc::O_PATH)
        .open(path);
    open.expect("O_PATH")
}

#[test]
fn a_reader_on_its_way_during_the_completion_is_woken_and_the_control_loses_every_one() {
    for to_the_end in [false, true] {
        for round in 0..20 {
            let (_dir, mut fifos) = fresh();
            fifos.announce("x").unwrap();
            let path = fifos.directory().path().join("x");
            let held = on_its_way(&path);
            fifos.complete("x", &Status::ok(), Instant::now()).unwrap();
            let back = reader(format!("/proc/self/fd/{}", held.as_raw_fd()).into(), to_the_end);
            let pulses = || {
                fifos.notices();
                fifos.tick(Instant::now());
            };
            assert!(
                is_back_within(&back, LOST, pulses),
                "round {round}, to the end: {to_the_end}"
            );
            assert!(!fifos.settled(), "the entry is still held");
            drop(held);
            assert!(fifos.settle(Duration::from_secs(5)), "nobody holds it any more");
        }
        let dir = tempfile::tempdir().unwrap();
        for round in 0..20 {
            let path = dir.path().join("x");
            make_fifo(&path);
            let held = on_its_way(&path);
            plain(dir.path(), "x");
            let back = reader(format!("/proc/self/fd/{}", held.as_raw_fd()).into(), to_the_end);
            assert!(
                !is_back_within(&back, Duration::from_millis(60), || {}),
                "the control woke one: round {round}"
            );
            rescue(&held);
            assert!(is_back_within(&back, LOST, || {}), "a rescue wakes it");
        }
    }
}

#[derive(Default)]
struct Outcome {
    lost: u64,
    fifo: Wakes,
    /// Of the same thread, as often, by a byte in a pipe: what the machine itself makes late.
    pipe: Wakes,
}

#[derive(Debug, Default)]
struct Wakes {
    late: u64,
    longest: Duration,
}

impl Wakes {
    fn count(&mut self, took: Duration) {
        self.longest = self.longest.max(took);
        self.late += u64::from(took > BOUND);
    }
}

/// One reader opens a name at a random moment around its completion, again and again.
fn race(opens: u64, to_the_end: bool, ours: bool) -> Outcome {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("deps");
    let mut fifos = Fifos::new(Directory::create(&root).unwrap()).unwrap();
    // The reader publishes what it is at: 2n while it waits for round n, 2n+1 when it is back from it.
    let at = Arc::new(AtomicU64::new(0));
    let go = Arc::new(AtomicU64::new(0));
    let current = Arc::new(Mutex::new(root.clone()));
    let (pipe, mut bell) = std::io::pipe().unwrap();
    // The last round that was also heard of through the pipe.
    let heard = Arc::new(AtomicU64::new(0));
    let spawn = {
        let (at, go, current, heard) = (at.clone(), go.clone(), current.clone(), heard.clone());
        move |from: u64| {
            let (at, go, current, heard) = (at.clone(), go.clone(), current.clone(), heard.clone());
            let mut pipe = pipe.try_clone().unwrap();
            std::thread::spawn(move || {
                for round in from..=opens {
                    while go.load(SeqCst) < round {
                        std::thread::yield_now();
                    }
                    if go.load(SeqCst) != round {
                        return;
                    }
                    let path = current.lock().unwrap().clone();
                    spin(random(round * 2) % 3_000);
                    if let Ok(mut file) = File::open(&path)
                        && to_the_end
                    {
                        let _ = file.read_to_end(&mut Vec::new());
                    }
                    // A reader that was given up has been followed by another one.
                    if at
                        .compare_exchange(2 * round, 2 * round + 1, SeqCst, SeqCst)
                        .is_err()
                    {
                        return;
                    }
                    if ours {
                        pipe.read_exact(&mut [0]).unwrap();
                        heard.store(round, SeqCst);
                    }
                }
            })
        }
    };
    spawn(1);
    let mut outcome = Outcome::default();
    for round in 1..=opens {
        let name = format!("n{round}");
        fifos.announce(&name).unwrap();
        let path = root.join(&name);
        // Only the control keeps one; it would be a way out for ours.
        let rescuer = (!ours).then(|| on_its_way(&path));
        *current.lock().unwrap() = path;
        at.store(2 * round, SeqCst);
        go.store(round, SeqCst);
        spin(random(round * 2 + 1) % 3_000);
        if ours {
            fifos.complete(&name, &Status::ok(), Instant::now()).unwrap();
        } else {
            plain(&root, &name);
        }
        let completed = Instant::now();
        let mut lost = false;
        while at.load(SeqCst) == 2 * round {
            if ours {
                fifos.notices();
                fifos.tick(Instant::now());
            }
            lost = completed.elapsed() > if ours { LOST } else { CONTROL_LOST };
            if lost {
                break;
            }
            std::thread::yield_now();
        }
        outcome.fifo.count(completed.elapsed());
        if lost {
            outcome.lost += 1;
            // No rescue may spoil the proof: one that is lost ends it.
            let Some(rescuer) = &rescuer else { break };
            at.store(0, SeqCst);
            rescue(rescuer);
            spawn(round + 1);
        } else if ours {
            let rung = Instant::now();
            bell.write_all(b"x").unwrap();
            while heard.load(SeqCst) < round {
                assert!(rung.elapsed() < LOST, "a byte in a pipe woke nobody");
                std::thread::yield_now();
            }
            outcome.pipe.count(rung.elapsed());
        }
        if round % 1_000 == 0 {
            for entry in fs::read_dir(&root).unwrap().flatten() {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
    go.store(u64::MAX, SeqCst);
    outcome
}

fn spin(turns: u64) {
    for _ in 0..turns {
        std::hint::spin_loop();
    }
}

/// SplitMix64.
fn random(n: u64) -> u64 {
    let mut z = n.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[test]
fn no_reader_at_a_random_moment_is_lost_whether_it_only_opens_or_reads_to_the_end() {
    for to_the_end in [false, true] {
        let ours = race(opens(), to_the_end, true);
        println!(
            "ours, to the end: {to_the_end}: {} opens, {} lost, {:?}; the same thread by a pipe: {:?}",
            opens(),
            ours.lost,
            ours.fifo,
            ours.pipe
        );
        assert_eq!(ours.lost, 0);
        // On a busy machine any thread may be off the processor for longer than the bound: few opens say nothing of it.
        assert!(
            opens() < 100_000 || ours.fifo.late <= 3 * ours.pipe.late + 3,
            "late: {:?}, and by a pipe {:?}",
            ours.fifo,
            ours.pipe
        );
    }
    if opens() >= 100_000 {
        let control = race(opens(), false, false);
        println!("control: {} opens, {} lost", opens(), control.lost);
        assert!(control.lost > 0, "the control lost none: this run proves nothing");
    }
}

#[test]
fn eight_readers_asleep_are_all_woken() {
    let (_dir, mut fifos) = fresh();
    fifos.announce("x").unwrap();
    let path = fifos.directory().path().join("x");
    let readers: Vec<_> = (0..8).map(|n| reader(path.clone(), n % 2 == 0)).collect();
    fifos
        .complete("x", &Status::new(3, "failed"), Instant::now())
        .unwrap();
    for back in readers {
        assert!(is_back_within(&back, LOST, || {
            fifos.notices();
            fifos.tick(Instant::now());
        }));
    }
    assert!(fifos.settle(Duration::from_secs(5)));
    assert_eq!(
        status(fifos.directory().path(), "x").unwrap(),
        Some(Status::new(3, "failed"))
    );
}

#[test]
fn waiting_tells_how_it_ended_that_time_is_over_and_that_nobody_provides_it() {
    let (_dir, mut fifos) = fresh();
    let deps = fifos.directory().path().to_owned();
    fifos.announce("odd/name").unwrap();
    let soon = || Some(Instant::now() + Duration::from_millis(20));
    assert!(matches!(
        wait(&deps, "odd/name", soon()),
        Err(WaitError::TimedOut(_))
    ));
    assert!(matches!(
        wait(&deps, "od/name", soon()),
        Err(WaitError::Unknown(_))
    ));
    let waiting = {
        let deps = deps.clone();
        std::thread::spawn(move || wait(&deps, "odd/name", None).unwrap())
    };
    fifos
        .complete("odd/name", &Status::new(7, "failed"), Instant::now())
        .unwrap();
    fifos.settle(Duration::from_secs(5));
    assert_eq!(waiting.join().unwrap(), Status::new(7, "failed"));
    assert_eq!(wait(&deps, "odd/name", soon()).unwrap().code, 7);
}

#[test]
fn a_successor_wakes_the_waiters_of_a_dead_engine_at_every_stage() {
    let (_dir, fifos) = fresh();
    let deps = fifos.directory().path().to_owned();
    for name in ["waits", "told", "exchanged"] {
        fifos.announce(name).unwrap();
    }
    let readers = ["waits", "told"].map(|name| reader(deps.join(name), true));
    // It died between writing a status and exchanging, and between exchanging and waking.
    fs::write(deps.join(".status/told"), "4 failed\n").unwrap();
    fs::write(deps.join(".w/half.st"), "0").unwrap();
    let late = on_its_way(&deps.join("exchanged"));
    fs::write(deps.join(".status/exchanged"), "0 ok\n").unwrap();
    fs::rename(deps.join("exchanged"), deps.join(".w/exchanged")).unwrap();
    fs::write(deps.join("exchanged"), "").unwrap();
    let late_back = reader(format!("/proc/self/fd/{}", late.as_raw_fd()).into(), false);
    drop(fifos);

    let mut successor = Fifos::new(Directory::open(&deps).unwrap()).unwrap();
    successor.recover().unwrap();
    for back in readers.iter().chain([&late_back]) {
        assert!(is_back_within(back, LOST, || {
            successor.notices();
            successor.tick(Instant::now());
        }));
    }
    drop(late);
    assert!(successor.settle(Duration::from_secs(5)));
    assert_eq!(status(&deps, "waits").unwrap(), Some(Status::engine_lost()));
    assert_eq!(status(&deps, "told").unwrap().unwrap().code, 4);
    let left = fs::read_dir(deps.join(".w")).unwrap();
    let left = left.filter(|e| !e.as_ref().unwrap().file_name().to_string_lossy().starts_with('.'));
    assert_eq!(left.count(), 0);
}

#[test]
fn a_deleted_fifo_is_noticed() {
    let (_dir, mut fifos) = fresh();
    fifos.announce("x").unwrap();
    fs::remove_file(fifos.directory().path().join("x")).unwrap();
    assert_eq!(fifos.notices(), [Notice::Damaged("x".into())]);
    assert!(fifos.complete("x", &Status::ok(), Instant::now()).is_err());
}

#[test]
fn a_directory_that_others_may_enter_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deps");
    drop(Directory::create(&path).unwrap());
    assert!(Directory::create(&path).is_err(), "it is there");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&path, mode).unwrap();
    assert!(Directory::open(&path).is_err());
}
