//! Prometheus's rule file and its unit tests.

use serde_json::{Value, json};

use super::{Alert, Case, RUNBOOKS, Scale, Source, yaml};

/// Recording and alert rules.
pub fn rules(source: &Source, scale: Scale) -> String {
    let interval = scale.hold("30s");
    let records = source
        .records
        .iter()
        .map(|r| json!({"record": r.name, "expr": scale.expression(r.expr.trim())}));
    let alerts = source.alerts.iter().map(|a| {
        json!({
            "alert": a.name,
            "expr": scale.expression(&a.expr()),
            "for": scale.hold(&a.hold),
            "labels": {"severity": a.severity},
            "annotations": annotations(a),
        })
    });
    // One group: what is recorded is there for the alerts of the same evaluation.
    let group = json!({
        "name": "farmhand",
        "interval": interval,
        "rules": records.chain(alerts).collect::<Vec<Value>>(),
    });
    yaml::document(&json!({"groups": [group]}))
}

pub(super) fn annotations(alert: &Alert) -> Value {
    json!({
        "summary": alert.summary,
        "description": alert.description(),
        "runbook_url": format!("{RUNBOOKS}/{}.md", alert.runbook),
    })
}

/// What `promtool test rules` runs: for each alert once or twice that it fires, and once that it does not.
pub fn unit_tests(source: &Source) -> String {
    let tests: Vec<Value> = source
        .alerts
        .iter()
        .flat_map(|a| {
            let too = a.fires_too.as_ref();
            [
                Some(test(a, &a.fires, "fires", true)),
                too.map(|case| test(a, case, "fires too", true)),
                Some(test(a, &a.quiet, "stays quiet", false)),
            ]
        })
        .flatten()
        .collect();
    yaml::document(&json!({
        "rule_files": ["farmhand.rules.yml"],
        "evaluation_interval": "15s",
        "tests": tests,
    }))
}

fn test(alert: &Alert, case: &Case, how: &str, fires: bool) -> Value {
    let series: Vec<Value> = case
        .series
        .iter()
        .map(|(series, values)| json!({"series": series, "values": values}))
        .collect();
    let firing = format!(
        "count(ALERTS{{alertname=\"{}\",alertstate=\"firing\"}}) > bool 0",
        alert.name
    );
    let samples = if fires {
        json!([{"labels": "{}", "value": 1}])
    } else {
        json!([])
    };
    json!({
        "name": format!("{} {how}", alert.name),
        "interval": "15s",
        "input_series": series,
        "promql_expr_test": [{"expr": firing, "eval_time": case.at, "exp_samples": samples}],
    })
}
