use jiff::SignedDuration;

use super::*;

fn quiet() -> FarmNow {
    FarmNow {
        db_now: "2026-03-01T12:00:00Z".parse().unwrap(),
        level: Level::Well,
        findings: Vec::new(),
        overdue: Vec::new(),
        stuck: Vec::new(),
        flapping: Vec::new(),
        slow: Vec::new(),
        failing: Vec::new(),
        lost: Vec::new(),
        blocked: Vec::new(),
        oldest_due: None,
        oldest_gated: None,
        waits: Vec::new(),
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

fn told(change: impl FnOnce(&mut FarmNow), gated: Option<Gated>) -> (FarmNow, Vec<String>) {
    let mut now = quiet();
    change(&mut now);
    now.judged(gated.map(|gated| (7, gated)).into_iter().collect());
    let texts = now.findings.iter().map(|found| found.text.clone()).collect();
    (now, texts)
}

fn waits(node: Option<&str>, labels: &[(&str, &str)], fits: bool) -> WaitingRun {
    let owned = |(k, v): &(&str, &str)| ((*k).to_owned(), (*v).to_owned());
    WaitingRun {
        run_id: 7,
        job_id: "a".to_owned(),
        ready_at: quiet().db_now - SignedDuration::from_mins(22),
        node: node.map(str::to_owned),
        placement: (!labels.is_empty()).then(|| vec![labels.iter().map(owned).collect()]),
        gate: None,
        fits,
        waits_for: String::new(),
        rev: 1,
    }
}

#[test]
fn a_waiting_run_names_what_it_waits_for() {
    for (run, cause) in [
        (waits(None, &[], true), "a free slot"),
        (
            waits(None, &[("role", "gpu")], false),
            "a node with role=gpu: none is ready",
        ),
        (waits(Some("n2"), &[], false), "node n2, which is not ready"),
    ] {
        let (now, texts) = told(|now| now.waits.push(run), None);
        assert_eq!(texts, [format!("run 7 of a has waited 22 min for {cause}")]);
        assert_eq!(now.oldest_due.unwrap().waits_for, cause);
    }
    let pool = Gated {
        gate: "pool".to_owned(),
        name: Some("db".to_owned()),
        size: Some(1),
        holder: Some((9, "b".to_owned(), "n1".to_owned())),
    };
    let gated = |run| WaitingRun {
        gate: Some("pool".to_owned()),
        ..run
    };
    let (now, _) = told(|now| now.waits.push(gated(waits(None, &[], true))), Some(pool));
    assert_eq!(
        now.oldest_gated.unwrap().waits_for,
        "pool db: run 9 of b on n1 holds it"
    );
    // What nothing holds is only to be claimed.
    let (now, _) = told(|now| now.waits.push(gated(waits(Some("n2"), &[], false))), None);
    assert_eq!(now.oldest_gated.unwrap().waits_for, "node n2, which is not ready");
}

#[test]
fn a_node_that_does_not_answer_is_told_once_and_not_while_a_takeover_is_under_way() {
    let expired = |seconds| LostNode {
        address: "n1".to_owned(),
        state: NodeState::Expired,
        since: quiet().db_now - SignedDuration::from_secs(seconds),
    };
    let held = |state| StuckLease {
        run_id: 1,
        job_id: "j".to_owned(),
        node: "n1".to_owned(),
        attempt: 1,
        state,
        since: quiet().db_now - SignedDuration::from_secs(60),
    };
    assert_eq!(
        told(|now| now.lost.push(expired(5)), None).1,
        Vec::<String>::new()
    );
    assert_eq!(
        told(|now| now.lost.push(expired(60)), None).1,
        ["1 node is expired: n1"]
    );
    let both = |state| {
        told(
            |now| {
                now.lost.push(expired(60));
                now.stuck.push(held(state));
            },
            None,
        )
        .1
    };
    assert_eq!(
        both(LeaseTrouble::Expired),
        ["run 1 of j is stuck on n1: the node's lease is over"]
    );
    assert_eq!(both(LeaseTrouble::Overrun).len(), 2);
}
