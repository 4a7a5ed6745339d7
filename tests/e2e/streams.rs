//! Streams: lines of a growing list, several at once; what hangs, what fails, what is no list at all.

use std::fs::OpenOptions;
use std::io::Write;

use farmhand_tests::farm::{CALM, Farm, SOON};
use serde_json::Value;

/// Each line says what its command does.
const COMMAND: &str = r#"
grace = '1s'
command = '''
read -r line
case $line in
    hang) [ -e @DIR@/fixed ] || exec sleep 600 ;;
    bad) [ -e @DIR@/fixed ] || { echo "cannot do $line"; exit 3; } ;;
    die) kill -9 $$ ;;
    slow) for i in 1 2 3 4 5 6 7 8 9 10; do sleep 0.5; echo "still there" >&$FARMHAND_PROGRESS_FD; done ;;
esac
echo "$FARMHAND_ITEM $line" >> @DIR@/done
'''
"#;

fn append(farm: &Farm, file: &str, text: &[u8]) {
    let path = farm.dir().join(file);
    let mut list = OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .expect("the list");
    list.write_all(text).expect("it takes more");
}

fn done(farm: &Farm) -> Vec<String> {
    let text = std::fs::read_to_string(farm.dir().join("done")).unwrap_or_default();
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

async fn until_done(farm: &Farm, lines: &[&str]) {
    farm.eventually("the lines are done", SOON, async || {
        let done = done(farm);
        (done == lines).then_some(()).ok_or_else(|| format!("{done:?}"))
    })
    .await;
}

fn items(farm: &Farm, run_id: i64, more: &[&str]) -> Vec<Value> {
    let run = run_id.to_string();
    let text = farm.ok(&[&["run", "items", &run, "--json"], more].concat());
    let page: Value = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {text}"));
    page["items"].as_array().expect("a list").clone()
}

fn outcomes(items: &[Value]) -> Vec<(i64, &str)> {
    let pair = |i: &Value| {
        i["item"]
            .as_i64()
            .zip(i["outcome"].as_str().map(|o| (o.to_owned()).leak() as &str))
    };
    items.iter().filter_map(pair).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_growing_list_is_handled_by_several_workers_and_what_hangs_or_fails_is_recorded_and_replayed() {
    let farm = Farm::new()
        .agents(2)
        .ttl(CALM)
        .jobs(&format!(
            "[job.list]{COMMAND}
             progress_timeout = '4s'
             [job.list.stream]
             file = '@DIR@/list'
             follow = true
             workers = 3
             progress_timeout = '4s'
             max_item_failures = 2"
        ))
        .start()
        .await;
    let run_id = farm.submit("list").await;
    let run = run_id.to_string();
    // It waits for its list, and says so.
    farm.eventually("it says what it waits for", SOON, async || {
        let shown = farm.ok(&["run", "show", &run]);
        shown.contains("list is not there yet").then_some(()).ok_or(shown)
    })
    .await;
    append(&farm, "list", b"a\nhang\nbad\nslow\ndie\nb\nhal");
    until_done(&farm, &["1 a", "4 slow", "6 b"]).await;
    append(&farm, "list", b"f\n");
    until_done(&farm, &["1 a", "4 slow", "6 b", "7 half"]).await;
    farm.eventually("what failed is recorded", SOON, async || {
        match items(&farm, run_id, &[]).len() {
            3 => Ok(()),
            n => Err(format!("{n} lines")),
        }
    })
    .await;
    let recorded = items(&farm, run_id, &["--failed"]);
    assert_eq!(
        outcomes(&recorded),
        [(2, "timed_out"), (3, "failed"), (5, "failed")]
    );
    assert_eq!(
        (
            recorded[1]["failures"].as_i64(),
            recorded[1]["exit_code"].as_i64()
        ),
        (Some(2), Some(3))
    );
    assert_eq!(
        (&recorded[1]["line"], &recorded[1]["output"]),
        (&"bad".into(), &"cannot do bad\n".into())
    );
    assert_eq!(recorded[2]["signal"].as_i64(), Some(9));
    farm.eventually("it says how far it has come", SOON, async || {
        let shown = farm.ok(&["run", "show", &run]);
        let there = shown.contains("4 done, 3 failed; the lowest unfinished is 8");
        if there { Ok(()) } else { Err(shown) }
    })
    .await;
    let printed = farm.ok(&["run", "items", &run, "--item", "3", "--output"]);
    assert_eq!(printed, "line 3: bad\ncannot do bad\n");

    farm.ok(&["run", "cancel", &run]);
    let over = farm.over(run_id, SOON).await;
    // The engine gives signs of life of its own while there is nothing to do.
    assert_eq!((over.state.as_str(), over.attempt), ("cancelled", 1));

    // Once what was wrong is fixed, they are run again.
    append(&farm, "fixed", b"");
    let replayed = farm.ok(&["run", "replay", &run, "--item", "2", "--item", "3", "--json"]);
    let replayed: Value = serde_json::from_str(&replayed).expect("JSON");
    let second = replayed["runs"][0].as_i64().expect("a run");
    assert_eq!(replayed["what"], format!("run {second} replays 2 lines"));
    farm.succeeds(second).await;
    until_done(&farm, &["1 a", "2 hang", "3 bad", "4 slow", "6 b", "7 half"]).await;
    assert_eq!(
        outcomes(&items(&farm, second, &[])),
        [(2, "succeeded"), (3, "succeeded")]
    );
    let replays: Vec<_> = items(&farm, run_id, &[])
        .iter()
        .map(|i| i["replay"].clone())
        .collect();
    assert_eq!(replays, ["succeeded".into(), "succeeded".into(), Value::Null]);
    let refused = farm.farmhand(&["run", "replay", &run, "--item", "3"]);
    assert_eq!(refused.status.code(), Some(4));
    let table = farm.ok(&["run", "items", &run]);
    assert!(table.contains(&format!("run {second}: succeeded")), "{table}");
    // What fails again is recorded with the replay.
    farm.ok(&["run", "replay", &run]);
    let third = farm.runs("list").await.pop().expect("a run").run_id;
    let third = farm.over(third, SOON).await;
    assert_eq!(
        (third.state.as_str(), third.reason.as_deref()),
        ("failed", Some("1 line failed"))
    );
    assert_eq!(outcomes(&items(&farm, third.run_id, &[])), [(5, "failed")]);
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_stream_counts_no_failure_and_leaves_no_process() {
    let farm = Farm::new()
        .jobs(
            "[job.list]
             grace = '5s'
             command = 'echo up >> @DIR@/done; trap \"exit 7\" TERM; while :; do sleep 0.1; done'
             [job.list.stream]
             command = 'seq 100'
             workers = 4
             max_item_failures = 1",
        )
        .start()
        .await;
    let run_id = farm.submit("list").await;
    until_done(&farm, &["up"; 4]).await;
    farm.ok(&["run", "cancel", &run_id.to_string()]);
    assert_eq!(farm.over(run_id, SOON).await.state, "cancelled");
    assert_eq!(outcomes(&items(&farm, run_id, &[])), []);
    let checkpoint: String = farm.value("SELECT checkpoint FROM farmhand.progress").await;
    let checkpoint: Value = serde_json::from_str(&checkpoint).expect("JSON");
    assert_eq!(
        (&checkpoint["line"], &checkpoint["failed"]),
        (&1.into(), &0.into())
    );
    assert_eq!(farm.processes_of_run(run_id).len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_that_are_wrong_end_with_a_sentence_that_says_so() {
    let job = |name: &str, stream: &str| format!("[job.{name}]{COMMAND}\n[job.{name}.stream]\n{stream}\n");
    let farm = Farm::new()
        .slots(8)
        .jobs(
            &[
                job("absent", "file = '@DIR@/absent'"),
                job("refused", "file = '@DIR@/refused'"),
                job("shrinks", "file = '@DIR@/shrinks'\nfollow = true"),
                job("vanishes", "file = '@DIR@/vanishes'\nfollow = true"),
                job("directory", "file = '@DIR@'"),
                job("breaks", "command = 'echo b1; exit 5'"),
                "[job.nobody]\ncommand = ['/does/not/exist']\n[job.nobody.stream]\ncommand = 'echo x'\n"
                    .to_owned(),
                job("late", "file = '@DIR@/late-%F'"),
            ]
            .concat(),
        )
        .start()
        .await;
    append(
        &farm,
        "refused",
        &[b"r1\n", &vec![b'x'; 1 << 20][..], b"\nnu\0l\nr4"].concat(),
    );
    append(&farm, "shrinks", b"s1\n");
    append(&farm, "vanishes", b"v1\n");
    let ends = async |job: &str| {
        let run_id = farm.submit(job).await;
        let run = farm.over(run_id, SOON).await;
        assert_eq!(run.state, "failed", "{run:?}");
        (run_id, run.reason.unwrap_or_default())
    };
    let wrong = [
        ("absent", "absent does not exist"),
        ("directory", "is not a file"),
        (
            "breaks",
            "the command that prints the list ended with exit code 5",
        ),
        ("nobody", "/does/not/exist cannot be executed: No such file"),
    ];
    for (job, what) in wrong {
        let (_, reason) = ends(job).await;
        assert!(reason.contains(what), "{job}: {reason}");
    }
    let (refused, reason) = ends("refused").await;
    assert_eq!(reason, "2 lines failed");
    let lines = items(&farm, refused, &[]);
    assert_eq!(outcomes(&lines), [(2, "refused"), (3, "refused")]);
    assert_eq!(
        lines[0]["reason"],
        "the line has 1048576 bytes, 65536 are the most"
    );
    assert_eq!(lines[1]["reason"], "the line has a NUL byte");
    let replay = farm.farmhand(&["run", "replay", &refused.to_string()]);
    assert_eq!(replay.status.code(), Some(4));

    let (shrinks, vanishes) = (farm.submit("shrinks").await, farm.submit("vanishes").await);
    until_done(&farm, &["1 b1", "1 r1", "1 s1", "1 v1", "4 r4"]).await;
    OpenOptions::new()
        .write(true)
        .truncate(true)
        .open(farm.dir().join("shrinks"))
        .expect("the list is cut");
    std::fs::remove_file(farm.dir().join("vanishes")).expect("it goes");
    for (run_id, what) in [
        (shrinks, "shrank to 0 bytes after 3"),
        (vanishes, "has vanished; what was in it is done"),
    ] {
        let run = farm.over(run_id, SOON).await;
        assert!(
            run.state == "failed" && run.reason.as_deref().unwrap_or_default().contains(what),
            "{run:?}"
        );
    }
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_list_of_an_instant_ends_with_the_next_instant_and_takes_the_line_without_newline() {
    let farm = Farm::new()
        .jobs(&format!(
            "[job.daily]{COMMAND}
             schedule = '0 0 1 1 *'
             timezone = 'Asia/Tokyo'
             [job.daily.stream]
             file = '@DIR@/list-%Y-%m-%d'
             [job.printed]{COMMAND}
             [job.printed.stream]
             command = ['printf', 'p1\\np2']"
        ))
        .start()
        .await;
    append(&farm, "list-2025-01-01", b"d1\nd2");
    // 00:00 in Tokyo; the next instant is over too.
    let due: i64 = farm
        .value("SELECT farmhand.submit('daily', '{}', '2024-12-31 15:00Z')")
        .await;
    let other: i64 = farm
        .value("SELECT farmhand.submit('daily', '{}', '2023-12-31 15:00Z')")
        .await;
    let printed = farm.submit("printed").await;
    farm.succeeds(due).await;
    farm.succeeds(printed).await;
    let other = farm.over(other, SOON).await;
    let reason = other.reason.as_deref().unwrap_or_default();
    assert!(reason.contains("list-2024-01-01 has not appeared"), "{other:?}");
    until_done(&farm, &["1 d1", "1 p1", "2 d2", "2 p2"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_continuous_stream_keeps_its_place_when_a_round_is_cancelled() {
    let farm = Farm::new()
        .jobs(&format!(
            "[job.loop]{COMMAND}
             schedule = '@continuous'
             retry = {{ base = '100ms', cap = '100ms' }}
             [job.loop.stream]
             file = '@DIR@/list'"
        ))
        .start()
        .await;
    append(&farm, "list", b"a\nb\n");
    until_done(&farm, &["1 a", "2 b"]).await;
    let run_id = farm.first_run("loop").await.run_id;
    // What is not noted yet would be done again by the next round.
    farm.eventually("its place is noted", SOON, async || {
        let shown = farm.ok(&["run", "show", &run_id.to_string()]);
        shown.contains("2 done").then_some(()).ok_or(shown)
    })
    .await;
    farm.ok(&["run", "cancel", &run_id.to_string()]);
    assert_eq!(farm.over(run_id, SOON).await.state, "cancelled");
    append(&farm, "list", b"c\n");
    until_done(&farm, &["1 a", "2 b", "3 c"]).await;
}

/// All three are under way at once, so no number is used twice.
#[tokio::test(flavor = "multi_thread")]
async fn each_worker_of_a_stream_has_a_slot_number_of_its_own() {
    let farm = Farm::new()
        .jobs(
            "[job.list]
             command = '''
             echo \"$FARMHAND_SLOT\" >> @DIR@/done
             while [ $(wc -l < @DIR@/done) -lt 3 ]; do sleep 0.05; done
             '''
             [job.list.stream]
             file = '@DIR@/list'
             follow = false
             workers = 3",
        )
        .start()
        .await;
    append(&farm, "list", b"a\nb\nc\n");
    farm.ok(&["job", "run", "list", "--wait"]);
    assert_eq!(done(&farm), ["1", "2", "3"]);
}
