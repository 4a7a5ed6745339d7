//! Two agents of one state directory start at the same time. The warden obeys the newer one, and the older one touches nothing.

use std::process::Child;
use std::time::Duration;

use farmhand_core::lease::{BootInstant, LeaseTiming};
use farmhand_tests::farm::{Farm, SOON, TTL, send, stop};
use farmhand_tests::pg::Client;
use farmhand_tests::witness::boot_ns;

/// Of the warden, which must outlive the older agent's own lease.
const LONG: Duration = Duration::from_secs(20);
/// Waited for until it lapses, and long enough for an agent to start in.
const SHORT: Duration = Duration::from_secs(6);

/// A farm of one node whose agent was killed. Its warden runs the run, and the row of the node is locked.
struct Left {
    farm: Farm,
    lock: Client,
    run_id: i64,
    warden: i32,
}

impl Left {
    async fn behind(ttl: Duration) -> Self {
        let jobs = "[job.long]\ncommand = [WITNESS, '8000']\n";
        let mut farm = Farm::new().ttl(ttl).jobs(jobs).start().await;
        let run_id = farm.submit("long").await;
        farm.lives(run_id, 1).await;
        let warden = farm.agents[0].wardens()[0].pid;
        farm.agents[0].kill();
        let lock = farm.database.client().await;
        let sql = "BEGIN; SELECT FROM farmhand.node FOR UPDATE";
        lock.exec(sql).await;
        Self {
            farm,
            lock,
            run_id,
            warden,
        }
    }

    fn set_ttl(&mut self, ttl: Duration) {
        self.farm.agents[0].arguments[1] = format!("{}s", ttl.as_secs());
    }

    /// Starts an agent. When this returns it has greeted the warden and waits for the row, as the others do.
    async fn start_one(&mut self, ttl: Duration, waiting: i64) {
        self.set_ttl(ttl);
        self.farm.agents[0].spawn();
        let sql = "SELECT count(DISTINCT pid) FROM pg_locks l JOIN pg_stat_activity a USING (pid)
            WHERE NOT l.granted AND a.datname = current_database()";
        let wait = self.farm.eventually("agents wait for the row", SOON, async || {
            match self.farm.value::<i64>(sql).await {
                n if n == waiting => Ok(()),
                n => Err(format!("{n} of {waiting}")),
            }
        });
        wait.await;
    }

    async fn unlock(&self) {
        self.lock.exec("COMMIT").await;
    }

    /// The older agent ends with an error that says why.
    async fn leaves(&self, mut older: Child) {
        let ended = self.farm.eventually("the older agent ends", SOON, async || {
            let status = older.try_wait().expect("waiting for a child");
            status.ok_or_else(|| self.farm.agents[0].log_tail(10))
        });
        let status = ended.await;
        assert!(!status.success(), "{status}");
        let log = self.farm.agents[0].log();
        assert!(log.contains("a newer agent has taken over"), "{log}");
    }

    /// The newer agent goes on with the warden of before.
    async fn goes_on(mut self) {
        self.farm.agents[0].ready().await;
        let wardens = self.farm.agents[0].wardens();
        assert_eq!(
            wardens.iter().map(|w| w.pid).collect::<Vec<_>>(),
            [self.warden],
            "{wardens:?}"
        );
        let done = self.farm.succeeds(self.run_id).await;
        assert_eq!((done.attempt, done.takeovers), (1, 0), "{done:?}");
        let lives = self.farm.witness.lives(self.run_id);
        assert!(lives.len() == 1 && lives[&1].starts == 1, "{lives:?}");
        let session = "SELECT session FROM farmhand.node WHERE open";
        assert_eq!(self.farm.value::<i64>(session).await, 1);
        self.farm.check().await;
    }
}

/// After this no agent that waits already may use what it asked for.
async fn until_it_is_late(ttl: Duration) {
    let timing = LeaseTiming::new(ttl).expect("a lease");
    let late = timing.holder_deadline(BootInstant(boot_ns()));
    tokio::time::sleep(late.saturating_since(BootInstant(boot_ns()))).await;
    while boot_ns() < late.0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_wakes_up_too_late_to_adopt_leaves_the_warden_to_the_one_that_adopted_it() {
    let mut left = Left::behind(LONG).await;
    left.start_one(TTL, 1).await;
    stop(left.farm.agents[0].pid());
    let older = left.farm.agents[0].set_aside();
    left.unlock().await;
    left.set_ttl(LONG);
    left.farm.agents[0].start().await;
    left.farm.event("session_adopted").await;
    until_it_is_late(TTL).await;
    send(older.id().cast_signed(), libc::SIGCONT);
    left.leaves(older).await;
    left.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_agents_that_wait_for_the_lease_of_a_warden_the_newer_one_adopts_it() {
    let mut left = Left::behind(LONG).await;
    left.start_one(LONG, 1).await;
    let older = left.farm.agents[0].set_aside();
    left.start_one(LONG, 2).await;
    left.unlock().await;
    left.leaves(older).await;
    left.goes_on().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_waited_too_long_for_a_lease_leaves_the_warden_to_the_one_that_waits_beside_it() {
    let mut left = Left::behind(LONG).await;
    left.start_one(TTL, 1).await;
    let older = left.farm.agents[0].set_aside();
    left.start_one(LONG, 2).await;
    until_it_is_late(TTL).await;
    left.unlock().await;
    left.leaves(older).await;
    left.goes_on().await;
}

/// The proof that the dead warden left nothing would wait for the newer agent's warden, which has the same directory.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_wakes_up_when_a_newer_one_has_a_warden_of_its_own_leaves() {
    let mut left = Left::behind(SHORT).await;
    left.start_one(SHORT, 1).await;
    stop(left.farm.agents[0].pid());
    let older = left.farm.agents[0].set_aside();
    send(left.warden, libc::SIGKILL);
    left.unlock().await;
    left.farm.agents[0].start().await;
    left.farm.lives(left.run_id, 2).await;
    send(older.id().cast_signed(), libc::SIGCONT);
    left.leaves(older).await;
    let done = left.farm.succeeds(left.run_id).await;
    assert_eq!(done.attempt, 2, "{done:?}");
    // Expired once, opened once.
    let session = "SELECT session FROM farmhand.node WHERE open";
    assert_eq!(left.farm.value::<i64>(session).await, 3);
    left.farm.check().await;
}
