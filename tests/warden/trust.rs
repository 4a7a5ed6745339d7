//! Attacks on what a warden executes: each is refused, and said.

use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use farmhand_core::definition::JobSpec;
use farmhand_policy::trust::{Document, PrivateKey};
use farmhand_store::protocol::Claimed;
use farmhand_store::signatures::Signed;
use farmhand_tests::wait::eventually;
use farmhand_warden_client::wire::*;
use serde_json::{Value, json};

use crate::harness::{BOUND, Farmer, argv, id, needs_root, policy, sh};

/// A node that trusts one key.
pub(super) struct Node {
    farmer: Farmer,
    key: PrivateKey,
    list: PathBuf,
}

impl Node {
    pub(super) async fn new() -> Node {
        let farmer = Farmer::new().await;
        let key = PrivateKey::create("alice", &farmer.dir.path().join("alice.key")).unwrap();
        let list = farmer.dir.path().join("trusted-keys");
        std::fs::write(
            &list,
            format!("# who may say what runs here\n{}\n", key.public().line()),
        )
        .unwrap();
        Node { farmer, key, list }
    }

    pub(super) fn sign(&self, job: &str, serial: u64, spec: &JobSpec) -> Signed {
        self.key
            .sign(Document::new(job, serial, spec).unwrap().text().unwrap())
    }

    /// What an agent asks for when it claimed `spec` of a job named `job` from the database.
    pub(super) fn order(
        &self,
        id: AttemptId,
        job: &str,
        spec: &Value,
        signed: Option<Signed>,
    ) -> SpawnRequest {
        let now = "2026-11-21T12:00:00Z";
        let claimed: Claimed = serde_json::from_value(json!({
            "run_id": id.run_id, "job_id": job, "rev": 1, "kind": "submitted", "instance": 0, "instances": 1, "due_at": now,
            "ready_at": now, "attempt": id.attempt, "fence": 1000 + id.run_id, "retries": 0, "takeovers": 0, "priority": 0,
            "params": {}, "spec": spec, "claimed_at": now, "signed": signed,
        }))
        .unwrap();
        // What the agent made of it is what the warden must not look at.
        let mut request = sh(id, "echo made by the agent");
        request.trusted_keys = Some(self.list.clone());
        request.order = Some(Box::new(Order {
            claimed,
            address: "n1".to_owned(),
            session: 7,
            slot: 0,
            claim_sent_ns: 1,
            now: now.parse().unwrap(),
            labels: [].into(),
        }));
        request
    }

    pub(super) async fn refused(&mut self, request: SpawnRequest) -> String {
        let (result, output) = self.farmer.run(request).await;
        assert_eq!((output.stdout.as_str(), output.stderr.as_str()), ("", ""));
        let log = crate::harness::log(&self.farmer.paths());
        match result.ending {
            Ending::StartFailed(failure) => {
                assert_eq!(failure.stage, Stage::Signature, "{failure:?}");
                assert!(log.contains(&failure.message), "recorded on the node: {log}");
                failure.message
            }
            other => panic!("{other:?}"),
        }
    }

    pub(super) async fn says(&mut self, request: SpawnRequest) -> String {
        let (result, output) = self.farmer.run(request).await;
        assert!(result.succeeded(), "{result:?}");
        output.stdout
    }
}

fn spec(script: &str) -> JobSpec {
    serde_json::from_value(json!({"command": script})).unwrap()
}

fn stored(script: &str) -> Value {
    serde_json::to_value(spec(script)).unwrap()
}

#[tokio::test]
async fn what_runs_is_what_was_signed_whatever_the_agent_made_of_it() {
    let mut node = Node::new().await;
    let signed = node.sign("a", 1, &spec("echo signed by alice"));
    let order = node.order(id(1, 1), "a", &stored("echo signed by alice"), Some(signed));
    assert_eq!(node.says(order).await, "signed by alice\n");
    let mut stripped = node.order(id(2, 1), "a", &stored("echo x"), None);
    stripped.order = None;
    assert!(node.refused(stripped).await.contains("no signature"));
}

/// The key of a row is an argument, so it may be none of a definition that was not signed for rows, and no option of one that was.
#[tokio::test]
async fn a_rows_key_is_an_argument_of_a_signed_table_job_alone() {
    let mut node = Node::new().await;
    let table = json!({"name": "orders", "key": "id", "dispatch": "at", "max_running": 1, "row": ["a"]});
    let argv = json!(["echo", "signed"]);
    let given = json!([
        "sh",
        "-c",
        "echo $2 $3 $FARMHAND_ROW",
        "sh",
        "--",
        "{key}",
        "n={instance}"
    ]);
    for (nth, (spec, said)) in [
        (
            json!({"command": given, "table": table}),
            Ok("--evil n=0 {\"a\":\"$b\"}\n"),
        ),
        (json!({"command": argv, "table": table}), Err("begins with `-`")),
        (json!({"command": argv}), Err("not a table job")),
        (
            json!({"command": "echo a", "flow": {"dir": "/srv/flow"}}),
            Err("not a table job"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let Ok(parsed) = serde_json::from_value::<JobSpec>(spec.clone()) else {
            panic!("{spec}")
        };
        let stored = serde_json::to_value(&parsed).unwrap();
        let signed = node.sign("a", nth as u64 + 1, &parsed);
        let mut request = node.order(id(nth as i64 + 1, 1), "a", &stored, Some(signed));
        let claimed = &mut request.order.as_mut().unwrap().claimed;
        claimed.key = Some("--evil".to_owned());
        if spec.get("table").is_some() {
            claimed.params = json!({"a": "$b", "not_named": 1});
        }
        match said {
            Ok(said) => assert_eq!(node.says(request).await, said),
            Err(why) => {
                let said = node.refused(request).await;
                assert!(said.contains(why), "{said}");
            }
        }
    }
}

#[tokio::test]
async fn an_unsigned_job_and_a_tampered_job_row_are_refused() {
    let mut node = Node::new().await;
    let good = node.sign("a", 1, &spec("echo good"));
    let unsigned = node.order(id(1, 1), "a", &stored("echo good"), None);
    assert!(
        node.refused(unsigned)
            .await
            .starts_with("not signed by a trusted key")
    );
    // The row of the definition is changed, its signature kept.
    let tampered = node.order(id(2, 1), "a", &stored("echo evil"), Some(good.clone()));
    assert!(
        node.refused(tampered)
            .await
            .contains("not the one that \"alice\" signed")
    );
    // The row of the signature is changed too.
    let document = good.document.replace("good", "evil");
    let forged = node.order(
        id(3, 1),
        "a",
        &stored("echo evil"),
        Some(Signed {
            document,
            ..good.clone()
        }),
    );
    assert!(node.refused(forged).await.contains("does not fit"));
    // A good signature under another job's name; another key under a known name.
    let renamed = node.order(id(4, 1), "b", &stored("echo good"), Some(good.clone()));
    assert!(node.refused(renamed).await.contains("signed as the job \"a\""));
    let mallory = PrivateKey::create("alice", &node.farmer.dir.path().join("m.key")).unwrap();
    let text = Document::new("a", 9, &spec("echo evil")).unwrap().text().unwrap();
    let other = node.order(id(5, 1), "a", &stored("echo evil"), Some(mallory.sign(text)));
    assert!(node.refused(other).await.contains("does not fit"));
    let kept = node.order(id(6, 1), "a", &stored("echo good"), Some(good));
    assert_eq!(node.says(kept).await, "good\n");
}

#[tokio::test]
async fn an_old_signature_is_refused_once_a_newer_one_was_seen_and_by_the_next_warden_too() {
    let mut node = Node::new().await;
    let (old, new) = (
        node.sign("a", 5, &spec("echo old")),
        node.sign("a", 6, &spec("echo new")),
    );
    let first = node.order(id(1, 1), "a", &stored("echo old"), Some(old.clone()));
    assert_eq!(node.says(first).await, "old\n");
    let second = node.order(id(2, 1), "a", &stored("echo new"), Some(new.clone()));
    assert_eq!(node.says(second).await, "new\n");
    let replayed = node.order(id(3, 1), "a", &stored("echo old"), Some(old.clone()));
    assert!(
        node.refused(replayed)
            .await
            .contains("signed with serial 5, seen 6")
    );
    // An order whose claim names another run than is asked for.
    let mut crossed = node.order(id(4, 1), "a", &stored("echo new"), Some(new.clone()));
    crossed.id = id(5, 1);
    assert!(node.refused(crossed).await.contains("another attempt"));
    node.farmer.kill_warden().await;
    let launch = crate::harness::launch(node.farmer.dir.path());
    let (client, notices) = launch.start().await.unwrap();
    (node.farmer.client, node.farmer.notices) = (client, notices);
    let again = node.order(id(6, 1), "a", &stored("echo old"), Some(old));
    assert!(node.refused(again).await.contains("seen 6"));
}

#[tokio::test]
async fn a_list_of_keys_that_others_can_write_lets_nothing_run() {
    let mut node = Node::new().await;
    let signed = node.sign("a", 1, &spec("echo x"));
    std::fs::set_permissions(&node.list, std::fs::Permissions::from_mode(0o666)).unwrap();
    let order = node.order(id(1, 1), "a", &stored("echo x"), Some(signed));
    assert!(node.refused(order).await.contains("0666"));
}

fn as_user(mut request: SpawnRequest, user: &str, rules: Option<PathBuf>) -> SpawnRequest {
    request.user = Some(user.to_owned());
    request.policy = rules;
    request
}

fn message(result: &AttemptResult) -> &str {
    match &result.ending {
        Ending::StartFailed(failure) => &failure.message,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn only_listed_programs_run_by_their_real_paths() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let rules = "users = ['nobody']\ncommands = ['/usr/bin/id']\n";
    let listed = policy(farmer.dir.path(), rules);
    let (good, output) = farmer
        .run(as_user(argv(id(1, 1), &["id", "-un"]), "nobody", listed.clone()))
        .await;
    assert!(good.succeeded(), "{good:?}");
    assert_eq!(output.stdout, "nobody\n");
    // A link with a listed name, a PATH of the job's own, a way around, a relative path, a shell, another user.
    let own = farmer.dir.path().join("id");
    symlink("/usr/bin/env", &own).unwrap();
    let mut path = argv(id(2, 1), &["id"]);
    path.env.insert(
        "PATH".to_owned(),
        format!("{}:/usr/bin", farmer.dir.path().display()),
    );
    let (found, _) = farmer.run(as_user(path, "nobody", listed.clone())).await;
    assert!(found.succeeded(), "the node's PATH, not the job's: {found:?}");
    let linked = argv(id(3, 1), &[own.to_str().unwrap()]);
    let around = argv(id(4, 1), &["/usr/bin/../bin/env"]);
    let mut relative = argv(id(5, 1), &["bin/id"]);
    relative.cwd = Some("/usr".to_owned());
    for request in [linked, around, relative, sh(id(6, 1), "id")] {
        let (result, output) = farmer.run(as_user(request, "nobody", listed.clone())).await;
        assert!(
            message(&result).starts_with("this node does not let nobody run this: "),
            "{result:?}"
        );
        assert_eq!(output.stdout, "");
    }
    let (root, _) = farmer.run(as_user(argv(id(7, 1), &["id"]), "root", listed)).await;
    assert!(message(&root).contains("does not let jobs run as"), "{root:?}");
}

#[tokio::test]
async fn setuid_programs_have_no_effect_unless_the_policy_says_so() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let says = "grep NoNewPrivs /proc/self/status";
    for (nth, (rules, user, wanted)) in [
        ("users = ['*', 'root']\n", "nobody", "1"),
        ("users = ['*', 'root']\n", "root", "0"),
        ("users = ['*']\nno_new_privs = false\n", "nobody", "0"),
        (
            "users = ['root']\n[user.root]\nno_new_privs = true\n",
            "root",
            "1",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let rules = policy(farmer.dir.path(), rules);
        let request = as_user(sh(id(nth as i64 + 1, 1), says), user, rules);
        let (_, output) = farmer.run(request).await;
        assert_eq!(output.stdout, format!("NoNewPrivs:\t{wanted}\n"), "{nth}");
    }
}

/// What a job can do in the directories around it.
#[tokio::test]
async fn a_job_can_neither_replace_its_output_file_nor_point_it_elsewhere() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let victim = farmer.dir.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    let rules = policy(farmer.dir.path(), "users = ['nobody']\n");
    let script = format!(
        "cd .. && ln -s {0} output.1; ln -s {0} output.0; mv output.0 x; rm -f output.0; cat output.0; head -c 400000 /dev/zero",
        victim.display()
    );
    let mut request = as_user(sh(id(1, 1), &script), "nobody", rules);
    request.output_local = 64 << 10;
    let attempt = farmer.paths().attempt_dir(id(1, 1));
    let (result, _) = farmer.run(request).await;
    assert!(result.succeeded(), "{result:?}");
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    let files = std::fs::read_dir(&attempt).unwrap().map(|e| e.unwrap().path());
    for file in files.filter(|f| f.is_file()) {
        let meta = std::fs::symlink_metadata(&file).unwrap();
        assert_eq!(
            (meta.uid(), meta.mode() & 0o7777),
            (0, 0o600),
            "{}",
            file.display()
        );
    }
}

#[tokio::test]
async fn an_output_file_that_is_a_link_is_not_followed() {
    let mut farmer = Farmer::new().await;
    let victim = farmer.dir.path().join("victim");
    std::fs::write(&victim, "untouched").unwrap();
    let attempt = farmer.paths().attempt_dir(id(1, 1));
    // Its directory is there before its first byte of output; somebody with the warden's rights puts a link into it.
    let waits = format!(
        "while ! [ -e {}/go ]; do sleep 0.02; done; echo overwritten",
        farmer.dir.path().display()
    );
    farmer.spawn(sh(id(1, 1), &waits)).await;
    symlink(&victim, attempt.join("output.0")).unwrap();
    std::fs::write(farmer.dir.path().join("go"), "").unwrap();
    let result = farmer.exited(id(1, 1)).await;
    assert_eq!(std::fs::read_to_string(&victim).unwrap(), "untouched");
    assert!(
        result.output.error.is_some_and(|why| why.contains("output.0")),
        "said with the result"
    );
}

/// Everything that another user can read of a process.
fn readable(pid: i32) -> String {
    let one =
        |name: &str| std::fs::read(Path::new("/proc").join(pid.to_string()).join(name)).unwrap_or_default();
    String::from_utf8_lossy(&[one("cmdline"), one("environ")].concat()).into_owned()
}

#[tokio::test]
async fn neither_wardens_nor_jobs_carry_credentials_of_the_agent() {
    // In no other test: what runs beside this one shows its arguments to all users.
    let url = "postgresql://farm:barley-4712@db/farm";
    // SAFETY: this test's process runs this test alone.
    unsafe { std::env::set_var("FARMHAND_DATABASE_URL", url) };
    let mut farmer = Farmer::new().await;
    let pid = farmer.spawn(sh(id(1, 1), "sleep 600")).await;
    let identity = farmer.client.identity();
    for pid in [pid, identity.warden_pid, identity.reaper_pid] {
        // A command that was just started is still empty while the kernel puts its arguments there.
        let text = eventually("its arguments", BOUND, || {
            Some(readable(pid))
                .filter(|text| !text.is_empty())
                .ok_or_else(|| pid.to_string())
        });
        assert!(
            !text.contains("barley") && !text.contains("DATABASE_URL"),
            "{pid}: {text}"
        );
    }
    let script = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -c barley-471[2]; env | grep -c DATABASE";
    let rules = policy(farmer.dir.path(), "users = ['nobody']\n");
    let (_, output) = farmer.run(as_user(sh(id(2, 1), script), "nobody", rules)).await;
    assert_eq!(output.stdout, "0\n0\n", "another user's job finds nothing");
}
