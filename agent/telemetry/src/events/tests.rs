//! Every event as it is logged, recorded and counted, compared with `golden.txt`.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_core::attempt::AttemptRef;
use farmhand_core::lease::{BootInstant, Closed};
use farmhand_core::notify::{Channel, Topic};
use farmhand_store::StoreError;
use serde_json::json;

use super::*;

fn attempt() -> AttemptRef {
    AttemptRef {
        job_id: "backup".to_owned(),
        kind: "scheduled".to_owned(),
        run_id: 7,
        attempt: 2,
        fence: 99,
    }
}

fn refused(remote: bool, token: bool, times: u64) -> Event {
    Event::Refused {
        reason: "role",
        token: token.then(|| "ci".to_owned()),
        remote: remote.then(|| [10, 0, 0, 1].into()),
        method: "GET".to_owned(),
        path: "/a\u{fffd}b".to_owned(),
        times,
    }
}

fn not_delivered(tries: i32) -> Event {
    Event::NotificationDelayed {
        target: "ops".to_owned(),
        channel: Channel::Webhook,
        topic: Topic::Failure,
        job_id: Some("backup".to_owned()),
        run_id: Some(7),
        tries,
        error: "no answer".to_owned(),
    }
}

fn given_up(topic: Topic) -> Event {
    Event::NotificationFailed {
        target: "ops".to_owned(),
        channel: Channel::Webhook,
        topic,
        job_id: Some("backup".to_owned()),
        run_id: Some(7),
        tries: 9,
        error: "no answer".to_owned(),
    }
}

fn delivered(complaint: Option<&str>, job: bool) -> Event {
    Event::Delivered {
        target: "ops".to_owned(),
        channel: Channel::Email,
        topic: Topic::Failure,
        job_id: job.then(|| "backup".to_owned()),
        complaint: complaint.map(str::to_owned),
    }
}

fn epoch(why: Option<Closed>, runs_forgotten: Option<i64>) -> Event {
    Event::EpochOpened {
        epoch: 5,
        follows: 4,
        why,
        runs_forgotten,
    }
}

fn samples() -> Vec<Event> {
    let ms = Duration::from_millis;
    let text = str::to_owned;
    vec![
        Event::SessionOpened { session: 3 },
        Event::SessionAdopted {
            session: 3,
            attempts: 2,
        },
        Event::Booted {
            boot_id: text("b-1"),
            runs: 4,
        },
        Event::SessionLost { session: 3 },
        Event::SessionShared { session: 3 },
        Event::SessionClosed { session: 3, freed: 1 },
        Event::Superseded,
        Event::Renewed {
            remaining: 0.75,
            ttl: ms(30_000),
        },
        Event::RenewalFailed { error: text("no") },
        Event::LeaseLapsed {
            session: 3,
            attempts: 2,
        },
        Event::Claimed {
            attempt: attempt(),
            lag: ms(1_234),
            takeover: None,
        },
        Event::Claimed {
            attempt: attempt(),
            lag: ms(1_234),
            takeover: Some(TakeoverCause::Expired),
        },
        Event::ClaimTook { took: ms(12) },
        Event::ClaimLost { kind: "scheduled" },
        Event::ClaimFailed { error: text("no") },
        Event::Started {
            attempt: attempt(),
            pid: 4711,
        },
        Event::Ended {
            attempt: attempt(),
            outcome: "succeeded",
            ran: Some(ms(1_500)),
            detail: json!({"code": 0}),
        },
        Event::Ended {
            attempt: attempt(),
            outcome: "failed",
            ran: Some(ms(1_500)),
            detail: json!({"code": 1}),
        },
        Event::Ended {
            attempt: attempt(),
            outcome: "failed",
            ran: None,
            detail: json!(null),
        },
        Event::Retrying {
            attempt: attempt(),
            outcome: "failed",
            delay: ms(2_550),
        },
        Event::AttemptLost {
            attempt: attempt(),
            why: "the warden died",
        },
        Event::TimedOut {
            attempt: attempt(),
            limit: "run",
        },
        Event::TimedOut {
            attempt: attempt(),
            limit: "progress",
        },
        Event::Released {
            session: 3,
            runs: 2,
            why: "no slot",
        },
        Event::Fenced {
            op: "finish",
            run_id: 7,
            attempt: 2,
            now: text("due"),
        },
        Event::FenceKill {
            run_id: 7,
            attempt: 2,
            why: "it moved on",
        },
        Event::UserRefused {
            attempt: attempt(),
            user: text("root"),
            why: text("not allowed"),
        },
        Event::DefinitionRefused {
            attempt: attempt(),
            why: text("no key"),
        },
        Event::ChildKilled {
            attempt: attempt(),
            name: text("convert"),
            pid: 12,
            what: text("convert ran too long"),
        },
        Event::LeftoversEnded {
            attempt: attempt(),
            processes: 3,
        },
        Event::Unkillable {
            run_id: 7,
            attempt: 2,
        },
        Event::RunSlow {
            job_id: text("backup"),
            run_id: 7,
            attempt: 2,
            node: text("n1"),
            ran: ms(61_500),
            p95: ms(30_000),
            runs: 20,
        },
        Event::Skipped {
            job_id: text("backup"),
            reason: text("overlap"),
            count: 3,
        },
        Event::Expired {
            address: text("n2"),
            session: 8,
            silent: ms(31_260),
            freed: 2,
        },
        Event::RenewalWithheld { session: 3 },
        Event::LeaseFreed {
            name: text("nightly"),
            client: text("lock 12"),
            login: text("app"),
        },
        Event::Swept { freed: 2 },
        Event::Abandoned { runs: 2 },
        Event::DatabaseUnknown { epoch: 5 },
        epoch(None, None),
        epoch(Some(Closed::OtherPlace), Some(0)),
        epoch(None, Some(3)),
        Event::EpochChanged { from: 4, to: 5 },
        Event::StartsRefused { why: text("EAGAIN") },
        Event::StartsResumed { after: ms(2_340) },
        Event::ClockSlewed { slewed: true },
        Event::ClockSlewed { slewed: false },
        Event::DatabaseUp { away: None },
        Event::DatabaseUp { away: Some(ms(999)) },
        Event::DatabaseUp {
            away: Some(ms(1_000)),
        },
        Event::DatabaseAway,
        Event::database_down(
            "claim",
            &StoreError::TimedOut {
                op: "claim",
                unsure: false,
            },
        ),
        Event::ClockOffset { seconds: 0.5 },
        Event::NotRemoved {
            run_id: 7,
            attempt: 2,
            error: text("busy"),
        },
        Event::OutputDropped {
            run_id: 7,
            attempt: 2,
            bytes: 100,
            error: None,
        },
        Event::OutputDropped {
            run_id: 7,
            attempt: 2,
            bytes: 100,
            error: Some(text("disk full")),
        },
        Event::RunLog {
            socket: text("/dev/log"),
            trouble: Some(text("refused")),
        },
        Event::RunLog {
            socket: text("/dev/log"),
            trouble: None,
        },
        Event::BadDefinition {
            job_id: text("backup"),
            error: text("no command"),
        },
        Event::TableRefused {
            job_id: text("backup"),
            error: text("no table"),
        },
        Event::RowsWithoutKey {
            job_id: text("backup"),
        },
        Event::Reloaded {
            restart_needed: Vec::new(),
        },
        Event::Reloaded {
            restart_needed: vec!["slots", "address"],
        },
        Event::ReloadFailed { error: text("bad") },
        Event::Draining { why: "by order" },
        Event::DrainDeadline { attempts: 2 },
        Event::Drained,
        delivered(None, true),
        delivered(Some("one address refused"), false),
        not_delivered(1),
        not_delivered(2),
        given_up(Topic::Failure),
        given_up(Topic::Test),
        Event::Pinged { error: None },
        Event::Pinged {
            error: Some(text("no route")),
        },
        Event::NoMail {
            targets: vec![text("ops"), text("dev")],
        },
        Event::PingWithheld {
            why: "claims are closed",
        },
        Event::Answered { status: 204 },
        Event::Answered { status: 999 },
        Event::TurnedAway { reason: "role" },
        refused(true, true, 1),
        refused(false, false, 3),
        Event::Housekeeping {
            task: "sweep",
            error: None,
        },
        Event::Housekeeping {
            task: "sweep",
            error: Some(text("no")),
        },
    ]
}

fn series(m: &Metrics) -> BTreeSet<String> {
    let text = String::from_utf8(m.render(BootInstant(0)).unwrap()).unwrap();
    (text.lines())
        .filter(|line| !line.starts_with('#') && !line.contains("_bucket{"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_event_is_logged_recorded_and_counted_as_before() {
    let mut all = String::new();
    for event in samples() {
        let m = Metrics::new().unwrap();
        m.db_up.set(i64::from(!matches!(event, Event::DatabaseUp { .. })));
        m.starts_refused
            .set(i64::from(!matches!(event, Event::StartsRefused { .. })));
        let before = series(&m);
        farmhand_store::count_event!(m, &event);
        let level = event.severity().map_or("trace", Severity::as_str);
        all.push_str(&format!("{level} {event}\n"));
        if let Some(row) = event.row("n1") {
            all.push_str(&format!("    {}\n", json!(row)));
        }
        for line in series(&m).difference(&before) {
            all.push_str(&format!("    {line}\n"));
        }
    }
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/src/events/golden.txt");
    if std::env::var_os("FARMHAND_BLESS").is_some() {
        std::fs::write(file, &all).unwrap();
    }
    assert_eq!(all, std::fs::read_to_string(file).unwrap());
}
