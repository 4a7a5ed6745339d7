//! A farm with an agent, and tokens for it.

use farmhand_tests::farm::Farm;
use serde_json::Value;

use super::client::{Reply, send};

/// One agent, with a job of each sort that these tests need.
pub struct Fixture {
    pub farm: Farm,
    pub port: u16,
}

const JOBS: &str = r#"
[pool.few]
size = 2
[job.done]
command = ["true"]
params = { since = { type = "duration", default = "5m" } }
[job.long]
command = ["sleep", "600"]
grace = "0s"
pool = "few"
[job.daily]
command = ["true"]
schedule = "0 3 * * *"
"#;

impl Fixture {
    pub async fn new() -> Self {
        let farm = Farm::new().jobs(JOBS).start().await;
        let port = farm.agents[0].port;
        Self { farm, port }
    }

    /// A new token.
    pub fn token(&self, name: &str, role: &str, expires: &str) -> String {
        let args = ["token", "create", name, "--role", role, "--expires", expires];
        self.farm.ok(&args).trim().to_owned()
    }

    pub async fn get(&self, token: &str, path: &str) -> Reply {
        self.call("GET", token, path, "").await
    }

    pub async fn post(&self, token: &str, path: &str, body: &str) -> Reply {
        self.call("POST", token, path, body).await
    }

    pub async fn call(&self, method: &str, token: &str, path: &str, body: &str) -> Reply {
        let bearer = format!("Bearer {token}");
        let mut headers = vec![("Authorization", bearer.as_str())];
        if !body.is_empty() {
            headers.push(("Content-Type", "application/json"));
        }
        send(self.port, method, path, &headers, body).await
    }

    /// The cookie that the login gives for a token, as a browser sends it back.
    pub async fn login(&self, token: &str) -> String {
        let form = [("Content-Type", "application/x-www-form-urlencoded")];
        let reply = send(self.port, "POST", "/login", &form, &format!("token={token}")).await;
        assert_eq!(reply.status, 303, "{reply:?}");
        // The head was lowered; the secret was not.
        let raw = super::client::raw(
            self.port,
            super::client::request("POST", "/login", &form, &format!("token={token}")).as_bytes(),
        )
        .await;
        let line = raw.lines().find_map(|line| line.strip_prefix("set-cookie: "));
        let line = line.expect("a cookie");
        for word in ["HttpOnly", "SameSite=Strict", "Path=/", "Max-Age="] {
            assert!(line.contains(word), "{line}");
        }
        line.split(';').next().expect("a pair").to_owned()
    }

    /// The refusals that are written down, as (reason, detail).
    pub async fn refusals(&self, reason: &str) -> Vec<Value> {
        let sql = "SELECT detail FROM farmhand.event WHERE kind = 'http_refused' AND detail->>'reason' = $1";
        let rows = self.farm.sql.query(sql, &[&reason]).await.expect("the events");
        rows.iter().map(|row| row.get(0)).collect()
    }

    /// Waits until a refusal is counted and written down.
    pub async fn recorded(&self, reason: &str) -> Value {
        let label = format!("reason=\"{reason}\"");
        let mut last = (0.0, Vec::new());
        for _ in 0..400 {
            let counted = self.farm.agents[0]
                .metric("farmhand_http_refused_total", &[&label])
                .await;
            last = (counted, self.refusals(reason).await);
            if last.0 >= 1.0 && !last.1.is_empty() {
                return last.1.remove(0);
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        panic!("{reason} is not recorded: {last:?}");
    }
}
