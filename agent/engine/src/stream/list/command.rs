//! The list that a command prints. It is read as fast as its lines are handled; the pipe holds the command back.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use farmhand_core::definition::Command;
use farmhand_core::stream::{Checkpoint, Tail};
use rustix::pipe::{PipeFlags, pipe_with};

use super::splitter::{CHUNK, Next, Splitter};
use crate::flow::signals::{Exit, signal_group};
use crate::flow::spawn::{Spawner, argv};

#[derive(Debug)]
pub(crate) struct Printed {
    pid: i32,
    /// None once it is at its end.
    pipe: Option<OwnedFd>,
    exit: Option<Exit>,
    splitter: Splitter,
    /// Bytes that an earlier attempt has handled, and what was before their end.
    skip: u64,
    skipped: Tail,
    mark: u64,
    broken: Option<String>,
}

impl Printed {
    pub(crate) fn start(command: &Command, from: &Checkpoint, spawner: &Spawner) -> io::Result<Self> {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&read, true)?;
        let pid = spawner.spawn_with(&argv(command), &[], io::stderr().as_fd(), &[(&write, 1)])?;
        Ok(Self {
            pid,
            pipe: Some(read),
            exit: None,
            splitter: Splitter::new(from.at, Tail::default()),
            skip: from.at,
            skipped: Tail::default(),
            mark: from.mark,
            broken: None,
        })
    }

    pub(crate) fn next(&mut self) -> Next {
        if let Some(read) = self.splitter.next() {
            return Next::Line(read);
        }
        if self.pipe.is_some() && self.broken.is_none() {
            self.fill();
            if let Some(read) = self.splitter.next() {
                return Next::Line(read);
            }
        }
        if let Some(why) = &self.broken {
            return Next::Broken(why.clone());
        }
        if self.pipe.is_some() {
            return Next::Later;
        }
        match &self.exit {
            None => Next::Later,
            Some(Exit { code: Some(0), .. }) => self.splitter.finish().map_or(Next::End, Next::Line),
            Some(Exit {
                signal: Some(signal), ..
            }) => Next::Broken(format!(
                "the command that prints the list was ended by signal {signal}"
            )),
            Some(exit) => Next::Broken(format!(
                "the command that prints the list ended with exit code {}",
                exit.shell_code()
            )),
        }
    }

    fn fill(&mut self) {
        let Some(pipe) = &self.pipe else { return };
        let mut chunk = vec![0; CHUNK];
        match rustix::io::read(pipe, &mut chunk) {
            Ok(0) => {
                self.pipe = None;
                if self.skip > 0 {
                    self.another(format!("it is {} bytes shorter", self.skip));
                }
            }
            Ok(count) => {
                let known = usize::try_from(self.skip).unwrap_or(usize::MAX).min(count);
                if known > 0 {
                    self.skipped.push(&chunk[..known]);
                    self.skip -= known as u64;
                    if self.skip == 0 {
                        if self.skipped.mark() != self.mark {
                            // Nothing of what follows is a line of this list.
                            return self.another("its lines differ".to_owned());
                        }
                        self.splitter.tail = self.skipped.clone();
                    }
                }
                self.splitter.feed(&chunk[known..count]);
            }
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
            Err(error) => self.broken = Some(format!("the list cannot be read: {error}")),
        }
    }

    fn another(&mut self, how: String) {
        self.broken = Some(format!(
            "the command printed another list than before: {how}; it is not known which of its lines are done"
        ));
    }

    pub(crate) fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.pipe.as_ref().map(AsFd::as_fd)
    }

    pub(crate) fn ended(&mut self, pid: i32, exit: &Exit) -> bool {
        let own = pid == self.pid && self.exit.is_none();
        if own {
            self.exit = Some(*exit);
        }
        own
    }

    pub(crate) fn signal(&self, signal: i32) {
        if self.exit.is_none() {
            signal_group(self.pid, signal);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::io::Write;

    use farmhand_core::stream::{Course, Line, Step};

    use super::*;

    /// A command that has printed this and ended.
    fn printed(text: &str, from: &Checkpoint) -> Printed {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        let mut write = File::from(write);
        write.write_all(text.as_bytes()).expect("it is not much");
        Printed {
            pid: 0,
            pipe: Some(read),
            exit: Some(Exit::with_code(0)),
            splitter: Splitter::new(from.at, Tail::default()),
            skip: from.at,
            skipped: Tail::default(),
            mark: from.mark,
            broken: None,
        }
    }

    /// The lines that are handed out, and what comes after them.
    fn lines(list: &mut Printed, course: &mut Course) -> (Vec<String>, Next) {
        let mut lines = Vec::new();
        for _ in 0..100 {
            match list.next() {
                Next::Line(read) => {
                    let Line::Whole(line) = read.line else {
                        panic!("{read:?}")
                    };
                    lines.push(String::from_utf8(line).expect("text"));
                    if let Step::Run(number) = course.read(read.end, read.mark) {
                        course.succeeded(number);
                    }
                }
                Next::Later => {}
                other => return (lines, other),
            }
        }
        panic!("it never ends")
    }

    fn done(text: &str) -> Checkpoint {
        let mut course = Course::new(&Checkpoint::default(), &[]);
        lines(&mut printed(text, &Checkpoint::default()), &mut course);
        course.checkpoint()
    }

    #[test]
    fn another_attempt_goes_on_behind_what_is_done() {
        let from = done("one\ntwo\n");
        let mut course = Course::new(&from, &[]);
        let (rest, end) = lines(&mut printed("one\ntwo\nthree\nfour", &from), &mut course);
        assert_eq!(rest, ["three", "four"]);
        assert_eq!(end, Next::End);
        assert_eq!(course.checkpoint().line, 5);
    }

    #[test]
    fn of_another_list_than_before_no_line_is_handed_out() {
        let from = done("one\ntwo\n");
        for other in ["zero\none\ntwo\nthree\n", "one\nsix\nthree\n", "one\n", ""] {
            let mut course = Course::new(&from, &[]);
            let (handed_out, end) = lines(&mut printed(other, &from), &mut course);
            assert_eq!(handed_out, Vec::<String>::new(), "{other:?}");
            let Next::Broken(why) = end else {
                panic!("{other:?}: {end:?}")
            };
            assert!(why.contains("another list"), "{why}");
            assert_eq!(course.checkpoint().line, 3, "{other:?}");
        }
    }
}
