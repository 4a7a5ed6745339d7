use super::*;

fn row(run_id: i64, attempt: i32, node: &str, end: BarEnd, from: i64, to: Option<i64>) -> Bar {
    Bar {
        run_id,
        job_id: "j".to_owned(),
        attempt,
        node: node.to_owned(),
        session: 1,
        fence: run_id * 10 + i64::from(attempt),
        from: Timestamp::from_second(from).unwrap(),
        started_at: None,
        to: to.map(|t| Timestamp::from_second(t).unwrap()),
        end,
        reason: (end == BarEnd::Lost).then(|| "session ended".to_owned()),
        exit_code: None,
        signal: None,
        ran_ms: None,
        gap_from: None,
        successor: None,
        took_over_from: None,
        fenced: Vec::new(),
    }
}

fn node(address: &str, state: NodeState) -> Lane {
    Lane {
        address: address.to_owned(),
        state,
        slots: 4,
        lost_at: None,
        ttl_ms: 30_000,
    }
}

#[test]
fn a_lost_attempt_points_to_the_one_that_took_over_and_shows_its_lease_gap() {
    let rows = vec![
        row(1, 1, "a", BarEnd::Lost, 0, Some(100)),
        row(1, 2, "b", BarEnd::Succeeded, 101, Some(120)),
    ];
    let drawn = bars(
        rows,
        &[node("a", NodeState::Lost), node("b", NodeState::Ready)],
        Vec::new(),
    );
    let successor = drawn[0].successor.as_ref().unwrap();
    assert_eq!((successor.node.as_str(), successor.fence), ("b", 12));
    assert_eq!(drawn[0].gap_from, Timestamp::from_second(70).ok());
    assert_eq!((drawn[1].took_over_from, drawn[1].gap_from), (Some(1), None));
}

#[test]
fn a_retry_on_another_node_is_no_takeover() {
    let rows = vec![
        row(1, 1, "a", BarEnd::Failed, 0, Some(1)),
        row(1, 2, "b", BarEnd::Running, 2, None),
    ];
    let drawn = bars(rows, &[], Vec::new());
    assert!(
        drawn
            .iter()
            .all(|b| b.successor.is_none() && b.took_over_from.is_none())
    );
}

#[test]
fn of_a_large_farm_only_the_nodes_with_something_to_tell_have_lanes() {
    let all: Vec<Lane> = (0..60)
        .map(|n| node(&format!("n{n:02}"), NodeState::Ready))
        .collect();
    let rows = vec![
        row(1, 1, "n07", BarEnd::Lost, 0, Some(100)),
        row(1, 2, "n30", BarEnd::Running, 101, None),
        row(2, 1, "n31", BarEnd::Running, 101, None),
    ];
    let (lanes, folded) = fold(all, &rows);
    let names: Vec<_> = lanes.iter().map(|l| l.address.as_str()).collect();
    assert_eq!((names, folded), (vec!["n07", "n30"], 58));
}

#[test]
fn an_attempt_whose_lease_lapsed_on_a_node_that_went_on_has_no_gap() {
    for (reason, gap) in [
        ("lease lapsed", false),
        ("warden died", false),
        ("session closed", false),
        ("session ended", true),
        ("holder lost", true),
    ] {
        let mut lost = row(1, 1, "a", BarEnd::Lost, 0, Some(100));
        lost.reason = Some(reason.to_owned());
        let drawn = bars(vec![lost], &[node("a", NodeState::Ready)], Vec::new());
        assert_eq!(drawn[0].gap_from.is_some(), gap, "{reason}");
    }
}
