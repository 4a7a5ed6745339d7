use super::super::tests::{before, now};
use super::*;

/// A picture of one attempt that was lost on n1, not heard of from 600 s to 500 s ago, and of one outage.
fn outage(node: &str, from: i64, to: i64) -> reading::Lanes {
    let lost = reading::Bar {
        run_id: 7,
        job_id: "j".to_owned(),
        attempt: 1,
        node: "n1".to_owned(),
        session: 1,
        fence: 9,
        from: before(900),
        started_at: None,
        to: Some(before(500)),
        end: BarEnd::Lost,
        reason: None,
        exit_code: None,
        signal: None,
        ran_ms: None,
        gap_from: Some(before(600)),
        successor: None,
        took_over_from: None,
        fenced: Vec::new(),
    };
    reading::Lanes {
        from: before(3_600),
        to: now(),
        db_now: now(),
        lanes: Vec::new(),
        folded: 0,
        bars: vec![lost],
        bands: Vec::new(),
        outages: vec![reading::Outage {
            node: node.to_owned(),
            from: before(from),
            to: before(to),
        }],
    }
}

#[test]
fn a_run_that_was_lost_while_the_database_was_away_is_no_silence_of_its_node() {
    let silences = |picture: &reading::Lanes| facts(picture, &[], now()).silences.len();
    assert_eq!(silences(&outage("n1", 650, 480)), 0, "the database was away");
    assert_eq!(silences(&outage("n1", 550, 480)), 0, "for some of it");
    assert_eq!(silences(&outage("n1", 700, 650)), 1, "it was back before");
    assert_eq!(silences(&outage("n1", 400, 300)), 1, "it went away later");
    assert_eq!(
        silences(&outage("n2", 650, 480)),
        1,
        "another node was without it"
    );
}

#[test]
fn a_silence_ends_with_the_session_whatever_is_released_later() {
    let mut picture = outage("n2", 700, 650);
    picture.bars.push(reading::Bar {
        to: Some(before(300)),
        gap_from: Some(before(400)),
        ..picture.bars[0].clone()
    });
    for _ in 0..2 {
        let silences = facts(&picture, &[], now()).silences;
        assert_eq!(
            (silences[0].from, silences[0].to),
            (before(600), Some(before(500)))
        );
        picture.bars.reverse();
    }
}
