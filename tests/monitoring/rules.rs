use std::path::Path;
use std::process::Command;

use farmhand_tests::alerts::{RUNBOOKS, root, source, written};

fn promtool(directory: &Path, arguments: &[&str]) -> String {
    let out = Command::new("promtool")
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("promtool runs: apt-get install prometheus");
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&out.stdout),
        String::from_utf8_lossy(&out.stderr)
    );
    assert!(out.status.success(), "promtool {arguments:?}:\n{text}");
    text
}

#[test]
fn rules_for_prometheus_and_grafana_are_those_of_the_one_source() {
    for (path, text) in written() {
        let file = root().join(path);
        if std::env::var_os("FARMHAND_BLESS").is_some() {
            std::fs::write(&file, &text).expect("a file of the repository");
        }
        let there = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(
            there == text,
            "{path} differs from what grafana/alerts.toml makes: run this test with FARMHAND_BLESS=1"
        );
    }
}

#[test]
fn prometheus_accepts_the_rules() {
    let said = promtool(
        &root().join("grafana/prometheus"),
        &["check", "rules", "farmhand.rules.yml"],
    );
    let (alerts, records) = (source().alerts.len(), source().records.len());
    assert!(
        said.contains(&format!("{} rules found", alerts + records)),
        "{said}"
    );
    assert!(alerts >= 15);
}

#[test]
fn each_alert_fires_when_it_should_and_not_when_it_should_not() {
    let said = promtool(
        &root().join("grafana/prometheus"),
        &["test", "rules", "farmhand.test.yml"],
    );
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn every_alert_has_a_runbook_that_says_all_four_things_and_is_listed() {
    let list = std::fs::read_to_string(root().join("docs/runbooks/README.md")).expect("the list");
    let rules =
        std::fs::read_to_string(root().join("grafana/prometheus/farmhand.rules.yml")).expect("the rules");
    for alert in source().alerts {
        let page = root().join(format!("docs/runbooks/{}.md", alert.runbook));
        let text = std::fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        assert!(
            text.starts_with(&format!("# {}\n", alert.name)),
            "{}",
            page.display()
        );
        for part in ["**What it means.**", "**Check.**", "**Fix.**", "**Do not.**"] {
            assert!(text.contains(part), "{}: {part}", page.display());
        }
        assert!(
            list.contains(&format!("({}.md)", alert.runbook)),
            "{}",
            alert.name
        );
        assert!(rules.contains(&format!("{RUNBOOKS}/{}.md", alert.runbook)));
    }
}

#[test]
fn alertmanager_and_prometheus_accept_their_examples() {
    let directory = root().join("grafana/prometheus");
    promtool(&directory, &["check", "config", "prometheus.yml"]);
    let out = Command::new("amtool")
        .args(["check-config", "alertmanager.yml"])
        .current_dir(&directory)
        .output()
        .expect("amtool runs: apt-get install prometheus-alertmanager");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
}
