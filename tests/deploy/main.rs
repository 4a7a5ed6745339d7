//! What `deploy/` says about containers, Kubernetes and virtual machines: it is valid, it says the same in each form,
//! and an agent runs with it.

mod ansible;
mod pod;
mod release;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// A program of the Python environment that `./test` makes from `tests/deploy/requirements.txt`.
///
/// # Panics
/// When it is not there, with how to get it.
fn tool(name: &str) -> Command {
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from);
    let bin = std::path::absolute(target.join("deploy-tools/bin")).expect("a path");
    assert!(
        bin.join(name).exists(),
        "{} is missing: `./test` installs it, with python3 -m venv and pip from tests/deploy/requirements.txt; \
         read there why it could not",
        bin.join(name).display()
    );
    let mut command = Command::new(bin.join(name));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let paths = std::iter::once(bin).chain(std::env::split_paths(&path));
    command
        .env("PATH", std::env::join_paths(paths).expect("a PATH"))
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}

/// Runs a check of `manifests.py`.
fn manifests(check: &str) -> String {
    ok(tool("python")
        .arg(root().join("tests/deploy/manifests.py"))
        .arg(check))
}

/// The output of a command that must succeed.
fn ok(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().expect("the command starts");
    let (stdout, stderr) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    let name = Path::new(command.get_program()).file_name().map(OsStr::to_owned);
    assert!(status.success(), "{name:?}: {status}\n{stdout}{stderr}");
    stdout.into_owned()
}

#[test]
fn the_dockerfile_passes_hadolint() {
    ok(tool("hadolint").arg(root().join("deploy/container/Dockerfile")));
}

#[test]
fn every_kustomization_renders_is_valid_and_leaves_time_to_drain() {
    manifests("kustomizations");
}

#[test]
fn the_chart_passes_helm_lint_and_refuses_unknown_values() {
    manifests("helm");
}

#[test]
fn releases_of_one_database_prune_their_own_jobs_alone() {
    manifests("sources");
}

#[test]
fn each_farm_of_a_cluster_has_its_job_in_prometheus_and_each_agent_its_instance() {
    manifests("monitors");
}

#[test]
fn the_chart_and_the_kustomize_base_say_the_same() {
    manifests("twins");
}

#[test]
fn every_image_and_chart_is_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let read = |path: &str| {
        let path = root().join(path);
        std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
    };
    for (path, what) in [
        ("deploy/container/Dockerfile", format!("ARG VERSION={version}\n")),
        (
            "deploy/helm/farmhand/Chart.yaml",
            format!("appVersion: {version}\n"),
        ),
        (
            "deploy/helm/farmhand/Chart.yaml",
            format!("\nversion: {version}\n"),
        ),
        (
            "deploy/kubernetes/base/daemonset.yaml",
            format!("image: farmhand:{version}\n"),
        ),
        (
            "deploy/kubernetes/components/users/daemonset.yaml",
            format!("image: farmhand:{version}\n"),
        ),
        (
            "deploy/kubernetes/jobs/job.yaml",
            format!("image: farmhand:{version}\n"),
        ),
        (
            "deploy/kubernetes/migrate/job.yaml",
            format!("image: farmhand:{version}\n"),
        ),
    ] {
        assert!(read(path).contains(&what), "{path} lacks {what:?}");
    }
}
