//! The jobs of the suite's farm: a few of each kind, and what the oracle may hold against them.

use std::fmt::Write;
use std::path::Path;

use super::oracle::Kind;
use super::table;
use super::targets::Definition;

/// One job of the farm.
struct Job {
    name: &'static str,
    schedule: Option<&'static str>,
    instances: i32,
    each_node: bool,
    /// Further lines of its definition.
    more: &'static str,
    /// Arguments of the witness.
    arguments: &'static [&'static str],
    isolated: bool,
    alone: bool,
    at_most_once: bool,
    prompt: bool,
    /// Its instants may be skipped.
    skips: bool,
    /// Only nodes with a label run it.
    placed: bool,
    /// For a run before it, a lock, or a label.
    waits: bool,
    exit_code: i32,
    retries: usize,
}

const PLAIN: Job = Job {
    name: "",
    schedule: None,
    instances: 1,
    each_node: false,
    more: "",
    arguments: &[],
    isolated: false,
    alone: false,
    at_most_once: false,
    prompt: false,
    skips: false,
    placed: false,
    waits: false,
    exit_code: 0,
    retries: 0,
};

/// Every kind of job whose runs the protocol tells apart.
const JOBS: &[Job] = &[
    Job {
        name: "tick",
        schedule: Some("* * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'",
        arguments: &["150"],
        prompt: true,
        ..PLAIN
    },
    Job {
        name: "long",
        schedule: Some("*/3 * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'",
        arguments: &["5000", "ignore-term", "daemon"],
        prompt: true,
        ..PLAIN
    },
    Job {
        name: "isolated",
        schedule: Some("1/4 * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'\nisolation = 'pid'",
        arguments: &["4000", "ignore-term", "daemon"],
        isolated: true,
        prompt: true,
        ..PLAIN
    },
    Job {
        name: "single",
        schedule: Some("*/2 * * * * *"),
        more: "overlap = 'skip'\ncatch_up.runs = 'all'\ngrace = '200ms'",
        arguments: &["2500", "daemon"],
        alone: true,
        skips: true,
        ..PLAIN
    },
    Job {
        name: "queued",
        schedule: Some("*/5 * * * * *"),
        more: "overlap = 'queue'\ncatch_up.runs = 'all'\ngrace = '200ms'",
        arguments: &["1200"],
        waits: true,
        alone: true,
        ..PLAIN
    },
    Job {
        name: "locked",
        schedule: Some("2/5 * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'\nlocks = ['chaos']",
        arguments: &["900"],
        waits: true,
        alone: true,
        ..PLAIN
    },
    Job {
        name: "sharded",
        schedule: Some("*/7 * * * * *"),
        instances: 3,
        more: "overlap = 'allow'\ncatch_up.runs = 'all'",
        arguments: &["800"],
        ..PLAIN
    },
    Job {
        name: "everywhere",
        schedule: Some("4/10 * * * * *"),
        each_node: true,
        more: "overlap = 'allow'\ncatch_up.runs = 'all'",
        arguments: &["300"],
        ..PLAIN
    },
    Job {
        name: "placed",
        schedule: Some("1/5 * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'\nwhere = { zone = 'a' }",
        arguments: &["700"],
        waits: true,
        placed: true,
        ..PLAIN
    },
    Job {
        name: "zoned",
        schedule: Some("7/10 * * * * *"),
        each_node: true,
        more: "overlap = 'allow'\ncatch_up.runs = 'all'\nwhere = { zone = 'b' }",
        arguments: &["400"],
        waits: true,
        placed: true,
        ..PLAIN
    },
    Job {
        name: table::JOB,
        arguments: &["300"],
        ..PLAIN
    },
    Job {
        name: "retried",
        schedule: Some("3/6 * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'\nretry = { max = 2, backoff = 'constant', base = '300ms' }",
        arguments: &["200", "exit=3"],
        exit_code: 3,
        retries: 2,
        ..PLAIN
    },
    Job {
        name: "once",
        schedule: Some("*/4 * * * * *"),
        more: "overlap = 'allow'\ncatch_up.runs = 'all'\non_lost = 'fail'",
        arguments: &["1500", "daemon"],
        at_most_once: true,
        ..PLAIN
    },
    Job {
        name: "submitted",
        more: "retry = { max = 1, backoff = 'constant', base = '200ms' }",
        arguments: &["400"],
        retries: 1,
        ..PLAIN
    },
];

/// A flow of two tasks, the second of which is witnessed.
const FLOW: (&str, &str) = ("flow", "*/9 * * * * *");

/// The job file; witnesses go to `dir/witness`, their locks to `dir/locks`.
pub fn document(witness: &Path, dir: &Path) -> String {
    let command = |name: &str, arguments: &[&str]| {
        let dir = dir.display();
        let mut words = vec![
            witness.display().to_string(),
            format!("{dir}/witness/{name}"),
            "beat=50".to_owned(),
            format!("lock={dir}/locks"),
        ];
        words.extend(arguments.iter().map(|a| (*a).to_owned()));
        format!("command = {words:?}\n")
    };
    let mut text = String::new();
    for job in JOBS {
        let _ = writeln!(text, "[job.{}]", job.name);
        if let Some(schedule) = job.schedule {
            let _ = writeln!(text, "schedule = '{schedule}'");
        }
        if job.instances > 1 {
            let _ = writeln!(text, "instances = {}", job.instances);
        }
        if job.each_node {
            text.push_str("run_on = 'each-node'\n");
        }
        text.push_str(job.more);
        text.push('\n');
        text.push_str(&command(job.name, job.arguments));
        if job.name == table::JOB {
            text.push_str(table::DEFINITION);
        }
    }
    let (name, schedule) = FLOW;
    let _ = writeln!(
        text,
        "[job.{name}]\nschedule = '{schedule}'\noverlap = 'allow'\ncatch_up.runs = 'all'\n\
         [job.{name}.task.first]\ncommand = ['true']\n[job.{name}.task.second]\nrequires = ['first']"
    );
    text.push_str(&command(name, &["600"]));
    text
}

pub fn names() -> impl Iterator<Item = &'static str> {
    JOBS.iter().map(|j| j.name).chain([FLOW.0])
}

pub fn kinds() -> Vec<Kind> {
    let kind = |job: &Job| Kind {
        job: job.name.to_owned(),
        isolated: job.isolated,
        alone: job.alone,
        at_most_once: job.at_most_once,
        prompt: job.prompt,
        each_node: job.each_node,
        exit_code: job.exit_code,
        retries: job.retries,
        in_part: false,
    };
    let flow = Kind {
        job: FLOW.0.to_owned(),
        in_part: true,
        ..Kind::default()
    };
    JOBS.iter().map(kind).chain([flow]).collect()
}

/// Those with due instants.
pub fn definitions() -> Vec<Definition> {
    let definition = |job: &Job| {
        Some(Definition {
            job: job.name.to_owned(),
            schedule: job.schedule?.to_owned(),
            instances: job.instances,
            each_node: job.each_node,
            skips: job.skips,
            placed: job.placed,
            waits: job.waits,
        })
    };
    let flow = Definition {
        job: FLOW.0.to_owned(),
        schedule: FLOW.1.to_owned(),
        instances: 1,
        each_node: false,
        skips: false,
        placed: false,
        waits: false,
    };
    JOBS.iter().filter_map(definition).chain([flow]).collect()
}
