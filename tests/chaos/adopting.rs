//! An agent that starts and adopts the warden of the one before, when that warden dies or stops in the middle.

use std::time::Duration;

use farmhand_tests::farm::{Agent, CALM, Farm, SOON, send, stop};
use farmhand_tests::pg::Client;

const JOBS: &str = "[job.long]\ncommand = [WITNESS, '3000']\n";

/// Longer than an agent takes to start again, so that the warden lives until then.
const SHORT: Duration = Duration::from_secs(8);

/// The agent was killed while it ran something, and is started again. The row of its node is locked, so that the new agent waits
/// between its greeting of the warden and its question what runs.
struct Adopting {
    farm: Farm,
    run: i64,
    lock: Client,
}

impl Adopting {
    async fn begin(ttl: Duration) -> Self {
        let mut farm = Farm::new().ttl(ttl).jobs(JOBS).start().await;
        let run = farm.submit("long").await;
        farm.lives(run, 1).await;
        farm.agents[0].kill();
        let lock = farm.database.client().await;
        let sql = "BEGIN; SELECT FROM farmhand.node FOR UPDATE";
        lock.exec(sql).await;
        farm.agents[0].spawn();
        let waiting = "SELECT count(*) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE NOT l.granted AND a.datname = current_database()";
        farm.becomes_some(SOON, waiting).await;
        Self { farm, run, lock }
    }

    fn warden(&self) -> i32 {
        self.farm.agents[0].wardens()[0].pid
    }

    async fn unlock(&self) {
        self.lock.exec("COMMIT").await;
    }

    /// The run succeeds with this attempt, and the agent has not ended.
    async fn succeeds(mut self, attempt: i32) {
        let done = self.farm.succeeds(self.run).await;
        assert_eq!(done.attempt, attempt, "{done:?}");
        let agent: &mut Agent = &mut self.farm.agents[0];
        assert!(agent.exited().is_none(), "{}", agent.log_tail(10));
        self.farm.check().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_though_a_warden_dies_while_it_is_adopted() {
    let adopting = Adopting::begin(SHORT).await;
    send(adopting.warden(), libc::SIGKILL);
    adopting.unlock().await;
    adopting.succeeds(2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_starts_though_a_warden_is_stopped_while_it_is_adopted() {
    let adopting = Adopting::begin(CALM).await;
    let warden = adopting.warden();
    stop(warden);
    adopting.unlock().await;
    let agent = &adopting.farm.agents[0];
    let silent = "the warden did not answer";
    let said = adopting
        .farm
        .eventually("the agent asks in vain", SOON, async || {
            match agent.log().contains(silent) {
                true => Ok(()),
                false => Err(agent.log_tail(5)),
            }
        });
    said.await;
    send(warden, libc::SIGCONT);
    adopting.succeeds(1).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_adopted_keeps_its_slot_number() {
    let jobs = "[job.slot]\ncommand = 'echo $FARMHAND_SLOT > slot; mv slot @DIR@/slot.$FARMHAND_RUN; \
        until [ -e @DIR@/end.$FARMHAND_RUN ]; do sleep 0.1; done'\n";
    let mut farm = Farm::new().ttl(CALM).jobs(jobs).start().await;
    let slot = async |farm: &Farm| {
        let run = farm.submit("slot").await;
        let file = farm.dir().join(format!("slot.{run}"));
        let told = farm.eventually("it knows its slot", SOON, async || {
            std::fs::read_to_string(&file).map_err(|e| e.to_string())
        });
        (run, told.await.trim().to_owned())
    };
    let end = async |farm: &Farm, run: i64| {
        std::fs::write(farm.dir().join(format!("end.{run}")), "").expect("a file");
        farm.succeeds(run).await;
    };
    let (first, second) = (slot(&farm).await, slot(&farm).await);
    assert_eq!((first.1.as_str(), second.1.as_str()), ("1", "2"));
    end(&farm, first.0).await;
    farm.agents[0].kill();
    farm.agents[0].start().await;
    let third = slot(&farm).await;
    let fourth = slot(&farm).await;
    assert_eq!(
        (third.1.as_str(), fourth.1.as_str()),
        ("1", "3"),
        "the second has 2"
    );
    for (run, _) in [second, third, fourth] {
        end(&farm, run).await;
    }
    farm.check().await;
}
