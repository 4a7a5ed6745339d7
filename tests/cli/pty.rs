//! A terminal for one command.

use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use farmhand_tests::bin::farmhand;
use farmhand_tests::wait::eventually;

use super::farm::Farm;

/// A program with a terminal of its own, 80 columns wide.
pub struct Pty {
    child: std::process::Child,
    screen: std::sync::mpsc::Receiver<Vec<u8>>,
    seen: Vec<u8>,
}

impl Pty {
    pub fn start(farm: &Farm, columns: u16, args: &[&str]) -> Self {
        let line: Vec<String> = [farmhand().to_str().unwrap()]
            .iter()
            .chain(args)
            .map(|word| format!("'{word}'"))
            .collect();
        Self::of(farm, &format!("stty cols {columns} rows 24; {}", line.join(" ")))
    }

    /// A line of shell.
    fn of(farm: &Farm, line: &str) -> Self {
        let mut child = Command::new("script")
            .args(["-qefc", line, "/dev/null"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", farm.dir.path())
            .env("TERM", "xterm")
            .env("FARMHAND_DATABASE_URL", farm.db.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs: apt-get install bsdutils");
        let mut out = child.stdout.take().unwrap();
        let (tx, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            // What is there, however it ends: the last line of a drawing has no end of its own.
            while let Ok(length @ 1..) = out.read(&mut bytes) {
                if tx.send(bytes[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            screen,
            seen: Vec::new(),
        }
    }

    /// All it showed so far.
    pub fn look(&mut self) -> String {
        self.seen.extend(self.screen.try_iter().flatten());
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    pub fn press(&mut self, keys: &str) {
        self.child
            .stdin
            .as_mut()
            .unwrap()
            .write_all(keys.as_bytes())
            .unwrap();
    }

    /// Its exit code, and all it showed.
    pub fn end(mut self) -> (Option<i32>, String) {
        let deadline = Instant::now() + Duration::from_secs(20);
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(Instant::now() < deadline, "it goes on: {}", self.look());
            std::thread::sleep(Duration::from_millis(20));
        };
        self.seen.extend(self.screen.iter().flatten());
        (status.code(), String::from_utf8_lossy(&self.seen).into_owned())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_terminal_shows_is_seen_when_it_is_shown() {
    let farm = Farm::new().await;
    let mut terminal = Pty::of(&farm, "printf 'due: 3'; read -r key");
    eventually("it is drawn", Duration::from_secs(20), || {
        let seen = terminal.look();
        seen.contains("due: 3").then_some(()).ok_or(seen)
    });
    terminal.press("q\n");
    assert_eq!(terminal.end().0, Some(0));
}
