//! What the Debian package is made of, without building it: `deploy/deb/test` does that.

use std::collections::BTreeSet;
use std::path::Path;

use farmhand_policy::Policy;

fn metadata() -> toml::Table {
    let manifest: toml::Table = super::read("agent/cli/Cargo.toml").parse().expect("TOML");
    let deb = manifest["package"]["metadata"]["deb"].clone();
    deb.as_table().expect("a table").clone()
}

fn texts(value: &toml::Value) -> Vec<String> {
    let list = value.as_array().expect("a list");
    list.iter()
        .map(|v| v.as_str().expect("a text").to_owned())
        .collect()
}

#[test]
fn everything_that_the_package_takes_is_there_or_made_by_the_build() {
    let deb = metadata();
    let build = super::read("deploy/deb/build");
    let mut installed = BTreeSet::new();
    for asset in deb["assets"].as_array().expect("assets") {
        let [from, to, _mode] = &texts(asset)[..] else {
            panic!("{asset}")
        };
        let name = from.rsplit('/').next().expect("a name");
        if to.ends_with('/') {
            installed.insert(format!("/{to}{name}"));
        } else {
            installed.insert(format!("/{to}"));
        }
        if from.starts_with("target/release/") {
            continue;
        }
        if let Some(made) = from.strip_prefix("../../target/deb-assets/") {
            let made = made.split('/').next().expect("a name");
            assert!(
                build.contains(&format!("$assets/{made}")),
                "deploy/deb/build makes no {made}"
            );
            continue;
        }
        let source = super::root().join("agent/cli").join(from.replace("/*.md", ""));
        assert!(source.exists(), "{from} is not there");
    }
    for file in texts(&deb["conf-files"]) {
        assert!(installed.contains(&file), "{file} is not installed");
    }
    let scripts = super::root()
        .join("agent/cli")
        .join(deb["maintainer-scripts"].as_str().expect("a directory"));
    for script in ["postinst", "prerm", "postrm"] {
        let text = std::fs::read_to_string(scripts.join(script)).expect(script);
        assert!(
            text.starts_with("#!/bin/sh\nset -e\n") && text.contains("\n#DEBHELPER#\n"),
            "{script}"
        );
    }
}

#[test]
fn the_shipped_policy_lets_no_job_run_as_root() {
    let path = super::root().join("deploy/deb/policy.toml");
    let rules = toml::from_str(&std::fs::read_to_string(&path).expect("the policy")).expect("rules");
    let policy = Policy::Listed {
        file: "/etc/farmhand/policy.toml".to_owned(),
        rules,
        apart: None,
    };
    assert!(policy.check("root", 0, 0).is_err());
    assert!(policy.check("mailer", 1000, 0).is_ok());
    let user = policy.default_user().expect("a user for jobs without one");
    let users = super::read("deploy/systemd/farmhand.sysusers");
    assert!(users.contains(&format!("\nu {user} ")));
    assert!(users.contains("\nu farmhand-agent "));
    assert!(super::read("deploy/deb/agent.toml").contains("\nuser = \"farmhand-agent\"\n"));
}

#[test]
fn the_shipped_configuration_is_one_that_the_agent_reads() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("agent.toml");
    let shipped = super::read("deploy/deb/agent.toml");
    assert!(shipped.contains("\npolicy = \"/etc/farmhand/policy.toml\"\n"));
    // With every proposal taken, and a database that nothing listens at.
    let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr());
    let port = port.expect("a port").port();
    let all: String = shipped
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(proposal) if !proposal.starts_with([' ', '"']) && !proposal.is_empty() => proposal,
            _ => line,
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let all = all.replace("\"/etc/farmhand/policy.toml\"", "\"/no/such/policy.toml\"");
    std::fs::write(&file, all).expect("a file");
    let out = std::process::Command::new(farmhand_tests::bin::farmhand())
        .args(["agent", "--config"])
        .arg(&file)
        .arg("--state-dir")
        .arg(dir.path().join("state"))
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .env_remove("FARMHAND_DATABASE_URL")
        .env_remove("DATABASE_URL")
        .output()
        .expect("the agent starts");
    let said = String::from_utf8_lossy(&out.stderr);
    // Every key was understood: it got as far as the policy.
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("/no/such/policy.toml"), "{said}");
    assert!(Path::new(&file).exists());
}
