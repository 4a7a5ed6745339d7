//! The dashboards' files, and their queries with the variables filled in.

use std::collections::BTreeSet;

use farmhand_tests::alerts::root;
use serde_json::Value;

/// One query of one panel.
pub struct Query {
    pub panel: String,
    pub expr: String,
}

pub fn dashboards() -> Vec<Value> {
    ["overview", "job", "node"]
        .map(|name| {
            let path = root().join(format!("grafana/provisioning/dashboards/{name}.json"));
            let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        })
        .into()
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn panels(dashboard: &Value) -> impl Iterator<Item = &Value> {
    list(dashboard, "panels").iter().filter(|p| p["type"] != "row")
}

/// Every query of every panel, with these values for the variables.
pub fn queries(variables: &[(&str, &str)]) -> Vec<Query> {
    let mut all = Vec::new();
    for dashboard in dashboards() {
        for panel in panels(&dashboard) {
            for target in list(panel, "targets") {
                let text = target["expr"].as_str().expect("a panel's query");
                let expr = variables.iter().fold(text.to_owned(), |t, (name, value)| {
                    t.replace(&format!("${name}"), value)
                });
                assert!(!expr.contains('$'), "a variable nobody fills in: {expr}");
                all.push(Query {
                    panel: format!("{} / {}", dashboard["title"], panel["title"]),
                    expr,
                });
            }
        }
    }
    all
}

#[test]
fn every_panel_says_what_it_shows_in_which_unit_and_has_its_place() {
    let mut uids = BTreeSet::new();
    for dashboard in dashboards() {
        assert!(uids.insert(dashboard["uid"].to_string()));
        assert_eq!(list(&dashboard, "panels")[0]["title"], "Verdict");
        let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
        for panel in panels(&dashboard) {
            let title = &panel["title"];
            assert!(ids.insert(panel["id"].to_string()), "{title}: an id of its own");
            let words = panel["description"].as_str().unwrap_or_default();
            assert!(words.len() > 20, "{title}: a description");
            assert!(
                panel["fieldConfig"]["defaults"]["unit"].is_string(),
                "{title}: a unit"
            );
            assert_eq!(panel["datasource"]["uid"], "farmhand-prometheus", "{title}");
            assert!(!list(panel, "targets").is_empty(), "{title}: a query");
            let at = |key: &str| panel["gridPos"][key].as_u64().expect("a place");
            assert!(at("x") + at("w") <= 24, "{title}: inside the grid");
            for cell in
                (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
            {
                assert!(cells.insert(cell), "{title} covers another panel");
            }
        }
    }
}

#[test]
fn no_alerts_is_said_only_where_prometheus_has_the_rules() {
    for dashboard in dashboards() {
        for panel in panels(&dashboard) {
            for target in list(panel, "targets") {
                let expr = target["expr"].as_str().expect("a panel's query");
                assert!(!(expr.contains("ALERTS") && expr.contains("vector(0)")), "{expr}");
            }
        }
    }
}
