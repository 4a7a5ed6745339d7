//! The protocol through PgBouncer in transaction mode: no statement may lean on a session.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use farmhand_common::store::protocol::{
    Expired, FinishResult, Renewed, claim, expire, finish, fire, jobs_since, look, open, renew,
};
use farmhand_common::store::{Db, Me};
use farmhand_tests::pg::config;
use farmhand_tests::wait::eventually;
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use crate::fixture::{Farm, TTL, firing, info, past, spec, success};

struct Pooler {
    process: Child,
    port: u16,
    _dir: TempDir,
}

impl Pooler {
    fn start(farm: &Farm) -> Self {
        let dir = tempfile::Builder::new()
            .prefix("farmhand-bouncer-")
            .tempdir_in("/tmp")
            .unwrap();
        let port = std::net::TcpListener::bind(("127.0.0.1", 0))
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let ini = format!(
            "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr=127.0.0.1\nlisten_port={port}\n\
             auth_type=trust\nauth_file={dir}/users\npool_mode=transaction\ndefault_pool_size=2\nunix_socket_dir=\n",
            farm.test.port(),
            dir = dir.path().display(),
        );
        std::fs::write(dir.path().join("pgbouncer.ini"), ini).unwrap();
        std::fs::write(dir.path().join("users"), "\"farm\" \"\"\n").unwrap();
        farmhand_tests::pg::give_to_server_user(dir.path());
        let mut command = Command::new("pgbouncer");
        farmhand_tests::pg::as_server_user(&mut command);
        let process = command
            .arg(dir.path().join("pgbouncer.ini"))
            .env("PATH", "/usr/sbin:/usr/bin:/bin")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("this test needs PgBouncer: apt-get install pgbouncer");
        eventually("PgBouncer listens", Duration::from_secs(10), || {
            std::net::TcpStream::connect(("127.0.0.1", port))
                .map(drop)
                .map_err(|e| e.to_string())
        });
        Self {
            process,
            port,
            _dir: dir,
        }
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[tokio::test]
async fn the_protocol_works_behind_a_transaction_pooler() {
    let farm = Farm::new().await;
    let pooler = Pooler::start(&farm);
    let name: String = farm
        .sql
        .query_one("SELECT current_database()", &[])
        .await
        .unwrap()
        .get(0);
    let config = config(&format!("postgresql://farm@127.0.0.1:{}/{name}", pooler.port)).with_listen(false);
    let db = Db::connect(&config).await.unwrap();

    let at = past(60);
    for n in 0..20 {
        farm.job(&format!("j{n}"), spec(), Some(at)).await;
    }
    assert_eq!(jobs_since(&db, 0).await.unwrap().len(), 20);
    // More clients than server connections, all at once.
    let agents = (0..6).map(|n| {
        let db = Db::new(&config);
        tokio::spawn(async move {
            let (address, life) = (format!("n{n}"), Uuid::new_v4());
            open(&db, &info(&address, life, json!({}))).await.unwrap();
            let me = Me {
                address,
                session: 1,
                life,
            };
            let fires: Vec<_> = (0..20).map(|n| firing(&format!("j{n}"), 1, at, &[at])).collect();
            fire(&db, &fires).await.unwrap();
            let mut done = 0;
            for _ in 0..50 {
                look(&db, &me, 3).await.unwrap();
                assert!(matches!(
                    renew(&db, &me, TTL).await.unwrap(),
                    Renewed::Alive { .. }
                ));
                let runs = claim(&db, &me, 3, None).await.unwrap();
                let ends: Vec<_> = runs.iter().map(|r| success(&me, r)).collect();
                for (_, end) in finish(&db, &ends).await.unwrap() {
                    assert_eq!(end, FinishResult::Done);
                    done += 1;
                }
                if runs.is_empty() {
                    break;
                }
            }
            done
        })
    });
    let mut done = 0;
    for agent in agents.collect::<Vec<_>>() {
        done += agent.await.unwrap();
    }
    let left = farm.i64("SELECT count(*) FROM farmhand.run_live").await;
    assert_eq!(done + left, 20);
    let row = farm
        .sql
        .query_one(
            "SELECT session, life, beat FROM farmhand.node WHERE address = 'n0'",
            &[],
        )
        .await
        .unwrap();
    let expired = expire(&db, "n0", row.get(0), row.get(1), row.get(2))
        .await
        .unwrap();
    assert_eq!(expired, Expired::Done { freed: vec![] });
}
