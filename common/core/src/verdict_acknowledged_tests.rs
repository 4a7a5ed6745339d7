use super::*;

/// What the farm is like, the headline, and each sentence: its causes, and whether it is acknowledged.
type Row<'a> = (FarmFacts, &'a str, Vec<(&'a str, &'a str, bool)>);

fn by_ann() -> Option<Acknowledged> {
    Some(Acknowledged {
        by: "ann@desk".to_owned(),
        until: jiff::Timestamp::UNIX_EPOCH,
        note: None,
    })
}

#[test]
fn what_is_acknowledged_comes_last_and_does_not_lead() {
    let text = str::to_owned;
    let failing = |jobs: &[(&str, bool)]| {
        let job = |(name, known): &(&str, bool)| ((text(name), 1), by_ann().filter(|_| *known));
        Several::of(jobs.iter().map(job), 20)
    };
    let with = |change: &dyn Fn(&mut FarmFacts)| {
        let mut facts = well();
        change(&mut facts);
        facts
    };
    let table: Vec<Row> = vec![
        (
            with(&|f| f.failing = failing(&[("a", true)])),
            "well, except for 1 acknowledged cause",
            vec![("1 job is failing: a, 1 failure", "failing:a", true)],
        ),
        // Another job that fails is another cause.
        (
            with(&|f| f.failing = failing(&[("b", false), ("c", false), ("a", true)])),
            "attention",
            vec![
                ("2 jobs are failing: b, 1 failure", "failing:b failing:c", false),
                ("1 job is failing: a, 1 failure", "failing:a", true),
            ],
        ),
        // The worst is last when it is acknowledged, and what is not leads with its own level.
        (
            with(&|f| {
                f.stuck = Several::of([(stuck("it has not started"), by_ann())], 20);
                f.lost = some(text("n1"), 1);
            }),
            "attention",
            vec![
                ("1 node is lost: n1", "lost:n1", false),
                ("run 5 of j is stuck on n1: it has not started", "stuck:5", true),
            ],
        ),
        (
            with(&|f| {
                f.late = Several::of([(text("j"), by_ann())], 20);
                f.expired = Several::of([(text("n1"), by_ann())], 20);
                f.blocked = Several::of([(text("n2"), by_ann())], 20);
            }),
            "well, except for 3 acknowledged causes",
            vec![
                ("1 job is late, first j: no agent fires them", "late:j", true),
                (
                    "1 node cannot start runs: `farmhand node ls` says why",
                    "blocked:n2",
                    true,
                ),
                ("1 node is expired: n1", "expired:n1", true),
            ],
        ),
        // Of a job that waits and is acknowledged, the oldest run; of the others, the oldest that has waited for long.
        (
            with(&|f| {
                let runs = [
                    (waiting(9, "b", 61, WaitsFor::Slot), None),
                    (waiting(7, "a", 1320, WaitsFor::Slot), by_ann()),
                ];
                f.due = Several::of(runs, 20);
            }),
            "trouble",
            vec![
                ("run 9 of b has waited 61 s for a free slot", "waiting:b", false),
                ("run 7 of a has waited 22 min for a free slot", "waiting:a", true),
            ],
        ),
        (
            with(&|f| {
                let runs = [
                    (waiting(9, "b", 5, WaitsFor::Slot), None),
                    (waiting(7, "a", 1320, WaitsFor::Slot), by_ann()),
                ];
                f.gated = Several::of(runs, 20);
            }),
            "well, except for 1 acknowledged cause",
            vec![("run 7 of a has waited 22 min for a free slot", "waiting:a", true)],
        ),
        // What stops the whole farm has no cause that could be acknowledged.
        (
            with(&|f| (f.ready, f.claims_open) = (0, false)),
            "trouble",
            vec![
                (
                    "claims are closed: the database was restarted or replaced; `farmhand epoch` says more",
                    "",
                    false,
                ),
                ("no node is ready: nothing can run", "", false),
            ],
        ),
    ];
    for (facts, expected, told) in table {
        let found = judge(&facts);
        let causes: Vec<String> = (found.iter())
            .map(|f| {
                f.causes
                    .iter()
                    .map(ToString::to_string)
                    .collect::<Vec<_>>()
                    .join(" ")
            })
            .collect();
        let said: Vec<(&str, &str, bool)> = (found.iter().zip(&causes))
            .map(|(f, causes)| (f.text.as_str(), causes.as_str(), f.acknowledged.is_some()))
            .collect();
        assert_eq!((headline(&found).as_str(), said), (expected, told), "{facts:?}");
    }
}

/// As many as are read of those that are not acknowledged: there may be more.
#[test]
fn acknowledged_ones_do_not_count_among_those_that_are_read() {
    let list = |open: usize| {
        let items = (0..22).map(|n| (format!("j{n}"), by_ann().filter(|_| n >= open)));
        Several::of(items, 20)
    };
    let first = |late| judge(&FarmFacts { late, ..well() })[0].text.clone();
    assert_eq!(first(list(19)), "19 jobs are late, first j0: no agent fires them");
    assert_eq!(
        first(list(20)),
        "20 or more jobs are late, first j0: no agent fires them"
    );
}
