use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::task::reference;
use super::*;
use crate::graph::{Graph, Place, Relation};

const NOW: Duration = Duration::ZERO;

/// `name: >requires ~after +provides @lock #pool -conflicts !(left out)`
fn tasks(lines: &[&str]) -> Vec<Task> {
    let one = |line: &&str| {
        let (name, rest) = line.split_once(':').unwrap();
        let at = Place::new("f", 1);
        let mut task = Task::new(name, at.clone(), Action::Nothing);
        task.member.provides.push((name.to_owned(), at.clone()));
        for word in rest.split_whitespace() {
            let (sign, name) = word.split_at(1);
            let relation = match sign {
                ">" => Relation::Requires,
                "~" => Relation::After,
                "-" => Relation::Conflicts,
                "+" => {
                    task.member.provides.push((name.to_owned(), at.clone()));
                    continue;
                }
                "#" => {
                    extras(&mut task).pool = Some(name.to_owned());
                    continue;
                }
                "@" => {
                    extras(&mut task).locks.push(name.to_owned());
                    continue;
                }
                _ => {
                    task.left_out = Some("so".to_owned());
                    continue;
                }
            };
            task.member.references.push(reference(relation, name, false, &at));
        }
        task
    };
    lines.iter().map(one).collect()
}

fn extras(task: &mut Task) -> &mut Extras {
    std::sync::Arc::make_mut(&mut task.extras)
}

fn graph(tasks: &[Task]) -> Graph {
    Graph::new(&tasks.iter().map(|t| &t.member).collect::<Vec<_>>())
}

fn started(course: &mut Course<'_>) -> Vec<usize> {
    std::iter::from_fn(|| course.start(|_| true)).collect()
}

fn course<'f>(tasks: &'f [Task], graph: &'f Graph) -> Course<'f> {
    Course::new(tasks, graph, 100, &BTreeSet::new()).unwrap()
}

#[test]
fn a_failure_skips_what_requires_it_and_the_chain_of_blame_says_why() {
    let tasks = tasks(&["a: +m", "b: >m", "c: >b", "d: ~c", "e: ~a"]);
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    assert_eq!(started(&mut c), [0]);
    assert_eq!(c.ended(0, End::Failed { exit_code: 3 }, NOW, 0), None);
    assert_eq!(started(&mut c), [3, 4], "order alone is satisfied by any end");
    assert_eq!((c.end(1), c.end(2)), (Some(&End::Skipped), Some(&End::Skipped)));
    assert_eq!(c.chain_of_blame(2), [1, 0]);
    c.ended(3, End::Succeeded, NOW, 0);
    c.ended(4, End::Succeeded, NOW, 0);
    assert!(c.is_over());
}

#[test]
fn several_locks_are_taken_all_at_once_and_conflicts_hold() {
    let tasks = tasks(&["a: @x @y", "b: @y @z", "c: @z @x", "d: -a", "e:"]);
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    assert_eq!(started(&mut c), [0, 4]);
    c.ended(0, End::Succeeded, NOW, 0);
    assert_eq!(started(&mut c), [1, 3]);
    c.ended(1, End::Succeeded, NOW, 0);
    assert_eq!(started(&mut c), [2]);
}

#[test]
fn no_more_run_at_a_time_than_allowed_and_long_chains_go_first() {
    let tasks = tasks(&["a:", "b:", "c: >b", "d: >c"]);
    let graph = graph(&tasks);
    let mut c = Course::new(&tasks, &graph, 1, &BTreeSet::new()).unwrap();
    assert_eq!(started(&mut c), [1]);
    c.ended(1, End::Succeeded, NOW, 0);
    assert_eq!(started(&mut c), [2]);
}

#[test]
fn a_failed_task_is_tried_again_after_its_pause() {
    let mut tasks = tasks(&["a:", "b: >a"]);
    extras(&mut tasks[0]).retry.max = 1;
    extras(&mut tasks[0]).retry.backoff = crate::definition::Backoff::Constant;
    extras(&mut tasks[0]).retry.base = Duration::from_secs(5);
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    started(&mut c);
    let failed = End::Failed { exit_code: 1 };
    let again = c.ended(0, failed.clone(), NOW, 0).expect("another try");
    assert_eq!((again.after, again.failed), (Duration::from_secs(5), true));
    assert_eq!(c.wake(Duration::from_secs(4)), Some(Duration::from_secs(5)));
    assert!(started(&mut c).is_empty());
    // To ask for the time starts nothing and forgets nothing, also when it has come.
    assert_eq!(c.next_try(), Some(Duration::from_secs(5)));
    assert_eq!(c.wake(Duration::from_secs(5)), None);
    assert_eq!(c.next_try(), None);
    assert_eq!(started(&mut c), [0]);
    assert_eq!(c.ended(0, failed, NOW, 0), None);
    assert_eq!(c.end(1), Some(&End::Skipped));
}

#[test]
fn a_mark_lets_go_of_what_waits_and_the_end_does_so_only_once() {
    let tasks = tasks(&["d: +m", "e: +m", "w: >d", "x: >m"]);
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    started(&mut c);
    assert!(c.mark(0, "d"));
    assert!(!c.mark(1, "d"), "not its own name");
    assert!(!c.mark(0, "nothing"));
    assert_eq!(started(&mut c), [2]);
    assert!(c.mark(1, "m"));
    assert_eq!(started(&mut c), [3]);
    for task in [0, 1, 2, 3] {
        c.ended(task, End::Succeeded, NOW, 0);
    }
    assert!(c.is_over());
}

#[test]
fn what_is_done_or_left_out_is_passed_through_in_order() {
    let mut tasks = tasks(&["a:", "b: >a", "c: >b !", "d: >c"]);
    tasks[0].always_run = true;
    let graph = graph(&tasks);
    let done = ["a", "b"].map(str::to_owned).into();
    let mut c = Course::new(&tasks, &graph, 9, &done).unwrap();
    assert_eq!(started(&mut c), [0], "it insists on running again");
    c.ended(0, End::Succeeded, NOW, 0);
    assert_eq!((c.end(1), c.end(2)), (Some(&End::Done), Some(&End::LeftOut)));
    assert_eq!(started(&mut c), [3]);
}

#[test]
fn cancelling_leaves_only_what_runs() {
    let tasks = tasks(&["a:", "b: >a", "c:"]);
    let graph = graph(&tasks);
    let mut c = Course::new(&tasks, &graph, 1, &BTreeSet::new()).unwrap();
    started(&mut c);
    assert_eq!(c.cancel(), [0]);
    assert!(!c.is_over());
    c.ended(0, End::Cancelled, NOW, 0);
    assert!(c.is_over());
    assert_eq!(c.end(2), Some(&End::Cancelled));
}

#[test]
fn ten_thousand_skipped_tasks_in_a_chain_need_no_recursion() {
    let lines: Vec<String> = (0..10_000)
        .map(|i| {
            if i == 0 {
                "t0:".to_owned()
            } else {
                format!("t{i}: >t{}", i - 1)
            }
        })
        .collect();
    let tasks = tasks(&lines.iter().map(String::as_str).collect::<Vec<_>>());
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    started(&mut c);
    c.ended(0, End::TimedOut, NOW, 0);
    assert!(c.is_over());
    assert_eq!(c.chain_of_blame(9_999).len(), 9_999);
}

#[test]
fn no_more_tasks_of_a_pool_run_than_it_has_places_and_others_go_on() {
    let tasks = tasks(&[
        "a: #disk",
        "b: #disk",
        "c: #disk",
        "d:",
        "e: #tape #tape",
        "f: #free",
    ]);
    let graph = graph(&tasks);
    let pools = BTreeMap::from([("disk".to_owned(), 2), ("tape".to_owned(), 1)]);
    let mut c = course(&tasks, &graph).with_pools(&pools);
    assert_eq!(started(&mut c), [0, 1, 3, 4, 5]);
    c.ended(3, End::Succeeded, NOW, 0);
    assert!(started(&mut c).is_empty());
    c.ended(1, End::Failed { exit_code: 1 }, NOW, 0);
    assert_eq!(started(&mut c), [2]);
}

#[test]
fn an_alternative_waits_for_the_first_success_and_fails_with_the_last() {
    let tasks = tasks(&["a:", "b:", "c: >a|b", "d: ~a|b", "e: >c"]);
    let graph = graph(&tasks);
    let failed = || End::Failed { exit_code: 1 };
    let mut c = course(&tasks, &graph);
    assert_eq!(started(&mut c), [0, 1]);
    c.ended(0, failed(), NOW, 0);
    assert!(started(&mut c).is_empty());
    c.ended(1, End::Succeeded, NOW, 0);
    assert_eq!(started(&mut c), [2, 3]);

    let mut c = course(&tasks, &graph);
    started(&mut c);
    c.ended(1, End::Succeeded, NOW, 0);
    assert_eq!(started(&mut c), [2, 3], "it waits for no other");
    c.ended(0, failed(), NOW, 0);
    c.ended(2, End::Succeeded, NOW, 0);
    c.ended(3, End::Succeeded, NOW, 0);
    assert_eq!(started(&mut c), [4]);
    c.ended(4, End::Succeeded, NOW, 0);
    assert!(c.is_over());

    let mut c = course(&tasks, &graph);
    started(&mut c);
    c.ended(1, failed(), NOW, 0);
    c.ended(0, failed(), NOW, 0);
    assert_eq!(started(&mut c), [3], "who comes after it comes after all");
    assert_eq!(c.end(2), Some(&End::Skipped));
    assert_eq!(c.chain_of_blame(4), [2, 1]);
    c.ended(3, End::Succeeded, NOW, 0);
    assert!(c.is_over());
}

#[test]
fn of_alternatives_a_mark_counts_and_what_is_left_out_does_not() {
    let tasks = tasks(&["a: +m !", "b:", "c: >m|b", "d: >a|m"]);
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    assert_eq!(
        started(&mut c),
        [1, 3],
        "without any other, left out is as good as ended"
    );
    assert!(c.mark(1, "b"));
    assert_eq!(started(&mut c), [2]);
    for task in [1, 2, 3] {
        c.ended(task, End::Succeeded, NOW, 0);
    }
    assert!(c.is_over());
}

#[test]
fn a_deadlock_is_named_as_a_circle_from_its_first_sleeper_on() {
    let tasks = tasks(&["a:", "b: >a|c +m", "c: @l", "d: @l"]);
    let graph = graph(&tasks);
    let mut c = course(&tasks, &graph);
    assert_eq!(started(&mut c), [0, 2]);
    let asleep = |list: &[(usize, &str)]| {
        let nodes = list
            .iter()
            .map(|(task, name)| (*task, vec![graph.names()[*name]]));
        nodes.collect::<BTreeMap<_, _>>()
    };
    assert_eq!(c.deadlock(&asleep(&[(0, "m")])), None, "c may succeed");
    let found = c.deadlock(&asleep(&[(2, "d")])).unwrap();
    assert_eq!(found.chain, "c waits for d, d waits for c to release a lock");
    assert_eq!(found.running, [2]);
    c.ended(2, End::Failed { exit_code: 1 }, NOW, 0);
    started(&mut c);
    let found = c.deadlock(&asleep(&[(0, "m"), (3, "d")])).unwrap();
    assert_eq!(found.chain, "a waits for b (m), b waits for a (a|c)");
}
