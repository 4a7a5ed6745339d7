//! A signed stream handles the lines of its own list, whatever the database says they are.

use std::fs;

use farmhand_tests::farm::SOON;
use farmhand_tests::pg::connect;
use serde_json::Value;

use crate::signatures::{farm, signed};

#[tokio::test(flavor = "multi_thread")]
async fn a_replayed_line_is_read_again_from_the_nodes_own_list() {
    let farm = farm(1, 1).await;
    let (list, done) = (farm.dir().join("list"), farm.dir().join("done"));
    fs::write(&list, "first\nsecond\nthird\n").expect("a list");
    let fixed = farm.dir().join("fixed");
    signed(
        &farm,
        &format!(
            "[job.list]
             command = 'read -r line; test \"$line\" = first || test -e {} || exit 1; echo \"$FARMHAND_ITEM $line\" >> {}'
             [job.list.stream]
             file = '{}'
             max_item_failures = 1\n",
            fixed.display(),
            done.display(),
            list.display()
        ),
    );
    let run = farm.submit("list").await;
    assert_eq!(farm.over(run, SOON).await.state, "failed");
    fs::write(&fixed, "").expect("a mark");
    farm.ok(&["node", "cordon", "n1"]);
    let replayed = farm.ok(&["run", "replay", &run.to_string(), "--json"]);
    let replayed: Value = serde_json::from_str(&replayed).expect("JSON");
    let second = replayed["runs"][0].as_i64().expect("a run");
    let agent = connect(&farm.database.agent_url()).await;
    let changed = agent
        .exec_with("UPDATE farmhand.stream_item SET line = '; stolen'", &[])
        .await;
    assert!(changed >= 2, "{changed}");
    farm.ok(&["node", "resume", "n1"]);
    farm.succeeds(second).await;
    let done = fs::read_to_string(&done).expect("what was handled");
    assert_eq!(done, "1 first\n2 second\n3 third\n");
    // A line that the list has not got any more is not made up.
    fs::write(&list, "first\n").expect("a shorter list");
    fs::remove_file(&fixed).expect("the mark goes");
    fs::write(&list, "first\nsecond\n").expect("a list");
    let run = farm.submit("list").await;
    assert_eq!(farm.over(run, SOON).await.state, "failed");
    fs::write(&list, "first\n").expect("a shorter list");
    farm.ok(&["run", "replay", &run.to_string()]);
    let third = farm.runs("list").await.pop().expect("a run").run_id;
    let why = farm.over(third, SOON).await.reason.unwrap_or_default();
    assert!(why.contains("line 2 is not there any more"), "{why}");
}
