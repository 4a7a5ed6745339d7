use std::collections::{BTreeMap, BTreeSet};

use farmhand_core::attempt::RunKind;

/// Every `farmhand_[a-z_]+` of a text.
fn names(text: &str) -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_lowercase() || c == '_';
    text.match_indices("farmhand_")
        .filter(|(at, _)| !text[..*at].ends_with(part))
        .map(|(at, _)| text[at..].chars().take_while(|c| part(*c)).collect::<String>())
        .map(|name| name.trim_end_matches('_').to_owned())
        .collect()
}

/// Every metric of the code: the agent's by its one file of names, the farm's as they are built.
fn in_code() -> BTreeSet<String> {
    let text = super::read("agent/telemetry/src/metrics.rs");
    let quoted = text.split('"').skip(1).step_by(2);
    let mut found: BTreeSet<String> = (quoted.filter(|text| text.starts_with("farmhand_")))
        .map(str::to_owned)
        .collect();
    assert!(found.len() > 20, "{found:?}");
    found.extend(
        farmhand_telemetry::snapshot::sample()
            .iter()
            .map(|f| f.name().to_owned()),
    );
    found
}

#[test]
fn every_metric_of_the_code_is_documented_and_every_documented_one_exists() {
    let docs: BTreeSet<String> = super::read("docs/reference/metrics.md")
        .lines()
        .filter_map(|l| l.strip_prefix("| `farmhand_")?.split('`').next())
        .map(|name| format!("farmhand_{name}"))
        .collect();
    assert_eq!(docs, in_code());
}

#[test]
fn every_name_under_grafana_is_a_metric_of_the_code() {
    let code = in_code();
    let mut unknown: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in super::documents::files() {
        if !file.starts_with("grafana/") {
            continue;
        }
        for name in names(&super::read(&file)) {
            let series = ["_bucket", "_sum", "_count"]
                .iter()
                .find_map(|s| name.strip_suffix(s))
                .unwrap_or(&name);
            if !code.contains(&name) && !code.contains(series) {
                unknown.entry(file.clone()).or_default().insert(name);
            }
        }
    }
    assert!(unknown.is_empty(), "no such metrics: {unknown:#?}");
}

#[test]
fn every_series_of_the_agent_is_there_from_the_start_or_has_a_bounded_label() {
    let metrics = farmhand_telemetry::metrics::Metrics::new().expect("the metrics");
    let now = farmhand_os::clock::boot_now();
    let bad = ["job", "instance"];
    for family in metrics.gather(now) {
        for metric in family.get_metric() {
            let label = metric.get_label().iter().find(|l| bad.contains(&l.name()));
            assert!(label.is_none(), "{} has {label:?}", family.name());
        }
    }
}

/// What `rate` and `increase` in an expression are taken of: a name, and the matchers on its labels.
fn counted(expr: &str) -> Vec<(&str, Vec<&str>)> {
    let within = ["rate(", "increase("].iter().flat_map(|f| expr.split(f).skip(1));
    within
        .map(|rest| rest.split('[').next().unwrap_or(rest))
        .map(|series| {
            series
                .trim_end_matches('}')
                .split_once('{')
                .unwrap_or((series, ""))
        })
        .map(|(name, labels)| (name, labels.split(',').filter(|l| !l.is_empty()).collect()))
        .collect()
}

#[test]
fn every_counter_that_a_rule_watches_is_there_before_it_first_counts() {
    let metrics = farmhand_telemetry::metrics::Metrics::new().expect("the metrics");
    let now = farmhand_os::clock::boot_now();
    let text = String::from_utf8(metrics.render(now).expect("the metrics as text")).expect("UTF-8");
    let has = |name: &str, labels: &[&str]| {
        text.lines()
            .any(|l| l.starts_with(&format!("{name}{{")) && labels.iter().all(|label| l.contains(label)))
    };
    let source = farmhand_tests::alerts::source();
    let exprs: Vec<&str> = source
        .records
        .iter()
        .map(|r| &*r.expr)
        .chain(source.alerts.iter().map(|a| &*a.expr))
        .collect();
    let watched: Vec<_> = exprs.iter().flat_map(|e| counted(e)).collect();
    assert!(watched.len() >= 4, "{watched:?}");
    for (name, labels) in watched {
        assert!(
            has(name, &labels),
            "rate() does not see the first count of {name}{labels:?}"
        );
    }
    for kind in RunKind::ALL.iter().filter(|k| **k != RunKind::Unknown) {
        let label = format!("kind=\"{kind}\"");
        assert!(
            has("farmhand_schedule_lag_seconds_bucket", &[&label]),
            "no {label}"
        );
    }
}
