//! Who exposes the farm's gauges.

use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};

const GAUGE: &str = "\nfarmhand_farm_snapshot_timestamp_seconds ";

/// Which agents expose the farm now.
async fn exposing(farm: &Farm) -> Vec<String> {
    let mut found = Vec::new();
    for agent in &farm.agents {
        // One of them may be stopped.
        let page = agent.get_within("/metrics", Duration::from_secs(2)).await;
        if page.is_some_and(|(_, text)| text.contains(GAUGE)) {
            found.push(agent.address.clone());
        }
    }
    found
}

pub async fn holder(farm: &Farm, other_than: &str, bound: Duration) -> String {
    farm.eventually("an agent exposes the farm", bound, async || {
        match exposing(farm).await.as_slice() {
            [one] if one != other_than => Ok(one.clone()),
            seen => Err(format!("{seen:?}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn one_agent_exposes_the_farm_and_another_does_when_it_dies_hangs_or_leaves() {
    let mut farm = Farm::new().agents(3).start().await;
    let first = holder(&farm, "", SOON).await;
    // Its stopwatch: three seconds after its last renewal, then theirs and a look.
    farm.agent(&first).kill();
    let began = std::time::Instant::now();
    let second = holder(&farm, &first, SOON).await;
    eprintln!("after a kill the farm is exposed again in {:?}", began.elapsed());
    farm.agent(&second).stop();
    let began = std::time::Instant::now();
    let third = holder(&farm, &second, SOON).await;
    eprintln!("after a stop in {:?}", began.elapsed());
    farm.agent(&second).resume();
    // What it last read is in its memory still.
    for _ in 0..50 {
        let now = exposing(&farm).await;
        assert!(now.len() <= 1, "{now:?}");
    }
    farm.agent(&third).signal(libc::SIGTERM);
    let began = std::time::Instant::now();
    let fourth = holder(&farm, &third, SOON).await;
    eprintln!("after leaving in {:?}", began.elapsed());
    assert_ne!(fourth, third);
}
