//! Takeover: from the kill -9 of an agent with its wardens to the first instruction of the next attempt, elsewhere:
//!
//!     cargo run --release -p farmhand-bench --bin bench-takeover -- [ROUNDS]
//!
//! Two agents with leases of six seconds; promised are 1.1 leases and two seconds. `docs/lab/performance.md` says more.

use std::time::Duration;

use farmhand_tests::bench::{argument, durable, times};
use farmhand_tests::farm::Farm;
use farmhand_tests::pg::PrivateServer;
use farmhand_tests::witness::boot_ns;

const TTL: Duration = Duration::from_secs(6);

#[tokio::main]
async fn main() {
    let rounds = argument(1, 5);
    let server = PrivateServer::start(durable(&[])).await;
    let mut farm = Farm::new()
        .on(server)
        .agents(2)
        .ttl(TTL)
        .jobs("[job.long]\ncommand = [WITNESS, '1000']\n")
        .start()
        .await;
    let mut taken = Vec::new();
    for _round in 0..rounds {
        let run = farm.submit("long").await;
        let home = farm.lives(run, 1).await.running_at.expect("a node");
        let agent = farm.agents.iter_mut().find(|a| a.address == home);
        let agent = agent.expect("one of the agents");
        let killed = boot_ns();
        agent.kill_with_wardens();
        farm.lives(run, 2).await;
        taken.push(farm.witness.life(run, 2).first - killed);
        farm.succeeds(run).await;
        let agent = farm.agents.iter_mut().find(|a| !a.is_running());
        agent.expect("the one that was killed").start().await;
    }
    times("takeover", "leases of 6 s, kill -9 of agent and wardens", taken);
}
