//! Prometheus and Alertmanager on the loopback, for one test, and a webhook that they tell.

mod http;
mod webhook;

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub use http::{get, query_escaped};
pub use webhook::{Arrival, Webhook};

use crate::alerts::{Scale, root, rules, source};
use crate::farm::Agent;
use crate::ports::free_port;

/// Between two scrapes, and between two looks at the rules at the most.
pub const SCRAPE: Duration = Duration::from_secs(2);

/// A server program of the test's own, ended with this value.
struct Server {
    child: Child,
    port: u16,
    log: PathBuf,
}

impl Server {
    fn start(program: &str, package: &str, directory: &Path, arguments: &[String], port: u16) -> Self {
        let log = directory.join(format!("{program}.log"));
        let file = File::create(&log).expect("a log file");
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(file.try_clone().expect("the log again"))
            .stderr(file);
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        let child = command
            .spawn()
            .unwrap_or_else(|e| panic!("{program}: {e}: apt-get install {package}"));
        Self { child, port, log }
    }

    async fn ready(&mut self) {
        let deadline = Instant::now() + Duration::from_secs(30);
        while get(self.port, "/-/ready")
            .await
            .is_none_or(|(status, _)| status != 200)
        {
            let ended = self.child.try_wait().expect("waiting for a child");
            let late = Instant::now() > deadline;
            assert!(
                ended.is_none() && !late,
                "not ready ({ended:?}):\n{}",
                std::fs::read_to_string(&self.log).unwrap_or_default()
            );
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Both of them, watching a farm's agents.
pub struct Watch {
    prometheus: Server,
    alertmanager: Server,
    pub webhook: Webhook,
    pub began: Instant,
    _directory: tempfile::TempDir,
}

impl Watch {
    /// Starts them with the repository's rules, their durations divided by `scale`, and its example of an
    /// Alertmanager configuration with shorter waits.
    pub async fn start(agents: &[Agent], scale: Scale) -> Self {
        let directory = tempfile::Builder::new()
            .prefix("fh-watch-")
            .tempdir_in("/tmp")
            .expect("a temporary directory");
        let at = directory.path();
        let webhook = Webhook::start().await;
        let (metrics_port, alerts_port) = (free_port(), free_port());
        let example = std::fs::read_to_string(root().join("grafana/prometheus/alertmanager.yml"));
        let routing = example
            .expect("the example")
            .replace("group_wait: 10s", "group_wait: 100ms")
            .replace("group_interval: 1m", "group_interval: 1s")
            .replace(":8080/alerts", &format!(":{}/alerts", webhook.port()));
        write(at, "alertmanager.yml", &routing);
        write(at, "rules.yml", &rules(&source(), scale));
        let targets: Vec<String> = agents
            .iter()
            .map(|a| format!("\"127.0.0.1:{}\"", a.port))
            .collect();
        let seconds = SCRAPE.as_secs();
        let scraping = format!(
            "global: {{scrape_interval: {seconds}s, scrape_timeout: {seconds}s, evaluation_interval: 1s}}\n\
             rule_files: [rules.yml]\n\
             alerting: {{alertmanagers: [{{static_configs: [{{targets: [\"127.0.0.1:{alerts_port}\"]}}]}}]}}\n\
             scrape_configs: [{{job_name: farmhand, static_configs: [{{targets: [{}]}}]}}]\n",
            targets.join(", ")
        );
        write(at, "prometheus.yml", &scraping);
        let option = |name: &str, value: &str| format!("--{name}={value}");
        let file = |name: &str| at.join(name).display().to_string();
        let mut alertmanager = Server::start(
            "prometheus-alertmanager",
            "prometheus-alertmanager",
            at,
            &[
                option("config.file", &file("alertmanager.yml")),
                option("storage.path", &file("alerts")),
                option("web.listen-address", &format!("127.0.0.1:{alerts_port}")),
                option("cluster.listen-address", ""),
            ],
            alerts_port,
        );
        let mut prometheus = Server::start(
            "prometheus",
            "prometheus",
            at,
            &[
                option("config.file", &file("prometheus.yml")),
                option("storage.tsdb.path", &file("data")),
                option("web.listen-address", &format!("127.0.0.1:{metrics_port}")),
            ],
            metrics_port,
        );
        alertmanager.ready().await;
        prometheus.ready().await;
        Self {
            prometheus,
            alertmanager,
            webhook,
            began: Instant::now(),
            _directory: directory,
        }
    }

    /// The series of an instant query.
    ///
    /// # Panics
    /// When Prometheus refuses it.
    pub async fn query(&self, expr: &str) -> Vec<Value> {
        self.ask(&format!("/api/v1/query?query={}", query_escaped(expr)), expr)
            .await
    }

    /// The series of a query over everything since the start.
    ///
    /// # Panics
    /// When Prometheus refuses it.
    pub async fn query_range(&self, expr: &str) -> Vec<Value> {
        let now = jiff::Timestamp::now().as_second();
        let start = now - i64::try_from(self.began.elapsed().as_secs()).unwrap_or(0);
        let path = format!(
            "/api/v1/query_range?query={}&start={start}&end={now}&step=2",
            query_escaped(expr)
        );
        self.ask(&path, expr).await
    }

    async fn ask(&self, path: &str, expr: &str) -> Vec<Value> {
        let (status, body) = get(self.prometheus.port, path).await.expect("Prometheus answers");
        let answer: Value = serde_json::from_str(&body).unwrap_or_else(|e| panic!("{expr}: {e}: {body}"));
        assert_eq!(status, 200, "{expr}: {answer:#}");
        answer["data"]["result"].as_array().cloned().unwrap_or_default()
    }

    /// Alertmanager's alerts of a name: their states (`active`, `suppressed`).
    pub async fn states(&self, alert: &str) -> Vec<String> {
        let (_, body) = get(self.alertmanager.port, "/api/v2/alerts")
            .await
            .expect("Alertmanager answers");
        let all: Value = serde_json::from_str(&body).expect("Alertmanager's JSON");
        let named = |a: &&Value| a["labels"]["alertname"] == alert;
        let list = all.as_array().cloned().unwrap_or_default();
        list.iter()
            .filter(named)
            .filter_map(|a| a["status"]["state"].as_str().map(str::to_owned))
            .collect()
    }
}

fn write(directory: &Path, name: &str, text: &str) {
    std::fs::write(directory.join(name), text).expect("a configuration file");
}
