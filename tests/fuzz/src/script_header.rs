//! Scripts with annotations, functions, pairs: whatever they say, there is an order or a cycle to show.

use std::collections::BTreeSet;
use std::time::Duration;

use farmhand_core::flow::{Direction, Script, Selection, Task, add_pairs, encode_name, functions, scripts};
use farmhand_core::graph::{Graph, Member};

use super::input::{parts, text};

pub fn run(data: &[u8]) {
    let parts = parts(data, 1);
    let whole = String::from_utf8_lossy(data);
    for direction in [Direction::Start, Direction::Stop] {
        let selection = Selection {
            direction,
            skip: vec!["nostart".to_owned()],
            ..Selection::default()
        };
        let files: Vec<Script> = parts
            .iter()
            .zip(0..)
            .map(|(part, nth)| Script {
                name: format!("script-{nth}.sh"),
                path: format!("/flow/script-{nth}.sh"),
                text: String::from_utf8_lossy(part).into_owned(),
                executable: nth % 2 == 0,
            })
            .collect();
        match scripts(&files, &selection) {
            Ok(mut tasks) => {
                graph(&tasks);
                if let Err(wrong) = add_pairs(&mut tasks, "pairs", text(parts[parts.len() - 1]), true) {
                    assert!(wrong.at.line >= 1 && !wrong.fix.is_empty());
                }
                graph(&tasks);
            }
            Err(wrong) => {
                assert!(!wrong.is_empty());
                for one in wrong {
                    let file = files
                        .iter()
                        .find(|f| *f.path == *one.at.file)
                        .expect("one of the files");
                    assert!(
                        (1..=file.text.lines().count()).contains(&(one.at.line as usize)),
                        "{one:?}"
                    );
                }
            }
        }
        graph(&functions("/flow/tasks.sh", &whole, &selection));
    }
    names(&whole);
}

fn graph(tasks: &[Task]) {
    let members: Vec<&Member> = tasks.iter().map(|task| &task.member).collect();
    let graph = Graph::new(&members);
    assert_eq!(graph.tasks(), tasks.len());
    for missing in graph.missing() {
        assert!(missing.at.line >= 1);
    }
    let Some(order) = graph.order() else {
        let cycles = graph.cycles();
        assert!(!cycles.is_empty() && cycles.iter().all(|cycle| !cycle.steps.is_empty()));
        return;
    };
    assert!(graph.cycles().is_empty());
    let mut place = vec![0; graph.nodes().len()];
    for (at, node) in order.nodes().iter().enumerate() {
        place[*node] = at;
    }
    assert!(graph.edges().iter().all(|edge| place[edge.from] < place[edge.to]));
    let path = graph.critical_path(&order, |_| Duration::from_secs(1));
    assert!(path.tasks.len() <= tasks.len() && path.length.as_secs() == path.tasks.len() as u64);
    for (from, to) in graph.pairs() {
        assert!(from < tasks.len() && place[from] < place[to]);
    }
}

/// Names of files for them are good ones, and different for different names.
fn names(text: &str) {
    let names: BTreeSet<&str> = text.split_whitespace().collect();
    let encoded: BTreeSet<Vec<u8>> = names.iter().map(|name| encode_name(name.as_bytes())).collect();
    assert_eq!(names.len(), encoded.len());
    for name in encoded {
        assert!(
            (1..=255).contains(&name.len()) && name[0] != b'.' && !name.contains(&b'/') && !name.contains(&0)
        );
    }
}
