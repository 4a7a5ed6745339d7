//! What a running flow tells: one JSON object per line for programs, sentences for people.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use farmhand_core::document::{duration_text, millis};
use farmhand_core::flow::End;
use jiff::Timestamp;
use serde::Serialize;

use super::signals::Exit;
use farmhand_core::text::sanitize::{Visible, printable};

/// Something that happened. Wall-clock times are for people and programs that join logs; `elapsed_us` counts
/// from the start of the flow on a clock that never steps.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event<'a> {
    Start {
        task: &'a str,
        at: Timestamp,
        elapsed_us: u64,
        attempt: u32,
    },
    /// A try or a round ended, and there will be another one.
    Retry {
        task: &'a str,
        at: Timestamp,
        elapsed_us: u64,
        attempt: u32,
        failed: bool,
        exit_code: Option<i32>,
        signal: Option<i32>,
        reason: Option<&'a str>,
        delay_ms: u64,
    },
    /// A task says that it is ready, or that a name of its is.
    Mark {
        task: &'a str,
        name: &'a str,
        at: Timestamp,
        elapsed_us: u64,
    },
    End {
        task: &'a str,
        at: Timestamp,
        elapsed_us: u64,
        attempt: u32,
        #[serde(flatten)]
        ended: Ended<'a>,
    },
}

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ended<'a> {
    /// Nothing when the task was not executed.
    pub exit_code: Option<i32>,
    pub outcome: &'static str,
    pub signal: Option<i32>,
    pub duration_ms: Option<u64>,
    /// Nothing when it is not known.
    pub cpu_ms: Option<u64>,
    pub max_rss_bytes: Option<u64>,
    /// Who is to blame for a task that was skipped, up to the one that failed.
    pub blame: Vec<&'a str>,
    pub reason: Option<&'a str>,
}

/// For `elapsed_us`.
pub(crate) fn micros(d: Duration) -> u64 {
    u64::try_from(d.as_micros()).unwrap_or(u64::MAX)
}

/// One word for an end.
pub fn outcome(end: &End) -> &'static str {
    match end {
        End::Succeeded => "succeeded",
        End::Failed { .. } => "failed",
        End::TimedOut => "timed_out",
        End::Cancelled => "cancelled",
        End::Skipped => "skipped",
        End::LeftOut => "left_out",
        End::Done => "done",
    }
}

impl<'a> Ended<'a> {
    /// The end of a task for events; `blame` are the tasks that it was skipped for.
    pub(crate) fn new(
        end: &End,
        exit: Option<&Exit>,
        duration: Option<Duration>,
        blame: Vec<&'a str>,
    ) -> Self {
        let exit_code = match end {
            End::Failed { exit_code } => Some(*exit_code),
            _ => exit.map(Exit::shell_code),
        };
        Self {
            exit_code,
            outcome: outcome(end),
            signal: exit.and_then(|e| e.signal),
            duration_ms: duration.map(millis),
            cpu_ms: exit.and_then(|e| e.cpu).map(millis),
            max_rss_bytes: exit.and_then(|e| e.max_rss_bytes),
            blame,
            reason: None,
        }
    }
}

/// How a flow is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// One JSON object a line.
    Json,
    /// The output of tasks, each line with the task's name before it, and what goes wrong.
    People,
    /// Only what goes wrong.
    Quiet,
}

/// Writes events and output. Errors are those of stdout; stderr is for whoever still listens.
#[derive(Debug)]
pub struct Reporter {
    style: Style,
    buffer: Vec<u8>,
    widest: usize,
    total: usize,
    ended: usize,
    running: Vec<String>,
    live: bool,
    watched: bool,
    /// Why stdout took no more.
    failed: Option<io::Error>,
}

impl Reporter {
    /// A reporter in this style for tasks with these names, `total` of them.
    pub fn new(style: Style, names: &[&str], total: usize) -> Self {
        Self {
            style,
            buffer: Vec::new(),
            widest: names.iter().map(|n| n.chars().count()).max().unwrap_or(0).min(24),
            total,
            ended: 0,
            running: Vec::new(),
            live: style == Style::People && io::stderr().is_terminal(),
            watched: io::stdout().is_terminal(),
            failed: None,
        }
    }

    pub(crate) fn shows_output(&self) -> bool {
        self.style == Style::People
    }

    /// Tells an event: a line for people, or JSON.
    pub(crate) fn event(&mut self, event: &Event<'_>) {
        if self.style == Style::Json {
            // Serializing plain data into memory cannot fail.
            let _ = serde_json::to_writer(&mut self.buffer, event);
            self.buffer.push(b'\n');
            return;
        }
        match event {
            Event::Start { task, .. } => self.running.push((*task).to_owned()),
            Event::Retry {
                task,
                failed,
                exit_code,
                signal,
                reason,
                delay_ms,
                ..
            } => {
                self.running.retain(|r| r != task);
                let word = if *failed { "failed" } else { "ended" };
                let when = match delay_ms {
                    0 => "at once".to_owned(),
                    ms => format!("in {}", duration_text(Duration::from_millis(*ms))),
                };
                let why = why(*reason, *signal, *exit_code);
                self.say(&format!("{task} {word}: {why}; again {when}"));
            }
            Event::Mark { .. } => {}
            Event::End { task, ended, .. } => self.end(task, ended),
        }
        self.show_live();
    }

    fn end(&mut self, task: &str, ended: &Ended<'_>) {
        self.ended += 1;
        self.running.retain(|r| r != task);
        let why = match ended.outcome {
            "failed" => format!("failed: {}", why(ended.reason, ended.signal, ended.exit_code)),
            "timed_out" => "ran past its timeout".to_owned(),
            "cancelled" => "was cancelled".to_owned(),
            "skipped" => format!("is skipped: {}", blame(&ended.blame)),
            _ => return,
        };
        self.say(&format!("{task} {why}"));
    }

    /// A line of a task's output. Programs get every byte.
    pub fn line(&mut self, task: &str, line: &[u8]) {
        let widest = self.widest;
        self.buffer.extend(format!("{task:>widest$} | ").into_bytes());
        if self.watched {
            let line = [line, b"\n"].concat();
            self.buffer.extend(Visible::default().push(&line));
        } else {
            self.buffer.extend_from_slice(line);
            self.buffer.push(b'\n');
        }
    }

    /// A message for people, on stderr, in every style: it is told nowhere else.
    pub fn say(&mut self, text: &str) {
        let clear = if self.live { "\r\x1b[K" } else { "" };
        // Messages are lost when nobody reads them; the exit code is not.
        let _ = io::stderr().write_all(format!("{clear}{}\n", printable(text)).as_bytes());
    }

    fn show_live(&mut self) {
        if !self.live {
            return;
        }
        let width = farmhand_os::terminal::width().unwrap_or(80).into();
        let status = format!("[{}/{}] {}", self.ended, self.total, self.running.join(" "));
        let status: String = status.chars().take(width).collect();
        let _ = io::stderr().write_all(format!("\r\x1b[K{}", printable(&status)).as_bytes());
    }

    /// Hands on what was collected.
    /// Errors: When stdout takes no more, or took no more since the last call.
    pub fn flush(&mut self) -> io::Result<()> {
        self.hand_on();
        self.failed.take().map_or(Ok(()), Err)
    }

    /// As [`Reporter::flush`], which tells of an error later.
    pub(crate) fn hand_on(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        if self.live {
            let _ = io::stderr().write_all(b"\r\x1b[K");
        }
        let mut out = io::stdout().lock();
        let written = out.write_all(&self.buffer).and_then(|()| out.flush());
        self.buffer.clear();
        self.show_live();
        self.failed = self.failed.take().or(written.err());
    }

    /// Takes the live line away.
    pub fn finish(&mut self) {
        if self.live {
            let _ = io::stderr().write_all(b"\r\x1b[K");
            self.live = false;
        }
    }
}

fn why(reason: Option<&str>, signal: Option<i32>, exit_code: Option<i32>) -> String {
    match (reason, signal, exit_code) {
        (Some(reason), ..) => reason.to_owned(),
        (None, Some(signal), _) => format!("ended by signal {signal}"),
        (None, None, code) => format!("exit code {}", code.unwrap_or(1)),
    }
}

/// `b was skipped because a failed`, for all of a chain.
fn blame(chain: &[&str]) -> String {
    match chain.split_last() {
        None => "something that it requires did not succeed".to_owned(),
        Some((root, [])) => format!("{root} did not succeed"),
        Some((root, between)) => {
            let between = between.iter().map(|b| format!("{b} was skipped because "));
            format!("{}{root} did not succeed", between.collect::<String>())
        }
    }
}
