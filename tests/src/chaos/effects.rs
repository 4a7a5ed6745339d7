//! Does to the farm what the plan says.

use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::Client;

use super::field::{Doing, Field, Site, lives};
use super::oracle::{SWEPT, Window};
use super::plan::{Act, Event, Fault};
use crate::farm::send;
use crate::witness::boot_ns;

/// One fault from its beginning to its end.
pub async fn happen(field: Arc<Field>, event: Event) {
    let lasts = Duration::from_millis(event.lasts_ms);
    let site = event.fault.agent().map(|n| &field.sites[n]);
    let doing = Doing::begin(site, event.fault.hits_the_database(), event.fault.name());
    match (event.fault, site) {
        (
            Fault::Processes {
                own, warden, guard, ..
            },
            Some(site),
        ) => {
            processes(
                &field,
                site,
                [own, warden, guard],
                lasts,
                event.declared,
                doing.from(),
            )
            .await;
        }
        (Fault::Drop { way, .. }, Some(site)) => {
            with_place(site, |place| place.drop_packets(way)).await;
            tokio::time::sleep(lasts).await;
            with_place(site, |place| place.heal()).await;
        }
        (
            Fault::Cut {
                after_bytes,
                to_server,
                ..
            },
            Some(site),
        ) => {
            for proxy in &site.proxies {
                proxy.cut_after(i64::try_from(after_bytes).unwrap_or(1), to_server);
            }
        }
        (Fault::Clock { seconds, .. }, Some(site)) => {
            site.set_clock(seconds);
            tokio::time::sleep(lasts).await;
            site.set_clock(0);
        }
        (Fault::DiskFull { .. }, Some(site)) => {
            with_place(site, |place| place.fill_disk()).await;
            tokio::time::sleep(lasts).await;
            with_place(site, |place| place.free_disk()).await;
        }
        (Fault::DatabaseRestart, _) => field.pair.lock().await.restart(lasts).await,
        (Fault::DatabaseCrash, _) => field.pair.lock().await.crash(lasts).await,
        (Fault::DatabaseFrozen, _) => field.pair.lock().await.freeze(lasts).await,
        (Fault::Failover, _) => field.pair.lock().await.fail_over(lasts).await,
        (Fault::Snapshot, _) => snapshot(&field, lasts).await,
        (Fault::Listeners, _) => listeners(&field, lasts).await,
        (_, None) => unreachable!("a fault of an agent names it"),
    }
    doing.over(&field);
}

async fn with_place(site: &Site, act: impl FnOnce(&super::place::Place)) {
    let agent = site.agent.lock().await;
    act(agent.place.as_ref().expect("an agent of the suite has a place"));
}

/// Kills and stops; later whoever was stopped goes on, and an agent that was killed is started again.
async fn processes(field: &Field, site: &Site, acts: [Act; 3], lasts: Duration, declared: bool, from: u64) {
    let [own, warden, guard] = acts;
    let agent = site.agent.lock().await;
    let pids = |found: Vec<crate::processes::Process>| found.into_iter().map(|p| p.pid).collect::<Vec<i32>>();
    let (wardens, guards) = (pids(agent.wardens()), pids(agent.guards()));
    let own_pid: Vec<i32> = agent.is_running().then(|| agent.pid()).into_iter().collect();
    drop(agent);
    let mut stopped = Vec::new();
    // Everything at once: stopped first, so that none of them acts on another's death.
    for (pids, act) in [(&own_pid, own), (&guards, guard), (&wardens, warden)] {
        if act != Act::Nothing {
            pids.iter().for_each(|pid| send(*pid, libc::SIGSTOP));
        }
        if act == Act::Stop {
            stopped.extend(pids.iter().copied());
        }
    }
    for (pids, act) in [(&guards, guard), (&wardens, warden)] {
        if act == Act::Kill {
            pids.iter().for_each(|pid| send(*pid, libc::SIGKILL));
        }
    }
    if own == Act::Kill {
        site.kill().await;
    }
    tokio::time::sleep(lasts).await;
    let lost = wardens.iter().any(|pid| !lives(*pid));
    for pid in stopped.into_iter().filter(|pid| lives(*pid)) {
        send(pid, libc::SIGCONT);
    }
    if own == Act::Kill {
        site.start().await;
    }
    // A lease that ended while the guard was stopped: the same window, come about by two faults.
    if declared || (guard == Act::Stop && lost) {
        let window = Window {
            node: site.name.clone(),
            from,
            to: boot_ns() + u64::try_from(SWEPT.as_nanos()).expect("seconds"),
            why: format!("agent {own:?}, warden {warden:?}, guard {guard:?}"),
        };
        field.windows.lock().expect("no panic under it").push(window);
    }
}

async fn snapshot(field: &Field, lasts: Duration) {
    let Some(client) = field.client().await else {
        return;
    };
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM farmhand.run_live";
    if client.batch_execute(begin).await.is_ok() {
        tokio::time::sleep(lasts).await;
        let _ = tokio::time::timeout(Duration::from_secs(2), client.batch_execute("COMMIT")).await;
    }
}

/// As many sessions that listen as the shape says; opening them takes a while of its own.
async fn listeners(field: &Field, lasts: Duration) {
    let mut open: Vec<Client> = Vec::new();
    while open.len() < field.listeners {
        let Some(client) = field.client().await else { break };
        if client.batch_execute("LISTEN farmhand").await.is_err() {
            break;
        }
        open.push(client);
    }
    tokio::time::sleep(lasts).await;
}
