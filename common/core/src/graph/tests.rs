use std::time::Duration;

use super::*;

/// `name: +provided >required ~after <before xconflicting`
fn member(text: &str) -> Member {
    let (name, rest) = text.split_once(':').unwrap();
    let at = Place::new(format!("{name}.sh"), 7);
    let mut member = Member {
        name: name.into(),
        provides: vec![(name.to_owned(), at.clone())],
        aliases: Vec::new(),
        references: Vec::new(),
    };
    for word in rest.split_whitespace() {
        let (sign, name) = word.split_at(1);
        let relation = match sign {
            "+" => {
                member.provides.push((name.to_owned(), at.clone()));
                continue;
            }
            ">" => Relation::Requires,
            "~" => Relation::After,
            "<" => Relation::Before,
            _ => Relation::Conflicts,
        };
        member.references.push(Reference {
            relation,
            name: name.to_owned(),
            optional: false,
            at: at.clone(),
        });
    }
    member
}

fn graph(members: &[&str]) -> Graph {
    Graph::new(&members.iter().map(|m| member(m)).collect::<Vec<_>>())
}

fn pairs(graph: &Graph) -> Vec<(&str, &str)> {
    let pairs = graph.pairs();
    pairs
        .iter()
        .map(|(a, b)| (graph.label(*a), graph.label(*b)))
        .collect()
}

#[test]
fn a_mark_stands_for_all_its_providers() {
    let g = graph(&["a: +m", "b: +m", "c: >m", "d: <m"]);
    assert_eq!(pairs(&g), [("a", "c"), ("b", "c"), ("d", "a"), ("d", "b")]);
    assert_eq!(g.dependencies(2, true), [0, 1]);
    assert!(g.dependencies(0, true).is_empty(), "before is order only");
    assert!(matches!(g.nodes()[g.names()["m"]], Node::End(_)));
}

#[test]
fn an_alternative_comes_after_all_that_there_are_and_requires_none_of_them() {
    let g = graph(&[
        "a:",
        "b: +m",
        "c: >a|m|nobody",
        "d: >nobody|a",
        "e: <a|b",
        "f: xa|b",
        "g: >x|y",
    ]);
    let expected = [("a", "c"), ("a", "d"), ("b", "c"), ("e", "a"), ("e", "b")];
    assert_eq!(pairs(&g), expected);
    assert!(g.dependencies(2, true).is_empty());
    assert_eq!(g.dependencies(3, true), [0], "the only one there is");
    assert_eq!(g.conflicts(5), [0, 1]);
    let missing: Vec<_> = g.missing().iter().map(|m| m.name.as_str()).collect();
    assert_eq!(missing, ["x|y"]);
    assert!(!g.names().contains_key("a|m|nobody"));
}

#[test]
fn a_cycle_through_an_alternative_is_a_cycle() {
    let g = graph(&["a: >c", "b:", "c: >a|b"]);
    let cycles: Vec<_> = g.cycles().iter().map(ToString::to_string).collect();
    assert_eq!(
        cycles,
        ["a before one of a|b (c.sh:7)\none of a|b before c (c.sh:7)\nc before a (a.sh:7)"]
    );
    let mut soft = graph(&["a: ~c", "b:", "c: ~a|b"]);
    assert_eq!(soft.break_soft_cycles().len(), 1);
    assert!(soft.order().is_some());
}

#[test]
fn a_name_that_a_task_has_and_others_provide_is_told_and_the_task_keeps_one_of_its_own() {
    let g = graph(&["x: +y", "y:", "z: >y", "alone: +alone"]);
    assert_eq!(pairs(&g), [("x", "z"), ("y", "z")]);
    assert_eq!(g.names()["task y"], 1);
    assert!(!g.names().contains_key("task alone"));
    let told: Vec<_> = g.collisions().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        ["x.sh:7: `y` is the name of a task, and x provides it: what waits for it waits for the task and x"]
    );
}

#[test]
fn a_cycle_is_named_edge_by_edge_with_its_places() {
    let g = graph(&["a: >c", "b: >a", "c: >b", "d: >c"]);
    assert!(g.order().is_none());
    let cycles = g.cycles();
    assert_eq!(cycles.len(), 1);
    assert_eq!(
        cycles[0].to_string(),
        "a before b (b.sh:7)\nb before c (c.sh:7)\nc before a (a.sh:7)"
    );
    assert_eq!(cycles[0].tasks(&g), ["a", "b", "c"]);
}

#[test]
fn every_cycle_is_found_and_a_task_may_stand_in_its_own_way() {
    let g = graph(&["a: >b", "b: >a", "c: >c", "x: +m >n", "y: +m", "n: >m"]);
    let cycles = g.cycles();
    assert_eq!(cycles.len(), 3, "{cycles:?}");
    assert_eq!(cycles[1].to_string(), "c before c (c.sh:7)");
    assert_eq!(cycles[2].tasks(&g), ["x", "n"]);
    assert!(cycles[2].to_string().contains("x before mark m (x.sh:7)"));
}

#[test]
fn missing_names_are_all_listed_with_who_wants_them() {
    let g = graph(&["a: >x ~y", "b: <x xz"]);
    let missing: Vec<_> = g
        .missing()
        .iter()
        .map(|m| (m.name.as_str(), m.task.as_str()))
        .collect();
    assert_eq!(missing, [("x", "a"), ("x", "b"), ("y", "a"), ("z", "b")]);
}

#[test]
fn levels_count_tasks_and_not_marks() {
    let g = graph(&["a: +m", "b: +m >a", "c: >m", "d:"]);
    let order = g.order().unwrap();
    let levels: Vec<_> = (0..4).map(|t| order.level(t)).collect();
    assert_eq!(levels, [0, 1, 2, 0]);
    let tasks: Vec<_> = order.nodes().iter().filter(|n| **n < 4).copied().collect();
    assert_eq!(tasks, [3, 0, 1, 2]);
}

#[test]
fn the_critical_path_is_the_longest_chain_by_time() {
    let g = graph(&["a:", "b: >a", "c:", "d: >b >c"]);
    let order = g.order().unwrap();
    let by = |c: u64| {
        let path = g.critical_path(&order, |t| Duration::from_secs(if t == 2 { c } else { 1 }));
        (path.tasks, path.length.as_secs())
    };
    assert_eq!(by(1), (vec![0, 1, 3], 3));
    assert_eq!(by(9), (vec![2, 3], 10));
}

#[test]
fn conflicts_hold_both_ways() {
    let g = graph(&["a: xb", "b:", "c:"]);
    assert_eq!((g.conflicts(0), g.conflicts(1)), (&[1][..], &[0][..]));
    assert!(g.conflicts(2).is_empty());
}

#[test]
fn ten_thousand_tasks_in_one_chain_and_a_wide_mark_need_no_recursion_and_no_product() {
    let chain: Vec<String> = (0..10_000)
        .map(|i| {
            if i == 0 {
                "t0: +all".to_owned()
            } else {
                format!("t{i}: +all >t{}", i - 1)
            }
        })
        .chain((0..10_000).map(|i| format!("u{i}: >all")))
        .collect();
    let g = graph(&chain.iter().map(String::as_str).collect::<Vec<_>>());
    assert!(g.cycles().is_empty());
    let order = g.order().unwrap();
    assert_eq!(order.level(10_000), 10_000);
    assert!(g.edges().len() < 50_000);
}
