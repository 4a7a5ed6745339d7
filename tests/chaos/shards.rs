//! Shards: a table that several nodes work through at once.

use std::collections::BTreeSet;

use farmhand_tests::farm::{Farm, SOON};
use serde_json::Value;

/// The example, against the farm's own database, with rows that take a while.
fn example(farm: &Farm) -> String {
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../deploy/examples/sharded-sweep.toml"
    );
    let text = std::fs::read_to_string(path).expect("the example");
    let fitted = text
        .replace(
            "\"postgresql:///farmhand\"",
            &format!("{:?}", farm.database.url()),
        )
        .replace("schedule  = \"@every 1m\"\n", "");
    assert!(
        !fitted.contains("postgresql:///farmhand") && !fitted.contains("schedule "),
        "{fitted}"
    );
    fitted
}

#[tokio::test(flavor = "multi_thread")]
async fn each_row_of_a_table_is_handled_by_exactly_one_shard_though_a_node_is_killed_in_the_middle() {
    let mut farm = Farm::new().agents(3).start().await;
    farm.exec(
        "CREATE TABLE item (id bigint PRIMARY KEY, done_at timestamptz, done_by int, times int NOT NULL DEFAULT 0);
         INSERT INTO item (id) SELECT generate_series(1, 1600)"
    ).await;
    farm.apply(&(example(&farm) + "\n[job.after]\ncommand = 'true'\ntriggered_by = 'sharded-sweep'\n"));
    let first = farm.submit("sharded-sweep").await;
    let shards = farm.runs("sharded-sweep").await;
    assert_eq!((shards.len(), shards[0].run_id), (4, first));
    let homes = farm
        .eventually("every shard runs", SOON, async || {
            let homes: Vec<String> = farm
                .runs("sharded-sweep")
                .await
                .into_iter()
                .filter_map(|run| run.running_at)
                .collect();
            if homes.len() == 4 {
                Ok(homes)
            } else {
                Err(format!("{homes:?}"))
            }
        })
        .await;
    let nodes: BTreeSet<&String> = homes.iter().collect();
    assert!(nodes.len() > 1, "all on one node: {homes:?}");

    // In the middle: some rows of the first shard are done, most are not.
    let done = "SELECT count(*) FROM item WHERE done_by = 0";
    farm.eventually("some rows are done", SOON, async || {
        match farm.value::<i64>(done).await {
            n if n >= 20 => Ok(()),
            n => Err(format!("{n} are")),
        }
    })
    .await;
    let home = farm.run(first).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    assert!(farm.value::<i64>(done).await < 400, "it was over before the kill");
    for run in &shards {
        // 400 rows, a client of the database for each.
        let ended = farm.over(run.run_id, SOON * 5).await;
        assert_eq!(ended.state, "succeeded", "{ended:?}");
        let moved = homes[usize::try_from(run.run_id - first).expect("a shard")] == home;
        assert_eq!(ended.takeovers, i32::from(moved), "{ended:?}");
    }

    let wrong: i64 = farm
        .value("SELECT count(*) FROM item WHERE times <> 1 OR done_by <> id % 4")
        .await;
    assert_eq!(wrong, 0, "rows handled twice, never, or by another shard");
    // What follows the firing follows all of it, once.
    let after = farm.first_run("after").await;
    farm.succeeds(after.run_id).await;
    assert_eq!(farm.runs("after").await.len(), 1);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_sharded_job_waits_for_all_of_it_and_tells_the_worst() {
    let farm = Farm::new()
        .agents(2)
        .jobs(
            "[job.spread]\ninstances = 5\ncommand = 'echo part $FARMHAND_INSTANCE of $FARMHAND_INSTANCES; \
             sleep 0.$FARMHAND_INSTANCE; test $FARMHAND_INSTANCE != 4'\n",
        )
        .start()
        .await;
    let waited = farm.farmhand(&["job", "run", "spread", "--follow"]);
    assert_eq!(waited.status.code(), Some(10), "{waited:?}");
    let out = String::from_utf8_lossy(&waited.stdout);
    let parts: Vec<String> = (0..5).map(|i| format!("part {i} of 5\n")).collect();
    assert_eq!(out, parts.concat());

    let ids: Vec<i64> = farm.runs("spread").await.iter().map(|run| run.run_id).collect();
    let shown: Value =
        serde_json::from_str(&farm.ok(&["run", "show", &ids[2].to_string(), "--json"])).expect("JSON");
    assert_eq!(
        (&shown["run"]["instance"], &shown["run"]["firing"]),
        (&2.into(), &ids[0].into())
    );
    assert_eq!(shown["firing"].as_array().map(Vec::len), Some(5), "{shown}");
    assert!(farm.ok(&["run", "ls"]).contains("spread [4 of 5]"));
    let told = farm.ok(&["run", "show", &ids[0].to_string()]);
    assert!(told.contains("0 of 5"), "{told}");
    farm.check().await;
}
