//! Variables that look like passwords: the job file names them, the nodes' store has them, and the command finds them.

use std::process::Command as Process;

use farmhand_core::definition::{Command, Filling, JobSpec, argv};
use farmhand_import::crontab::Owner;
use farmhand_import::systemd::{Timer, import};
use farmhand_import::{Import, Machine};
use serde_json::json;

use super::systemd::{file, jobs};
use super::{crontab, kubernetes};

/// What the job's command prints where the store has the values of the import, and `more` beside them.
fn printed(spec: &JobSpec, import: &Import, more: &[(&str, &str)]) -> String {
    let store = tempfile::tempdir_in("/tmp").unwrap();
    let command = spec.command.as_ref().unwrap();
    let words = match command {
        Command::Shell(line) => ["/bin/sh", "-c", line].map(str::to_owned).to_vec(),
        Command::Argv(_) => argv(command, &Filling::default()).unwrap(),
    };
    let mut process = Process::new(&words[0]);
    process.args(&words[1..]).env_clear().envs(&spec.env);
    let more = |entry: &str| {
        more.iter()
            .find(|(name, _)| *name == entry)
            .map(|(_, value)| *value)
    };
    for (name, entry) in &spec.secrets {
        let value = import.secrets.get(entry).map(String::as_str).or(more(entry));
        let path = store.path().join(name);
        std::fs::write(
            &path,
            value.unwrap_or_else(|| panic!("{entry}: {:?}", import.secrets.keys())),
        )
        .unwrap();
        process.env(format!("FARMHAND_SECRET_{name}_FILE"), path);
    }
    let out = process.output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn told(import: &Import) -> String {
    let notes = import.files.iter().flat_map(|report| &report.notes);
    notes.map(|note| note.text.clone() + "\n").collect()
}

#[test]
fn a_crontabs_passwords_are_in_the_store_and_nowhere_else() {
    for shell in ["", "SHELL=/bin/bash\n", "PATH=/nowhere\n"] {
        let text = format!(
            "{shell}# the old one was geheim\nDB_PASSWORD=geheim $1 \"it's\"\nDSN=user=x password=geheim $1 \"it's\"\nA_TOKEN=abc\n\
             0 1 * * * echo \"$DB_PASSWORD|$DSN|$A_TOKEN\"\n0 2 * * * echo \"two${{DB_PASSWORD:+}}${{DSN:+}}\"\n"
        );
        let files = [crontab::file("tab", &text, Owner::User(None))];
        let import = crontab::imported(&files);
        let specs = crontab::specs(&import);
        let spec = &specs[0].1;
        let names: Vec<&str> = spec.secrets.keys().map(String::as_str).collect();
        assert_eq!(
            (names, spec.env["A_TOKEN"].as_str()),
            (vec!["DB_PASSWORD", "DSN"], "abc")
        );
        let wanted = "geheim $1 \"it's\"|user=x password=geheim $1 \"it's\"|abc\n";
        assert_eq!(printed(spec, &import, &[]), wanted, "{}", import.toml);
        // Both jobs have the same variables: one entry for each.
        assert_eq!((import.secrets.len(), &specs[1].1.secrets), (2, &spec.secrets));
        assert_eq!(printed(&specs[1].1, &import, &[]), "two\n");
        let said = import.toml.clone() + &told(&import);
        assert!(!said.contains("geheim $1"), "{said}");
        assert!(said.contains("# cron: DB_PASSWORD=***"), "{said}");
        assert_eq!(crontab::imported(&files).toml, import.toml);
    }
}

#[test]
fn a_password_that_is_a_plain_word_takes_no_word_out_of_the_notes() {
    let text = "A_TOKEN=secret\n# the secret\n0 1 * * * PGPASSWORD=x y\n";
    let (import, _) = crontab::one(text, Owner::User(None));
    assert!(
        told(&import).contains("put it into the nodes' store and name it in `secrets`"),
        "{}",
        told(&import)
    );
    for comment in ["# cron: A_TOKEN=***", "# the ***"] {
        assert!(import.toml.contains(comment), "{}", import.toml);
    }
}

#[test]
fn a_password_that_no_job_has_is_not_in_the_file_and_one_in_a_comment_makes_it_its_owners_alone() {
    let text =
        "A_TOKEN=gar geheim\nA_TOKEN = \"auch geheim\"\n0 1 * * * x\nB_TOKEN=nie geheim\n# 0 2 * * * y\n";
    let (import, spec) = crontab::one(text, Owner::User(None));
    assert_eq!((spec.secrets.len(), import.secret), (1, false), "{}", import.toml);
    assert!(!import.toml.contains("geheim"), "{}", import.toml);
    for comment in ["# cron: A_TOKEN = \"***\"", "# cron: B_TOKEN=***"] {
        assert!(import.toml.contains(comment), "{}", import.toml);
    }
    for (line, secret) in [
        ("# 0 2 * * * PGPASSWORD=geheim y", true),
        ("#B_TOKEN=geheim", true),
        ("0 25 * * * PGPASSWORD=geheim y", true),
        ("# the token is in /etc/pw, as TOKEN_FILE=/etc/pw says", false),
    ] {
        let (import, _) = crontab::one(&format!("0 1 * * * x\n{line}\n"), Owner::User(None));
        assert_eq!(import.secret, secret, "{}", import.toml);
    }
}

#[test]
fn a_value_that_could_not_be_hidden_in_the_output_stays() {
    let (import, spec) = crontab::one("A_TOKEN=abcde\n0 1 * * * x\n", Owner::User(None));
    assert!(import.secret && import.secrets.is_empty() && spec.secrets.is_empty());
    assert!(
        told(&import).contains("the nodes' store takes 6 bytes to 64 KiB"),
        "{}",
        told(&import)
    );
    let many: String = (0..80).map(|n| format!("TOKEN_{n}=value-{n}\n")).collect();
    let (import, spec) = crontab::one(&format!("{many}0 1 * * * x\n"), Owner::User(None));
    assert_eq!(
        (spec.secrets.len(), spec.env.len(), import.secret),
        (64, 16, true)
    );
}

#[test]
fn a_units_passwords_are_in_the_store_and_its_command_needs_no_shell_of_its_own() {
    for (start, wanted) in [
        ("/usr/bin/printenv API_TOKEN", "gar geheim\n"),
        ("/bin/echo ${API_TOKEN} 'a b' $$HOME", "gar geheim a b $HOME\n"),
    ] {
        let service = format!("[Service]\nEnvironment=\"API_TOKEN=gar geheim\" LANG=C\nExecStart={start}\n");
        let timers = [Timer {
            timer: file("x.timer", "[Timer]\nOnCalendar=daily\n"),
            service: Some(file("x.service", &service)),
        }];
        let machine = Machine {
            timezone: "UTC",
            home: &|_| None,
        };
        let import = import(&timers, &machine, "root");
        let spec = jobs(&import).remove(0).spec;
        assert_eq!(spec.secrets["API_TOKEN"], "x.API_TOKEN");
        assert_eq!(printed(&spec, &import, &[]), wanted, "{}", import.toml);
        assert!(!import.secret && !import.toml.contains("geheim") && !told(&import).contains("geheim"));
    }
}

#[test]
fn a_cron_jobs_passwords_and_secrets_are_in_the_store_also_where_its_command_names_them() {
    let container = json!({"command": ["/bin/echo", "--pw=$(PW)", "a b", "$$(PW) $(KEY)", "$(URL)", ""], "args": ["$(HOST)"],
        "env": [{"name": "HOST", "value": "db 1"}, {"name": "PW", "value": ""}, {"name": "MY_PW_SECRET", "value": "gar geheim"},
            {"name": "PW", "value": "$(MY_PW_SECRET)"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "api.key"}}},
            {"name": "URL", "value": "db://me:$(KEY)@$(HOST)"},
            {"name": "MAYBE", "valueFrom": {"secretKeyRef": {"name": "keys", "key": "b", "optional": true}}}]});
    let import = kubernetes::imported(vec![kubernetes::cron_job(&json!({}), &json!({}), &container)]);
    let spec = kubernetes::specs(&import).remove(0).1;
    let secrets: Vec<(&str, &str)> = (spec.secrets.iter())
        .map(|(name, entry)| (name.as_str(), entry.as_str()))
        .collect();
    assert_eq!(
        secrets,
        [
            ("KEY", "keys.api.key"),
            ("MY_PW_SECRET", "hello.MY_PW_SECRET"),
            ("PW", "hello.PW"),
            ("URL", "hello.URL")
        ]
    );
    let more = [("keys.api.key", "it's k"), ("hello.URL", "db://me:it's k@db 1")];
    assert_eq!(
        printed(&spec, &import, &more),
        "--pw=gar geheim a b $(PW) it's k db://me:it's k@db 1  db 1\n",
        "{}",
        import.toml
    );
    let told = told(&import);
    assert!(
        !import.toml.contains("geheim") && !told.contains("geheim"),
        "{told}"
    );
    for part in [
        "variable KEY comes from a Secret: put its value into the nodes' store as keys.api.key",
        "variable URL has a part that comes from a Secret",
        "variable MAYBE comes from a Secret: put it into the nodes' store and name it",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn secrets_that_have_one_name_in_two_namespaces_are_two_entries() {
    let container = json!({"env": [
        {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "db", "key": "password"}}},
        {"name": "URL", "value": "db://me:$(KEY)@db"}]});
    let of = |namespace: &str| {
        let mut object = kubernetes::cron_job(&json!({}), &json!({}), &container);
        object["metadata"]["namespace"] = json!(namespace);
        object
    };
    let entries = |namespaces: [&str; 2]| -> Vec<String> {
        let import = kubernetes::imported(namespaces.map(of).to_vec());
        let specs = kubernetes::specs(&import);
        let secrets = specs.into_iter().flat_map(|(_, spec)| spec.secrets);
        secrets.map(|(name, entry)| format!("{name} {entry}")).collect()
    };
    let wanted = [
        "KEY staging.db.password",
        "URL staging.hello.URL",
        "KEY shop.db.password",
        "URL shop.hello.URL",
    ];
    assert_eq!(entries(["staging", "shop"]), wanted);
    assert_eq!(entries(["shop", "shop"])[0], "KEY db.password");
}

#[test]
fn two_values_of_cron_jobs_never_have_one_entry() {
    let of = |name: &str, env: serde_json::Value| {
        let mut object = kubernetes::cron_job(&json!({}), &json!({}), &json!({ "env": env }));
        object["metadata"] = json!({ "name": name });
        object
    };
    let from = |key: &str| json!({"secretKeyRef": {"name": "backup", "key": key}});
    let literal = of("backup", json!([{"name": "API_TOKEN", "value": "gar geheim"}]));
    let named = of(
        "report",
        json!([{"name": "API_TOKEN", "valueFrom": from("API_TOKEN")}]),
    );
    for objects in [[&literal, &named], [&named, &literal]] {
        let import = kubernetes::imported(objects.map(Clone::clone).to_vec());
        let specs = kubernetes::specs(&import);
        let entry = |job: &str| &specs.iter().find(|(name, _)| name == job).unwrap().1.secrets["API_TOKEN"];
        assert_eq!(entry("report"), "backup.API_TOKEN");
        assert_eq!(entry("backup"), "backup.API_TOKEN-2");
        assert_eq!(import.secrets["backup.API_TOKEN-2"], "gar geheim");
    }
    let composite = |host: &str| {
        let url = json!({"name": "DB_URL", "value": format!("db://me:$(KEY)@{host}")});
        of("backup", json!([{"name": "KEY", "valueFrom": from("key")}, url]))
    };
    let import = kubernetes::imported(vec![composite("one"), composite("two")]);
    let specs = kubernetes::specs(&import);
    let entries: Vec<&str> = specs
        .iter()
        .map(|(_, spec)| spec.secrets["DB_URL"].as_str())
        .collect();
    assert_eq!(entries, ["backup.DB_URL", "backup.DB_URL-2"]);
    assert!(
        told(&import).contains("into the nodes' store as backup.DB_URL-2"),
        "{}",
        told(&import)
    );
}
