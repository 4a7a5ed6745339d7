use super::*;
use crate::waits::Gated;

/// What the farm is like, and what its verdict says.
type Row<'a> = (FarmFacts, Level, Vec<(&'a str, About)>);

fn well() -> FarmFacts {
    FarmFacts {
        claims_open: true,
        any_job: true,
        any_node: true,
        ready: 2,
        ..FarmFacts::default()
    }
}

fn some<T: Clone>(first: T, count: usize) -> Several<T> {
    Several::of(vec![first; count], 20)
}

fn stuck(how: &str) -> Stuck {
    Stuck {
        run: 5,
        job: "j".to_owned(),
        node: "n1".to_owned(),
        how: how.to_owned(),
    }
}

fn slow(minutes: i64) -> Slow {
    Slow {
        run: 5,
        job: "j".to_owned(),
        node: "n1".to_owned(),
        lasted: SignedDuration::from_mins(minutes),
        exceeded: Exceeded {
            p95: std::time::Duration::from_secs(300),
            runs: 40,
        },
    }
}

fn waits(seconds: i64, waits_for: WaitsFor) -> Several<Waiting> {
    some(waiting(7, "a", seconds, waits_for), 1)
}

fn waiting(run: i64, job: &str, seconds: i64, waits_for: WaitsFor) -> Waiting {
    Waiting {
        run,
        job: job.to_owned(),
        waited: SignedDuration::from_secs(seconds),
        waits_for,
    }
}

fn gate(gate: &str, name: Option<&str>, size: Option<i64>, held: bool) -> WaitsFor {
    WaitsFor::Gate(Gated {
        gate: gate.to_owned(),
        name: name.map(str::to_owned),
        size,
        holder: held.then(|| (9, "b".to_owned(), "n2".to_owned())),
    })
}

fn labels() -> WaitsFor {
    WaitsFor::Labels([("role".to_owned(), "gpu".to_owned())].into())
}

/// What is known of the farm, and what is told: the level, and each sentence with what it links to.
#[test]
fn a_farm_has_one_verdict() {
    use Level::{Attention, Trouble, Well};
    let (text, name) = (str::to_owned, || "n1".to_owned());
    let run = About::Run;
    let with = |change: &dyn Fn(&mut FarmFacts)| {
        let mut facts = well();
        change(&mut facts);
        facts
    };
    let table: Vec<Row> = vec![
        (well(), Well, vec![]),
        (
            FarmFacts {
                claims_open: true,
                ..FarmFacts::default()
            },
            Well,
            vec![],
        ),
        (
            with(&|f| (f.ready, f.any_node) = (0, false)),
            Trouble,
            vec![("no node is ready: nothing can run", About::Nodes(text("")))],
        ),
        (
            with(&|f| (f.ready, f.any_job) = (0, false)),
            Trouble,
            vec![("no node is ready: nothing can run", About::Nodes(text("")))],
        ),
        (
            with(&|f| f.claims_open = false),
            Trouble,
            vec![(
                "claims are closed: the database was restarted or replaced; `farmhand epoch` says more",
                About::Epoch,
            )],
        ),
        (
            with(&|f| f.late = some(text("j"), 1)),
            Trouble,
            vec![(
                "1 job is late, first j: no agent fires them",
                About::Job(text("j")),
            )],
        ),
        (
            with(&|f| f.late = some(text("j"), 20)),
            Trouble,
            vec![(
                "20 or more jobs are late, first j: no agent fires them",
                About::Jobs(text("overdue")),
            )],
        ),
        (
            with(&|f| f.stuck = some(stuck("its lease is over"), 1)),
            Trouble,
            vec![("run 5 of j is stuck on n1: its lease is over", run(5))],
        ),
        (
            with(&|f| f.stuck = some(stuck("it has not started"), 3)),
            Trouble,
            vec![(
                "3 runs are stuck, the oldest run 5 of j on n1: it has not started",
                run(5),
            )],
        ),
        (
            with(&|f| f.slow = some(slow(90), 1)),
            Attention,
            vec![(
                "run 5 of j has run for 90 min on n1, longer than usual: 95 of 100 of its last 40 successes took at most 5m",
                run(5),
            )],
        ),
        (
            with(&|f| f.slow = some(slow(90), 20)),
            Attention,
            vec![(
                "20 or more runs take longer than usual, first run 5 of j: 90 min on n1",
                run(5),
            )],
        ),
        (
            with(&|f| f.flapping = some((name(), 3), 1)),
            Attention,
            vec![(
                "1 node is flapping: n1, lost 3 times within an hour and back each time",
                About::Node(name()),
            )],
        ),
        (
            with(&|f| f.flapping = some((name(), 4), 2)),
            Attention,
            vec![(
                "2 nodes are flapping: n1, lost 4 times within an hour and back each time",
                About::Node(name()),
            )],
        ),
        (with(&|f| f.due = waits(60, WaitsFor::Slot)), Well, vec![]),
        (
            with(&|f| f.due = waits(61, WaitsFor::Slot)),
            Trouble,
            vec![("run 7 of a has waited 61 s for a free slot", run(7))],
        ),
        (
            with(&|f| f.due = waits(1320, labels())),
            Trouble,
            vec![(
                "run 7 of a has waited 22 min for a node with role=gpu: none is ready",
                run(7),
            )],
        ),
        (
            with(&|f| f.due = waits(1320, WaitsFor::Node(text("n2")))),
            Trouble,
            vec![(
                "run 7 of a has waited 22 min for node n2, which is not ready",
                run(7),
            )],
        ),
        // Said once: what keeps every run from starting is the finding.
        (
            with(&|f| (f.ready, f.due) = (0, waits(1320, WaitsFor::NoNode))),
            Trouble,
            vec![("no node is ready: nothing can run", About::Nodes(text("")))],
        ),
        (
            with(&|f| (f.claims_open, f.due) = (false, waits(1320, WaitsFor::Slot))),
            Trouble,
            vec![(
                "claims are closed: the database was restarted or replaced; `farmhand epoch` says more",
                About::Epoch,
            )],
        ),
        (
            with(&|f| f.gated = waits(300, gate("pool", None, None, false))),
            Well,
            vec![],
        ),
        (
            with(&|f| f.gated = waits(1320, gate("pool", Some("db"), Some(2), true))),
            Attention,
            vec![(
                "run 7 of a has waited 22 min for pool db: run 9 of b on n2 holds it",
                run(7),
            )],
        ),
        (
            with(&|f| f.gated = waits(1320, gate("pool", Some("db"), Some(0), false))),
            Attention,
            vec![(
                "run 7 of a has waited 22 min for pool db, which has size 0",
                run(7),
            )],
        ),
        (
            with(&|f| f.gated = waits(1320, gate("lock", Some("l"), None, true))),
            Attention,
            vec![(
                "run 7 of a has waited 22 min for lock l: run 9 of b on n2 holds it",
                run(7),
            )],
        ),
        (
            with(&|f| f.gated = waits(1320, gate("rate", None, None, false))),
            Attention,
            vec![("run 7 of a has waited 22 min for its rate", run(7))],
        ),
        (
            with(&|f| f.blocked = some(name(), 1)),
            Attention,
            vec![(
                "1 node cannot start runs: `farmhand node ls` says why",
                About::Nodes(text("blocked")),
            )],
        ),
        (
            with(&|f| f.blocked = some(name(), 2)),
            Attention,
            vec![(
                "2 nodes cannot start runs: `farmhand node ls` says why",
                About::Nodes(text("blocked")),
            )],
        ),
        (
            with(&|f| f.lost = some(name(), 1)),
            Attention,
            vec![("1 node is lost: n1", About::Node(name()))],
        ),
        (
            with(&|f| f.lost = some(name(), 2)),
            Attention,
            vec![("2 nodes are lost: n1", About::Nodes(text("lost")))],
        ),
        (
            with(&|f| f.expired = some(name(), 1)),
            Attention,
            vec![("1 node is expired: n1", About::Node(name()))],
        ),
        (
            with(&|f| f.failing = some((text("j"), 1), 1)),
            Attention,
            vec![("1 job is failing: j, 1 failure", About::Job(text("j")))],
        ),
        (
            with(&|f| f.failing = some((text("j"), 4), 9)),
            Attention,
            vec![(
                "9 jobs are failing: j, 4 failures in a row",
                About::Jobs(text("failing")),
            )],
        ),
        // Ranked by severity, and of one level as a whole farm, a node, a job.
        (
            with(&|f| {
                f.failing = some((text("j"), 1), 1);
                f.lost = some(name(), 1);
            }),
            Attention,
            vec![
                ("1 node is lost: n1", About::Node(name())),
                ("1 job is failing: j, 1 failure", About::Job(text("j"))),
            ],
        ),
        (
            with(&|f| {
                f.failing = some((text("j"), 1), 1);
                f.gated = waits(1320, gate("lock", Some("l"), None, true));
                f.due = waits(1320, WaitsFor::Slot);
            }),
            Trouble,
            vec![
                ("run 7 of a has waited 22 min for a free slot", run(7)),
                (
                    "run 7 of a has waited 22 min for lock l: run 9 of b on n2 holds it",
                    run(7),
                ),
                ("1 job is failing: j, 1 failure", About::Job(text("j"))),
            ],
        ),
        (
            with(&|f| {
                f.ready = 0;
                f.lost = some(name(), 1);
            }),
            Trouble,
            vec![
                ("no node is ready: nothing can run", About::Nodes(text(""))),
                ("1 node is lost: n1", About::Node(name())),
            ],
        ),
    ];
    assert!(table.len() >= 29, "{}", table.len());
    for (facts, expected, said) in table {
        let found = judge(&facts);
        let told: Vec<(&str, About)> = (found.iter())
            .map(|f| (f.text.as_str(), f.about.clone()))
            .collect();
        assert_eq!((level(&found), told), (expected, said), "{facts:?}");
    }
}
