use std::time::{Duration, Instant};

use farmhand_store::events::{EventRow, record_events};
use farmhand_store::protocol::{Closed, NodeReport, Renewed, close, renew};
use farmhand_store::reading::now;
use farmhand_store::{Db, DbConfig, Note, StoreError, jobs};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::{Options, PrivateServer, config};
use serde_json::json;
use tokio::net::TcpListener;

use crate::fixture::{Farm, TTL, spec, until_blocked};

pub(crate) fn short(config: DbConfig) -> DbConfig {
    config.with_timeouts(Duration::from_secs(2), Duration::from_secs(10))
}

/// Asks until there is an answer.
async fn eventually<T>(ask: impl AsyncFn() -> Option<T>) -> T {
    for _ in 0..1000 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not within 1000 tries");
}

#[tokio::test]
async fn a_statement_past_its_bound_loses_its_connection_and_nothing_else() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let db = Db::new(&short(farm.test.config()));
    let locker = farm.test.client().await;
    locker.exec("BEGIN; SELECT FROM farmhand.node FOR UPDATE").await;
    let start = Instant::now();
    let error = renew(&db, &me, TTL, &NodeReport::default()).await.unwrap_err();
    assert!(
        matches!(
            error,
            StoreError::TimedOut {
                op: "renew",
                unsure: true
            }
        ),
        "{error}"
    );
    assert!(start.elapsed() < Duration::from_secs(20));
    assert_eq!(db.gauge().used, 0);
    locker.exec("ROLLBACK").await;
    // What only reads has changed nothing.
    locker.exec("BEGIN; LOCK TABLE farmhand.job").await;
    let error = jobs::list_jobs(&db, None, 10).await.unwrap_err();
    assert!(
        matches!(error, StoreError::TimedOut { unsure: false, .. }),
        "{error:?}"
    );
    locker.exec("ROLLBACK").await;
    assert!(matches!(
        renew(&db, &me, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Alive { .. }
    ));
}

#[tokio::test]
async fn a_transaction_is_bounded_as_a_whole_and_undone() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    let run = farm.held_run(&me, "j", spec()).await;
    let db = Db::new(&short(farm.test.config()));
    let locker = farm.test.client().await;
    locker
        .exec("BEGIN; SELECT FROM farmhand.run_live FOR UPDATE")
        .await;
    // The first statement passes, the second waits.
    let error = close(&db, &me).await.unwrap_err();
    // Its COMMIT was never sent.
    assert!(
        matches!(error, StoreError::TimedOut { unsure: false, .. }),
        "{error:?}"
    );
    locker.exec("ROLLBACK").await;
    let holds =
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'";
    while farm.i64_of_sessions(holds).await > 0 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(farm.state(run.run_id).await.0, "running");
    assert!(matches!(
        renew(&farm.db, &me, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Alive { .. }
    ));
}

#[tokio::test]
async fn a_future_given_up_in_a_transaction_leaves_no_transaction_open() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.held_run(&me, "j", spec()).await;
    let locker = farm.test.client().await;
    locker
        .exec("BEGIN; SELECT FROM farmhand.run_live FOR UPDATE")
        .await;
    let given_up = tokio::select! {
        done = close(&farm.db, &me) => Some(done),
        () = until_blocked(&farm) => None,
    };
    assert!(given_up.is_none());
    locker.exec("ROLLBACK").await;
    assert!(matches!(
        renew(&farm.db, &me, TTL, &NodeReport::default()).await.unwrap(),
        Renewed::Alive { .. }
    ));
    assert!(matches!(close(&farm.db, &me).await.unwrap(), Closed::Done { .. }));
}

#[tokio::test]
async fn a_server_that_accepts_and_says_nothing_is_given_up() {
    let silent = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = silent.local_addr().unwrap().port();
    let config = config(&format!("postgresql://u@127.0.0.1:{port}/f"));
    let bound = Duration::from_millis(700);
    let db = Db::new(&config.with_timeouts(bound, bound));
    let start = Instant::now();
    let error = now(&db).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    assert!(error.is_away());
    assert!(start.elapsed() < Duration::from_secs(10));
}

#[tokio::test]
async fn a_database_that_takes_no_writes_is_told_apart() {
    let farm = Farm::new().await;
    let name: String = farm.sql.value("SELECT current_database()").await;
    farm.exec(&format!(
        "ALTER DATABASE {name} SET default_transaction_read_only = on"
    ))
    .await;
    assert!(matches!(
        Db::connect(&farm.test.config()).await,
        Err(StoreError::WritesOff)
    ));
}

#[tokio::test]
async fn another_isolation_than_read_committed_is_refused() {
    let farm = Farm::new().await;
    let name: String = farm.sql.value("SELECT current_database()").await;
    farm.exec(&format!(
        "ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'"
    ))
    .await;
    let error = Db::connect(&farm.test.config()).await.err().unwrap();
    assert!(error.to_string().contains("read committed"), "{error}");
    assert!(
        error.is_permanent() && !error.is_refusal(),
        "what ended meanwhile waits"
    );
}

#[tokio::test]
async fn a_wrong_role_is_denied_and_not_unreachable() {
    let farm = Farm::new().await;
    let url = farm.test.url().replace("user=farm", "user=nobody_here");
    let error = Db::connect(&config(&url)).await.err().unwrap();
    assert!(matches!(error, StoreError::Denied(_)), "{error}");
    assert_eq!(error.class(), "denied");
}

#[tokio::test]
async fn a_dedicated_connection_hears_and_comes_back_after_it_was_cut() {
    let farm = Farm::new().await;
    let me = farm.node("a").await;
    farm.job("j", spec(), None).await;
    let (keeper, mut notes) = Db::dedicated(&farm.test.config());
    renew(&keeper, &me, TTL, &NodeReport::default()).await.unwrap();
    assert_eq!(notes.recv().await, Some(Note::Reconnected { direct: true }));
    let run_id = jobs::submit(&farm.db, "j", &json!({}), None, None).await.unwrap();
    let due = Note::Due {
        run_id,
        job: Some("j".to_owned()),
        runs: 1,
        node: None,
    };
    assert_eq!(notes.recv().await, Some(due));

    let admin = farm.test.admin().await;
    admin
        .exec(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
             WHERE datname = current_database() AND query LIKE '%SET renewals%' AND pid <> pg_backend_pid()",
        )
        .await;
    // At most one statement notices.
    if let Err(error) = renew(&keeper, &me, TTL, &NodeReport::default()).await {
        assert!(error.is_away(), "{error}");
        renew(&keeper, &me, TTL, &NodeReport::default()).await.unwrap();
    }
    assert_eq!(notes.recv().await, Some(Note::Reconnected { direct: true }));
    assert_eq!(keeper.gauge().max, 1);
}

pub(crate) fn event() -> EventRow {
    EventRow {
        kind: "x".to_owned(),
        severity: farmhand_store::Severity::Info,
        job_id: None,
        run_id: None,
        attempt: None,
        address: None,
        session: None,
        fence: None,
        detail: json!({}),
    }
}

#[tokio::test]
async fn a_commit_that_its_standby_never_confirmed_is_no_confirmation() {
    let server = PrivateServer::start(Options::default()).await;
    let db = server.db().await;
    let admin = server.admin().await;
    admin
        .exec("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
        .await;
    admin.exec("SELECT pg_reload_conf()").await;
    let canceller = tokio::spawn(async move {
        for _ in 0..1000 {
            let hit = admin
                .query_opt(
                    "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep' LIMIT 1",
                    &[],
                )
                .await
                .unwrap();
            if hit.is_some() {
                return admin;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("nobody waited for the standby");
    });
    let event = event();
    // The setting takes effect some moments after the reload.
    let error = loop {
        let one = std::slice::from_ref(&event);
        if let Err(error) = record_events(&db, one).await {
            break error;
        }
    };
    assert!(
        matches!(error, StoreError::NotConfirmed { op: "record_events" }),
        "{error}"
    );
    let admin = canceller.await.unwrap();
    admin.exec("ALTER SYSTEM RESET synchronous_standby_names").await;
    admin.exec("SELECT pg_reload_conf()").await;
    let count: i64 = admin.value("SELECT count(*) FROM farmhand.event").await;
    assert!(count > 0, "it did commit");
}

#[tokio::test]
async fn a_server_that_turns_read_only_loses_its_connections() {
    let server = PrivateServer::start(Options::default()).await;
    let db = server.db().await;
    now(&db).await.unwrap();
    let admin = server.admin().await;
    admin
        .exec("ALTER SYSTEM SET default_transaction_read_only = on")
        .await;
    admin.exec("SELECT pg_reload_conf()").await;
    let mut seen = None;
    for _ in 0..500 {
        if let Err(error) = jobs::withhold(&anna(&db), "nobody", jobs::Withhold::Cordon, "eve").await {
            seen = Some(error);
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(matches!(seen, Some(StoreError::ReadOnly)), "{seen:?}");
    assert_eq!(
        db.gauge().used + db.gauge().idle,
        db.gauge().idle,
        "no connection is in use"
    );
    admin.exec("SET default_transaction_read_only = off").await;
    admin
        .exec("ALTER SYSTEM RESET default_transaction_read_only")
        .await;
    admin.exec("SELECT pg_reload_conf()").await;
    for _ in 0..500 {
        if jobs::withhold(&anna(&db), "nobody", jobs::Withhold::Cordon, "eve")
            .await
            .is_ok()
        {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the store did not come back by itself");
}

#[tokio::test]
async fn agents_recover_from_a_crash_of_the_server_without_an_operator() {
    let mut server = PrivateServer::start(Options::default()).await;
    let db = Db::new(&short(server.config()));
    now(&db).await.unwrap();
    server.kill();
    // A backend outlives its postmaster until it notices.
    let away = eventually(async || match now(&db).await {
        Err(e @ StoreError::Unreachable(_)) => Some(e),
        Err(e) if e.is_away() => None,
        Err(e) => panic!("{e}"),
        Ok(_) => None,
    });
    assert!(away.await.is_away());
    server.restart(None);
    eventually(async || now(&db).await.ok()).await;
}

#[tokio::test]
async fn what_a_trigger_warns_of_says_nothing_about_the_commit() {
    let farm = Farm::new().await;
    let warns = "CREATE FUNCTION public.warn() RETURNS trigger LANGUAGE plpgsql AS $$
            BEGIN RAISE WARNING 'look here'; RETURN NULL; END $$;
        CREATE TRIGGER warn AFTER INSERT ON farmhand.event FOR EACH ROW EXECUTE FUNCTION public.warn()";
    farm.exec(warns).await;
    record_events(&farm.db, &[event()]).await.unwrap();
}
