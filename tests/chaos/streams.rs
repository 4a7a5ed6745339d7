//! kill -9 of what works through a list.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::Write;

use farmhand_core::stream::Checkpoint;
use farmhand_tests::farm::{Farm, SOON};

/// Attempts that began each line.
fn begun(farm: &Farm) -> BTreeMap<u64, Vec<i32>> {
    let text = std::fs::read_to_string(farm.dir().join("begun")).unwrap_or_default();
    let mut begun: BTreeMap<u64, Vec<i32>> = BTreeMap::new();
    for line in text.lines() {
        let (item, attempt) = line.split_once(' ').expect("two numbers");
        let item = item.parse().expect("a line's number");
        begun
            .entry(item)
            .or_default()
            .push(attempt.parse().expect("an attempt"));
    }
    begun
}

#[tokio::test(flavor = "multi_thread")]
async fn another_node_goes_on_at_the_checkpoint_and_repeats_no_line_that_it_has_as_done() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs(
            r#"
            [job.list]
            command = '''
            read -r line
            echo "$FARMHAND_ITEM $FARMHAND_ATTEMPT" >> @DIR@/begun
            case $line in
                first-time-slow) [ "$FARMHAND_ATTEMPT" -gt 1 ] || exec sleep 600 ;;
                bad) exit 1 ;;
            esac
            sleep 0.1
            '''
            [job.list.stream]
            file = '@DIR@/list'
            follow = true
            workers = 4
            max_item_failures = 1
            "#,
        )
        .start()
        .await;
    let path = farm.dir().join("list");
    let append = |text: &str| {
        let mut list = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&path)
            .expect("the list");
        list.write_all(text.as_bytes()).expect("it takes more");
    };
    append("a\nb\nfirst-time-slow\nc\nbad\n");
    (6..=60).for_each(|n| append(&format!("line {n}\n")));
    let run_id = farm.submit("list").await;
    let before = farm
        .eventually("enough is stored", SOON, async || {
            let text: Option<String> = farm.value("SELECT max(checkpoint) FROM farmhand.progress").await;
            let read = text.as_deref().map(Checkpoint::parse).and_then(Result::ok);
            match read.filter(|c| c.succeeded >= 15) {
                Some(checkpoint) => Ok(checkpoint),
                None => Err(format!("{text:?}")),
            }
        })
        .await;
    assert_eq!((before.line, before.failed), (3, 1), "{before:?}");
    let home = farm.run(run_id).await.running_at.expect("a node");
    farm.agent(&home).kill_with_wardens();
    append("the last one\n");
    farm.eventually("all lines are done", SOON, async || {
        let text: String = farm.value("SELECT max(checkpoint) FROM farmhand.progress").await;
        let read = Checkpoint::parse(&text).map_err(|e| e.to_string())?;
        if read.line == 62 { Ok(()) } else { Err(text) }
    })
    .await;
    let run = farm.run(run_id).await;
    assert_eq!((run.attempt, run.takeovers), (2, 1), "{run:?}");
    assert_ne!(run.running_at.as_deref(), Some(home.as_str()));

    let begun = begun(&farm);
    let handled: Vec<u64> = begun.keys().copied().collect();
    assert_eq!(handled, (1..=61).collect::<Vec<u64>>(), "a line is missing");
    let again: BTreeSet<u64> = begun
        .iter()
        .filter(|(_, by)| by.contains(&2))
        .map(|(n, _)| *n)
        .collect();
    let repeated: Vec<u64> = before
        .finished()
        .into_iter()
        .filter(|n| again.contains(n))
        .collect();
    assert!(repeated.is_empty(), "done before, and again: {repeated:?}");
    assert!(again.contains(&3) && !again.contains(&5), "{again:?}");
    let twice = begun.values().filter(|by| by.len() > 1).count();
    assert!(twice <= 1 + 4 * 12, "{twice} lines twice");
    let recorded: i64 = farm
        .value("SELECT count(*) FROM farmhand.stream_item WHERE item = 5")
        .await;
    assert_eq!(recorded, 1);
    farm.ok(&["run", "cancel", &run_id.to_string()]);
    assert_eq!(farm.over(run_id, SOON).await.state, "cancelled");
    farm.check().await;
}

/// The example: a list per day, a line per file.
#[tokio::test(flavor = "multi_thread")]
async fn the_example_puts_a_checksum_beside_each_file_of_the_list() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/examples/list-worker.toml");
    let text = std::fs::read_to_string(path).expect("the example");
    let farm = Farm::new().start().await;
    let work = farm.dir().join("work");
    std::fs::create_dir(&work).expect("a directory");
    let fitted = text.replace("/var/tmp/farmhand-examples", &work.display().to_string());
    assert!(!fitted.contains("\"/var"), "{fitted}");
    farm.apply(&fitted);
    let file = |name: &str| work.join(name).display().to_string();
    std::fs::write(work.join("one"), "1\n").expect("a file");
    let list = format!("{}\n{}\n", file("one"), file("none"));
    std::fs::write(work.join("list-2025-01-02"), list).expect("the list");
    let run_id: i64 = farm
        .value("SELECT farmhand.submit('list-worker', '{}', '2025-01-02 00:00Z')")
        .await;
    let run = farm.over(run_id, SOON).await;
    assert_eq!(
        (run.state.as_str(), run.reason.as_deref()),
        ("failed", Some("1 line failed"))
    );
    let sum = std::fs::read_to_string(work.join("one.sha256")).expect("its checksum");
    assert!(
        sum.starts_with("4355a46b19d348dc2f57c046f8ef63d4538ebb936000f3c9ee954a27460dd865"),
        "{sum}"
    );
    std::fs::write(work.join("none"), "now\n").expect("the other");
    farm.ok(&["run", "replay", &run_id.to_string()]);
    let replay = farm.runs("list-worker").await.pop().expect("a run").run_id;
    farm.succeeds(replay).await;
    assert!(work.join("none.sha256").exists());
}
