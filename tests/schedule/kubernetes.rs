//! Kubernetes' CronJobs become jobs that say the same.

use farmhand_core::definition::{Command, Enabled, JobSpec, Overlap, load};
use farmhand_core::document::Source;
use farmhand_import::kubernetes::{File, import};
use farmhand_import::{Import, Machine};
use serde_json::{Value, json};

pub(super) fn imported(documents: Vec<Value>) -> Import {
    let machine = Machine {
        timezone: "UTC",
        home: &|_| None,
    };
    let file = File {
        name: "cronjobs.yaml".to_owned(),
        documents,
    };
    import(&[file], &machine)
}

pub(super) fn specs(import: &Import) -> Vec<(String, JobSpec)> {
    let source = Source {
        name: "imported.toml".to_owned(),
        text: import.toml.clone(),
    };
    load(&[source])
        .unwrap_or_else(|mistakes| panic!("{mistakes}\n{}", import.toml))
        .into_iter()
        .map(|job| (job.name, job.spec))
        .collect()
}

/// A CronJob with these keys of its spec, its pod and its container on top.
pub(super) fn cron_job(spec: &Value, pod: &Value, container: &Value) -> Value {
    let merged = |base: Value, more: &Value| -> Value {
        let mut base = base;
        for (key, value) in more.as_object().unwrap() {
            base[key] = value.clone();
        }
        base
    };
    let container = merged(
        json!({"name": "c", "image": "busybox:1.36", "command": ["date"]}),
        container,
    );
    let pod = merged(
        json!({"containers": [container], "restartPolicy": "OnFailure"}),
        pod,
    );
    let mut template = json!({"template": {"spec": pod}});
    for key in ["backoffLimit", "activeDeadlineSeconds", "parallelism"] {
        if let Some(value) = spec.get(key) {
            template[key] = value.clone();
        }
    }
    let spec = merged(
        json!({"schedule": "*/5 * * * *", "jobTemplate": {"spec": template}}),
        spec,
    );
    json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "hello", "namespace": "ops"}, "spec": spec})
}

pub(super) fn notes(import: &Import) -> Vec<&str> {
    import.files[0]
        .notes
        .iter()
        .map(|note| note.text.as_str())
        .collect()
}

#[test]
fn a_job_has_the_settings_of_its_cron_job() {
    let object = cron_job(
        &json!({"schedule": "30 2 * * 1-5", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": 200, "suspend": true, "backoffLimit": 2, "activeDeadlineSeconds": 600}),
        &json!({"terminationGracePeriodSeconds": 5}),
        &json!({"command": ["/bin/sh", "-c"], "args": ["echo $(WHO) $$(WHO) $(NOT)"], "workingDir": "/srv",
            "env": [{"name": "WHO", "value": "world"}, {"name": "BOTH", "value": "hello $(WHO)"}],
            "resources": {"limits": {"memory": "128Mi"}}}),
    );
    let import = imported(vec![object]);
    let (name, spec) = &specs(&import)[0];
    assert_eq!(name, "hello");
    assert_eq!(
        (spec.schedule[0].as_str(), spec.timezone.as_str()),
        ("30 2 * * 1-5", "Europe/Berlin")
    );
    assert_eq!((spec.overlap, spec.enabled), (Overlap::Latest, Enabled::No));
    let argv = ["/bin/sh", "-c", "echo world $(WHO) $(NOT)"]
        .map(str::to_owned)
        .to_vec();
    assert_eq!(spec.command, Some(Command::Argv(argv)));
    assert_eq!(
        (spec.env["WHO"].as_str(), spec.env["BOTH"].as_str()),
        ("world", "hello world")
    );
    assert_eq!((spec.timeout.unwrap().as_secs(), spec.grace.as_secs()), (600, 5));
    let value = serde_json::to_value(spec).unwrap();
    assert_eq!(
        (&value["catch_up"]["runs"], &value["catch_up"]["within"]),
        (&json!("latest"), &json!(200_000))
    );
    assert_eq!(
        (&value["retry"]["max"], &value["retry"]["cap"]),
        (&json!(2), &json!(360_000))
    );
    assert_eq!(
        (&value["cwd"], &value["limits"]["memory"]),
        (&json!("/srv"), &json!(134_217_728))
    );
    assert!(import.toml.contains("# CronJob ops/hello"), "{}", import.toml);
}

#[test]
fn what_a_cron_job_leaves_to_kubernetes_becomes_what_kubernetes_does() {
    let import = imported(vec![cron_job(&json!({}), &json!({}), &json!({}))]);
    let spec = &specs(&import)[0].1;
    assert_eq!(
        (spec.overlap, spec.enabled, spec.timezone.as_str()),
        (Overlap::Allow, Enabled::Yes, "UTC")
    );
    assert_eq!(
        (spec.retry.max, spec.grace.as_secs(), spec.timeout),
        (6, 30, None)
    );
    let notes = notes(&import);
    assert!(
        notes
            .iter()
            .any(|note| note.contains("it names no time zone: UTC")),
        "{notes:?}"
    );
    assert!(
        notes.iter().any(|note| note.contains("it ran in busybox:1.36")),
        "{notes:?}"
    );
    assert!(
        spec.user.is_none() && notes.iter().any(|note| note.contains("its jobs have no `user`")),
        "{notes:?}"
    );
    let old = imported(vec![cron_job(
        &json!({"schedule": "CRON_TZ=Asia/Tokyo 0 1 * * *"}),
        &json!({}),
        &json!({}),
    )]);
    let spec = &specs(&old)[0].1;
    assert_eq!(
        (spec.schedule[0].as_str(), spec.timezone.as_str()),
        ("0 1 * * *", "Asia/Tokyo")
    );
}

#[test]
fn settings_that_a_job_cannot_express_are_reported() {
    let object = cron_job(
        &json!({"parallelism": 3, "activeDeadlineSeconds": 60}),
        &json!({"nodeSelector": {"disk": "ssd"}, "volumes": [{"name": "v"}], "initContainers": [{"name": "i"}],
            "tolerations": [], "serviceAccountName": "x"}),
        &json!({"envFrom": [{"secretRef": {"name": "s"}}], "command": ["/bin/all"],
            "env": [{"name": "PW", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}, {"name": "a-b", "value": "1"}]}),
    );
    let import = imported(vec![object]);
    assert_eq!(specs(&import).len(), 1);
    let notes = notes(&import);
    for part in [
        "variable PW comes from a Secret: put its value into the nodes' store as s.k",
        "variable POD comes from fieldRef",
        "`a-b` cannot be the name",
        "nodeSelector is not carried over; `where`",
        "volumes (v) is not carried over; the nodes must have the files",
        "initContainers is not carried over; a flow",
        "serviceAccountName is not carried over",
        "envFrom is not carried over",
        "it has several completions",
        "activeDeadlineSeconds bounds all attempts together",
    ] {
        assert!(notes.iter().any(|note| note.contains(part)), "{part}: {notes:#?}");
    }
    assert!(
        !notes.iter().any(|note| note.contains("tolerations")),
        "{notes:#?}"
    );
}

#[test]
fn lists_and_other_kinds_are_read_and_what_cannot_be_a_job_is_told() {
    let list = json!({"kind": "List", "items": [
        cron_job(&json!({}), &json!({}), &json!({})),
        {"kind": "CronJobList", "items": [cron_job(&json!({}), &json!({}), &json!({}))]},
        {"kind": "Service", "metadata": {"name": "web"}},
    ]});
    let import = imported(vec![list, Value::Null]);
    let names: Vec<String> = specs(&import).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["hello", "hello-2"]);
    assert!(notes(&import).contains(&"Service web: only CronJobs are imported"));
    for (spec, pod, container, said) in [
        (
            json!({"schedule": "61 * * * *"}),
            json!({}),
            json!({}),
            "61 is out of range",
        ),
        (
            json!({"timeZone": "Nowhere/X"}),
            json!({}),
            json!({}),
            "Nowhere/X",
        ),
        (
            json!({"schedule": null}),
            json!({}),
            json!({}),
            "no `spec.schedule`",
        ),
        (json!({}), json!({"containers": []}), json!({}), "0 containers"),
        (
            json!({}),
            json!({}),
            json!({"command": []}),
            "neither command nor args",
        ),
        (
            json!({}),
            json!({}),
            json!({"command": null, "args": ["--all"]}),
            "args alone: the program is the entry point of busybox:1.36",
        ),
        (
            json!({}),
            json!({}),
            json!({"image": null}),
            "no image, as in a patch for kustomize",
        ),
    ] {
        let import = imported(vec![cron_job(&spec, &pod, &container)]);
        let invalid = &import.files[0].invalid;
        assert!(
            invalid.len() == 1 && invalid[0].problem.contains(said),
            "{said}: {invalid:?}"
        );
        assert!(specs(&import).is_empty());
        assert!(
            import.toml.contains("# NOT IMPORTED: CronJob hello"),
            "{}",
            import.toml
        );
    }
    assert_eq!(imported(vec![json!({"a": 1})]).files[0].invalid.len(), 1);
}
