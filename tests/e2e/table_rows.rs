//! Table jobs on a farm: in which order rows are run, what their commands are told of them, and rows without a key.

use farmhand_tests::farm::{CALM, Farm, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_run_oldest_first_with_their_columns_also_after_a_kill() {
    let mut farm = Farm::new().agents(2).start().await;
    farm.exec(
        "CREATE TABLE mail (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), created_at timestamptz NOT NULL, n int, price numeric(30, 3),
            address text, sent boolean, said text);
         INSERT INTO mail (created_at, n, price, address)
            SELECT now() - n * interval '1 hour', n, 12345678901234567890.125, E'it''s \"' || n || E'\"\n$(id)' FROM generate_series(1, 6) n"
    ).await;
    farm.apply(
        r#"
[job.mail]
command = ["sh", "-c", 'printf "%s\n" "$FARMHAND_ROW" >> @DIR@/out; [ -e @DIR@/go ] || { echo >> @DIR@/waits; exec sleep 600; }', "sh", "--", "{key}"]
[job.mail.table]
name = "mail"
key = "id"
dispatch = "sent"
order_by = "created_at"
row = ["n", "price", "address"]
message = "said"
max_running = 1
"#,
    );
    farm.eventually("the first one runs", SOON, async || {
        let waits = std::fs::read_to_string(farm.dir().join("waits"));
        waits.map(|_| ()).map_err(|e| e.to_string())
    })
    .await;
    let at = farm.runs("mail").await[0].running_at.clone().unwrap();
    std::fs::write(farm.dir().join("go"), "").unwrap();
    farm.agent(&at).kill_with_wardens();
    let told = farm
        .eventually("all rows are run", SOON * 2, async || {
            let waits: i64 = farm
                .value("SELECT count(*) FROM mail WHERE said IS DISTINCT FROM 'succeeded'")
                .await;
            let out = std::fs::read_to_string(farm.dir().join("out")).unwrap_or_default();
            if waits == 0 {
                Ok(out)
            } else {
                Err(format!("{waits} wait\n{out}"))
            }
        })
        .await;
    let rows: Vec<serde_json::Value> = told
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let order: Vec<i64> = rows.iter().map(|row| row["n"].as_i64().unwrap()).collect();
    assert_eq!(order, [6, 6, 5, 4, 3, 2, 1], "the first one twice, its node died");
    assert_eq!(rows[0], rows[1]);
    assert_eq!(rows[0]["price"], "12345678901234567890.125");
    assert_eq!(rows[0]["address"], "it's \"6\"\n$(id)");
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_runs_once_while_agents_that_take_rows_up_are_killed() {
    let mut farm = Farm::new().agents(2).ttl(CALM).start().await;
    farm.exec(
        "CREATE TABLE q (half int, id uuid DEFAULT gen_random_uuid(), n int, d timestamptz, said text, PRIMARY KEY (half, id));
         CREATE INDEX ON q (n, half, id) WHERE d IS NULL;
         INSERT INTO q (half, n) SELECT n % 2, n FROM generate_series(1, 200) n"
    ).await;
    farm.apply(
        r#"
[job.q]
command = ["sh", "-c", 'echo "$FARMHAND_ROW $1" >> @DIR@/out', "sh", "{key}"]
table = { name = "q", key = ["half", "id"], dispatch = "d", order_by = "n", row = "n", message = "said", poll = "100ms" }
"#,
    );
    let lines = |farm: &Farm| {
        let text = std::fs::read_to_string(farm.dir().join("out")).unwrap_or_default();
        text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    for (nth, agent) in ["n1", "n2", "n1"].into_iter().enumerate() {
        let some = 30 * (nth + 1);
        farm.eventually("rows are run", SOON, async || {
            let count = lines(&farm).len();
            (count >= some).then_some(()).ok_or(count.to_string())
        })
        .await;
        farm.agent(agent).kill();
        farm.agent(agent).start().await;
    }
    farm.becomes(
        SOON * 3,
        "SELECT count(*) FROM q WHERE said IS DISTINCT FROM 'succeeded'",
        0_i64,
    )
    .await;
    let mut seen = lines(&farm);
    assert_eq!(seen.len(), 200, "each row once: its warden outlives the agent");
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 200);
    let key: String = farm
        .value("SELECT format('[\"1\", \"%s\"]', id) FROM q WHERE n = 7")
        .await;
    assert!(seen.contains(&format!("{{\"n\":7}} {key}")), "{key}: {seen:?}");
    farm.ok(&["run", "logs", "q", "--key", &key]);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_without_a_key_are_told_of_by_an_event() {
    let farm = Farm::new().start().await;
    farm.exec(
        "CREATE TABLE odd (id uuid UNIQUE, d boolean);
             CREATE INDEX ON odd (id) WHERE d IS NULL;
             GRANT SELECT, UPDATE ON odd TO farm_operator",
    )
    .await;
    let job = "[job.odd]\ncommand = ['true']\ntable = { name = 'odd', key = 'id', dispatch = 'd', poll = '200ms' }\n";
    farm.apply(job);
    assert_eq!(farm.events("rows_without_key").await, 0);
    farm.exec("INSERT INTO odd VALUES (NULL), (gen_random_uuid()), (NULL)")
        .await;
    farm.event("rows_without_key").await;
    let run = farm.first_run("odd").await;
    farm.succeeds(run.run_id).await;
}
