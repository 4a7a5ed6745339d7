//! Lists that pages show: by key, stable, filtered; and one run and its output in full.

use farmhand_core::run::RunState;
use farmhand_store::events::{EventRow, record_events};
use farmhand_store::jobs::submit;
use farmhand_store::logs::{LogChunk, append_log};
use farmhand_store::protocol::claim;
use farmhand_store::reading::{self, EventsFilter, JobsFilter, Paging, Reading, RunFilter, Tail};
use farmhand_store::{Db, LogStream, Severity, StoreError};
use jiff::Timestamp;
use serde_json::json;

use super::fixture::{Farm, failure, one, past, spec, success};

/// The farm, and the pool that pages read with.
pub async fn farm() -> (Farm, Db) {
    let farm = Farm::new().await;
    let reading = Reading::new(&farm.test.config()).db().clone();
    (farm, reading)
}

pub async fn submitted(farm: &Farm, job: &str) -> i64 {
    submit(&farm.db, job, &json!({}), None, None).await.unwrap()
}

pub fn page(cursor: Option<String>, limit: i64) -> Paging {
    Paging {
        cursor,
        limit: Some(limit),
    }
}

#[tokio::test]
async fn pages_of_runs_hold_each_run_once_while_others_come() {
    let (farm, db) = farm().await;
    farm.job("a", spec(), None).await;
    let mut made = Vec::new();
    for _ in 0..7 {
        made.push(submitted(&farm, "a").await);
    }
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let list = reading::runs(&db, &RunFilter::default(), &page(cursor, 3))
            .await
            .unwrap();
        seen.extend(list.items.iter().map(|run| run.run_id));
        submitted(&farm, "a").await;
        cursor = list.next;
        if cursor.is_none() {
            break;
        }
    }
    made.reverse();
    assert_eq!(seen, made);
}

#[tokio::test]
async fn runs_are_filtered_by_job_state_node_and_time() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    farm.job("a", spec(), None).await;
    farm.job("b", spec(), None).await;
    for job in ["a", "b", "a"] {
        submitted(&farm, job).await;
    }
    let mut claimed = claim(&farm.db, &me, 2, None).await.unwrap();
    claimed.sort_by_key(|run| run.run_id);
    let before = Timestamp::now();
    one(&farm, success(&me, &claimed[0])).await;
    let mut bad = success(&me, &claimed[1]);
    bad.state = farmhand_core::run::RunState::Failed;
    one(&farm, bad).await;

    let ids = async |filter: RunFilter| -> Vec<i64> {
        let list = reading::runs(&db, &filter, &page(None, 10)).await.unwrap();
        assert_eq!(list.next, None);
        list.items.into_iter().map(|run| run.run_id).collect()
    };
    let (first, second) = (claimed[0].run_id, claimed[1].run_id);
    let third = second + 1;
    let any = RunFilter::default;
    assert_eq!(
        ids(RunFilter {
            job: Some("a".to_owned()),
            ..any()
        })
        .await,
        [third, first]
    );
    assert_eq!(
        ids(RunFilter {
            states: vec![RunState::Failed, RunState::Lost],
            ..any()
        })
        .await,
        [second]
    );
    assert_eq!(
        ids(RunFilter {
            states: vec![RunState::Due],
            ..any()
        })
        .await,
        [third]
    );
    assert_eq!(
        ids(RunFilter {
            states: vec![RunState::Due, RunState::Succeeded],
            ..any()
        })
        .await,
        [third, first]
    );
    assert_eq!(
        ids(RunFilter {
            node: Some("n1".to_owned()),
            ..any()
        })
        .await,
        [second, first]
    );
    assert_eq!(
        ids(RunFilter {
            node: Some("n2".to_owned()),
            ..any()
        })
        .await,
        Vec::<i64>::new()
    );
    let lately = before - jiff::SignedDuration::from_mins(1);
    assert_eq!(
        ids(RunFilter {
            since: Some(lately),
            ..any()
        })
        .await,
        [second, first]
    );
    assert_eq!(
        ids(RunFilter {
            until: Some(lately),
            ..any()
        })
        .await,
        Vec::<i64>::new()
    );
    let both = RunFilter {
        job: Some("b".to_owned()),
        since: Some(lately),
        ..any()
    };
    assert_eq!(ids(both).await, [second]);
}

#[tokio::test]
async fn a_list_by_time_is_paged_by_end_and_number() {
    let (farm, db) = farm().await;
    farm.exec(
        "INSERT INTO farmhand.run_history (run_id, job_id, rev, kind, instance, instances, due_at, ready_at, state, \
         ended_by, attempt, retries, takeovers, params, created_at, finished_at, first_due, last_due, reason) \
         SELECT n, 'a', 1, 'submitted', 0, 1, now(), now(), 'cancelled', 'cancel', 0, 0, 0, '{}', now(), \
         now() - (n % 3) * interval '1 minute', now(), now(), 'x' FROM generate_series(1, 10) n"
    ).await;
    let filter = RunFilter {
        since: Some(past(3600)),
        ..RunFilter::default()
    };
    let (mut seen, mut cursor) = (Vec::new(), None);
    loop {
        let list = reading::runs(&db, &filter, &page(cursor, 3)).await.unwrap();
        seen.extend(list.items.iter().map(|run| run.run_id));
        cursor = list.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(seen, [9, 6, 3, 10, 7, 4, 1, 8, 5, 2]);
}

#[tokio::test]
async fn a_cursor_of_another_list_is_refused_and_says_so() {
    let (farm, db) = farm().await;
    for name in ["a", "b"] {
        farm.job(name, spec(), None).await;
    }
    let jobs = reading::jobs(&db, &JobsFilter::default(), &page(None, 1))
        .await
        .unwrap();
    let error = reading::runs(&db, &RunFilter::default(), &page(jobs.next, 1))
        .await
        .unwrap_err();
    assert!(
        matches!(&error, StoreError::Refused(why) if why.contains("cursor")),
        "{error}"
    );
}

#[tokio::test]
async fn the_reading_pool_refuses_to_write() {
    let (farm, db) = farm().await;
    farm.job("a", spec(), None).await;
    let error = submit(&db, "a", &json!({}), None, None).await.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly), "{error}");
}

#[tokio::test]
async fn a_run_is_read_with_its_attempts_and_its_firing() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    let sent = failure(&me, &run, std::time::Duration::ZERO);
    farmhand_store::protocol::retry(&farm.db, &[sent]).await.unwrap();
    let again = claim(&farm.db, &me, 1, None).await.unwrap().remove(0);
    let detail = reading::run(&db, run.run_id).await.unwrap().unwrap();
    assert_eq!((detail.attempts.len(), detail.run.attempt), (2, 2));
    assert_eq!(detail.run.fence, Some(again.fence));
    assert!(detail.lease_until.is_some() && !detail.flow);
    assert!(reading::run(&db, 999_999).await.unwrap().is_none());
}

#[tokio::test]
async fn of_a_run_that_was_tried_again_and_again_the_last_attempts_are_read() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await.run_id;
    let sql = format!(
        "INSERT INTO farmhand.attempt (run_id, job_id, attempt, address, session, fence, claimed_at, ended_at, outcome,
             ended_by)
         SELECT {run}, 'a', n, 'n1', 1, n, now(), now(), 'failed', 'holder' FROM generate_series(1, 4999) n;
         INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
         SELECT {run}, n, 0, 'stdout', now(), now(), 'x'::bytea FROM generate_series(1, 4999) n;
         UPDATE farmhand.run_live SET attempt = 5000 WHERE run_id = {run}"
    );
    farm.exec(&sql).await;
    let detail = reading::run(&db, run).await.unwrap().unwrap();
    let numbers: Vec<i32> = detail.attempts.iter().map(|a| a.attempt).collect();
    assert_eq!(numbers, (4_001..=5_000).collect::<Vec<_>>());
    assert_eq!((detail.output.len(), detail.output[0].attempt), (999, 4_001));
}

#[tokio::test]
async fn output_is_read_by_byte_and_from_its_end() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    let chunk = |seq: i64, text: &str, stream| LogChunk {
        run_id: run.run_id,
        attempt: 1,
        seq,
        stream,
        at: Timestamp::now(),
        bytes: text.as_bytes().to_vec(),
    };
    let chunks = [
        chunk(0, "one\ntwo\n", LogStream::Stdout),
        chunk(8, "bad\n", LogStream::Stderr),
        // What lay between was dropped.
        chunk(100, "last\n", LogStream::Stdout),
    ];
    append_log(&farm.db, &chunks).await.unwrap();
    let read = async |tail, most| {
        reading::log(&db, run.run_id, None, tail, most)
            .await
            .unwrap()
            .unwrap()
    };
    let text = |range: &reading::LogRange| range.pieces.iter().map(|p| p.text.as_str()).collect::<String>();

    let first = read(Tail::From(0), 6).await;
    assert_eq!(
        (text(&first).as_str(), first.next, first.end, first.complete),
        ("one\ntw", 6, 105, false)
    );
    let second = read(Tail::From(first.next), 1000).await;
    assert_eq!(text(&second), "o\nbad\nlast\n");
    assert_eq!(second.pieces[1].stream, LogStream::Stderr);
    assert_eq!(text(&read(Tail::Lines(2), 1000).await), "bad\nlast\n");
    assert_eq!(text(&read(Tail::Bytes(5), 1000).await), "last\n");
    one(&farm, success(&me, &run)).await;
    assert!(read(Tail::From(105), 1000).await.complete);
    let gone = reading::log(&db, run.run_id, Some(7), Tail::From(0), 10)
        .await
        .unwrap();
    assert!(gone.is_none(), "there is no attempt 7");
}

#[tokio::test]
async fn events_are_paged_and_filtered() {
    let (farm, db) = farm().await;
    let event = |kind: &str, severity, job: &str, run: i64| EventRow {
        kind: kind.to_owned(),
        severity,
        job_id: Some(job.to_owned()),
        run_id: Some(run),
        attempt: None,
        address: Some("n1".to_owned()),
        session: None,
        fence: None,
        detail: json!({}),
    };
    let events = [
        event("takeover", Severity::Warning, "a", 1),
        event("retry", Severity::Info, "a", 2),
        event("fenced", Severity::Error, "b", 2),
    ];
    record_events(&farm.db, &events).await.unwrap();
    let kinds = async |filter: EventsFilter| -> Vec<String> {
        let (mut kinds, mut cursor) = (Vec::new(), None);
        loop {
            let list = reading::events(&db, &filter, &page(cursor, 1)).await.unwrap();
            kinds.extend(list.items.into_iter().map(|e| e.event.kind));
            cursor = list.next;
            if cursor.is_none() {
                return kinds;
            }
        }
    };
    let any = EventsFilter::default;
    assert_eq!(kinds(any()).await, ["fenced", "retry", "takeover"]);
    assert_eq!(
        kinds(EventsFilter {
            job: Some("a".to_owned()),
            ..any()
        })
        .await,
        ["retry", "takeover"]
    );
    assert_eq!(
        kinds(EventsFilter {
            run: Some(2),
            ..any()
        })
        .await,
        ["fenced", "retry"]
    );
    assert_eq!(
        kinds(EventsFilter {
            severity: Some(Severity::Warning),
            ..any()
        })
        .await,
        ["fenced", "takeover"]
    );
    assert_eq!(
        kinds(EventsFilter {
            kinds: vec!["retry".to_owned()],
            ..any()
        })
        .await,
        ["retry"]
    );
    assert_eq!(
        kinds(EventsFilter {
            until: Some(past(60)),
            ..any()
        })
        .await,
        Vec::<String>::new()
    );
}

#[tokio::test]
async fn the_last_lines_are_those_at_the_end_though_each_is_a_row() {
    let (farm, db) = farm().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    let line = |n: i64| LogChunk {
        run_id: run.run_id,
        attempt: 1,
        seq: n * 5,
        stream: LogStream::Stdout,
        at: Timestamp::now(),
        bytes: format!("{n:04}\n").into_bytes(),
    };
    let lines: Vec<LogChunk> = (0..3_000).map(line).collect();
    append_log(&farm.db, &lines).await.unwrap();
    let last = reading::log(&db, run.run_id, None, Tail::Lines(2), reading::MOST_BYTES).await;
    let last = last.unwrap().unwrap();
    let text: String = last.pieces.iter().map(|p| p.text.as_str()).collect();
    assert_eq!((text.as_str(), last.next), ("2998\n2999\n", 15_000));
}
