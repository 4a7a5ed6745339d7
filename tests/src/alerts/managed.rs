//! The same rules as Grafana-managed alerts, for its provisioning.

use serde_json::{Value, json};

use super::rules::annotations;
use super::{Alert, Scale, Source, yaml};

/// The data source's uid in `grafana/provisioning/datasources`.
const DATASOURCE: &str = "farmhand-prometheus";
/// Seconds back that an instant query may look.
const LOOK_BACK: u64 = 600;

/// Grafana's provisioning file. Recording rules are written out, so that they need not be loaded anywhere.
pub fn managed(source: &Source) -> String {
    let rules: Vec<Value> = source.alerts.iter().map(|a| rule(source, a)).collect();
    yaml::document(&json!({
        "apiVersion": 1,
        "groups": [{
            "orgId": 1,
            "name": "farmhand",
            "folder": "Farmhand",
            "interval": "30s",
            "rules": rules,
        }],
    }))
}

fn rule(source: &Source, alert: &Alert) -> Value {
    let mut expr = alert.expr();
    for record in &source.records {
        expr = expr.replace(&record.name, &format!("({})", record.expr.trim()));
    }
    let expr = Scale::NONE.expression(&expr);
    json!({
        "uid": format!("farmhand-{}", alert.runbook),
        "title": alert.name,
        "condition": "C",
        "for": alert.hold,
        // Nothing found is the good state: every rule selects what is wrong.
        "noDataState": "OK",
        "execErrState": "Error",
        "labels": {"severity": alert.severity},
        "annotations": in_grafanas_words(annotations(alert)),
        "data": [
            query("A", DATASOURCE, &json!({"expr": expr, "instant": true, "range": false})),
            // What is found counts, whatever its value.
            query("B", "__expr__", &json!({"type": "math", "expression": "$A * 0 + 1"})),
            query("C", "__expr__", &json!({
                "type": "threshold", "expression": "B",
                "conditions": [{"evaluator": {"type": "gt", "params": [0]}}],
            })),
        ],
    })
}

fn query(id: &str, datasource: &str, model: &Value) -> Value {
    let mut model = model.clone();
    model["refId"] = id.into();
    model["datasource"] = json!({"uid": datasource});
    json!({
        "refId": id,
        "relativeTimeRange": {"from": LOOK_BACK, "to": 0},
        "datasourceUid": datasource,
        "model": model,
    })
}

/// `$value` is a text there; the number of a query has its letter.
fn in_grafanas_words(annotations: Value) -> Value {
    let Value::Object(map) = annotations else {
        return annotations;
    };
    map.into_iter()
        .map(|(key, text)| {
            let text = text
                .as_str()
                .unwrap_or_default()
                .replace("$value", "$values.A.Value");
            (key, Value::from(text))
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}
