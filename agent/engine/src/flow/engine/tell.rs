//! What the engine tells and hears through the flow's directory.

use std::ffi::OsStr;
use std::io;
use std::time::Instant;

use farmhand_core::flow::End;
use jiff::Timestamp;

use super::state::FlowEngine;
use crate::flow::events::{Ended, Event, micros};
use crate::flow::fifo::{Notice, Status};
use crate::flow::ready_marks;

impl FlowEngine<'_> {
    pub(super) fn announce(&mut self) {
        for name in self.graph.names().keys() {
            if let Err(error) = self.tools.fifos.announce(name) {
                return self.give_up(format!("the FIFO of `{name}` cannot be made: {error}"));
            }
        }
    }

    /// Wakes who waits for what ended, and writes it down. Whether there was anything.
    pub(super) fn tell_news(&mut self) -> bool {
        let news = self.course.news();
        let any = !news.is_empty();
        for node in news {
            let end = self.course.end(node).cloned();
            if let Some(end) = end.as_ref().filter(|_| node < self.tasks.len()) {
                self.tell_end(node, end);
            }
            let status = self.status(node, end.as_ref());
            if std::mem::replace(&mut self.told[node], true) {
                continue;
            }
            let first = self.names.partition_point(|(of, _)| *of < node);
            let last = self.names.partition_point(|(of, _)| *of <= node);
            for index in first..last {
                let (_, name) = self.names[index];
                let done = self.tools.fifos.complete(name, &status, Instant::now());
                if let Err(error) = done {
                    self.cannot_tell(name, &error);
                }
            }
        }
        any
    }

    fn tell_end(&mut self, task: usize, end: &End) {
        let name = self.tasks[task].name();
        self.record(task).end = Some(end.clone());
        let rounds = self.tasks[task].extras.rounds.is_some();
        let record = &*self.records[task].get_or_insert_default();
        let between_rounds = rounds && record.exit.is_none();
        if matches!(end, End::LeftOut | End::Done) || between_rounds {
            return;
        }
        let blame = match end {
            End::Skipped => self.course.chain_of_blame(task),
            _ => Vec::new(),
        };
        let blame = blame.into_iter().map(|t| self.tasks[t].name()).collect();
        let mut ended = Ended::new(end, record.exit.as_ref(), record.duration(), blame);
        ended.reason = record.reason.as_deref();
        let event = Event::End {
            task: name,
            at: Timestamp::now(),
            elapsed_us: micros(record.ended.unwrap_or_else(|| self.began.elapsed())),
            attempt: self.course.tries(task),
            ended,
        };
        let written = self.tools.dir.record(&event);
        self.tools.reporter.event(&event);
        if let Err(error) = written {
            self.give_up(format!("the end of `{name}` cannot be written down: {error}"));
        }
    }

    fn status(&self, node: usize, end: Option<&End>) -> Status {
        match end {
            None => Status::new(0, "ready"),
            Some(End::Succeeded) => Status::ok(),
            Some(End::Done) => Status::new(0, "ok earlier"),
            Some(End::LeftOut) => Status::new(0, "left-out"),
            Some(End::Failed { exit_code }) => Status::new(u8::try_from(*exit_code).unwrap_or(255), "failed"),
            Some(End::TimedOut) => Status::new(124, "timed-out"),
            Some(End::Cancelled) => Status::new(125, "cancelled"),
            Some(End::Skipped) => {
                let blame = self.course.chain_of_blame(node);
                let blame: Vec<_> = blame.into_iter().map(|t| self.tasks[t].name()).collect();
                let word = if node < self.tasks.len() {
                    "skipped"
                } else {
                    "failed"
                };
                Status::new(125, format!("{word} {}", blame.join(" ")))
            }
        }
    }

    pub(super) fn take_notices(&mut self) {
        for notice in self.tools.fifos.notices() {
            match notice {
                Notice::Damaged(file) => self.damaged(&file.to_string_lossy()),
                Notice::Mark(file) => self.mark(&file),
            }
        }
    }

    fn cannot_tell(&mut self, name: &str, error: &io::Error) {
        if error.kind() == io::ErrorKind::NotFound {
            return self.damaged(name);
        }
        self.give_up(format!(
            "the end of `{name}` cannot be told to who waits for it: {error}"
        ));
    }

    fn damaged(&mut self, name: &str) {
        let deps = self.tools.dir.deps();
        self.give_up(format!(
            "somebody deleted `{name}` from {}: who waits there cannot be woken",
            deps.display()
        ));
    }

    fn mark(&mut self, file: &OsStr) {
        let Some(request) = ready_marks::take(&self.tools.dir.deps(), file) else {
            return;
        };
        let task = self.tasks.iter().position(|t| t.name() == request.task);
        if !task.is_some_and(|task| self.course.mark(task, &request.name)) {
            let said = format!(
                "{} cannot mark `{}`: it does not provide it",
                request.task, request.name
            );
            return self.tools.reporter.say(&said);
        }
        if let (Some(task), Some(node)) = (task, self.graph.names().get(request.name.as_str())) {
            let at = self.began.elapsed();
            self.record(task).marks.push((*node, at));
        }
        self.tools.reporter.event(&Event::Mark {
            task: &request.task,
            name: &request.name,
            at: Timestamp::now(),
            elapsed_us: micros(self.began.elapsed()),
        });
        while self.tell_news() | self.start_ready() {}
    }
}
