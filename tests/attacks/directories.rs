//! A job that leaves deeply nested directories: neither the end of its run nor the next start of the agent, which
//! removes what is left, ends the agent.

use std::path::PathBuf;
use std::time::Duration;

use farmhand_tests::farm::{Agent, Farm};

/// Each within the one before. A recursive removal overflows the 2 MiB of a thread's stack with 20,000 such.
const NEST: &str =
    "for (1 .. 60_000) { mkdir 'd'; chdir 'd' } mkdir \"$ENV{FARMHAND_RUN_DIR}/nested\"; sleep 1000";
/// On a busy machine.
const LONG: Duration = Duration::from_secs(150);

fn files(agent: &Agent, run: i64) -> PathBuf {
    agent.state_dir.join(format!("runs/{run}.1"))
}

async fn removed(farm: &Farm, run: i64) {
    let dir = files(&farm.agents[0], run);
    farm.eventually("what is left is removed", LONG, async || {
        (!dir.exists())
            .then_some(())
            .ok_or_else(|| format!("{} is there", dir.display()))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn deeply_nested_directories_end_no_agent_and_keep_none_from_starting() {
    // In memory: a disk takes minutes to remove so many.
    let mut farm = Farm::new().agents(1).dir("/dev/shm").start().await;
    farm.apply(&format!(
        "[job.nests]\ncommand = ['perl', '-e', {NEST:?}]\non_lost = 'fail'\n[job.after]\ncommand = 'true'\n"
    ));
    let nests = farm.submit("nests").await;
    let nested = files(&farm.agents[0], nests).join("dir/nested");
    farm.eventually("it has nested", LONG, async || {
        nested
            .exists()
            .then_some(())
            .ok_or_else(|| format!("{} is not there", nested.display()))
    })
    .await;
    farm.agents[0].kill_with_wardens();
    farm.agents[0].start().await;
    let after = farm.submit("after").await;
    farm.succeeds(after).await;
    removed(&farm, nests).await;
    assert!(farm.agents[0].is_running());
}
