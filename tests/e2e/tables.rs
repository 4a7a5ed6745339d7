//! Table jobs on a farm: the example, and what makes it look.

use farmhand_tests::farm::{Farm, send};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples/table");

#[tokio::test(flavor = "multi_thread")]
async fn the_outbox_example_runs_each_row_and_tells_it_how_it_ended() {
    let farm = Farm::new().agents(2).start().await;
    let read = |name: &str| std::fs::read_to_string(format!("{EXAMPLE}/{name}")).unwrap();
    farm.exec(&read("outbox.sql")).await;
    let fitted = read("outbox.toml").replace("postgresql:///farmhand", &farm.database.url());
    farm.apply(&fitted.replace("[job.outbox.table]", "[job.outbox.table]\npoll = '1h'"));
    farm.exec("INSERT INTO outbox (address, body) VALUES ('a@b', 'one'), ('c@d', 'it''s two')")
        .await;
    let sent = async |id: i64| {
        farm.eventually("the row is told", farmhand_tests::farm::SOON, async || {
            let sql = "SELECT dispatched IS NOT NULL AND finished IS NOT NULL, exit_code, message FROM outbox WHERE id = $1";
            let row = farm.sql.query_one(sql, &[&id]).await.unwrap();
            let told: (bool, Option<i32>, Option<String>) = (row.get(0), row.get(1), row.get(2));
            if told.0 { Ok(told) } else { Err(format!("{told:?}")) }
        })
        .await
    };
    for id in [1, 2] {
        assert_eq!(sent(id).await, (true, Some(0), Some("succeeded".to_owned())));
    }
    let runs = farm.runs("outbox").await;
    assert_eq!(runs.len(), 2, "{runs:?}");
    let said = farm.output(runs[1].run_id, 1).await;
    assert_eq!(said, "sending to c@d: it's two\n");
    let listed = farm.ok(&["run", "ls", "--job", "outbox", "--key", "2", "--json"]);
    assert!(
        listed.contains("\"key\":\"2\"") && !listed.contains("\"key\":\"1\""),
        "{listed}"
    );
    assert_eq!(
        farm.ok(&["run", "logs", "outbox", "--key", "1"]),
        "sending to a@b: one\n"
    );
    let none = farm.farmhand(&["run", "logs", "outbox", "--key", "9"]);
    assert_eq!(none.status.code(), Some(3), "{none:?}");
    // NULL again runs it again; an agent that nobody notified is woken by hand.
    farm.exec("ALTER TABLE outbox DISABLE TRIGGER USER; UPDATE outbox SET dispatched = NULL WHERE id = 1")
        .await;
    let pid = farm.agents[0].pid();
    send(pid, libc::SIGALRM);
    sent(1).await;
    assert_eq!(farm.runs("outbox").await.len(), 3);
}
