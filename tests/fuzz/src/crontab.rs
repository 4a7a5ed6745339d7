//! Crontabs: a user's own and the system's, together. Whatever is in them, the job file is a good one and runs the same.

use farmhand_core::definition::{Command, Filling, Overlap, argv, load};
use farmhand_core::document::Source;
use farmhand_import::Machine;
use farmhand_import::crontab::{File, Line, Owner, Place, import, parse};

use super::input::{parts, text};

pub fn run(data: &[u8]) {
    let parts = parts(data, 1);
    let files: Vec<File> = parts
        .iter()
        .zip(0..)
        .map(|(part, nth)| File {
            name: ["/etc/crontab", "alice", "crontab.txt", "-"][nth % 4].to_owned(),
            text: text(part).to_owned(),
            owner: [
                Owner::System,
                Owner::User(None),
                Owner::User(Some("bob".to_owned())),
            ][nth % 3]
                .clone(),
            place: Place::Any,
            notes: Vec::new(),
            seconds: false,
        })
        .collect();
    let home = |user: &str| (user != "nobody").then(|| format!("/home/{user}"));
    let machine = Machine {
        timezone: "Europe/Berlin",
        home: &home,
    };
    let made = import(&files, &machine);
    let source = Source {
        name: "made.toml".to_owned(),
        text: made.toml.clone(),
    };
    let jobs = match load(&[source]) {
        Ok(jobs) => jobs,
        Err(mistakes) => panic!("{mistakes}\n{}", made.toml),
    };
    assert_eq!(jobs.len(), made.jobs.len(), "{}", made.toml);
    let mut tasks = Vec::new();
    for file in &files {
        for line in parse(&file.text, file.owner == Owner::System, false) {
            match line {
                Line::Task(task) => tasks.push(task),
                Line::Invalid(bad) => {
                    let line = file.text.lines().nth(bad.line - 1).expect("the line is there");
                    assert!((1..=line.chars().count() + 1).contains(&bad.column), "{bad:?}");
                }
                Line::Blank | Line::Comment(_) | Line::Variable { .. } => {}
            }
        }
    }
    for (imported, task) in made.jobs.iter().zip(&tasks) {
        let job = jobs
            .iter()
            .find(|job| job.name == imported.name)
            .expect("the job");
        assert_eq!(job.spec.schedule.is_empty(), task.never, "{}", made.toml);
        let command = job.spec.command.as_ref().expect("a command");
        let words = argv(command, &Filling::default()).expect("no parameters are in it");
        // `flock` becomes the job's own overlap, and an `&` at the end is left out.
        let runs = words[words.len() - 1].trim_end();
        // What reads a password from the nodes' store stands before it.
        let own = runs
            .rsplit_once("_FILE\")\"; ")
            .filter(|_| !job.spec.secrets.is_empty());
        let runs = own.map_or(runs, |(_, own)| own);
        let unlocked = job.spec.overlap != Overlap::Allow && task.command.contains("flock");
        let without = task
            .command
            .trim_end_matches(|c: char| c == '&' || c.is_whitespace());
        assert!(
            runs == task.command || runs == without || unlocked && task.command.contains(runs),
            "{runs:?} for {:?}:\n{}",
            task.command,
            made.toml
        );
        assert!(matches!(command, Command::Shell(_)) || words[1] == "-c");
        assert_eq!(job.spec.stdin, task.stdin, "{}", made.toml);
    }
}
