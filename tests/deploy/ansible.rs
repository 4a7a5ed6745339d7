//! The role for virtual machines, applied to an empty directory.

use std::path::Path;
use std::process::Command;

use farmhand_tests::farm::{CALM, Farm};
use serde_json::Value;

use super::{ok, root, tool};

/// A program of Ansible's that leaves the home directory alone.
fn ansible(name: &str, scratch: &Path) -> Command {
    let mut command = tool(name);
    command
        .env("HOME", scratch)
        .env("ANSIBLE_HOME", scratch.join("ansible"))
        .env("ANSIBLE_LOCAL_TEMP", scratch.join("ansible/local"))
        .env("ANSIBLE_REMOTE_TEMP", scratch.join("ansible/remote"))
        .env("ANSIBLE_NOCOLOR", "1")
        .env("ANSIBLE_PIPELINING", "1")
        .current_dir(root().join("deploy/ansible"));
    command
}

#[test]
fn the_role_passes_ansible_lint() {
    let scratch = tempfile::tempdir().expect("a directory");
    ok(ansible("ansible-lint", scratch.path()).args([
        "--offline",
        "--strict",
        "--nocolor",
        "--profile",
        "production",
        ".",
    ]));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_role_installs_an_agent_and_changes_nothing_when_applied_again() {
    // SAFETY: a plain system call.
    assert_eq!(
        unsafe { libc::geteuid() },
        0,
        "files of root's are installed: run the tests as root"
    );
    let scratch = tempfile::tempdir().expect("a directory");
    let machine = scratch.path().join("machine");
    let url = "postgresql://farmhand:s3cret@db.example.com/farmhand";
    let variables = serde_json::json!({
        "ansible_connection": "local",
        "ansible_become": false,
        "ansible_python_interpreter": "{{ ansible_playbook_python }}",
        "farmhand_root": machine,
        // Any program will do: what is started below is the real one.
        "farmhand_binary": "/bin/true",
        "farmhand_database_url": url,
        "farmhand_labels": {"role": "batch", "rack": 7},
        "farmhand_config": {"notify": "off", "ping": {"url": "http://127.0.0.1:9/", "every": "1m"}},
    });
    let apply = || {
        ok(ansible("ansible-playbook", scratch.path())
            .args(["--inventory", "vm-1.example.com,", "--limit", "all"])
            .args(["--extra-vars", &variables.to_string()])
            .arg("../../tests/deploy/role.yml"))
    };
    let first = apply();
    assert!(
        first.contains("changed=") && !first.contains("changed=0"),
        "{first}"
    );
    assert!(!first.contains("s3cret"), "{first}");
    let second = apply();
    assert!(second.contains("changed=0"), "{second}");

    let etc = machine.join("etc/farmhand");
    let secret = etc.join("database-url");
    assert_eq!(std::fs::read_to_string(&secret).expect("the URL").trim(), url);
    assert_eq!(mode(&secret), 0o600);
    assert_eq!(mode(&machine.join("usr/bin/farmhand")), 0o755);
    assert!(machine.join("usr/lib/systemd/system/farmhand.service").exists());

    let [config, policy] = ["agent.toml", "policy.toml"].map(|name| etc.join(name).display().to_string());
    // This machine need not have the user that the role makes on others.
    let settings = ["--config", &config, "--policy", &policy, "--user", "off"];
    let farm = Farm::new().ttl(CALM).arguments(&settings).start().await;
    let labels: Value = farm.value("SELECT labels - 'node' FROM farmhand.node").await;
    assert_eq!(labels, serde_json::json!({"role": "batch", "rack": "7"}));
    let name: String = farm.value("SELECT name FROM farmhand.node").await;
    assert_eq!(name, "vm-1.example.com");
}

fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    path.metadata()
        .unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        .permissions()
        .mode()
        & 0o7777
}
