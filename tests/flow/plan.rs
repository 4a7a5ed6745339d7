use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::fixture::*;

fn plan(args: &[&str]) -> (Value, i32, String) {
    let out = flow(&[&["plan", "--json"], args].concat());
    let err = text(&out.stderr);
    let plan = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {err}"));
    (plan, out.status.code().expect("an exit code"), err)
}

fn pairs(plan: &Value) -> BTreeSet<(String, String)> {
    let tasks = plan["tasks"].as_array().expect("tasks");
    let of = |task: &Value| {
        let to = task["name"].as_str().expect("a name").to_owned();
        strings(&task["after"])
            .into_iter()
            .map(move |from| (from, to.clone()))
            .collect::<Vec<_>>()
    };
    tasks.iter().flat_map(of).collect()
}

fn respects(order: &[String], edges: &BTreeSet<(String, String)>) {
    let place: BTreeMap<&String, usize> = order.iter().zip(0..).collect();
    for (from, to) in edges {
        assert!(place[from] < place[to], "{from} comes after {to}");
    }
}

#[test]
fn every_sample_graph_has_exactly_its_edges_and_an_order_that_violates_none() {
    for name in RCORDER.into_iter().chain([LSB]) {
        let dir = graph(name, "");
        let (plan, code, err) = plan(&[path(&dir)]);
        assert_eq!(code, 0, "{name}: {err}");
        let (edges, names) = edges(name);
        assert_eq!(pairs(&plan), edges, "{name}");
        let order = strings(&plan["order"]);
        assert_eq!(order.iter().cloned().collect::<BTreeSet<_>>(), names, "{name}");
        respects(&order, &edges);
    }
}

#[test]
fn every_sample_graph_has_the_counts_of_its_statistics() {
    for name in RCORDER {
        let stats: Value = serde_json::from_str(&read(&format!("{name}.stats.json"))).unwrap();
        let dir = graph(name, "");
        let (plan, ..) = plan(&[path(&dir)]);
        assert_eq!(strings(&plan["missing"]), strings(&stats["missing_list"]));
        assert_eq!(
            plan["tasks"].as_array().map(Vec::len),
            stats["tasks"].as_u64().map(|n| n as usize)
        );
        assert_eq!(pairs(&plan).len() as u64, stats["edges"].as_u64().unwrap());
        let critical = strings(&plan["critical_path"]);
        assert_eq!(
            critical.len() as u64,
            stats["critical_path_tasks"].as_u64().unwrap(),
            "{name}"
        );
        let levels = plan["levels"].as_array().unwrap();
        assert_eq!(levels.len(), critical.len());
        let widest = levels.iter().map(|l| l.as_array().unwrap().len()).max();
        assert_eq!(widest.map(|w| w as u64), stats["widest_level"].as_u64());
        assert_eq!(strings(&levels[0]).len() as u64, stats["roots"].as_u64().unwrap());
    }
}

#[test]
fn stopping_reverses_every_edge_of_an_rcorder_graph() {
    for name in RCORDER {
        let dir = graph(name, "");
        let (plan, ..) = plan(&["--stop", path(&dir)]);
        let (edges, _) = edges(name);
        let reversed = edges.into_iter().map(|(from, to)| (to, from)).collect();
        assert_eq!(pairs(&plan), reversed, "{name}");
    }
}

#[test]
fn pairs_alone_are_a_plan() {
    for name in RCORDER {
        let file = data(&format!("{name}.edges"));
        let (plan, code, _) = plan(&["--edges", file.to_str().unwrap()]);
        assert_eq!(code, 0);
        assert_eq!(pairs(&plan), edges(name).0);
    }
}

#[test]
fn missing_names_are_listed_exactly_and_are_warnings_when_asked() {
    let dir = tempfile::tempdir().unwrap();
    write_script(dir.path(), "a", "#!/bin/sh\n# PROVIDE: a\n# REQUIRE: nowhere b\n");
    write_script(
        dir.path(),
        "b",
        "#!/bin/sh\n# PROVIDE: b\n# BEFORE: never nowhere\n",
    );
    let (json, code, err) = plan(&[path(&dir)]);
    assert_eq!(code, 1);
    assert_eq!(strings(&json["missing"]), ["never", "nowhere"]);
    assert!(
        err.contains("/a:3: a names `nowhere`, which nobody provides"),
        "{err}"
    );
    assert!(err.contains("/b:3: b names `never`"), "{err}");
    let (json, code, err) = plan(&["--missing", "warn", path(&dir)]);
    assert_eq!(
        (code, strings(&json["order"])),
        (0, vec!["b".to_owned(), "a".to_owned()])
    );
    assert!(err.starts_with("warning: "), "{err}");
}

#[test]
fn a_cycle_is_printed_edge_by_edge_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    write_script(dir.path(), "a", "#!/bin/sh\n# PROVIDE: a\n# REQUIRE: c\n");
    write_script(
        dir.path(),
        "b",
        "#!/bin/sh\n# PROVIDE: b\n\n# REQUIRE: a\n# BEFORE: c\n",
    );
    write_script(dir.path(), "c", "#!/bin/sh\n# PROVIDE: c\n");
    write_script(
        dir.path(),
        "b",
        "#!/bin/sh\n# PROVIDE: b\n#\n# REQUIRE: a\n# BEFORE: c\n",
    );
    let (json, code, err) = plan(&[path(&dir)]);
    assert_eq!(code, 1);
    assert_eq!(strings(&json["cycles"][0]), ["a", "b", "c"]);
    for edge in [
        "a before b (",
        "/b:4)",
        "b before c (",
        "/b:5)",
        "c before a (",
        "/a:3)",
    ] {
        assert!(err.contains(edge), "{edge} is not in:\n{err}");
    }
}

#[test]
fn a_graph_is_drawn_for_graphviz_and_mermaid() {
    let dir = tempfile::tempdir().unwrap();
    write_script(dir.path(), "a", "#!/bin/sh\n# PROVIDE: a\n# BEFORE: b\n");
    write_script(dir.path(), "b", "#!/bin/sh\n# PROVIDE: b\n");
    let dot = text(&flow(&["plan", "--dot", path(&dir)]).stdout);
    assert!(dot.contains("\"a\" -> \"b\" [style=dashed];"), "{dot}");
    let mermaid = text(&flow(&["graph", "--mermaid", path(&dir)]).stdout);
    assert!(mermaid.contains("t0 -.-> t1"), "{mermaid}");
}

#[test]
fn an_unterminated_header_is_refused_with_its_line() {
    let dir = tempfile::tempdir().unwrap();
    write_script(
        dir.path(),
        "bad",
        "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: bad\n",
    );
    let out = flow(&["plan", path(&dir)]);
    assert_eq!(out.status.code(), Some(1));
    let err = text(&out.stderr);
    assert!(
        err.contains("/bad:2: `### BEGIN INIT INFO` has no `### END INIT INFO`"),
        "{err}"
    );
    assert!(err.contains("next: put `### END INIT INFO`"), "{err}");
}
