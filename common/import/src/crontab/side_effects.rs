//! What a crontab does beside running commands: mail, locks, output, the directory it starts in.

use std::collections::BTreeMap;

use farmhand_core::notify::email_address;

use super::file::Owner;
use super::shell;
use super::state::State;

impl State<'_> {
    /// The addresses that cron sends mail to. One without `@` is a mailbox of the machine itself.
    pub(super) fn mailto(&mut self, line: usize, value: &str) -> Option<Vec<String>> {
        let all = value
            .split(',')
            .map(str::trim)
            .filter(|address| !address.is_empty());
        let (good, bad): (Vec<&str>, Vec<&str>) = all.partition(|address| email_address(address).is_ok());
        for address in bad {
            self.note(
                line,
                format!(
                    "MAILTO={address}: no mail is sent to it, since it is not an address of the form name@host. Output is kept with \
                     each run (`farmhand run logs`); name a `[notify.NAME]` in `notify` of the jobs below"
                ),
            );
        }
        if good.is_empty() {
            return None;
        }
        self.note(
            line,
            format!(
                "MAILTO={} became `notify`: mail when a job begins to fail and when it succeeds again, not with all output; the agents \
                 need `[smtp]`",
                good.join(",")
            ),
        );
        Some(good.into_iter().map(str::to_owned).collect())
    }

    /// Cron runs a job as the user whose crontab it is. Said of each file, also where other hosts' files are alike.
    pub(super) fn tell_userless(&mut self) {
        if self.file.owner == Owner::User(None) && self.report.jobs > 0 {
            self.report.note(
                0,
                "no user is known, so its jobs have no `user`, and run as the nodes' `default_user` or as the agent's own: --user NAME \
                 says whose crontab it is",
            );
        }
    }

    /// Cron starts a job in its user's home; one note for all jobs of which that is unknown.
    pub(super) fn tell_homeless(&mut self) {
        let mut by_user: BTreeMap<Option<String>, Vec<String>> = BTreeMap::new();
        for (job, user) in std::mem::take(&mut self.homeless) {
            by_user.entry(user).or_default().push(job);
        }
        for (user, jobs) in by_user {
            let whose = match user {
                Some(user) => format!("the home of {user}, who is unknown on this machine: set `cwd`"),
                None => "its user's home directory; set `cwd` if it relies on that".to_owned(),
            };
            self.note(0, format!("cron starts a job in {whose}: {}", jobs.join(", ")));
        }
    }

    /// What the line does beside its command, taken off it or told; and the overlap rule that follows.
    pub(super) fn unwrapped(
        &mut self,
        line: usize,
        name: &str,
        mut command: String,
    ) -> (String, Option<&'static str>) {
        if let Some(front) = shell::foreground(&command) {
            command = front.to_owned();
            self.note(
                line,
                format!("{name}: the `&` at the end is left out: what a command leaves behind is ended, and the run is over when it is"),
            );
        }
        let bash = self
            .env
            .get("SHELL")
            .is_some_and(|shell| shell.ends_with("/bash"));
        if let Some(what) = shell::background(&command, bash) {
            let why = match what {
                "&>" => {
                    "is bash's: with /bin/sh it puts the command in the background; write `> FILE 2>&1`. W"
                }
                "&" => "leaves a process in the background: w",
                _ => "is there to leave a process in the background: w",
            };
            self.note(
                line,
                format!("{name}: `{what}` {why}hat a command leaves behind is ended with it: run it in the foreground, or as a service of systemd"),
            );
        }
        if let Some(file) = shell::redirected(&command) {
            self.note(
                line,
                format!("{name}: output goes to {file} of whatever node runs it; without that it is kept with the run (`farmhand run logs`)"),
            );
        }
        let Some(guard) = shell::guarded(&command) else {
            return (command, None);
        };
        if self.shares(&guard.file) {
            self.note(
                line,
                format!(
                    "{name}: other lines name {} too and may take it: it holds on one node alone; `locks` holds on the farm",
                    guard.file
                ),
            );
            return (command, None);
        }
        let rule = if guard.left_out { "skip" } else { "queue" };
        self.note(
            line,
            format!(
                "{name}: `flock` of {} became overlap = \"{rule}\", which holds {}; a line that stays with cron and takes it is not \
                 kept apart any more",
                guard.file,
                self.within()
            ),
        );
        (guard.command, Some(rule))
    }
}
