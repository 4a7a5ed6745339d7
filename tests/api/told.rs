//! Each situation is told alike by commands, API, page and metrics.

use farmhand_tests::farm::SOON;
use serde_json::Value;

use super::client::send;
use super::fixture::Fixture;

/// What is made of the database, what is undone after it, and what everybody has to say.
#[derive(Default)]
struct Situation {
    name: &'static str,
    made: String,
    undone: &'static str,
    level: &'static str,
    findings: Vec<String>,
    job: Option<(&'static str, &'static str)>,
    node: Option<(&'static str, &'static str)>,
    run: Option<(i64, &'static str)>,
    metrics: Vec<(&'static str, &'static str, f64)>,
}

const FORGET_RUNS: &str = "DELETE FROM farmhand.run_live WHERE run_id >= 9000";

fn failures(failures: i64) -> Vec<(&'static str, &'static str, f64)> {
    let name = "farmhand_farm_job_consecutive_failures";
    vec![(name, "job_name=\"daily\"", failures as f64)]
}

fn nodes(state: &'static str) -> Vec<(&'static str, &'static str, f64)> {
    vec![("farmhand_farm_nodes", state, 1.0)]
}

/// A node that nobody runs, with a lease so long that no agent ends its session.
fn node(open: bool, lease: &str, more: &str) -> String {
    format!(
        "INSERT INTO farmhand.node (address, name, incarnation, session, renewals, open, lease_until, ttl_ms, slots, labels, version,
             started_at) VALUES ('n8', 'n8', gen_random_uuid(), 1, 1, {open}, now() + interval '{lease}', 36000000, 4, '{{}}',
             'x', now()); UPDATE farmhand.node SET {more} WHERE address = 'n8'"
    )
}

/// A run that has been ready for 22 minutes.
fn due(run: i64, more: &str) -> String {
    format!(
        "INSERT INTO farmhand.run_live (run_id, job_id, rev, kind, instance, due_at, ready_at)
             VALUES ({run}, 'done', 1, 'submitted', 0, now() - interval '22 minutes', now() - interval '22 minutes');
         UPDATE farmhand.run_live SET {more} WHERE run_id = {run}"
    )
}

fn situations() -> Vec<Situation> {
    let stat = "INSERT INTO farmhand.job_stat (job_id, last_state, last_finished, consecutive_failures)
        VALUES ('daily', 'failed', now(), 3)";
    let (no_stat, no_node) = (
        "DELETE FROM farmhand.job_stat WHERE job_id = 'daily'; UPDATE farmhand.job SET paused = false, enabled = true",
        "DELETE FROM farmhand.node WHERE address = 'n8'",
    );
    let quiet = || Situation {
        level: "well",
        job: Some(("daily", "enabled")),
        node: Some(("n1", "ready")),
        metrics: failures(0),
        ..Situation::default()
    };
    let one = |text: &str| vec![text.to_owned()];
    vec![
        Situation {
            name: "nothing is the matter",
            ..quiet()
        },
        Situation {
            name: "a job fails",
            made: stat.to_owned(),
            undone: no_stat,
            level: "attention",
            findings: one("1 job is failing: daily, 3 failures in a row"),
            job: Some(("daily", "failing")),
            metrics: failures(3),
            ..quiet()
        },
        Situation {
            name: "a job that fails is paused",
            made: format!(
                "{stat}; UPDATE farmhand.job SET paused = true, paused_by = 'x', paused_at = now() WHERE job_id = 'daily'"
            ),
            undone: no_stat,
            job: Some(("daily", "paused")),
            ..quiet()
        },
        Situation {
            name: "a job that fails is disabled",
            made: format!("{stat}; UPDATE farmhand.job SET enabled = false WHERE job_id = 'daily'"),
            undone: no_stat,
            job: Some(("daily", "disabled")),
            metrics: Vec::new(),
            ..quiet()
        },
        Situation {
            name: "a node is lost",
            made: node(false, "-1 hour", "lost_at = now() - interval '3 minutes'"),
            undone: no_node,
            level: "attention",
            findings: one("1 node is lost: n8"),
            node: Some(("n8", "lost")),
            metrics: nodes("state=\"lost\""),
            ..quiet()
        },
        Situation {
            name: "a node does not renew its lease",
            made: node(true, "-1 minute", "open = true"),
            undone: no_node,
            level: "attention",
            findings: one("1 node is expired: n8"),
            node: Some(("n8", "expired")),
            metrics: nodes("state=\"expired\""),
            ..quiet()
        },
        Situation {
            name: "a node's machine starts nothing",
            made: node(true, "1 hour", "cannot_start = 'no more processes'"),
            undone: no_node,
            level: "attention",
            findings: one("1 node cannot start runs: `farmhand node ls` says why"),
            node: Some(("n8", "blocked")),
            metrics: nodes("state=\"blocked\""),
            ..quiet()
        },
        Situation {
            name: "a node is cordoned",
            made: node(true, "1 hour", "cordoned = true"),
            undone: no_node,
            node: Some(("n8", "cordoned")),
            metrics: nodes("state=\"cordoned\""),
            ..quiet()
        },
        Situation {
            name: "a run is stuck on a node that does not answer",
            made: node(true, "-1 minute", "open = true")
                + ";"
                + &due(
                    9001,
                    "state = 'running', running_at = 'n8', session = 1, attempt = 1, fence = 1, claimed_at = now(), started_at = now()",
                ),
            undone: "DELETE FROM farmhand.run_live WHERE run_id >= 9000; DELETE FROM farmhand.node WHERE address = 'n8'",
            level: "trouble",
            findings: one("run 9001 of done is stuck on n8: the node's lease is over"),
            job: Some(("done", "running")),
            node: Some(("n8", "expired")),
            run: Some((9001, "running")),
            metrics: vec![("farmhand_farm_leases", "state=\"expired\"", 1.0)],
        },
        Situation {
            name: "no node has the labels",
            made: due(9002, "placement = ARRAY['{\"role\": \"gpu\"}'::jsonb]"),
            undone: FORGET_RUNS,
            level: "trouble",
            findings: one("run 9002 of done has waited 22 min for a node with role=gpu: none is ready"),
            job: Some(("done", "waiting")),
            run: Some((9002, "due")),
            metrics: vec![("farmhand_farm_queue_depth", "state=\"due\"", 1.0)],
            ..quiet()
        },
        Situation {
            name: "the only node of a run is closed, and a job fails",
            made: due(9003, "node = 'n9'") + ";" + stat,
            undone: "DELETE FROM farmhand.run_live WHERE run_id >= 9000; DELETE FROM farmhand.job_stat WHERE job_id = 'daily'",
            level: "trouble",
            findings: vec![
                "run 9003 of done has waited 22 min for node n9, which is not ready".to_owned(),
                "1 job is failing: daily, 3 failures in a row".to_owned(),
            ],
            job: Some(("daily", "failing")),
            run: Some((9003, "due")),
            metrics: failures(3),
            ..quiet()
        },
    ]
}

struct Ear {
    f: Fixture,
    token: String,
    cookie: String,
}

impl Ear {
    async fn page(&self, path: &str) -> String {
        let reply = send(self.f.port, "GET", path, &[("Cookie", &self.cookie)], "").await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.body.replace("&#39;", "'").replace("&quot;", "\"")
    }

    async fn api(&self, path: &str) -> Value {
        let reply = self.f.get(&self.token, path).await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        reply.json()
    }

    fn json(&self, args: &[&str]) -> Value {
        let text = self.f.farm.ok(&[args, &["--json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{args:?}: {e}: {text}"))
    }

    /// The second word of the row that begins with this name.
    fn row(&self, args: &[&str], name: &str) -> String {
        let text = self.f.farm.ok(args);
        let row = (text.lines()).find(|line| line.split_whitespace().next() == Some(name));
        let word = row.and_then(|row| row.split_whitespace().nth(1));
        word.unwrap_or_else(|| panic!("{name} is not in {text}"))
            .to_owned()
    }

    async fn check(&self, s: &Situation) {
        let texts = |told: &Value| -> Vec<String> {
            let findings = told["findings"].as_array().expect("findings").iter();
            findings
                .map(|f| f["text"].as_str().expect("a text").to_owned())
                .collect()
        };
        let status = self.json(&["status"]);
        let mut told = vec![("status --json", status["level"].clone(), texts(&status))];
        let shown = self.f.farm.ok(&["status"]);
        let said = (shown.lines())
            .filter_map(|l| l.strip_prefix("! "))
            // What it names follows in brackets, except for what stops the whole farm.
            .map(|l| l.split_once(" [").map_or(l, |(text, _)| text))
            .map(str::to_owned);
        let level = shown.lines().next().expect("a line").split_whitespace().nth(1);
        told.push(("status", level.into(), said.collect()));
        let page = self.page("/").await;
        let start = page.find("id=\"verdict\"").expect("the verdict");
        let verdict = &page[start..start + page[start..].find("</section>").expect("its end")];
        let class = [
            ("card verdict ok", "well"),
            ("card verdict warn", "attention"),
            ("card verdict bad", "trouble"),
        ];
        let level = class
            .iter()
            .find(|(class, _)| verdict.contains(class))
            .map(|(_, level)| *level);
        let mut said: Vec<_> = (s.findings.iter())
            .filter(|text| verdict.contains(text.as_str()))
            .cloned()
            .collect();
        // Each once.
        said.retain(|text| verdict.matches(text.as_str()).count() == 1);
        told.push(("page", level.into(), said));
        for (who, level, said) in told {
            assert_eq!(
                (level.as_str(), &said),
                (Some(s.level), &s.findings),
                "{}: {who}",
                s.name
            );
        }
        if let Some((name, word)) = s.job {
            let listed = self.api(&format!("/api/v1/jobs/{name}")).await;
            let page = self.page(&format!("/jobs/{name}")).await;
            let head = &page[page.find("id=\"job-head\"").expect("the head")..];
            assert_eq!(self.row(&["job", "ls"], name), word, "{}: job ls", s.name);
            assert_eq!(listed["job"]["health"], word, "{}: API: {listed}", s.name);
            assert!(
                head[..head.find("</h1>").expect("a title")].contains(&format!("{word}</span>")),
                "{}: page",
                s.name
            );
        }
        if let Some((name, word)) = s.node {
            let listed = self.api(&format!("/api/v1/nodes/{name}")).await;
            let page = self.page(&format!("/nodes?state={word}")).await;
            let leases = self.json(&["lease", "ls"]);
            assert_eq!(self.row(&["node", "ls"], name), word, "{}: node ls", s.name);
            assert_eq!(
                self.json(&["node", "show", name])["state"],
                word,
                "{}: node show",
                s.name
            );
            assert_eq!(listed["state"], word, "{}: API: {listed}", s.name);
            assert!(
                page.contains(&format!("/nodes/{name}\"")) && page.contains(&format!("{word}</span>")),
                "{}: page",
                s.name
            );
            for lease in leases["items"]
                .as_array()
                .expect("leases")
                .iter()
                .filter(|l| l["address"] == name)
            {
                assert_eq!(lease["state"], word, "{}: lease ls", s.name);
            }
        }
        if let Some((run, word)) = s.run {
            let number = run.to_string();
            let page = self.page(&format!("/runs/{run}")).await;
            assert_eq!(
                self.json(&["run", "show", &number])["run"]["state"],
                word,
                "{}: run show",
                s.name
            );
            assert_eq!(
                self.api(&format!("/api/v1/runs/{run}")).await["run"]["state"],
                word,
                "{}: API",
                s.name
            );
            assert!(page.contains(&format!("{word}</span>")), "{}: page", s.name);
        }
        for (name, label, value) in &s.metrics {
            self.f
                .farm
                .eventually(
                    &format!("{}: {name}{{{label}}} is {value}", s.name),
                    SOON,
                    async || {
                        let is = self.f.farm.agents[0].metric(name, &[label]).await;
                        ((is - value).abs() < 1e-9)
                            .then_some(())
                            .ok_or_else(|| is.to_string())
                    },
                )
                .await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_api_page_and_metrics_tell_each_situation_alike() {
    let f = Fixture::new().await;
    let token = f.token("reader", "viewer", "1h");
    let cookie = f.login(&token).await;
    let ear = Ear { f, token, cookie };
    for s in situations() {
        ear.f.farm.sql.batch_execute(&s.made).await.expect(s.name);
        ear.check(&s).await;
        ear.f.farm.sql.batch_execute(s.undone).await.expect(s.name);
    }
    // A pool that is full: with runs that are there.
    let long = async || ear.f.farm.submit("long").await;
    let (first, _) = (long().await, long().await);
    ear.f
        .farm
        .eventually("both hold the pool", SOON, async || {
            let running: i64 = ear
                .f
                .farm
                .value("SELECT count(*) FROM farmhand.run_live WHERE started_at IS NOT NULL")
                .await;
            (running == 2).then_some(()).ok_or_else(|| running.to_string())
        })
        .await;
    let waits = long().await;
    let back = "UPDATE farmhand.run_live SET ready_at = now() - interval '22 minutes' WHERE state = 'due'";
    ear.f.farm.exec(back).await;
    ear.check(&Situation {
        name: "a pool is full",
        level: "attention",
        findings: vec![format!(
            "run {waits} of long has waited 22 min for pool few: run {first} of long on n1 holds it"
        )],
        job: Some(("long", "waiting")),
        node: Some(("n1", "ready")),
        run: Some((waits, "due")),
        metrics: vec![("farmhand_farm_queue_depth", "state=\"pool\"", 1.0)],
        ..Situation::default()
    })
    .await;
}
