//! What comes with the binary: completion that knows the farm, and manual pages.

use std::collections::BTreeSet;
use std::process::Command;
use std::time::{Duration, Instant};

use clap::CommandFactory;
use farmhand::commands::Cli;
use farmhand_tests::bin::farmhand;
use farmhand_tests::wait::eventually;

use super::farm::{Farm, ran};

/// Every command that does something, as its words.
pub fn leaves() -> BTreeSet<String> {
    fn below(command: &clap::Command, words: &str, found: &mut BTreeSet<String>) {
        if !command.has_subcommands() {
            found.insert(words.trim().to_owned());
        }
        for sub in command.get_subcommands().filter(|sub| !sub.is_hide_set()) {
            below(sub, &format!("{words} {}", sub.get_name()), found);
        }
    }
    let mut root = Cli::command();
    root.build();
    let mut found = BTreeSet::new();
    below(&root, "", &mut found);
    found
}

/// A farm with an agent, a job, a run that ended and one that waits.
pub async fn lively() -> Farm {
    let mut farm = Farm::new().await;
    farm.agent("n1");
    farm.apply(
        "[pool.few]\nsize = 2\n[notify.ops]\nemail = 'ops@example.org'\n[job.done]\ncommand = 'echo hello'\nschedule = '0 3 * * *'\n
         [job.stuck]\ncommand = 'true'\nwhere = { gpu = 'yes' }\n",
    );
    farm.run(&[
        "job",
        "apply",
        "--yes",
        farm.dir.path().join("jobs.toml").to_str().unwrap(),
    ])
    .ok();
    farm.run(&["job", "run", "done", "--wait"]).ok();
    farm.run(&["job", "run", "stuck"]).ok();
    farm
}

#[test]
fn every_command_has_a_manual_page_that_renders() {
    let dir = tempfile::tempdir().unwrap();
    let made = Command::new(farmhand())
        .arg("man")
        .arg(dir.path())
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    for words in leaves() {
        let page = dir.path().join(format!("farmhand-{}.1", words.replace(' ', "-")));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(
            text.contains(".SH NAME") && text.contains(".SH SYNOPSIS"),
            "{words}: {text}"
        );
    }
    let root = std::fs::read_to_string(dir.path().join("farmhand.1")).unwrap();
    assert!(root.contains("Exit codes") && root.contains("FARMHAND"), "{root}");
    // Where there is no man, that is not this program's fault.
    let page = dir.path().join("farmhand-node-drain.1");
    if let Ok(shown) = Command::new("man").args(["-l", "--warnings"]).arg(page).output() {
        let text = String::from_utf8_lossy(&shown.stdout);
        assert!(shown.status.success() && text.contains("deadline"), "{shown:?}");
        assert!(
            shown.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&shown.stderr)
        );
    }
}

/// What bash would offer for a line that ends with a word begun.
fn completes(farm: &Farm, url: &str, words: &[&str]) -> Vec<String> {
    let script = r#"
        source <("$FARMHAND" completion bash)
        farmhand() { "$FARMHAND" "$@"; }
        COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMP_TYPE=9
        _clap_complete_farmhand farmhand "${!#}" ""
        printf '%s\n' "${COMPREPLY[@]}"
    "#;
    // The script calls a program by its name.
    let bin = farm.dir.path().join("bin");
    std::fs::create_dir_all(&bin).unwrap();
    let link = bin.join("farmhand");
    if !link.exists() {
        std::os::unix::fs::symlink(farmhand(), &link).unwrap();
    }
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
    let ran = ran(Command::new("bash")
        .args(["-c", script, "bash"])
        .args(words)
        .env_clear()
        .env("PATH", path)
        .env("FARMHAND", farmhand())
        .env("HOME", farm.dir.path())
        .env("FARMHAND_DATABASE_URL", url));
    assert_eq!(ran.err, "", "{ran:#?}");
    ran.out
        .lines()
        .filter(|l| !l.is_empty())
        .map(|l| l.trim_end().to_owned())
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_shell_completes_names_of_jobs_nodes_and_runs() {
    let farm = lively().await;
    let url = farm.db.url();
    // The database is asked for no longer than a second, and a busy machine may need more.
    let asked = |words: &[&str], wanted: &[&str]| {
        eventually("it is offered", Duration::from_secs(20), || {
            let offered = completes(&farm, &url, words);
            let all = wanted.iter().all(|word| offered.iter().any(|o| o == word));
            if all {
                Ok(offered)
            } else {
                Err(format!("{offered:?}"))
            }
        })
    };
    asked(&["farmhand", "job", "sh"], &["show"]);
    assert_eq!(asked(&["farmhand", "job", "pause", "st"], &["stuck"]), ["stuck"]);
    asked(&["farmhand", "explain", "job", ""], &["done", "stuck"]);
    assert_eq!(asked(&["farmhand", "node", "drain", "n"], &["n1"]), ["n1"]);
    assert_eq!(asked(&["farmhand", "pool", "set", "f"], &["few"]), ["few"]);
    asked(&["farmhand", "run", "show", ""], &["1", "2"]);
    assert_eq!(
        asked(&["farmhand", "run", "ls", "--job", "do"], &["done"]),
        ["done"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn completing_without_a_database_is_silent_and_never_hangs() {
    let farm = Farm::new().await;
    // Takes connections and says nothing.
    let mute = std::net::TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let mute = format!("postgresql://u@{}/d?sslmode=disable", mute.local_addr().unwrap());
    for url in [mute.as_str(), "postgresql://u@127.0.0.1:1/d", "nonsense", ""] {
        let begun = Instant::now();
        assert_eq!(
            completes(&farm, url, &["farmhand", "job", "show", "x"]),
            [""; 0],
            "{url}"
        );
        assert!(
            begun.elapsed() < Duration::from_secs(20),
            "{url}: {:?}",
            begun.elapsed()
        );
    }
}
