//! The terminal while `top` has it: another screen, no echo, keys one by one. All of it is undone on the way out.

use std::io::{self, Read, Write};

use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetwinsize, tcsetattr};
use tokio::sync::mpsc;

/// To the other screen, cursor off; and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";

pub(super) enum Key {
    Leave,
    Other,
}

pub(crate) struct Screen {
    before: Termios,
    keys: mpsc::UnboundedReceiver<u8>,
}

impl Screen {
    pub(super) fn open() -> io::Result<Self> {
        let before = tcgetattr(io::stdin())?;
        let mut raw = before.clone();
        raw.local_modes.remove(LocalModes::ICANON | LocalModes::ECHO);
        tcsetattr(io::stdin(), OptionalActions::Now, &raw)?;
        let (tx, keys) = mpsc::unbounded_channel();
        // A thread of its own, which ends with the process: reading a terminal cannot be called off.
        std::thread::spawn(move || {
            let mut byte = [0];
            while matches!(io::stdin().lock().read(&mut byte), Ok(1)) && tx.send(byte[0]).is_ok() {}
        });
        put(ENTER);
        Ok(Self { before, keys })
    }

    /// Columns and lines.
    pub(super) fn size(&self) -> (usize, usize) {
        let size = tcgetwinsize(io::stdout()).ok();
        let (width, height) = size.map_or((80, 24), |s| (s.ws_col, s.ws_row));
        let or = |n: u16, other: usize| if n == 0 { other } else { usize::from(n) };
        (or(width, 80), or(height, 24))
    }

    /// Draws over what is there, without clearing first: that would flicker.
    pub(super) fn show(&mut self, lines: &[String]) {
        let mut text = String::from("\x1b[H");
        for (nth, line) in lines.iter().enumerate() {
            if nth > 0 {
                text.push_str("\r\n");
            }
            text.push_str(line);
            text.push_str("\x1b[K");
        }
        text.push_str("\x1b[J");
        put(&text);
    }

    /// The next key; when the terminal is gone, a wish to leave.
    pub(super) async fn key(&mut self) -> Key {
        match self.keys.recv().await {
            Some(b'q' | b'Q') | None => Key::Leave,
            Some(_) => Key::Other,
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        put(LEAVE);
        let _ = tcsetattr(io::stdin(), OptionalActions::Now, &self.before);
    }
}

fn put(text: &str) {
    // A terminal that is gone is noticed by its keys.
    let mut out = io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}
