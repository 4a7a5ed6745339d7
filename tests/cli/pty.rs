//! A terminal for one command.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use farmhand_tests::bin::farmhand;

use super::farm::Farm;

/// A program with a terminal of its own, 80 columns wide.
pub struct Pty {
    child: std::process::Child,
    screen: std::sync::mpsc::Receiver<String>,
    seen: String,
}

impl Pty {
    pub fn start(farm: &Farm, columns: u16, args: &[&str]) -> Self {
        let line: Vec<String> = [farmhand().to_str().unwrap()]
            .iter()
            .chain(args)
            .map(|word| format!("'{word}'"))
            .collect();
        let line = format!("stty cols {columns} rows 24; {}", line.join(" "));
        let mut child = Command::new("script")
            .args(["-qefc", &line, "/dev/null"])
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", farm.dir.path())
            .env("TERM", "xterm")
            .env("FARMHAND_DATABASE_URL", farm.db.url())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("script runs: apt-get install bsdutils");
        let out = child.stdout.take().unwrap();
        let (tx, screen) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut out = BufReader::new(out);
            let mut bytes = Vec::new();
            // Drawings have no line ends of their own at the last line.
            while out.read_until(b'm', &mut bytes).is_ok_and(|n| n > 0) {
                if tx.send(String::from_utf8_lossy(&bytes).into_owned()).is_err() {
                    return;
                }
                bytes.clear();
            }
        });
        Self {
            child,
            screen,
            seen: String::new(),
        }
    }

    pub fn look(&mut self) -> &str {
        self.seen.extend(self.screen.try_iter());
        &self.seen
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
        self.seen.extend(self.screen.iter());
        (status.code(), self.seen)
    }
}
