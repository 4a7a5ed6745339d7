//! What an agent comes back from, and with what: another lease, name or address, a rack without power, wardens that sleep.

use std::time::{Duration, Instant};

use super::field::{Doing, Field, lives};
use super::oracle::OTHER;
use super::place::Place;
use super::site::Site;
use crate::farm::send;
use crate::freezer::Frozen;
use crate::no_forks::NoForks;
use crate::witness::boot_ns;

/// For reapers to end what their dead wardens left.
const REAPERS: Duration = Duration::from_secs(5);

/// Killed, with its wardens or without, and back with another lease.
pub async fn lease(site: &Site, seconds: u64, wardens: bool, away: Duration) -> bool {
    let was = if wardens {
        site.kill_with_wardens().await
    } else {
        let was = site.agent.lock().await.is_running();
        site.kill().await;
        was
    };
    tokio::time::sleep(away).await;
    site.set_lease(seconds, was && wardens).await;
    site.start().await;
    was
}

/// All of them at once, and back together.
pub async fn rack(members: &[Site], away: Duration) -> bool {
    // Stopped first, so that they die together as nearly as can be.
    for site in members {
        let agent = site.agent.lock().await;
        if agent.is_running() {
            agent.signal(libc::SIGSTOP);
        }
    }
    let mut dead = 0;
    for site in members {
        dead += usize::from(site.kill_with_wardens().await);
    }
    tokio::time::sleep(away).await;
    for site in members {
        site.start().await;
    }
    dead > 1
}

/// Its wardens are in uninterruptible sleep, whatever is sent to them.
pub async fn frozen(site: &Site, kill: bool, lasts: Duration, doing: &mut Doing) -> bool {
    let until = Instant::now() + Duration::from_secs(60);
    let frozen = loop {
        let agent = site.agent.lock().await;
        let frozen: Vec<Frozen> = (agent.wardens().iter())
            .filter_map(|warden| Frozen::try_new(warden.pid))
            .collect();
        drop(agent);
        // It may be starting.
        if !frozen.is_empty() || Instant::now() > until {
            break frozen;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    doing.begins_now();
    if kill {
        site.kill().await;
        tokio::time::sleep(lasts / 2).await;
        site.start().await;
        tokio::time::sleep(lasts / 2).await;
    } else {
        tokio::time::sleep(lasts).await;
    }
    !frozen.is_empty()
}

/// No process of it can fork, nor start a thread. Hit when one was refused.
pub async fn no_forks(site: &Site, lasts: Duration) -> bool {
    let agent = site.agent.lock().await;
    let inhabitants = agent.place.iter().flat_map(Place::inhabitants);
    let pids: Vec<i32> = inhabitants.map(|p| p.pid).collect();
    drop(agent);
    if pids.is_empty() {
        return false;
    }
    let forks = NoForks::new(&pids);
    tokio::time::sleep(lasts).await;
    forks.refused()
}

/// Another zone, told to the running agent, or found by it at its next start.
pub async fn labels(field: &Field, site: &Site, zone: char) -> bool {
    let from = boot_ns();
    site.set_zone(zone);
    let until = Instant::now() + Duration::from_secs(60);
    let told = loop {
        let agent = site.agent.lock().await;
        // Before it serves it may be ended by the signal.
        if agent.is_running() && agent.get("/readyz").await.is_some() {
            agent.signal(libc::SIGHUP);
            break true;
        }
        drop(agent);
        if Instant::now() > until {
            break false;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    };
    let mut relabelled = field.relabelled.lock().expect("no panic under it");
    relabelled.push((site.name.clone(), from));
    told
}

/// Back under another name of its node, or after a reboot under another address; then as before.
pub async fn rename(site: &Site, address: bool, lasts: Duration, doing: &mut Doing) -> bool {
    leave(site, address).await;
    let other = format!("{}{OTHER}", site.name);
    {
        let mut agent = site.agent.lock().await;
        if address {
            agent.address.clone_from(&other);
        }
        agent.arguments.extend(["--node-name".to_owned(), other]);
    }
    site.start().await;
    let (since, until) = (boot_ns(), Instant::now() + lasts);
    let mut served = false;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let agent = site.agent.lock().await;
        served |= matches!(agent.get("/readyz").await, Some((200, _)));
    }
    if address {
        doing.had_other_address(since);
    }
    leave(site, address).await;
    {
        let mut agent = site.agent.lock().await;
        agent.address.clone_from(&site.name);
        let kept = agent.arguments.len() - 2;
        agent.arguments.truncate(kept);
    }
    site.start().await;
    served
}

/// As a reboot would: nothing of it is left. Or the agent alone.
async fn leave(site: &Site, whole: bool) {
    if !whole {
        return site.kill().await;
    }
    let keepers = {
        let agent = site.agent.lock().await;
        agent
            .reapers()
            .into_iter()
            .chain(agent.wardens())
            .collect::<Vec<_>>()
    };
    site.kill_with_wardens().await;
    let until = Instant::now() + REAPERS;
    while keepers.iter().any(|p| lives(p.pid)) && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // A warden that the agent was just starting shows itself a moment later.
    let mut calm = 0;
    while calm < 5 && Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(40)).await;
        let agent = site.agent.lock().await;
        let late: Vec<_> = agent.reapers().into_iter().chain(agent.wardens()).collect();
        late.iter().for_each(|p| send(p.pid, libc::SIGKILL));
        calm = if late.is_empty() { calm + 1 } else { 0 };
    }
}
