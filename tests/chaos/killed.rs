//! kill -9 of what keeps a run.

use farmhand_tests::farm::{Farm, TAKEOVER};
use farmhand_tests::processes;
use farmhand_tests::witness::boot_ns;

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_a_killed_agent_and_warden_are_elsewhere_in_time_and_nothing_of_them_is_left() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs("[job.long]\ncommand = [WITNESS, '3000', 'ignore-term', 'daemon']\n")
        .start()
        .await;
    let run_id = farm.submit("long").await;
    let run = farm.lives(run_id, 1).await;
    let first = farm.witness.life(run_id, 1);
    let (home, killed) = (run.running_at.expect("a node"), boot_ns());
    farm.agent(&home).kill_with_wardens();
    farm.lives(run_id, 2).await;
    let (before, after) = (farm.witness.life(run_id, 1), farm.witness.life(run_id, 2));
    let delay = std::time::Duration::from_nanos(after.first - killed);
    eprintln!(
        "takeover after {delay:?}; the old processes ended {:?} before",
        before.gap_to(&after)
    );
    assert!(delay <= TAKEOVER, "{delay:?}");
    assert_ne!(after.node, home);
    for pid in first.pids.iter().chain(&before.pids) {
        assert!(processes::one(*pid).is_none_or(|p| p.state == 'Z'), "{pid} lives");
    }
    let done = farm.succeeds(run_id).await;
    assert_eq!((done.attempt, done.takeovers), (2, 1), "{done:?}");
    farm.event("takeover").await;
    farm.event("expired").await;
    let other = farm.other_than(&home);
    assert_eq!(
        other
            .metric("farmhand_lease_takeovers_total", &["cause=\"expired\""])
            .await,
        1.0
    );
    farm.check().await;
}
