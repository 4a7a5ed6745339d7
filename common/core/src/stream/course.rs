//! Which lines of a list are done, and which is the lowest that is not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::checkpoint::{Checkpoint, WINDOW};

/// How far a list has been handled. Lines are numbered from 1.
#[derive(Debug)]
pub struct Course {
    /// The lowest unfinished line, where it begins, and the mark of what is before it.
    line: u64,
    at: u64,
    mark: u64,
    /// It and the lines after it that were read.
    read: VecDeque<Read>,
    /// Finished by an earlier attempt, and not read by this one yet.
    before: BTreeSet<u64>,
    /// Recorded as failed by an earlier attempt whose checkpoint does not know.
    recorded: BTreeSet<u64>,
    /// Of unfinished lines.
    failures: BTreeMap<u64, u32>,
    succeeded: u64,
    failed: u64,
}

#[derive(Clone, Copy, Debug)]
struct Read {
    /// Where the next line begins.
    end: u64,
    mark: u64,
    done: bool,
}

/// What is to be done with the next line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The line of this number.
    Run(u64),
    /// An earlier attempt has finished it.
    Skip,
}

impl Course {
    /// Goes on from a checkpoint. `recorded`: lines that are written down as failed.
    pub fn new(from: &Checkpoint, recorded: &[u64]) -> Self {
        let before = from.finished_above();
        let recorded = recorded
            .iter()
            .filter(|n| **n >= from.line && !before.contains(n));
        Self {
            line: from.line,
            at: from.at,
            mark: from.mark,
            read: VecDeque::new(),
            recorded: recorded.copied().collect(),
            before,
            failures: from.failures.clone(),
            succeeded: from.succeeded,
            failed: from.failed,
        }
    }

    /// Whether another line may be read.
    pub fn has_room(&self) -> bool {
        self.read.len() < WINDOW
    }

    /// The next line was read; it ends before `end`, and `mark` is of what is before that.
    pub fn read(&mut self, end: u64, mark: u64) -> Step {
        let number = self.line + self.read.len() as u64;
        let recorded = self.recorded.remove(&number);
        self.failed += u64::from(recorded);
        let done = self.before.remove(&number) || recorded;
        self.read.push_back(Read { end, mark, done });
        if done {
            self.failures.remove(&number);
            self.advance();
            return Step::Skip;
        }
        Step::Run(number)
    }

    /// A line is done.
    pub fn succeeded(&mut self, number: u64) {
        self.succeeded += 1;
        self.done(number);
    }

    /// A line is given up; it has been written down.
    pub fn failed(&mut self, number: u64) {
        self.failed += 1;
        self.done(number);
    }

    /// A try of a line failed; how many have.
    pub fn try_failed(&mut self, number: u64) -> u32 {
        let failures = self.failures.entry(number).or_default();
        *failures += 1;
        *failures
    }

    fn done(&mut self, number: u64) {
        self.failures.remove(&number);
        let index = usize::try_from(number - self.line).unwrap_or(usize::MAX);
        if let Some(read) = self.read.get_mut(index) {
            read.done = true;
        }
        self.advance();
    }

    fn advance(&mut self) {
        while self.read.front().is_some_and(|read| read.done)
            && let Some(Read { end, mark, .. }) = self.read.pop_front()
        {
            self.line += 1;
            (self.at, self.mark) = (end, mark);
        }
    }

    /// Lines that succeeded, and lines that were given up.
    pub fn counts(&self) -> (u64, u64) {
        (self.succeeded, self.failed)
    }

    /// From where another attempt goes on.
    pub fn checkpoint(&self) -> Checkpoint {
        let read = self.read.iter().enumerate().filter(|(_, read)| read.done);
        let above = read
            .map(|(index, _)| self.line + index as u64)
            .chain(self.before.iter().copied());
        Checkpoint {
            line: self.line,
            at: self.at,
            mark: self.mark,
            failures: self.failures.clone(),
            succeeded: self.succeeded,
            failed: self.failed,
            ..Checkpoint::default()
        }
        .with_finished(above)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of ten bytes.
    fn read(course: &mut Course, lines: u64) -> Vec<u64> {
        let from = course.line + course.read.len() as u64;
        (from..from + lines)
            .filter_map(|n| match course.read(n * 10, n) {
                Step::Run(number) => Some(number),
                Step::Skip => None,
            })
            .collect()
    }

    fn start() -> Course {
        Course::new(&Checkpoint::default(), &[])
    }

    #[test]
    fn the_checkpoint_is_the_lowest_unfinished_line_whatever_is_finished_above() {
        let mut course = start();
        assert_eq!(read(&mut course, 4), [1, 2, 3, 4]);
        course.succeeded(3);
        course.succeeded(1);
        let checkpoint = course.checkpoint();
        assert_eq!((checkpoint.line, checkpoint.at, checkpoint.mark), (2, 10, 1));
        course.succeeded(2);
        assert_eq!((course.checkpoint().line, course.checkpoint().at), (4, 30));
    }

    #[test]
    fn another_attempt_runs_exactly_what_was_not_finished() {
        let mut course = start();
        read(&mut course, 6);
        for number in [1, 3, 5] {
            course.succeeded(number);
        }
        course.try_failed(2);
        course.failed(6);
        let mut next = Course::new(&course.checkpoint(), &[]);
        assert_eq!(read(&mut next, 6), [2, 4, 7]);
        assert_eq!(next.try_failed(2), 2, "earlier failures count");
        assert_eq!(next.counts(), (3, 1));
        // Nothing of it is forgotten when that attempt ends before it has read as far.
        let mut next = Course::new(&course.checkpoint(), &[]);
        read(&mut next, 1);
        let mut third = Course::new(&next.checkpoint(), &[]);
        assert_eq!(read(&mut third, 6), [2, 4, 7]);
    }

    #[test]
    fn a_line_that_was_recorded_after_the_last_checkpoint_is_not_run_again() {
        let mut course = start();
        read(&mut course, 3);
        course.succeeded(1);
        let stored = course.checkpoint();
        course.failed(3);
        let mut next = Course::new(&stored, &[3]);
        assert_eq!(read(&mut next, 3), [2, 4]);
        assert_eq!(next.counts(), (1, 1));
        // Once the checkpoint has it, it is counted once.
        let mut next = Course::new(&course.checkpoint(), &[3]);
        read(&mut next, 3);
        assert_eq!(next.counts(), (1, 1));
    }

    #[test]
    fn the_window_is_full_while_its_first_line_is_unfinished() {
        let mut course = start();
        read(&mut course, WINDOW as u64);
        assert!(!course.has_room());
        (2..=WINDOW as u64).for_each(|n| course.succeeded(n));
        assert!(!course.has_room());
        course.succeeded(1);
        assert!(course.has_room() && course.checkpoint().line == WINDOW as u64 + 1);
    }
}
