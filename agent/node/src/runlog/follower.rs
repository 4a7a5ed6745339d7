//! One attempt's output, from its files to whoever takes its lines.

use super::about::About;
use super::lines::{Line, Lines};
use super::socket::Sent;
use farmhand_warden_client::output::SentFile;
use farmhand_warden_client::{Item, OutputReader};

/// Read in one pass at most: a bound on how long others wait. Bytes.
const PASS_MAX: u64 = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// There is nothing more, for now.
    All,
    More,
    /// Nothing is taken any more, for now.
    Blocked,
}

pub(crate) struct Follower {
    about: About,
    reader: OutputReader,
    lines: Lines,
    sent_file: SentFile,
    closing: bool,
    dropped: u64,
    complained: bool,
}

impl Follower {
    /// Begins where an earlier agent stopped, if there was one.
    pub(super) fn new(about: About, line_max: usize) -> Self {
        let sent_file = SentFile::of(&about.dir, about.id);
        let sent = sent_file.read();
        Self {
            reader: OutputReader::new(about.dir.clone(), sent.resume),
            lines: Lines::new(line_max, sent),
            about,
            sent_file,
            closing: false,
            dropped: 0,
            complained: false,
        }
    }

    /// The attempt has ended: what is there is all there will be, and a last line needs no newline.
    pub(super) fn closing(&mut self) {
        self.closing = true;
    }

    /// Bytes of output that were not delivered.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Delivers what is new. A line that is not taken now comes again with the next pass; one that never is counts as dropped.
    pub(super) fn pass(&mut self, mut deliver: impl FnMut(&About, &Line) -> Sent) -> Passed {
        let begin = self.reader.position();
        let passed = loop {
            if !self.hand_out(&mut deliver) {
                break Passed::Blocked;
            }
            if self.reader.position() - begin >= PASS_MAX {
                break Passed::More;
            }
            match self.reader.next() {
                Ok(Some(item)) => {
                    self.lines.push(item);
                    continue;
                }
                Ok(None) => {}
                Err(error) => {
                    // Told once: it is read again all the time.
                    if !std::mem::replace(&mut self.complained, true) {
                        tracing::warn!("output of run {} cannot be read: {error}", self.about.id.run_id);
                    }
                }
            }
            if self.closing {
                self.lines.close();
                if !self.hand_out(&mut deliver) {
                    break Passed::Blocked;
                }
            }
            break Passed::All;
        };
        // Nobody takes a closed attempt over.
        if !self.closing {
            self.sent_file.write(self.lines.sent());
        }
        passed
    }

    /// Counts what was not delivered as dropped, a part at a time. True: there is more to count.
    pub(super) fn give_up(&mut self) -> bool {
        self.dropped += self.lines.abandon();
        let begin = self.reader.position();
        while self.reader.position() - begin < PASS_MAX {
            match self.reader.next() {
                Ok(Some(Item::Chunk { bytes, .. })) => self.dropped += bytes.len() as u64,
                // Counted by whoever lost it.
                Ok(Some(Item::Dropped { .. })) => {}
                Ok(None) | Err(_) => return false,
            }
        }
        true
    }

    /// False when a line was not taken.
    fn hand_out(&mut self, deliver: &mut impl FnMut(&About, &Line) -> Sent) -> bool {
        while let Some(line) = self.lines.front() {
            match deliver(&self.about, line) {
                Sent::Yes => {}
                Sent::NotNow => return false,
                Sent::Never => self.dropped += line.length(),
            }
            self.lines.pop();
        }
        true
    }
}
