//! Definitions are changed over the API, by agents that have a login for it.

use farmhand_tests::farm::{CALM, Farm};
use serde_json::{Value, json};

use super::fixture::Fixture;

pub const PATH: &str = "/api/v1/definitions";
pub const PREVIEW: &str = "/api/v1/definitions?preview=true";
pub const URL: &str = "FARMHAND_DEFINITIONS_DATABASE_URL";

/// An agent that has this login.
pub async fn fixture(
    url: impl FnOnce(&Farm) -> String,
    arguments: impl FnOnce(&Farm) -> Vec<String>,
) -> Fixture {
    let mut farm = Farm::new().ttl(CALM).prepare().await;
    let (url, arguments) = (url(&farm), arguments(&farm));
    farm.agents[0].env.push((URL.to_owned(), url));
    farm.agents[0].arguments.extend(arguments);
    farm.start_agents().await;
    let port = farm.agents[0].port;
    Fixture { farm, port }
}

pub async fn with_login() -> Fixture {
    fixture(|farm| farm.database.operator_url(), |_| Vec::new()).await
}

/// An agent that has this login, and trusts `alice.key` alone.
pub async fn with_keys() -> Fixture {
    let keys = |farm: &Farm| {
        let key = farm.dir().join("alice.key").display().to_string();
        let list = farm.dir().join("trusted-keys");
        std::fs::write(&list, farm.ok(&["key", "new", "alice", "-o", &key])).expect("the list of keys");
        vec!["--trusted-keys".to_owned(), list.display().to_string()]
    };
    fixture(|farm| farm.database.operator_url(), keys).await
}

/// A request of one file.
pub fn of(source: &str, text: &str) -> Value {
    json!({"source": source, "files": [{"path": "jobs/a.toml", "text": text}]})
}

pub fn pruning(mut body: Value) -> String {
    body["prune"] = json!(true);
    body.to_string()
}

pub fn job(name: &str, says: &str) -> String {
    format!("[job.\"{name}\"]\ncommand = ['echo', '{says}']\n")
}

pub async fn jobs(f: &Fixture) -> Vec<String> {
    let all = f
        .farm
        .sql
        .query(
            "SELECT job_id FROM farmhand.job WHERE NOT deleted ORDER BY 1",
            &[],
        )
        .await;
    all.expect("the jobs").iter().map(|row| row.get(0)).collect()
}

/// What happens to each job.
pub fn steps(answer: &Value) -> Vec<String> {
    let jobs = answer["jobs"].as_array().unwrap_or_else(|| panic!("{answer}"));
    let step = |step: &Value| {
        format!(
            "{} {}",
            step["change"].as_str().unwrap(),
            step["job_id"].as_str().unwrap()
        )
    };
    jobs.iter().map(step).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn files_are_previewed_applied_changed_and_pruned_within_their_source() {
    let f = with_login().await;
    let token = f.token("ci", "admin", "1h");
    f.farm.apply(&job("by-hand", "x"));
    let text = job("a", "one") + &job("b", "two") + "[pool.p]\nsize = 2\n";
    let body = of(" ops/jobs/ ", &text).to_string();

    let preview = f.post(&token, PREVIEW, &body).await.json();
    assert_eq!(preview["applied"], false, "{preview}");
    assert_eq!(steps(&preview), ["created a", "created b"]);
    assert_eq!(jobs(&f).await, ["by-hand"], "nothing is applied");
    let done = f.post(&token, PATH, &body).await.json();
    assert_eq!(done["applied"], true, "{done}");
    assert_eq!(
        done["pools"],
        json!([{"pool": "p", "change": "created", "size": 2}])
    );
    assert_eq!(jobs(&f).await, ["a", "b", "by-hand"]);
    let run = f.farm.submit("a").await;
    f.farm.succeeds(run).await;
    assert_eq!(f.farm.output(run, 1).await, "one\n");

    let who =
        "SELECT DISTINCT applied_by || ' ' || source FROM farmhand.job_revision WHERE job_id IN ('a', 'b')";
    assert_eq!(f.farm.value::<String>(who).await, "api:ci@127.0.0.1 ops/jobs");
    let audit = f.farm.ok(&["events", "--audit", "--job", "a", "--json"]);
    assert!(audit.contains("api:ci@127.0.0.1"), "{audit}");
    let again = f.post(&token, PATH, &body).await.json();
    assert_eq!(
        (&again["applied"], &again["diff"]),
        (&json!(false), &json!([])),
        "{again}"
    );

    // Another value, and one that is gone.
    let text = job("a", "one") + "retry = { max = 3 }\n[pool.p]\nsize = 2\n";
    let body = of("ops/jobs", &text);
    let kept = f.post(&token, PREVIEW, &body.to_string()).await.json();
    assert_eq!(steps(&kept), ["updated a"], "without prune nothing is deleted");
    let pruned = f.post(&token, PREVIEW, &pruning(body.clone())).await.json();
    assert_eq!(steps(&pruned), ["updated a", "deleted b"]);
    let changed = &pruned["diff"].as_array().unwrap()[0];
    assert_eq!(changed["keys"]["retry"]["new"]["max"], 3, "{pruned}");
    f.post(&token, PATH, &pruning(body)).await.json();
    assert_eq!(jobs(&f).await, ["a", "by-hand"]);

    let foreign = of("ops/jobs", &job("by-hand", "y"));
    for path in [PREVIEW, PATH] {
        let refused = f.post(&token, path, &foreign.to_string()).await.problem(409);
        let why = refused["detail"].as_str().unwrap();
        assert!(why.contains("by-hand is defined by another source"), "{refused}");
    }
    let mut taken = foreign;
    taken["take_over"] = json!(true);
    assert_eq!(
        steps(&f.post(&token, PATH, &taken.to_string()).await.json()),
        ["updated by-hand"]
    );
    // The same definition under another source is somebody's doing, too.
    taken["source"] = json!("ops/other");
    f.post(&token, PATH, &taken.to_string()).await.json();
    let told = "SELECT actor FROM farmhand.audit WHERE action = 'apply' AND what LIKE '%ops/other%'";
    let by: String = f.farm.sql.value(told).await;
    assert!(by.starts_with("api:"), "{by}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_api_answers_what_the_commands_print() {
    let f = with_login().await;
    let token = f.token("ci", "admin", "1h");
    f.post(
        &token,
        PATH,
        &of("ops", &(job("a", "1") + &job("b", "1"))).to_string(),
    )
    .await
    .json();
    let text = "[vars]\nx = '1'\n".to_owned() + &job("a", "${vars.x}") + &job("n", "new");
    let file = f.farm.dir().join("changed.toml");
    std::fs::write(&file, &text).expect("a file");
    let mut body = of("ops", &text);
    body["set"] = json!({"x": "2"});
    let mut answer = f.post(&token, PREVIEW, &pruning(body)).await.json();
    let printed = |words: &[&str]| -> Value {
        let file = file.to_str().unwrap();
        let options = ["--source", "ops", "--prune", "--set", "x=2", "--json", file];
        let printed = f.farm.ok(&[words, &options].concat());
        serde_json::from_str(&printed).expect("JSON")
    };
    let mut diff = printed(&["job", "diff"]);
    diff.as_array_mut()
        .unwrap()
        .retain(|diff| diff["change"] != "unchanged");
    assert_eq!(answer["diff"], diff);
    let fields = answer.as_object_mut().unwrap();
    fields.remove("diff");
    assert_eq!(fields.remove("warnings"), Some(json!([])));
    assert_eq!(answer, printed(&["job", "apply", "--dry-run"]));

    // Mistakes as well, each with its place; those that only stored jobs show, too.
    let wrong = job("a", "1") + "comand = 'true'\nretries = 1\n";
    std::fs::write(&file, &wrong).expect("a file");
    let checked = f
        .farm
        .farmhand(&["job", "check", "--format", "json", file.to_str().unwrap()]);
    let checked: Value = serde_json::from_slice(&checked.stdout).expect("JSON");
    let mut body = of("ops", &wrong);
    body["files"][0]["path"] = json!(file.to_str().unwrap());
    let problem = f.post(&token, PATH, &body.to_string()).await.problem(422);
    assert_eq!(problem["mistakes"], checked["mistakes"]);
    assert_eq!(problem["type"], "urn:farmhand:mistakes");
    let orphan = job("a", "1") + "triggered_by = ['nobody']\n";
    let problem = f
        .post(&token, PATH, &of("ops", &orphan).to_string())
        .await
        .problem(422);
    assert_eq!(problem["mistakes"][0]["line"], 3, "{problem}");
    assert_eq!(jobs(&f).await, ["a", "b"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restricted_token_changes_its_own_definitions_alone() {
    let f = with_login().await;
    let admin = f.token("ci", "admin", "1h");
    let all = job("team-a.x", "1") + &job("team-a.y", "1") + &job("team-b.z", "1") + "[pool.p]\nsize = 1\n";
    f.post(&admin, PATH, &of("farm", &all).to_string()).await.json();
    for role in ["viewer", "submitter", "operator"] {
        let token = f.token(role, role, "1h");
        f.post(&token, PREVIEW, &of("farm", &all).to_string())
            .await
            .problem(403);
    }
    let create = ["token", "create", "team", "--role", "admin", "--jobs", "team-a.*"];
    let team = f.farm.ok(&create).trim().to_owned();
    let why = "not allowed: token team is restricted to team-a.*";
    for (text, beyond) in [
        (job("team-b.z", "2"), "job team-b.z is not among them"),
        (
            job("team-a.x", "2") + &job("new", "1"),
            "job new is not among them",
        ),
        ("[pool.p]\nsize = 9\n".to_owned(), "is beyond them"),
        (
            "[notify.ops]\nwebhook = 'https://example.com/x'\n".to_owned(),
            "is beyond them",
        ),
    ] {
        for path in [PREVIEW, PATH] {
            let problem = f
                .post(&team, path, &of("farm", &text).to_string())
                .await
                .problem(403);
            let title = problem["title"].as_str().unwrap();
            assert!(
                title.starts_with(why) && title.ends_with(beyond),
                "{text}: {title}"
            );
        }
    }
    assert_eq!(f.recorded("restricted").await["token"], "team");
    // What others define may stand in the files, and stays when it does not.
    let own = job("team-a.x", "2") + &job("team-b.z", "1");
    let done = f.post(&team, PATH, &of("farm", &own).to_string()).await.json();
    assert_eq!(steps(&done), ["updated team-a.x", "unchanged team-b.z"]);
    let done = f
        .post(&team, PATH, &pruning(of("farm", &job("team-a.x", "3"))))
        .await
        .json();
    assert_eq!(steps(&done), ["updated team-a.x", "deleted team-a.y"]);
    assert_eq!(jobs(&f).await, ["team-a.x", "team-b.z"]);
    let pools: i64 = f.farm.value("SELECT count(*) FROM farmhand.pool").await;
    assert_eq!(pools, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_definitions_must_be_signed_only_signed_ones_are_taken() {
    let f = with_keys().await;
    let token = f.token("ci", "admin", "1h");
    let text = job("a", "signed");
    let mut body = of("ops", &text);
    for path in [PREVIEW, PATH] {
        let refused = f.post(&token, path, &body.to_string()).await.problem(409);
        assert!(
            refused["detail"]
                .as_str()
                .unwrap()
                .contains("the definition has no signature"),
            "{refused}"
        );
    }
    let file = f.farm.dir().join("a.toml");
    std::fs::write(&file, &text).expect("a file");
    let key = f.farm.dir().join("alice.key").display().to_string();
    f.farm.ok(&["job", "sign", file.to_str().unwrap(), "--key", &key]);
    let signatures = std::fs::read_to_string(f.farm.dir().join("a.toml.sig")).expect("the signatures");
    body["files"][0]["signatures"] = json!(signatures);
    f.post(&token, PATH, &body.to_string()).await.json();
    let run = f.farm.submit("a").await;
    f.farm.succeeds(run).await;
    body["files"][0]["text"] = json!(job("a", "altered"));
    let refused = f.post(&token, PATH, &body.to_string()).await.problem(409);
    assert_eq!(
        refused["title"], "job a of jobs/a.toml has changed since it was signed",
        "{refused}"
    );
    body["files"][0]["signatures"] = json!("nonsense");
    f.post(&token, PATH, &body.to_string()).await.problem(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_request_may_hold_is_bounded() {
    let f = with_login().await;
    let token = f.token("ci", "admin", "1h");
    let with = |bytes: usize| of("ops", &format!("#{}\n{}", "x".repeat(bytes), job("a", "1"))).to_string();
    f.post(&token, PATH, &with(5 << 20)).await.problem(413);
    // Many of these would fill the memory: each has its turn.
    let large = with(3 << 20);
    let send = async || f.post(&token, PREVIEW, &large).await.status;
    let answers = tokio::join!(send(), send(), send(), send());
    assert_eq!(answers, (200, 200, 200, 200));
    // As many mistakes as fit are found, and the first told.
    let wrong = of(
        "ops",
        &(0..50_000).map(|n| format!("k{n}=1\n")).collect::<String>(),
    );
    let problem = f.post(&token, PATH, &wrong.to_string()).await.problem(422);
    assert_eq!(problem["mistakes"].as_array().map(Vec::len), Some(1_000));
    assert!(
        problem["title"].as_str().unwrap().contains("50000 mistakes"),
        "{}",
        problem["title"]
    );

    // A debug build with all of that.
    let status =
        std::fs::read_to_string(format!("/proc/{}/status", f.farm.agents[0].pid())).expect("its status");
    let peak = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB"));
    let peak: u64 = peak.expect("its peak").trim().parse().expect("a number");
    assert!(peak < 200 << 10, "{peak} KiB");

    let file = json!({"path": "a.toml", "text": ""});
    for body in [
        json!({"source": "ops", "files": []}),
        json!({"source": "ops", "files": vec![file.clone(); 1_001]}),
        json!({"source": "ops", "files": [file, file]}),
        json!({"source": " / ", "files": [file]}),
        json!({"source": "a\nb", "files": [file]}),
        json!({"source": "ops", "files": [{"path": "", "text": ""}]}),
        json!({"source": "ops", "files": [{"path": "/etc/passwd"}]}),
        json!({"source": "ops", "files": [file], "yes": true}),
    ] {
        f.post(&token, PATH, &body.to_string()).await.problem(400);
    }
    assert!(jobs(&f).await.is_empty());
}

#[tokio::test]
async fn jobs_are_rolled_back_and_deleted_nodes_removed_and_the_rest_is_asked() {
    let f = with_login().await;
    let token = f.token("root", "admin", "1h");
    for text in [
        job("a", "one") + &job("b", "one"),
        job("a", "two") + &job("b", "one"),
    ] {
        f.post(&token, PATH, &of("ops", &text).to_string()).await.json();
    }
    let (back, rev) = ("/api/v1/jobs/a/rollback", r#"{"rev": 1}"#);
    let would = f.post(&token, &format!("{back}?preview=true"), rev).await.json();
    assert_eq!(
        (&would["applied"], &would["diff"][0]["job_id"]),
        (&json!(false), &json!("a")),
        "{would}"
    );
    let done = f.post(&token, back, rev).await.json();
    assert_eq!(done["what"], "a: revision 3 is as revision 1", "{done}");
    let shown = f.get(&token, "/api/v1/jobs/a").await.json();
    assert_eq!(shown["revisions"].as_array().map(Vec::len), Some(3), "{shown}");
    f.post(&token, back, r#"{"rev": 9}"#).await.problem(404);
    f.post(&token, back, r#"{"rev": 1, "job": "b"}"#)
        .await
        .problem(400);
    f.call("DELETE", &token, "/api/v1/jobs/a,nope", "")
        .await
        .problem(404);
    assert_eq!(jobs(&f).await, ["a", "b"]);
    let gone = f.call("DELETE", &token, "/api/v1/jobs/a,b", "").await.json();
    assert_eq!(gone["what"], "a is deleted; b is deleted", "{gone}");
    assert!(jobs(&f).await.is_empty());
    let open = f
        .call("DELETE", &token, "/api/v1/nodes/n1", "")
        .await
        .problem(409);
    assert!(
        open["detail"].as_str().is_some_and(|why| why.contains("is open")),
        "{open}"
    );
    f.post(&token, "/api/v1/targets/nope/test", "").await.problem(404);
    f.post(&token, "/api/v1/runs/424242/replay", "")
        .await
        .problem(404);
    let run = f
        .farm
        .value::<i64>("SELECT coalesce(max(run_id), 0) FROM farmhand.run")
        .await;
    for path in ["row", "items", "explain"] {
        f.get(&token, &format!("/api/v1/runs/{}/{path}", run + 1))
            .await
            .problem(404);
    }
    let nodes = f.get(&token, "/api/v1/names?of=nodes&prefix=n").await.json();
    assert_eq!(nodes["items"][0]["name"], "n1", "{nodes}");
    for (path, status) in [
        ("queue", 200),
        ("targets", 200),
        ("names", 400),
        ("notifications?ids=7", 400),
    ] {
        let reply = f.get(&token, &format!("/api/v1/{path}")).await;
        assert_eq!(reply.status, status, "{path}: {reply:?}");
    }
}
