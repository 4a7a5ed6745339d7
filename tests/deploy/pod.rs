//! An agent with the arguments, the environment and the files that a pod gives it.

use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use farmhand_tests::bin::farmhand;
use farmhand_tests::farm::{Farm, SOON, send};
use farmhand_tests::processes;
use serde::Deserialize;
use serde_json::Value;

use super::{manifests, ok, root};

/// What the manifests give an agent, in one of the ways to deploy it.
#[derive(Deserialize)]
struct Pod {
    what: String,
    args: Vec<String>,
    env: BTreeMap<String, Value>,
    files: BTreeMap<String, String>,
    probes: Vec<String>,
    capabilities: Vec<String>,
}

fn pods() -> Vec<Pod> {
    serde_json::from_str(&manifests("pod")).expect("what manifests.py prints")
}

fn pod(what: &str) -> Pod {
    let found = pods().into_iter().find(|pod| pod.what == what);
    found.unwrap_or_else(|| panic!("no pod {what}"))
}

impl Pod {
    /// The environment as a node of Kubernetes 1.35 resolves it.
    fn environment(&self, url: &str) -> BTreeMap<String, String> {
        let mut resolved = BTreeMap::new();
        for (name, value) in &self.env {
            // The Secret has the URL alone.
            if value.pointer("/secretKeyRef/optional") == Some(&Value::Bool(true)) {
                continue;
            }
            let path = value.pointer("/fieldRef/fieldPath").and_then(Value::as_str);
            let text = match (value, path) {
                (Value::String(text), _) => text.clone(),
                (_, Some("spec.nodeName")) => "worker-7".to_owned(),
                (_, Some("metadata.labels['topology.kubernetes.io/zone']")) => "north-1a".to_owned(),
                (_, Some("metadata.labels['topology.kubernetes.io/region']")) => "north-1".to_owned(),
                (secret, _) if secret.get("secretKeyRef").is_some() => url.to_owned(),
                other => panic!("{name}: {other:?}"),
            };
            resolved.insert(name.clone(), text);
        }
        let known = resolved.clone();
        for text in resolved.values_mut() {
            for (name, value) in &known {
                *text = text.replace(&format!("$({name})"), value);
            }
        }
        resolved
    }

    /// Starts it in namespaces of its own, listening on `port`.
    fn start(&self, farm: &Farm, port: u16) -> Running {
        let dir = farm.dir().join("pod");
        std::fs::create_dir_all(dir.join("config")).expect("the ConfigMap's directory");
        for (name, text) in &self.files {
            std::fs::write(dir.join("config").join(name), text).expect("a file of the ConfigMap");
        }
        let (user, capabilities) = match &self.capabilities[..] {
            [] => ("10001", "-".to_owned()),
            some => ("0", format!("+{}", some.join(",+").to_ascii_lowercase())),
        };
        let log = std::fs::File::create(farm.dir().join("pod.log")).expect("the log");
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--pid", "--fork", "--kill-child"])
            .arg(root().join("tests/deploy/pod.sh"))
            .args([&dir, farmhand()])
            .args([user, &capabilities])
            .args(&self.args)
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("FARMHAND_CONFIG", "/etc/farmhand/agent.toml")
            .envs(self.environment(&farm.database.url_through(farm.database.port())))
            // The one thing that is the machine's here.
            .env("FARMHAND_LISTEN", format!("127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stderr(log);
        // SAFETY: a plain system call between fork and exec.
        unsafe {
            command.pre_exec(|| {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                Ok(())
            });
        }
        Running {
            child: command
                .spawn()
                .expect("unshare starts: apt-get install util-linux"),
        }
    }
}

/// The pod's `unshare`; its only child is process 1 of the pod.
struct Running {
    child: Child,
}

impl Running {
    fn terminate(&self) {
        let unshare = self.child.id().cast_signed();
        let first = processes::tree(unshare).into_iter().find(|p| p.parent == unshare);
        send(first.expect("process 1 of the pod").pid, libc::SIGTERM);
    }

    async fn ended(&mut self, farm: &Farm) {
        let status = farm
            .eventually("the pod ends", SOON, async || {
                let status = self.child.try_wait().expect("the pod's status");
                status.ok_or_else(|| log(farm))
            })
            .await;
        assert!(status.success(), "{status}\n{}", log(farm));
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn log(farm: &Farm) -> String {
    std::fs::read_to_string(farm.dir().join("pod.log")).unwrap_or_default()
}

/// A farm without agents, and a pod of it that has its lease.
async fn running(pod: &Pod, jobs: &str) -> (Farm, Running) {
    // SAFETY: a plain system call.
    assert_eq!(
        unsafe { libc::geteuid() },
        0,
        "a pod needs root: run the tests as root"
    );
    let farm = Farm::new().jobs(jobs).prepare().await;
    let mut running = pod.start(&farm, farm.agents[0].port);
    farm.eventually("the pod is ready", SOON, async || {
        if let Ok(Some(status)) = running.child.try_wait() {
            panic!("{}: the pod ended with {status}\n{}", pod.what, log(&farm));
        }
        for probe in &pod.probes {
            match farm.agents[0].get(probe).await {
                Some((200, _)) => {}
                other => return Err(format!("{probe}: {other:?}\n{}", log(&farm))),
            }
        }
        Ok(())
    })
    .await;
    (farm, running)
}

const JOBS: &str = r#"
    [job.look]
    command = "id -u; pwd; touch /usr/x || echo read-only; echo $FARMHAND_NODE; touch /tmp/x; env"
    [job.slow]
    command = "echo begun; sleep 2; echo done"
    [job.as-nobody]
    user    = "nobody"
    grace   = "300ms"
    command = "id -u; sleep 0.2"
    [job.stubborn]
    user    = "nobody"
    timeout = "300ms"
    grace   = "300ms"
    command = "trap '' TERM; setsid sleep 60 & sleep 60"
"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_runs_jobs_in_its_pod_and_drains_before_the_pod_ends() {
    let pod = pod("base");
    let (farm, mut running) = running(&pod, JOBS).await;
    assert_eq!(pod.probes, ["/healthz", "/readyz"]);
    let labels: Value = farm
        .value("SELECT labels FROM farmhand.node WHERE address = 'worker-7'")
        .await;
    let expected = serde_json::json!({
        "node": "worker-7", "platform": "kubernetes", "region": "north-1", "zone": "north-1a"
    });
    assert_eq!(labels, expected);
    let look = farm.submit("look").await;
    farm.succeeds(look).await;
    let seen = farm.output(look, 1).await;
    assert!(
        seen.starts_with("10001\n") && seen.contains("read-only\nworker-7\n"),
        "{seen}"
    );
    assert!(!seen.contains("DATABASE_URL"), "{seen}");
    let refused = farm.submit("as-nobody").await;
    let refused = farm.over(refused, SOON).await;
    assert_eq!(refused.state, "failed", "{refused:?}");

    let slow = farm.submit("slow").await;
    farm.eventually("it runs", SOON, async || {
        match farm.run(slow).await.state.as_str() {
            "running" => Ok(()),
            other => Err(other.to_owned()),
        }
    })
    .await;
    running.terminate();
    running.ended(&farm).await;
    assert_eq!(farm.run(slow).await.state, "succeeded", "{}", log(&farm));
    let open: i64 = farm.value("SELECT count(*) FROM farmhand.node WHERE open").await;
    assert_eq!(open, 0, "the lease was given back");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_users_a_job_runs_as_its_user_and_is_ended_with_all_it_started() {
    let (farm, mut running) = running(&pod("chart with users"), JOBS).await;
    let address: String = farm.value("SELECT address FROM farmhand.node").await;
    assert_eq!(address, "worker-7-a");
    let nobody = farm.submit("as-nobody").await;
    farm.succeeds(nobody).await;
    assert_eq!(farm.output(nobody, 1).await, "65534\n");
    let stubborn = farm.submit("stubborn").await;
    let stubborn = farm.over(stubborn, SOON).await;
    assert_eq!(stubborn.state, "timed_out", "{stubborn:?}");
    let left: Vec<_> = processes::tree(running.child.id().cast_signed())
        .into_iter()
        .filter(|p| p.command.contains("sleep"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
    running.terminate();
    running.ended(&farm).await;
}

#[test]
fn every_setting_in_the_manifests_is_one_of_the_agents() {
    let help = ok(Command::new(farmhand()).args(["agent", "--help"]));
    // Of every command, without a flag.
    let own = [
        "FARMHAND_LOG",
        "FARMHAND_CONFIG",
        "FARMHAND_DATABASE_PASSWORD_FILE",
    ];
    for pod in pods() {
        for name in pod
            .env
            .keys()
            .filter(|n| n.starts_with("FARMHAND_") && !own.contains(&n.as_str()))
        {
            let flag = name
                .trim_start_matches("FARMHAND_")
                .to_ascii_lowercase()
                .replace('_', "-");
            assert!(help.contains(&format!("--{flag} ")), "{}: {name}", pod.what);
        }
        let file = &pod.files["agent.toml"];
        let keys = file
            .parse::<toml::Table>()
            .unwrap_or_else(|e| panic!("{}: {e}\n{file}", pod.what));
        for key in keys.keys() {
            let flag = if key == "labels" {
                "label".to_owned()
            } else {
                key.replace('_', "-")
            };
            assert!(help.contains(&format!("--{flag} ")), "{}: {key}", pod.what);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn job_files_are_applied_as_a_config_map_shows_them() {
    let farm = Farm::new().prepare().await;
    let dir = farm.dir().join("jobs");
    let hello =
        std::fs::read_to_string(root().join("deploy/kubernetes/jobs/hello.toml")).expect("hello.toml");
    config_map(&dir, "hello.toml", &hello);
    farm.ok(&["job", "apply", &dir.display().to_string()]);
    assert!(farm.ok(&["job", "ls"]).contains("hello"));
}

/// The kubelet shows a ConfigMap through a link that it swaps.
fn config_map(dir: &Path, name: &str, text: &str) {
    let data = dir.join("..2026_11_21");
    std::fs::create_dir_all(&data).expect("the directory");
    std::fs::write(data.join(name), text).expect("the file");
    symlink("..2026_11_21", dir.join("..data")).expect("the link to the data");
    symlink(format!("..data/{name}"), dir.join(name)).expect("the link to the file");
}
