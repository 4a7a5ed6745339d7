//! Does to the farm what the plan says.

use std::sync::Arc;
use std::time::Duration;

use crate::pg::Client;

use super::field::{Doing, Field, lives};
use super::oracle::{SWEPT, Window};
use super::plan::{Act, Event, Fault};
use super::site::Site;
use super::{restarts, table};
use crate::farm::send;
use crate::witness::boot_ns;

/// One fault from its beginning to its end; whether there was something that it hit.
pub async fn happen(field: Arc<Field>, event: Event) -> bool {
    let lasts = Duration::from_millis(event.lasts_ms);
    let members = match event.fault {
        Fault::Rack { first, size } => &field.sites[first..first + size],
        // Its node goes on.
        Fault::Labels { .. } => &[],
        _ => event.fault.agent().map_or(&[][..], |n| &field.sites[n..=n]),
    };
    let (name, database) = (event.fault.name(), event.fault.hits_the_database());
    let _turn = if database {
        Some(field.turn.lock().await)
    } else {
        None
    };
    let mut doings: Vec<Doing> = if members.is_empty() {
        let waits = event.fault.starts_a_server();
        let lease = if waits {
            field.longest_lease
        } else {
            Duration::ZERO
        };
        vec![Doing::begin(None, database, name).with_lease(lease)]
    } else {
        let begin = |site| Doing::begin(Some(site), database, name.clone());
        members.iter().map(begin).collect()
    };
    let hit = match event.fault.agent().map(|n| &field.sites[n]) {
        Some(site) => on_a_site(&field, site, event, lasts, &mut doings[0]).await,
        None => on_the_farm(&field, members, event.fault, lasts).await,
    };
    doings.into_iter().for_each(|doing| doing.over(&field));
    hit
}

async fn on_a_site(field: &Field, site: &Site, event: Event, lasts: Duration, doing: &mut Doing) -> bool {
    match event.fault {
        Fault::Processes {
            own, warden, reaper, ..
        } => {
            let acts = [own, warden, reaper];
            return processes(field, site, acts, lasts, event.declared, doing.from()).await;
        }
        Fault::Drop { way, .. } => {
            with_place(site, |place| place.drop_packets(way)).await;
            tokio::time::sleep(lasts).await;
            with_place(site, |place| place.heal()).await;
        }
        Fault::Cut {
            after_bytes,
            to_server,
            ..
        } => {
            for proxy in &site.proxies {
                proxy.cut_after(i64::try_from(after_bytes).unwrap_or(1), to_server);
            }
        }
        Fault::Clock { seconds, .. } => {
            site.set_clock(seconds);
            tokio::time::sleep(lasts).await;
            site.set_clock(0);
        }
        Fault::DiskFull { .. } => {
            with_place(site, |place| place.fill_disk()).await;
            tokio::time::sleep(lasts).await;
            with_place(site, |place| place.free_disk()).await;
        }
        Fault::Lease { seconds, wardens, .. } => return restarts::lease(site, seconds, wardens, lasts).await,
        Fault::Frozen { kill, .. } => return restarts::frozen(site, kill, lasts, doing).await,
        Fault::NoForks { .. } => return restarts::no_forks(site, lasts).await,
        Fault::Labels { zone, .. } => return restarts::labels(field, site, zone).await,
        Fault::Rename { address, .. } => return restarts::rename(site, address, lasts, doing).await,
        _ => unreachable!("a fault of no agent"),
    }
    true
}

async fn on_the_farm(field: &Field, members: &[Site], fault: Fault, lasts: Duration) -> bool {
    match fault {
        Fault::Rack { .. } => restarts::rack(members, lasts).await,
        Fault::SlowTable { milliseconds } => table::slow_down(field, milliseconds, lasts).await > 0,
        Fault::Snapshot => snapshot(field, lasts).await,
        Fault::Listeners => listeners(field, lasts).await,
        fault => field.servers.happen(fault, lasts).await,
    }
}

async fn with_place(site: &Site, act: impl FnOnce(&super::place::Place)) {
    let agent = site.agent.lock().await;
    act(agent.place.as_ref().expect("an agent of the suite has a place"));
}

/// Kills and stops; later whoever was stopped goes on, and an agent that was killed is started again.
async fn processes(
    field: &Field,
    site: &Site,
    acts: [Act; 3],
    lasts: Duration,
    declared: bool,
    from: u64,
) -> bool {
    let [own, warden, reaper] = acts;
    let agent = site.agent.lock().await;
    let pids = |found: Vec<crate::processes::Process>| found.into_iter().map(|p| p.pid).collect::<Vec<i32>>();
    let (wardens, reapers) = (pids(agent.wardens()), pids(agent.reapers()));
    let own_pid: Vec<i32> = agent.is_running().then(|| agent.pid()).into_iter().collect();
    drop(agent);
    let mut stopped = Vec::new();
    let mut hit = false;
    // Everything at once: stopped first, so that none of them acts on another's death.
    for (pids, act) in [(&own_pid, own), (&reapers, reaper), (&wardens, warden)] {
        if act != Act::Nothing {
            hit |= !pids.is_empty();
            pids.iter().for_each(|pid| send(*pid, libc::SIGSTOP));
        }
        if act == Act::Stop {
            stopped.extend(pids.iter().copied());
        }
    }
    for (pids, act) in [(&reapers, reaper), (&wardens, warden)] {
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
    // A lease that ended while the reaper was stopped: the same window, come about by two faults.
    if declared || (reaper == Act::Stop && lost) {
        let window = Window {
            node: site.name.clone(),
            from,
            to: boot_ns() + u64::try_from(SWEPT.as_nanos()).expect("seconds"),
            why: format!("agent {own:?}, warden {warden:?}, reaper {reaper:?}"),
        };
        field.windows.lock().expect("no panic under it").push(window);
    }
    hit
}

async fn snapshot(field: &Field, lasts: Duration) -> bool {
    let Some(client) = field.client().await else {
        return false;
    };
    let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM farmhand.run_live";
    let held = client.batch_execute(begin).await.is_ok();
    if held {
        tokio::time::sleep(lasts).await;
        let _ = tokio::time::timeout(Duration::from_secs(2), client.batch_execute("COMMIT")).await;
    }
    held
}

/// As many sessions that listen as the shape says; opening them takes a while of its own.
async fn listeners(field: &Field, lasts: Duration) -> bool {
    let mut open: Vec<Client> = Vec::new();
    while open.len() < field.listeners {
        let Some(client) = field.client().await else { break };
        if client.batch_execute("LISTEN farmhand").await.is_err() {
            break;
        }
        open.push(client);
    }
    tokio::time::sleep(lasts).await;
    !open.is_empty()
}
