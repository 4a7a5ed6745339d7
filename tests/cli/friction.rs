//! What people type first: names, numbers and words that they know from elsewhere.

use std::collections::BTreeSet;
use std::path::Path;

use super::farm::Farm;

const JOB: &str = "[job.import]\ncommand = ['echo', 'hello there']\ndescription = 'Prices of the day'\nowner = 'billing'\n\
                   tags = ['prices', 'daily']\nrunbook = 'https://wiki.example.org/import'\n";

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_job_is_suggested_and_a_word_from_elsewhere_leads_to_its_command() {
    let farm = Farm::new().await;
    farm.apply(JOB);
    farm.run(&["job", "show", "imprt"])
        .refused(3, &["there is no job imprt", "did you mean import?"]);
    for (word, command) in [
        ("logs", "run logs"),
        ("stop", "run cancel"),
        ("ps", "run ls"),
        ("apply", "job apply"),
    ] {
        let ran = farm.run(&[word, "x"]);
        ran.refused(2, &[command]);
        assert!(
            !ran.err.contains("'top'") && !ran.err.contains("'progress'"),
            "{ran:?}"
        );
    }
    let shown = farm.run(&["job", "show", "import"]).ok();
    for text in [
        "Prices of the day",
        "billing",
        "prices",
        "https://wiki.example.org/import",
    ] {
        assert!(shown.out.contains(text), "{text}: {shown:?}");
    }
    let bad = farm.file(
        "bad.toml",
        "[job.x]\ncommand = 'true'\nrunbook = 'javascript:alert(1)'\n",
    );
    farm.run(&["job", "apply", bad.to_str().unwrap()])
        .refused(2, &["not a web address", "bad.toml:3:11"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_jobs_name_stands_for_its_newest_run_and_a_run_is_explained() {
    let mut farm = Farm::new().await;
    farm.apply(JOB);
    farm.run(&["run", "logs", "import"])
        .refused(3, &["import has no run yet", "farmhand explain"]);
    farm.agent("n1");
    let run = farm.run(&["job", "run", "import", "--wait", "--json"]).json();
    let number = run["run_id"].to_string();
    assert_eq!(farm.run(&["run", "logs", "import"]).ok().out, "hello there\n");
    let named = farm.run(&["run", "show", "import", "--json"]).json();
    assert_eq!(named["run"]["run_id"].to_string(), number);
    let attempts = farm.run(&["run", "show", &number, "--json"]).json();
    assert_eq!(attempts["attempts"][0]["outcome"], "succeeded", "{attempts:#}");
    for words in [
        &["explain", "run", number.as_str()][..],
        &["explain", number.as_str()],
    ] {
        let said = farm.run(words).ok();
        assert!(
            said.out.contains(&format!("it ran: run {number} succeeded")),
            "{said:?}"
        );
    }
    assert!(farm.run(&["explain", "import"]).ok().out.starts_with("import: "));
    farm.run(&["run", "logs", "nix"])
        .refused(3, &["there is no job nix"]);
    farm.stop_agents();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_is_deleted_by_name_and_not_without_yes() {
    let farm = Farm::new().await;
    farm.apply(JOB);
    farm.run(&["job", "rm", "import"])
        .refused(4, &["import is deleted", "--yes", "nothing was done"]);
    farm.run(&["job", "rm", "impart", "--yes"])
        .refused(3, &["did you mean import?"]);
    farm.run(&["job", "rm", "import", "--yes"]).ok();
    assert_eq!(
        farm.run(&["job", "ls", "--json"]).json()["items"],
        serde_json::json!([])
    );
}

/// Every `farmhand …` that the product tells people to type is a command, with options that it has.
#[tokio::test(flavor = "multi_thread")]
async fn every_command_that_is_told_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the workspace");
    let mut told = BTreeSet::new();
    for part in ["agent", "common"] {
        collect(&root.join(part), &mut told);
    }
    assert!(told.len() > 20, "{told:?}");
    let farm = Farm::new().await;
    let mut faults = Vec::new();
    for (words, options) in &told {
        let help = farm.run(
            &[
                words.iter().map(String::as_str).collect::<Vec<_>>(),
                vec!["--help"],
            ]
            .concat(),
        );
        let usage = format!("Usage: farmhand {}", words.join(" "));
        if help.code != 0 || !help.out.contains(&usage) {
            faults.push(format!("farmhand {}: no such command", words.join(" ")));
        }
        for option in options
            .iter()
            .filter(|option| !help.out.contains(option.as_str()))
        {
            faults.push(format!("farmhand {}: no option {option}", words.join(" ")));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
}

/// The words of each told command, and its options.
fn collect(dir: &Path, told: &mut BTreeSet<(Vec<String>, Vec<String>)>) {
    const GROUPS: [&str; 12] = [
        "job", "run", "node", "lease", "epoch", "pool", "token", "notify", "flow", "key", "explain", "import",
    ];
    for entry in dir.read_dir().expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, told);
            continue;
        }
        if path.extension().is_none_or(|e| e != "rs") || path.to_string_lossy().contains("tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a source file");
        // The name of a database connection looks like a command.
        let code = (text.lines())
            .filter(|line| !line.trim_start().starts_with("//") && !line.contains("application_name"));
        for line in code {
            for start in ["`farmhand ", "\"farmhand "] {
                for (at, _) in line.match_indices(start) {
                    let rest = &line[at + start.len()..];
                    let end = rest.find(['`', '"']).unwrap_or(rest.len());
                    let words: Vec<&str> = rest[..end].split_whitespace().collect();
                    let plain = |w: &&&str| w.chars().all(|c| c.is_ascii_lowercase() || c == '-');
                    let Some(first) = words.first().filter(plain) else {
                        continue;
                    };
                    let depth = if GROUPS.contains(first) { 2 } else { 1 };
                    let names: Vec<String> = (words.iter().take(depth).take_while(plain))
                        .filter(|w| !w.starts_with('-'))
                        .map(|w| (*w).to_owned())
                        .collect();
                    let options = (words.iter().filter(|w| w.starts_with("--")))
                        .map(|w| {
                            w.split('=')
                                .next()
                                .unwrap_or(w)
                                .trim_end_matches([',', ':', ';'])
                                .to_owned()
                        })
                        .collect();
                    told.insert((names, options));
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_those_of_the_machine_or_utc_when_asked() {
    let farm = Farm::new().await;
    farm.apply("[job.a]\ncommand = 'true'\nschedule = '0 3 * * *'\n");
    let there = |arguments: &[&str]| {
        let out = farm
            .command()
            .env("TZ", "Asia/Kolkata")
            .args(arguments)
            .output()
            .unwrap();
        assert!(out.status.success(), "{out:?}");
        String::from_utf8(out.stdout).unwrap()
    };
    let next = there(&["job", "ls"]);
    assert!(next.contains(" 08:30:00+05:30"), "{next}");
    let next = there(&["job", "ls", "--utc"]);
    assert!(next.contains(" 03:00:00Z"), "{next}");
    let json = there(&["job", "ls", "--json"]);
    assert!(json.contains("T03:00:00Z"), "{json}");
    // What is typed without an offset is read on the same clock.
    let client = farm.db.client().await;
    client
        .exec("UPDATE farmhand.event SET at = '2026-01-01 00:00:00Z'")
        .await;
    let within = |until: &str, more: &[&str]| {
        let mut ask = vec!["events", "--since", "2025-12-01", "--until", until];
        ask.extend(more);
        there(&ask).contains("2026-01-01")
    };
    assert!(!within("2026-01-01T05:29", &[]) && within("2026-01-01T05:31", &[]));
    assert!(!within("2026-01-01T00:00", &["--utc"]) && within("2026-01-01T00:01", &["--utc"]));
}
