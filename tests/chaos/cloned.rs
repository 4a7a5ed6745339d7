//! A machine that is copied while its agent runs: two agents with one session, of which neither knows the other.
//!
//! The test stands for the copy, with the words that the copy would use.

use std::time::Duration;

use farmhand_store::protocol::{self, NodeReport, Renewed};
use farmhand_store::{Db, LeaseIdentity};
use farmhand_tests::farm::{Farm, SOON, TTL};
use farmhand_tests::pg;
use uuid::Uuid;

const JOBS: &str = "
    [job.long]
    command = [WITNESS, '6000']
    [job.other]
    command = [WITNESS, '1000']
";

/// The copy's renewals, a lease that lapses, and a start.
const BOUND: Duration = Duration::from_secs(30);

struct Copy {
    db: Db,
    me: LeaseIdentity,
}

impl Copy {
    async fn of(farm: &Farm, address: &str) -> Self {
        let config = pg::config(&farm.database.agent_url());
        let incarnation: Uuid = farm
            .value(&format!(
                "SELECT incarnation FROM farmhand.node WHERE address = '{address}'"
            ))
            .await;
        let session = farm
            .value(&format!(
                "SELECT session FROM farmhand.node WHERE address = '{address}'"
            ))
            .await;
        let address = address.to_owned();
        Self {
            db: Db::connect(&config).await.expect("the database"),
            me: LeaseIdentity {
                address,
                session,
                incarnation,
            },
        }
    }

    async fn renews(&self) -> bool {
        let renewed = protocol::renew(&self.db, &self.me, TTL, &NodeReport::default()).await;
        renewed.expect("an answer") != Renewed::Lost
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_session_a_copy_renews_ends_what_it_runs_and_begins_anew() {
    let farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let run_id = farm.submit("long").await;
    farm.lives(run_id, 1).await;
    let copy = Copy::of(&farm, "n1").await;
    let told = farm.eventually("the agent says so", BOUND, async || {
        copy.renews().await;
        match farm.events("session_shared").await {
            0 => Err("not yet".to_owned()),
            _ => Ok(()),
        }
    });
    told.await;
    // The copy lets go, too.
    farm.lives(run_id, 2).await;
    let (before, after) = (farm.witness.life(run_id, 1), farm.witness.life(run_id, 2));
    assert!(before.last < after.first);
    farm.succeeds(run_id).await;
    assert!(!copy.renews().await);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_copy_claimed_is_not_given_back_while_the_copy_may_run_it() {
    let farm = Farm::new().agents(1).slots(1).jobs(JOBS).start().await;
    let first = farm.submit("long").await;
    farm.lives(first, 1).await;
    let copy = Copy::of(&farm, "n1").await;
    let second = farm.submit("other").await;
    let claimed = protocol::claim_any(&copy.db, &copy.me, 1, false)
        .await
        .expect("an answer");
    assert_eq!(claimed.len(), 1);
    farm.event("session_shared").await;
    assert_eq!(farm.run(second).await.attempt, 1, "it was given back");
    for run_id in [first, second] {
        farm.over(run_id, BOUND).await;
        let attempts = farm.attempts(run_id).await;
        assert_eq!(attempts[0].outcome, "lost", "run {run_id}: {attempts:?}");
        farm.succeeds(run_id).await;
    }
    let said = farm.eventually("it runs alone again", SOON, async || {
        match farm.events("session_shared").await {
            1 => Ok(()),
            n => Err(format!("said {n} times")),
        }
    });
    said.await;
    farm.check().await;
}

/// The second agent's mounts show it another machine id, another boot id, or both.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_finds_its_address_taken_says_on_which_machine_the_holder_runs() {
    let farm = Farm::new().agents(1).jobs(JOBS).start().await;
    let dir = farm.dir();
    let (machine, boot) = (dir.join("machine-id"), dir.join("boot-id"));
    std::fs::write(&machine, "0123456789abcdef0123456789abcdef\n").expect("a file");
    std::fs::write(&boot, "00000000-1111-2222-3333-444444444444\n").expect("a file");
    let machine = format!("mount --bind {} /etc/machine-id && ", machine.display());
    let boot = format!(
        "mount --bind {} /proc/sys/kernel/random/boot_id && ",
        boot.display()
    );
    for (mounts, said) in [
        (String::new(), "on this machine, or on a copy of it"),
        (boot.clone(), "one is a copy of the other"),
        (format!("{machine}{boot}"), "on another machine"),
    ] {
        let plain = farm.agents[0].double(dir).command();
        let mut command = std::process::Command::new("unshare");
        command
            .args(["--mount", "sh", "-c", &format!("{mounts}exec \"$@\""), "sh"])
            .arg(plain.get_program())
            .args(plain.get_args())
            .envs(plain.get_envs().filter_map(|(k, v)| Some((k, v?))));
        let second = tokio::task::spawn_blocking(move || command.output());
        let second = tokio::time::timeout(SOON, second).await.expect("its end");
        let log = String::from_utf8_lossy(&second.expect("a thread").expect("unshare").stderr).into_owned();
        assert!(
            log.contains("belongs to another live agent") && log.contains(said),
            "{said}: {log}"
        );
    }
    farm.check().await;
}
