//! Several nodes die at once, and few are left to see it.

use std::collections::BTreeMap;
use std::time::Duration;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::witness::boot_ns;

const TTL: Duration = Duration::from_secs(5);
/// Promise 4: TTL · 1.1 + 2 s.
const PROMISE: Duration = Duration::from_millis(7_500);
/// Next to each other in address order: n1, n10, n2, n3 are left.
const DEAD: [&str; 6] = ["n4", "n5", "n6", "n7", "n8", "n9"];
const RUNS: usize = 20;

#[tokio::test(flavor = "multi_thread")]
async fn six_adjacent_nodes_of_ten_are_all_taken_over_within_the_promise() {
    let mut farm = Farm::new()
        .agents(10)
        .ttl(TTL)
        .slots(6)
        .jobs("[job.long]\ncommand = [WITNESS, '600000']\n")
        .start()
        .await;
    let mut homes = BTreeMap::new();
    for _ in 0..RUNS {
        let run_id = farm.submit("long").await;
        let home = farm.lives(run_id, 1).await.running_at.expect("a node");
        homes.insert(run_id, home);
    }
    let mut killed = BTreeMap::new();
    for address in DEAD {
        killed.insert(address, boot_ns());
        farm.agent(address).kill_with_wardens();
    }
    let mut taken = BTreeMap::new();
    farm.eventually("every dead node is taken over", SOON * 2, async || {
        let rows = farm
            .sql
            .query("SELECT address FROM farmhand.node WHERE NOT open", &[])
            .await
            .expect("the nodes");
        for address in rows.iter().map(|row| row.get::<_, String>(0)) {
            taken.entry(address).or_insert_with(boot_ns);
        }
        match DEAD.iter().find(|address| !taken.contains_key(**address)) {
            Some(open) => Err(format!("{open} is open")),
            None => Ok(()),
        }
    })
    .await;
    let after = |address: &str, at: u64| Duration::from_nanos(at - killed[address]);
    let mut late: Vec<_> = taken
        .iter()
        .map(|(a, at)| (after(a, *at), format!("{a} ends")))
        .collect();
    let moved: Vec<_> = homes
        .iter()
        .filter(|(_, home)| DEAD.contains(&home.as_str()))
        .collect();
    assert!(!moved.is_empty(), "no run was on a node that died: {homes:?}");
    for (run_id, home) in moved {
        farm.lives(*run_id, 2).await;
        let begun = farm.witness.life(*run_id, 2).first;
        late.push((after(home, begun), format!("run {run_id} of {home} begins again")));
    }
    eprintln!("{late:?}");
    late.retain(|(delay, _)| *delay > PROMISE);
    assert!(late.is_empty(), "later than {PROMISE:?}: {late:?}");
    farm.check().await;
}
