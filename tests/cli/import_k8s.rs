//! CronJobs of public repositories: `data/cronjobs`, with sources and licences in its SOURCES.tsv.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use farmhand_core::definition::{JobSpec, load};
use farmhand_core::document::Source;
use serde_json::Value;

use super::import::of;

/// Manifests without a command: the program is in the image alone.
const NO_PROGRAM: [&str; 16] = [
    "cert-fetcher-update-tls-certs.yaml",
    "cloud-platform-environments-moj-frontend-scheduled-task.yaml",
    "docker-helm-outdated-helm-outdated.yaml",
    "domain-expiration-checker-domain-expiration-checker.yaml",
    "github-app-secret-github-app-secret.yaml",
    "k8s-backup-mongodb-backup-mongodb.yaml",
    "k8update-k8update.yaml",
    "kube-dump-kube-dump.yaml",
    "kubeconfig-ca-fetch-github-app-secret.yaml",
    "kubernetes-elasticsearch-cluster-curator.yaml",
    "kueue-sample-cronjob.yaml",
    "openshift-etcd-backup-openshift-backup-master-0.yaml",
    "plumbing-label-sync-cron.yaml",
    "test-infra-label-sync.yaml",
    "testing-cleanup-pipelineruns.yaml",
    "testing-label-sync-cron.yaml",
];

fn data() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/cronjobs")
}

fn manifests() -> Vec<String> {
    let mut names: Vec<String> = (data().read_dir().unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".yaml"))
        .collect();
    names.sort();
    names
}

/// What the program says of them, and the jobs that their job file has.
fn imported(names: &[String]) -> (Value, BTreeMap<String, JobSpec>) {
    let mut args = vec!["k8s", "--json"];
    args.extend(names.iter().map(String::as_str));
    let said = of(&data(), &args).json();
    let source = Source {
        name: "jobs.toml".to_owned(),
        text: said["toml"].as_str().unwrap().to_owned(),
    };
    let jobs = load(&[source]).unwrap_or_else(|mistakes| panic!("{mistakes}\n{}", said["toml"]));
    (said, jobs.into_iter().map(|job| (job.name, job.spec)).collect())
}

#[test]
fn cron_jobs_of_public_repositories_import_without_an_edit_if_they_name_their_program() {
    let names = manifests();
    let sources = std::fs::read_to_string(data().join("SOURCES.tsv")).unwrap();
    for name in &names {
        assert!(sources.contains(&format!("{name}\t")), "{name} has no source");
    }
    let (said, jobs) = imported(&names);
    let mut refused = BTreeSet::new();
    for report in said["files"].as_array().unwrap() {
        let name = report["file"].as_str().unwrap();
        let invalid = report["invalid"].as_array().unwrap();
        assert_eq!(report["jobs"] == 0, !invalid.is_empty(), "{name}: {report:#}");
        for bad in invalid {
            let problem = bad["problem"].as_str().unwrap();
            assert!(
                problem.contains("the program is the entry point of"),
                "{name}: {problem}"
            );
            refused.insert(name);
        }
    }
    assert_eq!(refused, BTreeSet::from(NO_PROGRAM));
    let with_program = names.len() - NO_PROGRAM.len();
    assert!(with_program >= 40 && jobs.len() == with_program, "{}", jobs.len());
    for (name, spec) in &jobs {
        assert!(spec.command.is_some(), "{name}");
    }
}

/// Each variable of the manifests is in the job or told, and so is each part that no job has.
#[test]
fn what_a_cron_job_of_a_public_repository_loses_is_told() {
    let names: Vec<String> = (manifests().into_iter())
        .filter(|name| !NO_PROGRAM.contains(&name.as_str()))
        .collect();
    let (said, jobs) = imported(&names);
    let (mut carried, mut lost) = (0, BTreeSet::new());
    for (name, report) in names.iter().zip(said["files"].as_array().unwrap()) {
        let text = std::fs::read_to_string(data().join(name)).unwrap();
        let notes: Vec<&str> = (report["notes"].as_array().unwrap().iter())
            .map(|note| note["text"].as_str().unwrap())
            .collect();
        let mut of_file = said["jobs"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|job| job["file"] == **name);
        let job = &jobs[of_file.next().unwrap()["name"].as_str().unwrap()];
        let variables = text
            .lines()
            .skip_while(|line| line.trim() != "env:")
            .take_while(|line| !line.trim().starts_with("volume"))
            .filter_map(|line| line.trim().strip_prefix("- name: "))
            .map(|name| name.trim_matches('"'))
            .filter(|name| name.bytes().all(|b| b.is_ascii_uppercase() || b == b'_'));
        for variable in variables {
            let told = notes
                .iter()
                .any(|note| note.contains(&format!("variable {variable} comes from")));
            let has = job.env.contains_key(variable) || job.secrets.contains_key(variable);
            assert!(has || told, "{name}: {variable}: {notes:#?}");
            carried += usize::from(has);
        }
        for key in [
            "nodeSelector",
            "securityContext",
            "serviceAccountName",
            "volumeMounts",
            "volumes",
        ] {
            let there = text.lines().any(|line| {
                let line = line.trim().trim_start_matches("- ");
                line.starts_with(&format!("{key}:")) && !line.ends_with("[]") && !line.ends_with("{}")
            });
            if there {
                let told = |note: &&str| note.contains(key) && note.contains("is not carried over");
                assert!(notes.iter().any(told), "{name}: {key}: {notes:#?}");
                lost.insert(key);
            }
        }
    }
    assert!(carried >= 40, "{carried}");
    assert_eq!(lost.len(), 5, "{lost:?}");
}

/// kubectl reads YAML 1.1.
#[test]
fn suspend_is_read_as_kubectl_reads_it() {
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let text = std::fs::read_to_string(data().join("kubernetes-examples-cronjob-simple.yaml")).unwrap();
    for (written, suspended, told) in [
        ("yes", true, false),
        ("on", true, false),
        ("Y", true, false),
        ("no", false, false),
        ("null", false, false),
        ("later", false, true),
        ("1", false, true),
    ] {
        let text = text.replacen("\nspec:\n", &format!("\nspec:\n  suspend: {written}\n"), 1);
        std::fs::write(dir.path().join("job.yaml"), text).unwrap();
        let said = of(dir.path(), &["k8s", "job.yaml", "--json"]).json();
        let toml = said["toml"].as_str().unwrap();
        assert_eq!(toml.contains("enabled  = false"), suspended, "{written}: {toml}");
        let notes = said["files"][0]["notes"].to_string();
        assert_eq!(
            notes.contains("is neither true nor false"),
            told,
            "{written}: {notes}"
        );
    }
}
