use farmhand_store::events::{EventRow, record_events};
use farmhand_store::logs::{LogChunk, append_log, log_extents, read_log, trim_log};
use farmhand_store::reading::{self, EventsFilter, Paging, events_after};
use farmhand_store::{LogStream, Severity};
use jiff::Timestamp;
use serde_json::json;

use crate::fixture::Farm;

fn chunk(seq: i64, text: &str) -> LogChunk {
    LogChunk {
        run_id: 7,
        attempt: 1,
        seq,
        stream: LogStream::Stdout,
        at: Timestamp::UNIX_EPOCH,
        bytes: text.as_bytes().to_vec(),
    }
}

#[tokio::test]
async fn output_is_read_in_order_and_in_pages() {
    let farm = Farm::new().await;
    let mut raw = chunk(2, "");
    raw.bytes = vec![0, 255, 10];
    raw.stream = LogStream::Stderr;
    append_log(&farm.db, &[chunk(1, "b"), raw.clone(), chunk(0, "a")])
        .await
        .unwrap();
    let all = read_log(&farm.db, 7, 1, -1, 10).await.unwrap();
    assert_eq!(all, [chunk(0, "a"), chunk(1, "b"), raw]);
    assert_eq!(read_log(&farm.db, 7, 1, 0, 1).await.unwrap(), [chunk(1, "b")]);
    assert!(read_log(&farm.db, 7, 2, -1, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_repeated_append_stores_nothing_twice() {
    let farm = Farm::new().await;
    let set = [chunk(0, "a"), chunk(1, "b")];
    append_log(&farm.db, &set).await.unwrap();
    append_log(&farm.db, &[chunk(1, "b"), chunk(2, "c")])
        .await
        .unwrap();
    let extent = log_extents(&farm.db, 7).await.unwrap().remove(0);
    assert_eq!(
        (extent.chunks, extent.bytes, extent.first_seq, extent.last_seq),
        (3, 3, 0, 2)
    );
    trim_log(&farm.db, 7, 1, 0, 2).await.unwrap();
    assert_eq!(read_log(&farm.db, 7, 1, -1, 10).await.unwrap(), [chunk(2, "c")]);
}

fn event(kind: &str, run_id: i64) -> EventRow {
    EventRow {
        kind: kind.to_owned(),
        severity: Severity::Warning,
        job_id: Some("j".to_owned()),
        run_id: Some(run_id),
        attempt: Some(1),
        address: Some("a".to_owned()),
        session: Some(1),
        fence: None,
        detail: json!({"why": "because"}),
    }
}

#[tokio::test]
async fn events_are_found_by_what_they_are_about_and_followed() {
    let farm = Farm::new().await;
    record_events(
        &farm.db,
        &[event("first", 1), event("second", 2), event("third", 1)],
    )
    .await
    .unwrap();
    let any = EventsFilter::default();
    let newest = reading::events(&farm.db, &any, &Paging::first(2)).await.unwrap();
    assert_eq!(
        newest
            .items
            .iter()
            .map(|e| e.event.kind.as_str())
            .collect::<Vec<_>>(),
        ["third", "second"]
    );
    let rest = Paging {
        cursor: newest.next,
        limit: Some(9),
    };
    let older = reading::events(&farm.db, &any, &rest).await.unwrap().items;
    assert_eq!(older.len(), 1);
    assert_eq!(older[0].event, event("first", 1));
    let about = EventsFilter {
        run: Some(1),
        ..EventsFilter::default()
    };
    let found = reading::events(&farm.db, &about, &rest).await.unwrap();
    assert_eq!(found.items.len(), 1);
    let after = events_after(&farm.db, &about, older[0].event_id, &[], 9)
        .await
        .unwrap();
    assert_eq!(
        after.iter().map(|e| e.event.kind.as_str()).collect::<Vec<_>>(),
        ["third"]
    );
}
