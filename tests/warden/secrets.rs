//! Secrets of jobs: sought by the command's neighbours, in its environment, and in all that is written down.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use farmhand_core::definition::Isolation;
use farmhand_warden_client::wire::*;

use crate::harness::{Farmer, id, needs_root, policy, sh};

const VALUE: &str = "sesame-4711-open";

struct Store {
    farmer: Farmer,
    rules: Option<PathBuf>,
}

impl Store {
    async fn new(extra: &str) -> Store {
        needs_root();
        let farmer = Farmer::new().await;
        let dir = farmer.dir.path().join("store");
        std::fs::create_dir(&dir).unwrap();
        keep(&dir, "mail-out", VALUE, 0o600);
        keep(&dir, "open", VALUE, 0o644);
        keep(&dir, "short", "abc", 0o600);
        std::os::unix::fs::symlink(dir.join("mail-out"), dir.join("link")).unwrap();
        let rules = format!(
            "users = ['nobody']\nsecrets_dir = '{}'\nsecrets = ['mail-*', 'open', 'short', 'link', 'gone', '..', '-*']\n{extra}",
            dir.display()
        );
        let rules = policy(farmer.dir.path(), &rules);
        Store { farmer, rules }
    }

    fn job(&self, id: AttemptId, entry: &str, script: &str) -> SpawnRequest {
        let mut request = sh(id, script);
        request.user = Some("nobody".to_owned());
        request.policy.clone_from(&self.rules);
        request.secrets.insert("MAIL".to_owned(), entry.to_owned());
        request
    }
}

fn keep(dir: &Path, name: &str, value: &str, mode: u32) {
    let path = dir.join(name);
    std::fs::write(&path, format!("{value}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// Everything below a directory.
fn written(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(written(&path));
        } else {
            all.extend(std::fs::read(&path).unwrap_or_default());
        }
    }
    all
}

fn holds(text: &[u8], part: &str) -> bool {
    text.windows(part.len()).any(|w| w == part.as_bytes())
}

#[tokio::test]
async fn a_secret_is_a_file_of_the_jobs_user_and_gone_with_the_attempt() {
    let mut store = Store::new("").await;
    for (nth, isolation) in [Isolation::Cgroup, Isolation::Pid].into_iter().enumerate() {
        let this = id(nth as i64 + 1, 1);
        let script = "f=$FARMHAND_SECRET_MAIL_FILE; stat -c '%a %U %s' $f; wc -c < $f; \
                      cat /proc/$$/environ /proc/$$/cmdline | grep -c 'sesam[e]'; ls /proc/$$/fd | tr '\\n' ' '";
        let mut request = store.job(this, "mail-out", script);
        request.isolation = isolation;
        let (result, output) = store.farmer.run(request).await;
        assert!(matches!(result.ending, Ending::Exited { code: 0 }), "{result:?}");
        let lines: Vec<&str> = output.stdout.lines().collect();
        assert_eq!(lines[..3], ["400 nobody 16", "16", "0"], "{output:?}");
        // Its streams, and the descriptor for its progress; a shell may keep one more of its own.
        assert!(
            lines[3].trim().split(' ').count() <= 5 && !lines[3].contains(" 7"),
            "{output:?}"
        );
        assert!(!store.farmer.paths().attempt_dir(this).join("secrets").exists());
    }
    assert!(!holds(&written(&store.farmer.paths().runs()), VALUE));
}

#[tokio::test]
async fn a_secret_that_is_written_in_pieces_is_nowhere_in_what_is_kept() {
    let mut store = Store::new("").await;
    let script = "s=$(cat $FARMHAND_SECRET_MAIL_FILE)
        printf 'a sesame-'; printf 'first sesame-4' >&2; sleep 0.1
        printf '4711-open b '; printf '711-open\\n' >&2; sleep 0.1
        for c in s e s a m e - 4 7 1 1 - o p e n; do printf $c; done; echo \" $s\"
        echo \"at $s\" >&3; sleep 0.1; printf sesame-4711";
    let this = id(1, 1);
    let (result, output) = store.farmer.run(store.job(this, "mail-out", script)).await;
    assert_eq!(
        output.stdout, "a *** b *** ***\nsesame-4711",
        "what is no secret stays"
    );
    assert_eq!(output.stderr, "first ***\n");
    assert_eq!(result.checkpoint.as_deref(), Some("at ***"));
    assert!(!holds(&written(&store.farmer.paths().runs()), VALUE));
    let log = crate::harness::log(&store.farmer.paths());
    assert!(!log.contains(VALUE));
}

#[tokio::test]
async fn a_secret_that_is_not_given_ends_the_start_with_the_reason() {
    let mut store = Store::new("").await;
    for (nth, (entry, why)) in [
        ("payroll", "does not give it to this user"),
        ("gone", "No such file"),
        ("open", "its owner alone"),
        ("short", "fewer than 6 bytes"),
        ("link", "symbolic links"),
        ("..", "not a valid secret name"),
        ("-rf", "not a valid secret name"),
    ]
    .into_iter()
    .enumerate()
    {
        let (result, output) = store
            .farmer
            .run(store.job(id(nth as i64 + 1, 1), entry, "echo ran"))
            .await;
        assert_eq!(output.stdout, "");
        match result.ending {
            Ending::StartFailed(failure) => {
                assert_eq!(failure.stage, Stage::Secret, "{failure:?}");
                assert!(failure.message.contains(why), "{}", failure.message);
            }
            other => panic!("{entry}: {other:?}"),
        }
    }
}

#[tokio::test]
async fn a_command_of_the_node_may_be_the_store() {
    let mut store =
        Store::new("secret_command = ['/bin/sh', '-c', 'printf \"made-for-%s\" \"$1\"', 'store']\n").await;
    let script = "wc -c < $FARMHAND_SECRET_MAIL_FILE; cat $FARMHAND_SECRET_MAIL_FILE";
    let (_, output) = store.farmer.run(store.job(id(1, 1), "mail-out", script)).await;
    assert_eq!(output.stdout, "17\n***");
    // An entry is an argument of that command, and never an option.
    let (result, _) = store.farmer.run(store.job(id(2, 1), "-exec", script)).await;
    let Ending::StartFailed(failure) = result.ending else {
        panic!("{result:?}")
    };
    assert!(
        failure.message.contains("not a valid secret name"),
        "{}",
        failure.message
    );
}

#[tokio::test]
async fn a_secret_goes_with_a_killed_warden_too() {
    let store = Store::new("").await;
    let this = id(1, 1);
    let job = store.job(this, "mail-out", "echo up >up; sleep 1000");
    store.farmer.spawn(job).await;
    store.farmer.file(this, "up").await;
    let kept = store.farmer.paths().attempt_dir(this).join("secrets");
    assert!(kept.exists());
    store.farmer.kill_warden().await;
    assert!(!kept.exists());
    assert!(!holds(&written(&store.farmer.paths().runs()), VALUE));
}
