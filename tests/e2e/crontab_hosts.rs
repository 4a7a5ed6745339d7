//! From the crontabs of two hosts to jobs that run on these nodes, which nobody configured for it.

use farmhand_tests::farm::Farm;

#[tokio::test(flavor = "multi_thread")]
async fn imported_crontabs_run_on_the_hosts_that_they_were_of() {
    let farm = Farm::new().agents(2).start().await;
    let tabs = farm.dir().join("tabs");
    std::fs::create_dir(&tabs).unwrap();
    let out = farm.dir().join("jobs.toml");
    for (host, own) in [("n1", "0 0 1 1 * echo one"), ("n2", "0 0 1 1 * echo two")] {
        let text = format!("0 0 1 1 * echo shared\n{own}\n");
        std::fs::write(tabs.join(host), text).unwrap();
    }
    // A host that is no node of the farm yet.
    std::fs::write(tabs.join("n3"), "0 0 1 1 * echo three\n").unwrap();
    let (tabs, out) = (tabs.display().to_string(), out.display().to_string());
    farm.ok(&["import", "crontab", "--hosts", &tabs, "-o", &out]);
    farm.ok(&["job", "check", &out]);
    farm.ok(&["job", "apply", &out]);

    for (job, nodes) in [
        ("shared", &["n1", "n2"][..]),
        ("one-n1", &["n1"]),
        ("two-n2", &["n2"]),
    ] {
        farm.submit(job).await;
        let mut ran = Vec::new();
        for run in farm.runs(job).await {
            ran.extend(farm.succeeds(run.run_id).await.running_at);
        }
        ran.sort();
        assert_eq!(ran, nodes, "{job}");
    }
    let refused = farm.farmhand(&["job", "run", "three-n3"]);
    assert!(!refused.status.success(), "{refused:?}");

    // The same label in a job that runs once: always there.
    farm.apply("[job.pinned]\nwhere = { node = 'n2' }\ncommand = 'true'\n");
    for _ in 0..4 {
        let run = farm.submit("pinned").await;
        assert_eq!(farm.succeeds(run).await.running_at.as_deref(), Some("n2"));
    }
    let nodes = farm.ok(&["node", "ls"]);
    assert!(nodes.contains("node=n1") && nodes.contains("node=n2"), "{nodes}");
    farm.check().await;
}
