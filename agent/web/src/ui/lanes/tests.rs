use super::*;
use farmhand_store::reading::{NodeItem, NodeState};
use jiff::SignedDuration;

const HOUR: SignedDuration = SignedDuration::from_hours(1);

pub(super) fn now() -> Timestamp {
    "2026-11-21T17:00:00Z".parse().expect("an instant")
}

pub(super) fn before(seconds: i64) -> Timestamp {
    now() - SignedDuration::from_secs(seconds)
}

fn node(address: &str, state: &str) -> NodeFact {
    NodeFact {
        address: address.to_owned(),
        state: state.to_owned(),
        session: 1,
        slots: 4,
        running: 0,
    }
}

/// From and to in seconds before now.
fn attempt(run_id: i64, number: i32, address: &str, from: i64, to: Option<i64>, end: BarEnd) -> AttemptFact {
    AttemptFact {
        run_id,
        job_id: format!("job-{}", run_id % 10),
        attempt: number,
        address: address.to_owned(),
        session: 1,
        fence: 1000 + run_id * 10 + i64::from(number),
        from: before(from),
        to: to.map(before),
        end,
        reason: (end == LOST).then(|| "session ended".to_owned()),
        ran_ms: None,
    }
}

const LOST: BarEnd = BarEnd::Lost;
const DONE: BarEnd = BarEnd::Succeeded;

/// n1 died under run 7 with the last sign of life 600 s ago; n2 took over 590 s ago.
fn takeover() -> Facts {
    Facts {
        nodes: vec![node("n1", "lost"), node("n2", "ready")],
        attempts: vec![
            attempt(7, 1, "n1", 1_200, Some(591), LOST),
            attempt(7, 2, "n2", 590, None, BarEnd::Running),
        ],
        silences: vec![Silence {
            address: "n1".to_owned(),
            session: 1,
            from: before(600),
            to: Some(before(591)),
        }],
        ..Facts::default()
    }
}

fn lane<'a>(picture: &'a Picture, title: &str) -> &'a Lane {
    picture.lanes.iter().find(|l| l.title == title).expect("a lane")
}

#[test]
fn a_dead_nodes_bar_is_hatched_and_ends_at_its_last_sign_of_life() {
    let picture = arrange(&takeover(), now(), HOUR);
    let lane = lane(&picture, "n1");
    let (bar, gap) = (&lane.bars[0], &lane.gaps[0]);
    assert!(bar.hatched && !bar.heir);
    assert!(
        (bar.x + bar.width - gap.x).abs() < 1e-9,
        "the gap begins where the bar ends"
    );
    assert_eq!(gap.lasted.as_secs(), 9);
    assert_eq!(lane.state, "lost");
}

#[test]
fn an_attempt_that_was_lost_before_its_node_fell_silent_ends_where_it_was_lost() {
    let mut facts = takeover();
    facts.attempts.push(attempt(8, 1, "n1", 1_200, Some(900), LOST));
    let picture = arrange(&facts, now(), HOUR);
    let bars = &lane(&picture, "n1").bars;
    let [early, late] = [8, 7].map(|run| bars.iter().find(|b| b.fact.run_id == run).unwrap());
    assert!(
        early.width < 0.6 * late.width,
        "{} of {}",
        early.width,
        late.width
    );
}

#[test]
fn an_arrow_leads_from_the_lost_attempt_to_the_one_that_took_over_and_names_its_fence() {
    let picture = arrange(&takeover(), now(), HOUR);
    let [arrow] = &picture.arrows[..] else {
        panic!("{:?}", picture.arrows);
    };
    let (from, to) = (&lane(&picture, "n1").bars[0], &lane(&picture, "n2").bars[0]);
    assert_eq!((arrow.run_id, arrow.attempt, arrow.fence), (7, 2, 1072));
    assert_eq!(arrow.from.0, from.x + from.width);
    assert_eq!(arrow.to, (to.x, to.y - 1.0));
    assert!(to.heir);
}

#[test]
fn an_arrow_passes_over_attempt_numbers_that_a_failover_lost() {
    let mut facts = takeover();
    facts.attempts[1].attempt = 4;
    assert_eq!(arrange(&facts, now(), HOUR).arrows[0].attempt, 4);
}

#[test]
fn a_retry_after_a_failure_is_no_takeover() {
    let mut facts = takeover();
    facts.attempts[0].end = BarEnd::Failed;
    assert!(arrange(&facts, now(), HOUR).arrows.is_empty());
}

#[test]
fn a_node_that_is_silent_now_is_shaded_up_to_the_present() {
    let mut facts = takeover();
    facts.nodes[0].state = "ready".to_owned();
    facts.silences[0].to = None;
    facts.attempts.truncate(1);
    (facts.attempts[0].to, facts.attempts[0].end) = (None, BarEnd::Running);
    let picture = arrange(&facts, now(), HOUR);
    let lane = lane(&picture, "n1");
    let gap = &lane.gaps[0];
    assert_eq!(
        lane.state, "ready",
        "one word for a node's state, here as elsewhere"
    );
    assert!(gap.shade == Shade::Silent && (gap.x + gap.width - picture.now).abs() < 1e-9);
    assert!(!lane.bars[0].hatched, "it may well live");
}

#[test]
fn attempts_at_once_lie_in_rows_and_later_ones_reuse_them() {
    let facts = Facts {
        nodes: vec![node("n1", "ready")],
        attempts: vec![
            attempt(1, 1, "n1", 3_000, Some(2_000), DONE),
            attempt(2, 1, "n1", 2_900, Some(1_000), DONE),
            attempt(3, 1, "n1", 1_900, Some(500), DONE),
        ],
        ..Facts::default()
    };
    let picture = arrange(&facts, now(), HOUR);
    let rows: Vec<f64> = picture.lanes[0].bars.iter().map(|b| b.y).collect();
    assert_eq!(rows[0], rows[2]);
    assert!(rows[1] > rows[0]);
}

#[test]
fn fast_jobs_fold_into_a_band_that_counts_what_went_wrong() {
    let mut facts = Facts {
        nodes: vec![node("n1", "ready")],
        ..Facts::default()
    };
    for n in 0..100 {
        let end = if n == 50 { BarEnd::Failed } else { DONE };
        facts
            .attempts
            .push(attempt(10 * n, 1, "n1", 30 * n + 1, Some(30 * n), end));
    }
    let picture = arrange(&facts, now(), HOUR);
    let lane = &picture.lanes[0];
    assert!(lane.bars.is_empty());
    let [band] = &lane.bands[..] else {
        panic!("{:?}", lane.bands)
    };
    assert_eq!((band.total, band.bad), (100, 1));
    assert_eq!(band.cells.iter().map(|c| c.good + c.bad).sum::<usize>(), 100);
    assert!(band.cells.iter().all(|c| c.level > 0.0 && c.level <= 1.0));
}

#[test]
fn a_lost_attempt_is_never_folded() {
    let mut facts = takeover();
    facts.attempts[0].from = before(592);
    for n in 0..50 {
        facts.attempts.push(attempt(
            100 + 10 * n + 7,
            1,
            "n1",
            30 * n + 700,
            Some(30 * n + 699),
            DONE,
        ));
    }
    let picture = arrange(&facts, now(), HOUR);
    assert!(lane(&picture, "n1").bars.iter().any(|b| b.hatched));
    assert_eq!(picture.arrows.len(), 1);
}

#[test]
fn more_rows_than_a_lane_has_become_a_band() {
    let attempts = (0..20)
        .map(|n| attempt(n, 1, "n1", 3_000, None, BarEnd::Running))
        .collect();
    let facts = Facts {
        nodes: vec![node("n1", "ready")],
        attempts,
        ..Facts::default()
    };
    let picture = arrange(&facts, now(), HOUR);
    assert_eq!(picture.lanes[0].bars.len(), 6);
    assert_eq!(picture.lanes[0].bands[0].total, 14);
}

#[test]
fn of_many_nodes_those_with_something_to_say_keep_their_lane() {
    let mut facts = takeover();
    for n in 10..200 {
        facts.nodes.push(node(&format!("n{n}"), "ready"));
        facts
            .attempts
            .push(attempt(n, 1, &format!("n{n}"), 100, None, BarEnd::Running));
    }
    facts.nodes.push(node("withheld", "cordoned"));
    let picture = arrange(&facts, now(), HOUR);
    let titles: Vec<_> = picture.lanes.iter().map(|l| l.title.as_str()).collect();
    assert_eq!(titles, ["n1", "n2", "withheld", "190 healthy"]);
    assert_eq!(picture.lanes[3].bands[0].total, 190);
}

#[test]
fn fifty_nodes_all_have_their_lane() {
    let nodes = (0..MANY).map(|n| node(&format!("n{n:02}"), "ready")).collect();
    let facts = Facts {
        nodes,
        ..Facts::default()
    };
    assert_eq!(arrange(&facts, now(), HOUR).lanes.len(), MANY);
}

#[test]
fn a_zombie_is_marked_with_a_shape_and_a_word() {
    let mut facts = takeover();
    facts.zombies.push(Zombie {
        address: "n1".to_owned(),
        run_id: 7,
        attempt: 1,
        at: before(300),
        word: "fenced",
    });
    let picture = arrange(&facts, now(), HOUR);
    assert_eq!(lane(&picture, "n1").marks.len(), 1);
    let drawn = draw(&picture, now()).into_string();
    assert!(
        drawn.contains("fenced #1") && drawn.contains("#i-fence"),
        "{drawn}"
    );
}

#[test]
fn what_is_drawn_says_takeover_and_fence_and_nothing_inline() {
    let drawn = draw(&arrange(&takeover(), now(), HOUR), now()).into_string();
    assert!(drawn.contains("takeover · </tspan>fence 1072"), "{drawn}");
    assert!(
        drawn.contains("url(#hatch)") && drawn.contains("url(#head)"),
        "{drawn}"
    );
    assert!(!drawn.contains("style="), "the policy forbids inline styles");
}

#[test]
fn the_table_says_from_whom_an_attempt_took_over() {
    let facts = takeover();
    let picture = arrange(&facts, now(), HOUR);
    let table = table(&facts, &picture, now()).into_string();
    assert!(table.contains("1072") && table.contains("<td>n1</td>"), "{table}");
}

#[test]
fn an_empty_farm_has_an_empty_picture() {
    let picture = arrange(&Facts::default(), now(), HOUR);
    assert!(picture.lanes.is_empty() && picture.arrows.is_empty());
    assert!(!picture.ticks.is_empty());
}

#[test]
fn everything_lies_within_the_width_whatever_the_facts_say() {
    let mut facts = takeover();
    facts.attempts[0].from = before(1_000_000);
    facts.attempts[1].from = before(-500);
    let picture = arrange(&facts, now(), HOUR);
    for bar in picture.lanes.iter().flat_map(|l| &l.bars) {
        assert!(bar.x >= 0.0 && bar.x <= 100.0 && bar.width > 0.0, "{bar:?}");
    }
}

fn listed(address: &str, open: bool, lease_until: Timestamp) -> NodeItem {
    NodeItem {
        address: address.to_owned(),
        name: address.to_owned(),
        session: 1,
        open,
        state: NodeState::Ready,
        lease_until,
        ttl_ms: 8_000,
        slots: 4,
        running: 0,
        held: 0,
        labels: std::collections::BTreeMap::new(),
        version: String::new(),
        started_at: before(5_000),
        clock_offset_ms: None,
        cannot_start: None,
        lost_at: None,
        drain_until: None,
        withheld_by: None,
        withheld_at: None,
        runs: Vec::new(),
    }
}

#[test]
fn a_runs_own_picture_has_the_lease_gap_of_what_was_lost_and_of_a_holder_that_is_silent() {
    let attempts = takeover().attempts;
    let gone = listed("n1", false, before(592));
    let well = [gone.clone(), listed("n2", true, before(-7))];
    let gaps = silences(&attempts, &well, now());
    let of = |s: &Silence| (s.address.clone(), s.from, s.to);
    let lost = ("n1".to_owned(), before(599), Some(before(591)));
    assert_eq!(
        gaps.iter().map(of).collect::<Vec<_>>(),
        std::slice::from_ref(&lost)
    );
    let quiet = [gone, listed("n2", true, before(2))];
    let gaps = silences(&attempts, &quiet, now());
    assert_eq!(
        gaps.iter().map(of).collect::<Vec<_>>(),
        [lost, ("n2".to_owned(), before(10), None)]
    );
    let mut lapsed = attempts.clone();
    (lapsed.iter_mut()).for_each(|a| a.reason = a.reason.as_ref().map(|_| "lease lapsed".to_owned()));
    assert!(silences(&lapsed, &well, now()).is_empty(), "its node went on");
}

#[test]
fn an_outage_of_the_database_is_shaded_and_is_no_silence() {
    let mut facts = takeover();
    facts.outages.push(Outage {
        address: "n2".to_owned(),
        from: before(300),
        to: before(240),
    });
    let picture = arrange(&facts, now(), HOUR);
    let lane = lane(&picture, "n2");
    let [gap] = &lane.gaps[..] else {
        panic!("{:?}", lane.gaps);
    };
    assert_eq!((gap.shade, gap.lasted.as_secs()), (Shade::Away, 60));
    assert_eq!(lane.state, "ready");
}
