//! Three PostgreSQL servers that Patroni keeps, each in a network of its own, and what happens to them.

mod member;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use serde_json::{Value, json};

use self::member::{MAXIMUM_LAG, Member, Service, etcd};
use super::pair::pooler;
use super::place::hub;
use super::plan::{Fault, Way};
use crate::farm::{send, stop};
use crate::outside::Pooler;
use crate::pg::{self, ADMIN, OWNER};

/// For each thing that is waited for. A leader that is gone costs its key's time to live, which is 20 s at the least.
const BOUND: Duration = Duration::from_secs(120);

/// One etcd and three members, with a pooler before each when the agents use one.
pub struct Patroni {
    members: Vec<Member>,
    poolers: Vec<Pooler>,
    _etcd: Service,
}

/// Waits a moment and another one, until the bound is reached.
struct Patience {
    what: String,
    until: Instant,
}

impl Patience {
    fn of(what: &str) -> Self {
        Self {
            what: what.to_owned(),
            until: Instant::now() + BOUND,
        }
    }

    async fn wait(&self, seen: &str) {
        let what = &self.what;
        assert!(
            Instant::now() < self.until,
            "not within {BOUND:?}: {what}: {seen}"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

impl Patroni {
    /// A whole cluster with a migrated database `farmhand`.
    pub async fn start(dir: &Path, with_poolers: bool) -> Self {
        let etcd = etcd(dir);
        let members: Vec<Member> = (1..=3)
            .map(|number| Member::new(number, dir, etcd.place.address))
            .collect();
        let poolers = if with_poolers {
            members.iter().map(|m| pooler(m.server())).collect()
        } else {
            Vec::new()
        };
        let cluster = Self {
            members,
            poolers,
            _etcd: etcd,
        };
        cluster.members.iter().for_each(|m| m.service.start());
        cluster.whole().await;
        pg::make_owner(|database, user| cluster.url(database, user)).await;
        pg::make_migrated(|database, user| cluster.url(database, user), "farmhand").await;
        cluster
    }

    pub fn addresses(&self) -> Vec<SocketAddr> {
        if self.poolers.is_empty() {
            self.members.iter().map(Member::server).collect()
        } else {
            self.poolers.iter().map(|p| hub(p.port())).collect()
        }
    }

    /// Names all members; the one that takes writes answers.
    pub fn url(&self, database: &str, user: &str) -> String {
        url(&self.members, database, user)
    }

    /// Returns when the cluster is whole and the farm claims runs again. Whether it knows such a fault.
    pub async fn happen(&self, fault: Fault, lasts: Duration) -> bool {
        let leader = self.whole().await;
        let epoch = self.epoch().await;
        let moved = match fault {
            Fault::Switchover => self.switch_over(leader).await,
            Fault::Failover => self.kill(leader, lasts).await,
            Fault::PrimaryCut => self.cut(leader, lasts).await,
            Fault::KeeperStopped => self.stop_keeper(leader, lasts).await,
            Fault::DatabaseRestart => self.restart(leader).await,
            Fault::FailoverRefused => self.refuse_failover(leader).await,
            _ => return false,
        };
        let now = self.whole().await;
        // Where another one led, the first may lead again by now.
        assert!(moved || now == leader, "another leads after {}", fault.name());
        self.claims(None).await;
        let after = self.epoch().await;
        assert!(
            after > epoch || !moved,
            "epoch {after} after {epoch} and {}",
            fault.name()
        );
        true
    }

    async fn switch_over(&self, leader: usize) -> bool {
        let body = json!({ "leader": self.members[leader].name });
        let patience = Patience::of("a switchover");
        loop {
            let answer = self.members[leader].ask("POST /switchover", &body).await;
            match self.look(None).await.and_then(|seen| seen.leader()) {
                Some(now) if now != leader => return true,
                _ => patience.wait(&format!("{answer:?}")).await,
            }
        }
    }

    /// SIGKILL to Patroni and every process of PostgreSQL.
    async fn kill(&self, leader: usize, lasts: Duration) -> bool {
        let service = &self.members[leader].service;
        service.kill();
        self.another_leads(leader).await;
        tokio::time::sleep(lasts).await;
        service.start();
        true
    }

    /// No packet reaches it or leaves it; it learns of it by itself.
    async fn cut(&self, leader: usize, lasts: Duration) -> bool {
        let place = &self.members[leader].service.place;
        place.drop_packets(Way::Both);
        self.another_leads(leader).await;
        tokio::time::sleep(lasts).await;
        place.heal();
        true
    }

    /// Its PostgreSQL goes on beside the next primary. It still answers, and what it is asked to commit waits for a standby
    /// that follows another.
    async fn stop_keeper(&self, leader: usize, lasts: Duration) -> bool {
        let keepers = self.members[leader].service.named("bin/patroni");
        keepers.iter().for_each(|pid| stop(*pid));
        self.another_leads(leader).await;
        self.claims(Some(leader)).await;
        tokio::time::sleep(lasts).await;
        keepers.iter().for_each(|pid| send(*pid, libc::SIGCONT));
        true
    }

    async fn restart(&self, leader: usize) -> bool {
        let answer = self.members[leader].ask("POST /restart", &json!({})).await;
        assert!(matches!(answer, Some((200, _))), "a restart: {answer:?}");
        false
    }

    /// Of a replica that gets nothing until it lags too far.
    async fn refuse_failover(&self, leader: usize) -> bool {
        let seen = self.look(None).await.expect("a whole cluster");
        let replica = seen.first("replica").expect("a whole cluster has a replica");
        let receivers = self.members[replica].service.named("walreceiver");
        receivers.iter().for_each(|pid| stop(*pid));
        let admin = pg::connect(&self.url("farmhand", ADMIN)).await;
        let write = format!(
            "SELECT pg_logical_emit_message(true, 'lag', repeat('x', {}))",
            MAXIMUM_LAG * 2
        );
        admin.exec(&write).await;
        let patience = Patience::of("the replica lags");
        while self
            .look(None)
            .await
            .is_none_or(|s| s.lag(replica) <= MAXIMUM_LAG)
        {
            patience.wait("it does not").await;
        }
        let body = json!({ "candidate": self.members[replica].name });
        let answer = self.members[leader].ask("POST /failover", &body).await;
        assert!(matches!(answer, Some((412 | 503, _))), "a failover: {answer:?}");
        receivers.iter().for_each(|pid| send(*pid, libc::SIGCONT));
        false
    }

    /// Waits until another member leads, as the others see it. Which one.
    async fn another_leads(&self, than: usize) -> usize {
        let patience = Patience::of("another member leads");
        loop {
            let seen = self.look(Some(than)).await;
            match seen.as_ref().and_then(Seen::leader) {
                Some(leader) if leader != than => return leader,
                _ => patience.wait(&format!("{seen:?}")).await,
            }
        }
    }

    /// Waits until one member leads, one is its synchronous standby, and both others follow it. Who leads.
    async fn whole(&self) -> usize {
        let patience = Patience::of("the cluster is whole");
        loop {
            let seen = self.look(None).await;
            match seen
                .as_ref()
                .filter(|seen| seen.is_whole())
                .and_then(Seen::leader)
            {
                Some(leader) => return leader,
                None => patience.wait(&format!("{seen:?}")).await,
            }
        }
    }

    /// Waits until claims are open on the member that leads, and a run was claimed from now on and has ended. Who leads is asked
    /// each time, of the others than the one that does not know: it may change by itself.
    async fn claims(&self, than: Option<usize>) {
        let sql = "SELECT EXISTS (SELECT FROM farmhand.database d, farmhand.run_history h
            WHERE d.open AND h.fence >> 40 = d.epoch AND h.claimed_at > $1)";
        let since = Timestamp::now();
        let patience = Patience::of("the farm claims runs");
        loop {
            let seen = self.look(than).await;
            let leader = seen.as_ref().and_then(Seen::leader);
            let look = async {
                let leader = leader.filter(|leader| Some(*leader) != than)?;
                let client = pg::try_connect(&url(&self.members[leader..=leader], "farmhand", OWNER))
                    .await
                    .ok()?;
                Some(client.query_one(sql, &[&since]).await.ok()?.get::<_, bool>(0))
            };
            match tokio::time::timeout(Duration::from_secs(10), look).await {
                Ok(Some(true)) => return,
                found => {
                    patience
                        .wait(&format!("{found:?}, where {leader:?} leads: {seen:?}"))
                        .await
                }
            }
        }
    }

    /// The newest epoch; 0 before the farm's first.
    async fn epoch(&self) -> i64 {
        let client = pg::connect(&self.url("farmhand", OWNER)).await;
        let sql = "SELECT coalesce(max(epoch), 0) FROM farmhand.epoch";
        client.value(sql).await
    }

    /// What the first member that answers says of all of them.
    async fn look(&self, except: Option<usize>) -> Option<Seen> {
        for (number, member) in self.members.iter().enumerate() {
            if except != Some(number)
                && let Some((200, text)) = member.ask("GET /cluster", &Value::Null).await
            {
                let said: Value = serde_json::from_str(&text).expect("JSON");
                let of = |m: &Member| {
                    said["members"]
                        .as_array()?
                        .iter()
                        .find(|v| v["name"] == m.name.as_str())
                };
                let known = self.members.iter().map(|m| of(m).cloned().unwrap_or_default());
                return Some(Seen(known.collect()));
            }
        }
        None
    }
}

fn url(members: &[Member], database: &str, user: &str) -> String {
    let hosts: Vec<String> = members.iter().map(|m| m.server().to_string()).collect();
    let hosts = hosts.join(",");
    format!(
        "postgresql://{user}@{hosts}/{database}?target_session_attrs=read-write&connect_timeout=1&sslmode=disable"
    )
}

/// What the cluster says of its members; null of one that it does not know.
#[derive(Debug)]
struct Seen(Vec<Value>);

impl Seen {
    fn first(&self, role: &str) -> Option<usize> {
        self.0.iter().position(|m| m["role"] == role)
    }

    fn leader(&self) -> Option<usize> {
        self.first("leader")
            .filter(|leader| self.0[*leader]["state"] == "running")
    }

    fn is_whole(&self) -> bool {
        let streaming = self.0.iter().filter(|m| m["state"] == "streaming").count();
        let one_line = self.0.iter().all(|m| m["timeline"] == self.0[0]["timeline"]);
        self.first("sync_standby").is_some() && streaming == self.0.len() - 1 && one_line
    }

    fn lag(&self, member: usize) -> u64 {
        self.0[member]["lag"].as_u64().unwrap_or(0)
    }
}
