//! Which database it is: claims are open on the one that the agents know.

use farmhand_core::lease::{Closed, Database, EpochKey, Remembered};
use farmhand_store::LeaseIdentity;
use farmhand_store::protocol::{self, Opened, Renewed, claim, vouch};
use farmhand_store::{Db, StoreError};
use farmhand_store::{epochs, notify, reading, snapshot};

use crate::fixture::{Farm, TTL, firing, info, past, spec};

/// What the agent of `me` keeps of a renewal.
pub async fn renewed(farm: &Farm, me: &LeaseIdentity, pulse: i64) -> Remembered {
    let Renewed::Alive {
        renewals,
        database: d,
        ..
    } = protocol::renew(
        &farm.db,
        me,
        TTL,
        &protocol::NodeReport {
            pulse,
            ..protocol::NodeReport::default()
        },
    )
    .await
    .unwrap()
    else {
        panic!("lost");
    };
    Remembered {
        farm_id: d.farm_id,
        epoch: d.epoch,
        id: d.id,
        pulse: d.pulse,
        fence: d.fence,
        run: d.run,
        longest_lease_ms: d.longest_lease_ms,
        address: me.address.clone(),
        session: me.session,
        incarnation: me.incarnation,
        renewals,
        boot: Some("of now".to_owned()),
    }
}

/// The number of the epoch that is opened.
pub async fn open_epoch(
    db: &Db,
    watched: &EpochKey,
    by: &str,
    memory: Option<&Remembered>,
) -> Result<Option<i64>, StoreError> {
    let opened = protocol::open_epoch(db, watched, by, memory).await?;
    Ok(opened.map(|new| new.epoch))
}

pub async fn shown(farm: &Farm) -> Database {
    protocol::database(&farm.db).await.unwrap()
}

/// As after a restart of this server; its place is the same.
pub async fn restart(farm: &Farm) {
    let sql = "UPDATE farmhand.epoch SET server = '1 ' || split_part(server, ' ', 2)
        WHERE epoch = (SELECT max(epoch) FROM farmhand.epoch)";
    farm.exec(sql).await;
}

/// As after a move: every part of the place is another.
pub async fn replace(farm: &Farm) {
    let sql = "UPDATE farmhand.epoch SET server = '1 elsewhere' WHERE epoch = (SELECT max(epoch) FROM farmhand.epoch)";
    farm.exec(sql).await;
}

#[tokio::test]
async fn nothing_is_claimed_fired_or_opened_while_claims_are_closed() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 1).await;
    let at = past(60);
    farm.job("k", spec(), Some(at)).await;
    let due = [firing("k", 1, at, &[at])];
    replace(&farm).await;
    assert!(!shown(&farm).await.open);
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap(), vec![]);
    assert_eq!(protocol::fire(&farm.db, &due).await.unwrap(), vec![]);
    let other = info("b", uuid::Uuid::new_v4(), serde_json::json!({}));
    let opened = protocol::open(&farm.db, &other).await.unwrap();
    assert_eq!(opened, Opened::Closed(None));
    let key = shown(&farm).await.key();
    let mut stale = key.clone();
    stale.server.push('x');
    assert_eq!(
        open_epoch(&farm.db, &stale, "a", None).await.unwrap(),
        None,
        "of another server"
    );
    let memory = renewed(&farm, &me, 0).await;
    let epoch = open_epoch(&farm.db, &key, "a", Some(&memory)).await.unwrap();
    assert_eq!(epoch, Some(2));
    assert_eq!(
        open_epoch(&farm.db, &key, "b", Some(&memory)).await.unwrap(),
        None,
        "a second opens nothing"
    );
    let claimed = claim(&farm.db, &me, 9, None).await.unwrap();
    assert_eq!(claimed[0].fence >> 40, 2);
    assert_eq!(protocol::fire(&farm.db, &due).await.unwrap().len(), 1);
}

/// What each that tells whether claims are open says.
pub async fn told(farm: &Farm) -> [bool; 5] {
    let stand = snapshot::stand(&farm.db).await.unwrap();
    let limit = std::time::Duration::from_secs(5);
    let gauges = snapshot::take(&farm.db, stand.holder, "a", stand, Some(limit), limit, 1).await;
    [
        shown(farm).await.open,
        gauges.unwrap().expect("the lease").claims_open,
        epochs::newest(&farm.db).await.unwrap().open,
        reading::farm(&farm.db).await.unwrap().claims_open,
        notify::health(&farm.db).await.unwrap().claims_open,
    ]
}

#[tokio::test]
async fn all_who_tell_whether_claims_are_open_agree_with_the_agents() {
    let farm = Farm::new().await;
    assert_eq!(told(&farm).await, [true; 5]);
    replace(&farm).await;
    assert_eq!(told(&farm).await, [false; 5]);
}

/// As when a farm that moved away is replicated back into the server that it came from.
#[tokio::test]
async fn an_older_epoch_that_names_this_server_opens_nothing() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 1).await;
    let memory = renewed(&farm, &me, 0).await;
    let newer = "INSERT INTO farmhand.epoch (epoch, server, opened_by) VALUES (9, '1 elsewhere', 'b')";
    farm.exec(newer).await;
    assert_eq!(told(&farm).await, [false; 5]);
    assert_eq!(claim(&farm.db, &me, 9, None).await.unwrap(), vec![], "a claim");
    let other = info("b", uuid::Uuid::new_v4(), serde_json::json!({}));
    let opened = protocol::open(&farm.db, &other).await.unwrap();
    assert_eq!(opened, Opened::Closed(None));
    let expired = protocol::expire(&farm.db, "a", me.session, me.incarnation, memory.renewals).await;
    assert_eq!(expired.unwrap(), protocol::Expired::Changed, "an expiry");
    let key = shown(&farm).await.key();
    let epoch = open_epoch(&farm.db, &key, "a", Some(&memory)).await.unwrap();
    assert_eq!(epoch, Some(10), "above both");
    let claimed = claim(&farm.db, &me, 9, None).await.unwrap();
    assert_eq!(claimed[0].fence >> 40, 10);
}

#[tokio::test]
async fn an_agent_that_was_here_lately_vouches_for_a_restarted_server_and_nobody_else_does() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let good = renewed(&farm, &me, 0).await;
    restart(&farm).await;
    for (what, wrong) in [
        (
            "a later renewals",
            Remembered {
                renewals: good.renewals + 1,
                ..good.clone()
            },
        ),
        (
            "another incarnation",
            Remembered {
                incarnation: uuid::Uuid::new_v4(),
                ..good.clone()
            },
        ),
        (
            "a later session",
            Remembered {
                session: good.session + 1,
                ..good.clone()
            },
        ),
        (
            "an unknown node",
            Remembered {
                address: "x".into(),
                ..good.clone()
            },
        ),
        (
            "a later pulse",
            Remembered {
                pulse: good.pulse + 1,
                ..good.clone()
            },
        ),
        (
            "a pulse of long ago",
            Remembered {
                pulse: good.pulse - 4,
                ..good.clone()
            },
        ),
        (
            "a fence that is not known",
            Remembered {
                fence: good.fence + 1,
                ..good.clone()
            },
        ),
        (
            "another epoch",
            Remembered {
                id: uuid::Uuid::new_v4(),
                ..good.clone()
            },
        ),
        (
            "what was learned before this boot",
            Remembered {
                boot: None,
                ..good.clone()
            },
        ),
    ] {
        assert!(!vouch(&farm.db, &wrong).await.unwrap(), "{what}");
    }
    assert!(!shown(&farm).await.open);
    assert!(vouch(&farm.db, &good).await.unwrap());
    assert!(shown(&farm).await.open);
    assert!(vouch(&farm.db, &good).await.unwrap(), "another agent was first");
    assert_eq!(shown(&farm).await.epoch, 1);
    replace(&farm).await;
    assert!(!vouch(&farm.db, &good).await.unwrap(), "another place");
}

#[tokio::test]
async fn another_cluster_of_the_same_place_is_not_vouched_for() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let memory = renewed(&farm, &me, 0).await;
    restart(&farm).await;
    farm.exec("UPDATE farmhand.epoch SET system_id = 1").await;
    assert!(!vouch(&farm.db, &memory).await.unwrap());
}

#[tokio::test]
async fn claims_are_closed_on_a_database_that_has_less_than_an_agent_saw() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let memory = renewed(&farm, &me, 0).await;
    let now = shown(&farm).await;
    assert!(
        !protocol::doubt(&farm.db, &now, &memory).await.unwrap(),
        "it has all of it"
    );
    let later = Remembered {
        epoch: 7,
        run: 3_000,
        ..memory.clone()
    };
    assert!(later.contradicts(&now));
    assert!(protocol::doubt(&farm.db, &now, &later).await.unwrap());
    assert!(!shown(&farm).await.open);
    // Another agent may open the next epoch, and know of nothing.
    farm.is("SELECT seen_epoch FROM farmhand.farm", 7).await;
    farm.is("SELECT nextval('farmhand.run_id_seq')", 3_001).await;
    // Whoever remembers more than the database opens above it.
    let seen = Remembered {
        epoch: 9,
        run: 5_000,
        ..later
    };
    let epoch = open_epoch(&farm.db, &shown(&farm).await.key(), "a", Some(&seen))
        .await
        .unwrap();
    assert_eq!(epoch, Some(10));
    farm.is("SELECT nextval('farmhand.run_id_seq')", 5_001).await;
    assert!(
        !protocol::doubt(&farm.db, &now, &seen).await.unwrap(),
        "a higher epoch is not less"
    );
}

#[tokio::test]
async fn whoever_opens_goes_above_what_any_agent_has_seen() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let mine = renewed(&farm, &me, 0).await;
    let seen = Remembered {
        epoch: 9,
        run: 5_000,
        ..mine.clone()
    };
    replace(&farm).await;
    protocol::remind(&farm.db, &seen).await.unwrap();
    protocol::remind(&farm.db, &mine).await.unwrap();
    let other = Remembered {
        farm_id: uuid::Uuid::new_v4(),
        epoch: 99,
        ..mine.clone()
    };
    protocol::remind(&farm.db, &other).await.unwrap();
    let key = shown(&farm).await.key();
    let epoch = open_epoch(&farm.db, &key, "a", Some(&mine)).await.unwrap();
    assert_eq!(epoch, Some(10));
    farm.is("SELECT nextval('farmhand.run_id_seq')", 5_001).await;
}

#[tokio::test]
async fn whoever_opens_says_what_was_lost() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.due_runs("j", 3).await;
    let mut memory = renewed(&farm, &me, 0).await;
    memory.run = farm.i64("SELECT max(run_id) FROM farmhand.run_live").await + 5;
    replace(&farm).await;
    let opened = async |memory| {
        let key = shown(&farm).await.key();
        let new = protocol::open_epoch(&farm.db, &key, "a", memory).await;
        new.unwrap().expect("an epoch")
    };
    let new = opened(Some(&memory)).await;
    assert_eq!((new.epoch, new.follows, new.runs_forgotten), (2, 1, Some(5)));
    assert_eq!(new.why, Some(Closed::OtherPlace));
    replace(&farm).await;
    let new = opened(None).await;
    assert_eq!(
        (new.follows, new.runs_forgotten),
        (2, None),
        "nothing is remembered"
    );
}

#[tokio::test]
async fn who_remembers_nothing_leaves_room_for_epochs_that_it_cannot_know_of() {
    let farm = Farm::new().await;
    replace(&farm).await;
    let key = shown(&farm).await.key();
    assert_eq!(open_epoch(&farm.db, &key, "a", None).await.unwrap(), Some(65));
}

#[tokio::test]
async fn who_was_not_there_since_its_machine_was_started_leaves_room_too() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let restored = Remembered {
        boot: None,
        ..renewed(&farm, &me, 0).await
    };
    replace(&farm).await;
    let key = shown(&farm).await.key();
    let epoch = open_epoch(&farm.db, &key, "a", Some(&restored)).await.unwrap();
    assert_eq!(
        epoch,
        Some(65),
        "the backup of its machine may be as old as this database"
    );
    assert!(epochs::newest(&farm.db).await.unwrap().guessed);
}

#[tokio::test]
async fn the_pulse_grows_once_for_all_that_know_the_same() {
    let farm = Farm::new().await;
    let (a, b) = (farm.node("a").await, farm.node("b").await);
    let first = renewed(&farm, &a, 0).await.pulse;
    assert_eq!(first, 1);
    assert_eq!(renewed(&farm, &b, 0).await.pulse, 1, "it learns of it");
    assert_eq!(renewed(&farm, &b, 1).await.pulse, 2);
    assert_eq!(renewed(&farm, &a, 1).await.pulse, 2);
}

#[tokio::test]
async fn a_session_number_that_an_agent_remembers_is_not_given_again() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    protocol::close(&farm.db, &me).await.unwrap();
    let mut again = info("a", uuid::Uuid::new_v4(), serde_json::json!({}));
    again.last_session = 7;
    let opened = protocol::open(&farm.db, &again).await.unwrap();
    assert_eq!(opened, Opened::Session(8));
    again.last_session = 8;
    assert_eq!(
        protocol::open(&farm.db, &again).await.unwrap(),
        Opened::Session(8),
        "the reply was lost"
    );
    let mut new = info("new", uuid::Uuid::new_v4(), serde_json::json!({}));
    new.last_session = 4;
    assert_eq!(protocol::open(&farm.db, &new).await.unwrap(), Opened::Session(5));
}
