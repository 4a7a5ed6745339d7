//! Output that is searched, and shown in stretches of whole lines.

use std::path::Path;
use std::time::Duration;

use farmhand_store::logs::{LogChunk, append_log};
use farmhand_store::reading::{
    LogView, Place, SearchCut, Sought, Tail, job_matches, log, log_view, run_matches,
};
use farmhand_store::{Db, LogStream};
use serde_json::Value;

use super::fixture::{Farm, one, spec, success};

/// A job with 1,000 runs of one row of output each; every hundredth has the text.
async fn thousand() -> Farm {
    let farm = Farm::new().await;
    farm.due_runs("many", 1_000).await;
    farm.due_runs("other", 1).await;
    farm.exec(
        "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
         SELECT r.run_id, 1, 0, 'stdout', now(), statement_timestamp(), convert_to(
             repeat(E'a line that says nothing\n', 100) || CASE WHEN r.run_id % 100 = 0 THEN E'ERROR 1234\n' ELSE '' END,
             'UTF8')
         FROM farmhand.run_live r;
         ANALYZE farmhand.run_log"
    ).await;
    farm
}

#[tokio::test]
async fn a_text_is_found_over_a_thousand_runs_of_its_job_alone() {
    let farm = thousand().await;
    let sought = Sought::new("ERROR 1234", false).unwrap();
    let found = job_matches(&farm.db, "many", None, 1_000, &sought).await.unwrap();
    assert_eq!((found.runs, found.items.len(), found.cut), (1_000, 10, None));
    assert!(found.items.windows(2).all(|pair| pair[0].run_id > pair[1].run_id));
    assert!(
        found
            .items
            .iter()
            .all(|m| (m.attempt, m.line, m.text.as_str()) == (1, 101, "ERROR 1234"))
    );
    let fewer = job_matches(&farm.db, "many", None, 150, &sought).await.unwrap();
    assert!(fewer.items.len() <= 2 && fewer.runs == 150, "{fewer:?}");
    let upper = Sought::new("error 1234", false).unwrap();
    assert_eq!(
        job_matches(&farm.db, "many", None, 1_000, &upper)
            .await
            .unwrap()
            .items,
        []
    );
    let either = Sought::new("error 1234", true).unwrap();
    let either = job_matches(&farm.db, "many", None, 1_000, &either).await.unwrap();
    assert_eq!(either.items, found.items);
    let unknown = job_matches(&farm.db, "nothing", None, 1_000, &sought)
        .await
        .unwrap();
    assert_eq!((unknown.runs, unknown.before), (0, None));
}

#[tokio::test]
async fn a_search_that_is_cut_says_so_and_goes_on_where_it_stopped() {
    let farm = thousand().await;
    let mut sought = Sought::new("ERROR 1234", false).unwrap();
    sought.time = Duration::ZERO;
    let (mut before, mut runs, mut items, mut searches) = (None, 0, Vec::new(), 0);
    loop {
        let found = job_matches(&farm.db, "many", before, 1_000, &sought)
            .await
            .unwrap();
        (runs, searches) = (runs + found.runs, searches + 1);
        items.extend(found.items.iter().map(|m| m.run_id));
        assert!(found.runs <= 64, "one statement: {found:?}");
        if found.cut.is_none() {
            break;
        }
        assert_eq!(found.cut, Some(SearchCut::Time));
        before = found.before;
    }
    items.dedup();
    assert_eq!((runs, items.len()), (1_000, 10), "in {searches} searches");

    let mut sought = Sought::new("ERROR 1234", false).unwrap();
    sought.bytes = 10_000;
    let found = job_matches(&farm.db, "many", None, 1_000, &sought).await.unwrap();
    assert_eq!(found.cut, Some(SearchCut::Bytes), "{found:?}");
    assert!(
        found.runs <= 64 && found.bytes <= 64 * 3_000,
        "one statement more than it may: {found:?}"
    );

    let mut sought = Sought::new("nothing", false).unwrap();
    sought.matches = 150;
    let found = job_matches(&farm.db, "many", None, 1_000, &sought).await.unwrap();
    assert_eq!((found.items.len(), found.cut), (150, Some(SearchCut::Matches)));
    assert_eq!(found.runs, 2, "a hundred lines of one run, fifty of the next");
}

#[tokio::test]
async fn a_statement_that_searches_looks_at_a_bounded_number_of_rows() {
    let farm = thousand().await;
    // One run of many small rows, as of a slow writer.
    farm.exec(
        "INSERT INTO farmhand.run_log (run_id, attempt, seq, stream, at, stored_at, chunk)
         SELECT (SELECT max(run_id) FROM farmhand.run_live WHERE job_id = 'many'), 2, n * 3, 'stdout', now(),
             statement_timestamp(), 'ab\\012' FROM generate_series(0, 19999) n;
         ANALYZE farmhand.run_log",
    )
    .await;
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../common/store/src/sql/reading_output.sql");
    let text = std::fs::read_to_string(file).unwrap();
    let newest = "(SELECT array_agg(run_id ORDER BY run_id DESC) FROM (SELECT run_id FROM farmhand.run_live
        WHERE job_id = 'many' ORDER BY run_id DESC LIMIT 64) r)";
    let newest = farm.text(&format!("SELECT {newest}::text")).await.unwrap();
    for (attempt, seq) in [("0", "-1"), ("2", "30000")] {
        let asked = text
            .replace("$1", &format!("'{newest}'"))
            .replace("$2", "NULL")
            .replace("$3", attempt)
            .replace("$4", &format!("({seq})"))
            .replace("$5", "64::bigint");
        let settings = "SET enable_seqscan = off; SET jit = off";
        farm.exec(settings).await;
        let row = farm
            .sql
            .query_one(&format!("EXPLAIN (ANALYZE, FORMAT JSON) {asked}"), &[])
            .await;
        let plan: Value = row.unwrap().get(0);
        let rows = looked_at(&plan[0]["Plan"]);
        assert!(rows <= 2.0 * 64.0 + 64.0, "{rows} rows: {plan:#}");
        assert!(!plan.to_string().contains("Seq Scan"), "{plan:#}");
    }
}

/// Rows of output that a plan reads, those thrown away included.
fn looked_at(node: &Value) -> f64 {
    let number = |key: &str| node[key].as_f64().unwrap_or_default();
    let own = match node["Relation Name"].as_str() {
        Some(name) if name.starts_with("run_log") => {
            (number("Actual Rows") + number("Rows Removed by Filter")) * number("Actual Loops")
        }
        _ => 0.0,
    };
    own + node["Plans"]
        .as_array()
        .into_iter()
        .flatten()
        .map(looked_at)
        .sum::<f64>()
}

/// A run whose first attempt is running, with this output.
async fn writes(farm: &Farm, rows: &[(i64, LogStream, &[u8])]) -> i64 {
    let me = farm.node("n1").await;
    let run_id = farm.held_run(&me, "writer", spec()).await.run_id;
    more(&farm.db, run_id, rows).await;
    run_id
}

async fn more(db: &Db, run_id: i64, rows: &[(i64, LogStream, &[u8])]) {
    let chunks: Vec<LogChunk> = rows
        .iter()
        .map(|(seq, stream, bytes)| LogChunk {
            run_id,
            attempt: 1,
            seq: *seq,
            stream: *stream,
            at: jiff::Timestamp::UNIX_EPOCH,
            bytes: bytes.to_vec(),
        })
        .collect();
    append_log(db, &chunks).await.unwrap();
}

#[tokio::test]
async fn a_run_is_searched_over_its_streams_and_says_what_was_not_kept() {
    let farm = Farm::new().await;
    let rows: [(i64, LogStream, &[u8]); 3] = [
        (0, LogStream::Stdout, b"one\n\x1b[31mERR"),
        (12, LogStream::Stdout, b"OR\x1b[0m 1\n"),
        (1_000, LogStream::Stderr, b"ERROR 2\n"),
    ];
    let run_id = writes(&farm, &rows).await;
    let mut sought = Sought::new("ERROR", false).unwrap();
    let found = run_matches(&farm.db, run_id, &sought).await.unwrap().unwrap();
    let lines: Vec<_> = found.items.iter().map(|m| (m.line, m.text.as_str())).collect();
    assert_eq!(lines, [(2, "ERROR 1"), (3, "ERROR 2")]);
    assert_eq!((found.runs, found.not_kept, found.before), (1, 979, None));
    sought.attempt = Some(2);
    let found = run_matches(&farm.db, run_id, &sought).await.unwrap().unwrap();
    assert_eq!(found.items, []);
    assert_eq!(
        run_matches(&farm.db, run_id + 1_000, &sought).await.unwrap(),
        None
    );
}

async fn view(farm: &Farm, run_id: i64, place: Place) -> LogView {
    log_view(&farm.db, run_id, None, place).await.unwrap().unwrap()
}

fn text(view: &LogView) -> String {
    let bytes = view.chunks.iter().flat_map(|c| c.bytes.clone()).collect();
    String::from_utf8(bytes).unwrap()
}

#[tokio::test]
async fn stretches_are_whole_lines_with_their_numbers_from_every_side() {
    let farm = Farm::new().await;
    let all: String = (1..=20_000).map(|n| format!("line {n}\n")).collect();
    let rows: Vec<_> = (all.as_bytes().chunks(50_000).enumerate())
        .map(|(n, bytes)| (i64::try_from(n).unwrap() * 50_000, LogStream::Stdout, bytes))
        .collect();
    let run_id = writes(&farm, &rows).await;
    let end = view(&farm, run_id, Place::End).await;
    assert_eq!(
        (end.next, end.end, end.next_line()),
        (end.end, i64::try_from(all.len()).unwrap(), Some(20_001))
    );
    let numbered = |view: &LogView| {
        let first = text(view).lines().next().unwrap().to_owned();
        assert_eq!(first, format!("line {}", view.line.unwrap()), "{:?}", view.from);
        assert!(!view.within && text(view).ends_with('\n'));
        assert!(text(view).len() <= 64 << 10);
    };
    numbered(&end);
    // Back to the beginning, with and without known numbers.
    let (mut at, mut seen) = (end, String::new());
    loop {
        seen.insert_str(0, &text(&at));
        if at.from == 0 {
            break;
        }
        let known = view(&farm, run_id, Place::Before(at.from, at.line)).await;
        let counted = view(&farm, run_id, Place::Before(at.from, None)).await;
        assert_eq!(known, counted);
        assert_eq!(known.next, at.from);
        numbered(&known);
        at = known;
    }
    assert_eq!(seen, all, "nothing is missing and nothing comes twice");
    // And to the end again.
    let mut seen = String::new();
    let mut at = view(&farm, run_id, Place::From(0, Some(1))).await;
    while !at.chunks.is_empty() {
        numbered(&at);
        seen.push_str(&text(&at));
        at = view(&farm, run_id, Place::From(at.next, at.next_line())).await;
    }
    assert_eq!(seen, all);
    for line in [1, 2, 41, 9_999, 20_000] {
        let at = view(&farm, run_id, Place::Line(line)).await;
        numbered(&at);
        assert!(text(&at).contains(&format!("line {line}\n")), "{line}");
    }
    let beyond = view(&farm, run_id, Place::Line(999_999)).await;
    assert_eq!(beyond.next_line(), Some(20_001));
    // Whoever asks may write any number into the address.
    let first = view(&farm, run_id, Place::Line(i64::MIN)).await;
    assert_eq!((first.from, first.line), (0, Some(1)));
    for number in [i64::MIN, i64::MAX] {
        for place in [
            Place::Line(number),
            Place::From(0, Some(number)),
            Place::From(number, Some(number)),
            Place::Before(number, Some(number)),
            Place::Before(5, Some(number)),
        ] {
            view(&farm, run_id, place).await.next_line();
        }
    }
}

#[tokio::test]
async fn a_line_that_is_being_written_comes_again_until_it_ends() {
    let farm = Farm::new().await;
    let run_id = writes(&farm, &[(0, LogStream::Stdout, b"one\ntw")]).await;
    let at = view(&farm, run_id, Place::End).await;
    assert_eq!(
        (text(&at).as_str(), at.next, at.next_line()),
        ("one\ntw", 4, Some(2))
    );
    more(&farm.db, run_id, &[(6, LogStream::Stdout, b"o\nthree")]).await;
    let at = view(&farm, run_id, Place::From(at.next, at.next_line())).await;
    assert_eq!((text(&at).as_str(), at.next, at.line), ("two\nthree", 8, Some(2)));
    // A line longer than a stretch goes on in the next.
    more(&farm.db, run_id, &[(13, LogStream::Stdout, &[b'x'; 64 << 10])]).await;
    more(
        &farm.db,
        run_id,
        &[(13 + (64 << 10), LogStream::Stdout, b"yyy\nlast\n")],
    )
    .await;
    let long = view(&farm, run_id, Place::From(8, Some(3))).await;
    assert!(!long.within && long.next > 8 && !text(&long).contains('\n'));
    let rest = view(&farm, run_id, Place::From(long.next, long.next_line())).await;
    assert_eq!(
        (rest.within, rest.line, rest.next_line()),
        (true, Some(3), Some(5))
    );
    assert!(text(&rest).ends_with("yyy\nlast\n"));
}

#[tokio::test]
async fn a_character_that_is_being_written_comes_whole() {
    let farm = Farm::new().await;
    let me = farm.node("n1").await;
    let run = farm.held_run(&me, "a", spec()).await;
    let half = LogChunk {
        run_id: run.run_id,
        attempt: 1,
        seq: 0,
        stream: LogStream::Stdout,
        at: jiff::Timestamp::now(),
        bytes: b"a\xC3".to_vec(),
    };
    append_log(&farm.db, &[half]).await.unwrap();
    let read = async |from| {
        let range = log(&farm.db, run.run_id, None, Tail::From(from), 9).await;
        range.unwrap().unwrap()
    };
    let live = read(0).await;
    assert_eq!((live.pieces[0].text.as_str(), live.next, live.end), ("a", 1, 1));
    one(&farm, success(&me, &run)).await;
    assert_eq!(read(1).await.next, 2, "at the end it comes as it is");
}
