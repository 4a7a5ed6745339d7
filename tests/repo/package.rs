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
fn the_shipped_policies_let_jobs_run_as_the_user_that_is_made_for_them_alone() {
    for file in [
        "deploy/helm/farmhand/values.yaml",
        "deploy/ansible/roles/farmhand/defaults/main.yml",
    ] {
        let text = super::read(file);
        assert!(text.contains("users: [\"farmhand\"]\n"), "{file}");
    }
    for file in [
        "deploy/deb/policy.toml",
        "deploy/kubernetes/components/users/policy.toml",
    ] {
        allows_its_own_user_alone(&super::read(file));
    }
}

fn allows_its_own_user_alone(text: &str) {
    let rules = toml::from_str(text).expect("rules");
    let policy = Policy::Listed {
        file: "/etc/farmhand/policy.toml".to_owned(),
        rules,
        apart: None,
    };
    assert!(policy.check("root", 0, 0).is_err());
    let refused = policy.check("mailer", 1000, 0).expect_err("it is not named");
    assert!(refused.contains("add \"mailer\""), "{refused}");
    let user = policy.default_user().expect("a user for jobs without one");
    assert!(policy.check(user, 999, 0).is_ok());
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

fn program(at: &Path, text: &str) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::write(at, text).expect("a file");
    std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o755)).expect("its mode");
}

#[test]
fn the_setup_may_install_twice_and_an_interrupt_ends_it() {
    let admins = Some("#!/bin/sh\nexit 101\n");
    // Of a setup that was killed.
    let left_over = Some("#!/bin/sh\n# farmhand-setup\nexit 101\n");
    for (guard, installer, ok, calls) in [
        (admins, "", true, 2),
        (left_over, "", true, 2),
        (None, "kill -INT $PPID; exit 100", false, 1),
        (None, "kill -HUP $PPID; exit 100", false, 1),
    ] {
        let dir = tempfile::tempdir().expect("a directory");
        let at = dir.path().display().to_string();
        let script = super::read("deploy/setup/packages.sh")
            .replace("NO_CLUSTER=/", &format!("NO_CLUSTER={at}/"))
            .replace("NO_START=/usr/sbin/", &format!("NO_START={at}/"));
        let file = |name: &str, text: &str| program(&dir.path().join(name), text);
        file("packages.sh", &script);
        file("id", "#!/bin/sh\necho 0\n");
        file(
            "apt-get",
            &format!("#!/bin/sh\necho \"$*\" >>{at}/log\n{installer}\n"),
        );
        if let Some(text) = guard {
            file("policy-rc.d", text);
        }
        let run = format!(
            "set -eu; PATH={at}:$PATH; . {at}/packages.sh; MISSING=' a'; install_missing; MISSING=' b'; install_missing"
        );
        let out = std::process::Command::new("sh").args(["-c", &run]).output();
        let out = out.expect("sh");
        let log = std::fs::read_to_string(dir.path().join("log")).expect("the calls");
        assert_eq!(
            (out.status.success(), log.lines().count()),
            (ok, calls),
            "{log}\n{out:?}"
        );
        let kept = std::fs::read_to_string(dir.path().join("policy-rc.d")).ok();
        assert_eq!(
            kept.as_deref(),
            guard.filter(|_| guard == admins),
            "{guard:?}, {installer}"
        );
    }
}

#[test]
fn dev_starts_what_it_has_built_wherever_cargo_is_told_to_build() {
    let dir = tempfile::tempdir().expect("a directory");
    let root = dir.path().join("farm hand");
    std::fs::create_dir_all(root.join("deploy/setup")).expect("a directory");
    program(&root.join("dev"), &super::read("dev"));
    let setup = "need_rust() { :; }\nneed_postgres() { :; }\ninstall_missing() { :; }\n";
    std::fs::write(root.join("deploy/setup/packages.sh"), setup).expect("a file");
    // As cargo: what it is told as an argument wins.
    let cargo = r#"#!/bin/sh
target=${CARGO_TARGET_DIR:-$CARGO_BUILD_TARGET_DIR}
while [ $# -gt 0 ]; do
    [ "$1" = --target-dir ] && target=$2
    shift
done
mkdir -p "$target/release"
printf '#!/bin/sh\necho "runs $*"\n' >"$target/release/farmhand"
chmod 755 "$target/release/farmhand"
"#;
    program(&dir.path().join("cargo"), cargo);
    let path = std::env::var("PATH").expect("PATH");
    for own in [None, Some(dir.path().join("own target"))] {
        let mut dev = std::process::Command::new(root.join("dev"));
        dev.arg("--agents=2")
            .env("PATH", format!("{}:{path}", dir.path().display()))
            .env("CARGO_BUILD_TARGET_DIR", dir.path().join("elsewhere"))
            .env_remove("CARGO_TARGET_DIR");
        dev.envs(own.as_ref().map(|own| ("CARGO_TARGET_DIR", own)));
        let out = dev.output().expect("./dev");
        assert_eq!(
            String::from_utf8_lossy(&out.stdout),
            "runs dev --agents=2\n",
            "{out:?}"
        );
    }
}

#[test]
fn a_purge_succeeds_where_the_state_directory_has_a_mount() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    // As rm with a mount in its way.
    let rm = format!(
        "#!/bin/sh\necho \"$*\" >>{}\ncase \"$*\" in */var/lib/farmhand*) exit 1 ;; esac\n",
        log.display()
    );
    program(&dir.path().join("rm"), &rm);
    let purge = std::process::Command::new("/bin/sh")
        .arg(super::root().join("deploy/deb/scripts/postrm"))
        .arg("purge")
        .env("PATH", dir.path())
        .status();
    assert!(purge.expect("sh").success());
    let calls = std::fs::read_to_string(log).expect("the calls");
    assert!(calls.contains("farmhand.service.d"), "{calls}");
}
