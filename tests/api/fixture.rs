//! A farm with an agent, and tokens for it.

use std::path::{Path, PathBuf};
use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};
use serde_json::Value;

use super::client::{Reply, send};

/// A program of `requirements.txt`.
pub fn tool(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let tool = std::path::absolute(target.join("api-tools/bin").join(name)).expect("a path");
    assert!(
        tool.exists(),
        "{} is missing: `./test` installs it, with python3 -m venv and pip from tests/api/requirements.txt",
        tool.display()
    );
    tool
}

/// One agent, with a job of each sort that these tests need.
pub struct Fixture {
    pub farm: Farm,
    pub port: u16,
}

pub const JOBS: &str = r#"
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
        Self::with(&[]).await
    }

    /// Its agent with further arguments.
    pub async fn with(arguments: &[&str]) -> Self {
        let farm = Farm::new()
            .ttl(CALM)
            .jobs(JOBS)
            .arguments(arguments)
            .start()
            .await;
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
        self.farm
            .eventually(&format!("{reason} is recorded"), SOON, async || {
                let counted = self.farm.agents[0]
                    .metric("farmhand_http_refused_total", &[&label])
                    .await;
                match self.refusals(reason).await.into_iter().next() {
                    Some(detail) if counted >= 1.0 => Ok(detail),
                    written => Err(format!("counted {counted}, written {written:?}")),
                }
            })
            .await
    }

    /// Waits until what was good is refused.
    pub async fn refused_soon(&self, what: &str, mut ask: impl AsyncFnMut() -> u16) {
        self.farm
            .eventually(
                &format!("{what} is refused"),
                Duration::from_secs(10),
                async || match ask().await {
                    200 => Err("it is still good".to_owned()),
                    _ => Ok(()),
                },
            )
            .await;
    }
}
