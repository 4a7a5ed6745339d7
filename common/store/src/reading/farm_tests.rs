use super::*;

fn quiet() -> FarmNow {
    FarmNow {
        db_now: "2026-03-01T12:00:00Z".parse().unwrap(),
        level: Level::Well,
        findings: Vec::new(),
        overdue: Vec::new(),
        stuck: Vec::new(),
        failing: Vec::new(),
        lost: Vec::new(),
        oldest_due: None,
        oldest_gated: None,
        next: Vec::new(),
        running: 0,
        due: 0,
        waiting: 0,
        nodes: BTreeMap::from([(NodeState::Ready, 2)]),
        slots: 8,
        claims_open: true,
        any_job: true,
    }
}

fn level(change: impl FnOnce(&mut FarmNow)) -> (Level, Vec<String>) {
    let mut now = quiet();
    change(&mut now);
    judge(&mut now);
    (now.level, now.findings)
}

#[test]
fn a_quiet_farm_is_well() {
    assert_eq!(level(|_| ()), (Level::Well, Vec::new()));
}

#[test]
fn a_run_that_waits_for_a_moment_is_no_trouble_and_one_that_waits_for_minutes_is() {
    let waits = |seconds| {
        level(|now| {
            now.oldest_due = Some(WaitingRun {
                run_id: 7,
                job_id: "a".to_owned(),
                ready_at: now.db_now - SignedDuration::from_secs(seconds),
                node: None,
                placement: None,
                gate: None,
                fits: true,
            });
        })
        .0
    };
    assert_eq!((waits(5), waits(300)), (Level::Well, Level::Trouble));
}

#[test]
fn a_node_that_cannot_start_runs_needs_attention() {
    let blocked = |n| {
        level(|now| {
            now.nodes.insert(NodeState::Blocked, n);
        })
    };
    let says = |text: &str| (Level::Attention, vec![text.to_owned()]);
    assert_eq!(
        blocked(1),
        says("1 node cannot start runs: `farmhand node ls` says why")
    );
    assert_eq!(
        blocked(2),
        says("2 nodes cannot start runs: `farmhand node ls` says why")
    );
}

#[test]
fn the_worst_finding_gives_the_level_and_comes_first() {
    let (worst, findings) = level(|now| {
        now.nodes.clear();
        now.lost.push(LostNode {
            address: "n1".to_owned(),
            state: NodeState::Lost,
            since: now.db_now,
        });
    });
    assert_eq!(worst, Level::Trouble);
    assert_eq!(
        findings,
        ["no node is ready: nothing can run", "1 node is lost: n1"]
    );
}

#[test]
fn a_waiting_run_names_what_it_waits_for() {
    let run = |gate: Option<&str>, node: Option<&str>, labels: &[(&str, &str)], fits| WaitingRun {
        run_id: 7,
        job_id: "a".to_owned(),
        ready_at: quiet().db_now - SignedDuration::from_mins(22),
        node: node.map(str::to_owned),
        placement: (!labels.is_empty()).then(|| {
            let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
            labels.iter().map(owned).collect()
        }),
        gate: gate.map(str::to_owned),
        fits,
    };
    for (run, finding) in [
        (
            run(None, None, &[], true),
            "run 7 of a has waited 22 min for a free slot",
        ),
        (
            run(None, None, &[("role", "gpu")], false),
            "run 7 of a has waited 22 min for a node with role=gpu: none is ready",
        ),
        (
            run(None, Some("n2"), &[], false),
            "run 7 of a has waited 22 min for node n2, which is not ready",
        ),
    ] {
        assert_eq!(
            level(|now| now.oldest_due = Some(run)),
            (Level::Trouble, vec![finding.to_owned()])
        );
    }
    let gated = run(Some("pool"), None, &[], true);
    assert_eq!(
        level(|now| now.oldest_gated = Some(gated)),
        (
            Level::Attention,
            vec!["run 7 of a has waited 22 min for its pool".to_owned()]
        )
    );
}

#[test]
fn a_lost_node_comes_before_a_failing_job_and_a_takeover_under_way_is_no_finding() {
    let (_, findings) = level(|now| {
        now.failing.push(FailingJob {
            job_id: "j".to_owned(),
            consecutive_failures: 1,
            last_state: None,
            last_finished: None,
            last_success: None,
        });
        now.lost.push(LostNode {
            address: "n1".to_owned(),
            state: NodeState::Expired,
            since: now.db_now,
        });
        now.stuck.push(StuckLease {
            run_id: 1,
            job_id: "j".to_owned(),
            node: "n1".to_owned(),
            attempt: 1,
            state: LeaseTrouble::Expired,
            since: now.db_now - SignedDuration::from_secs(5),
        });
    });
    assert_eq!(findings, ["1 node is lost: n1", "1 job is failing: j, 1 failure"]);
}
