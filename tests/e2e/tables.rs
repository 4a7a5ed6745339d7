//! Table jobs on a farm: the example, and what makes it look.

use farmhand_tests::farm::{Farm, send};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples/table");

#[tokio::test(flavor = "multi_thread")]
async fn the_outbox_example_runs_each_row_and_tells_it_how_it_ended() {
    let farm = Farm::new().agents(2).start().await;
    let read = |name: &str| std::fs::read_to_string(format!("{EXAMPLE}/{name}")).unwrap();
    farm.sql.batch_execute(&read("outbox.sql")).await.unwrap();
    let fitted = read("outbox.toml").replace("postgresql:///farmhand", &farm.database.url());
    farm.apply(&fitted.replace("[job.outbox.table]", "[job.outbox.table]\npoll = '1h'"));
    farm.sql
        .batch_execute("INSERT INTO outbox (address, body) VALUES ('a@b', 'one'), ('c@d', 'it''s two')")
        .await
        .unwrap();
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
    farm.sql
        .batch_execute(
            "ALTER TABLE outbox DISABLE TRIGGER USER; UPDATE outbox SET dispatched = NULL WHERE id = 1",
        )
        .await
        .unwrap();
    let pid = farm.agents[0].pid();
    send(pid, libc::SIGALRM);
    sent(1).await;
    assert_eq!(farm.runs("outbox").await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_finds_rows_without_notifications_and_odd_keys_reach_the_command_whole() {
    let farm = Farm::new()
        .agents(2)
        .arguments(&["--notify", "off"])
        .start()
        .await;
    farm.sql
        .batch_execute("CREATE TABLE odd (k text PRIMARY KEY, d boolean, code text)")
        .await
        .unwrap();
    farm.apply(
        "[job.odd]\ncommand = 'printf %s \"$1\" > @DIR@/out; test \"$1\" = \"$FARMHAND_KEY\"; exit $?'\n
         [job.odd.table]\nname = 'odd'\nkey = 'k'\ndispatch = 'd'\nexit_code = 'code'\npoll = '500ms'\n",
    );
    let key = "a 'quoted' \"key\"\nwith $HOME and {x} ünd 🙂";
    farm.sql
        .execute("INSERT INTO odd VALUES ($1)", &[&key])
        .await
        .unwrap();
    let run = farm.first_run("odd").await;
    farm.succeeds(run.run_id).await;
    assert_eq!(std::fs::read_to_string(farm.dir().join("out")).unwrap(), key);
    // The row is written right after the end is recorded.
    farm.eventually("the row is told", farmhand_tests::farm::SOON, async || {
        let code: Option<String> = farm.value("SELECT code FROM odd").await;
        match code.as_deref() {
            Some("0") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_that_is_not_as_the_job_wants_it_is_refused_at_apply_and_reported_later() {
    let farm = Farm::new().start().await;
    let file = farm.dir().join("t.toml");
    let job = "[job.t]\ncommand = ['true']\n[job.t.table]\nname = 'shop.t'\nkey = 'id'\ndispatch = 'd'\npoll = '200ms'\n";
    std::fs::write(&file, job).unwrap();
    let apply = || farm.farmhand(&["job", "apply", &file.display().to_string()]);
    let refused = apply();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(4), "{said}");
    assert!(said.contains("job t: there is no table shop.t"), "{said}");
    farm.sql
        .batch_execute(
            "CREATE SCHEMA shop; CREATE TABLE shop.t (id int PRIMARY KEY, d timestamptz);
             GRANT USAGE ON SCHEMA shop TO farm_agent, farm_operator;
             GRANT SELECT, UPDATE ON shop.t TO farm_agent, farm_operator",
        )
        .await
        .unwrap();
    let slow = apply();
    let said = String::from_utf8_lossy(&slow.stderr).into_owned();
    assert!(slow.status.success(), "{said}");
    let index = "CREATE INDEX CONCURRENTLY ON shop.t (id) WHERE d IS NULL;";
    assert!(said.contains(index), "{said}");
    farm.sql.batch_execute(index).await.unwrap();
    let doctor = farm.farmhand(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(said.contains("t: its table is as it wants it"), "{said}");
    farm.sql
        .batch_execute("ALTER TABLE shop.t DROP COLUMN d")
        .await
        .unwrap();
    farm.event("table_refused").await;
    let said = farm.ok(&["explain", "job", "t"]);
    assert!(said.contains("no row of shop.t waits"), "{said}");
}
