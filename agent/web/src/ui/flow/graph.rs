//! The graph: a column per level, an edge per dependency that no other one implies.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_store::reading::{FlowTask, FlowView};
use maud::{Markup, html};

use super::sign;

/// Boxes that can still be told apart.
const BOXES: usize = 120;
const WIDE: f64 = 150.0;
const HIGH: f64 = 26.0;
/// From box to box.
const ACROSS: f64 = 200.0;
const DOWN: f64 = 36.0;

pub fn draw(view: &FlowView) -> Markup {
    let tasks: Vec<&FlowTask> = view.tasks.iter().filter(|t| t.level.is_some()).collect();
    if tasks.is_empty() {
        return html! { p class="empty muted" { "The definition names no tasks: their dependencies are in the scripts." } };
    }
    if tasks.len() > BOXES {
        return html! {
            p class="empty" { (tasks.len()) " tasks are too many for a picture of boxes. The table above has what each waits for, and this draws it with Graphviz:" }
            div class="body" { (crate::ui::parts::cli("farmhand flow graph DIR | dot -Tsvg > flow.svg")) }
        };
    }
    let places = places(&tasks);
    let rows = places.values().map(|(_, row)| row + 1).max().unwrap_or(1);
    let levels = places.values().map(|(level, _)| level + 1).max().unwrap_or(1);
    let (width, height) = (
        levels as f64 * ACROSS - (ACROSS - WIDE) + 8.0,
        rows as f64 * DOWN + 8.0,
    );
    let at = |name: &str| {
        let (level, row) = places.get(name)?;
        Some((4.0 + *level as f64 * ACROSS, 6.0 + *row as f64 * DOWN))
    };
    let critical: BTreeSet<(&str, &str)> = view
        .critical_path
        .windows(2)
        .map(|w| (w[0].as_str(), w[1].as_str()))
        .collect();
    html! {
        div class="scroll body" tabindex="0" role="region" aria-label="Graph of the tasks" {
            svg class="graph" width=(format!("{width:.0}")) height=(format!("{height:.0}")) role="img"
                aria-label=(format!("{} tasks in {levels} levels; the table above says what each waits for", tasks.len())) {
                @for task in &tasks {
                    @for before in direct(task, &view.tasks) {
                        @if let (Some((x1, y1)), Some((x2, y2))) = (at(before), at(&task.task)) {
                            @let (x1, y1, y2) = (x1 + WIDE, y1 + HIGH / 2.0, y2 + HIGH / 2.0);
                            path class=(if critical.contains(&(before, task.task.as_str())) { "edge critical-edge" } else { "edge" })
                                d=(format!("M{x1:.0} {y1:.0}C{:.0} {y1:.0} {:.0} {y2:.0} {x2:.0} {y2:.0}", x1 + 25.0, x2 - 25.0)) {}
                        }
                    }
                }
                @for task in &tasks {
                    @if let Some((x, y)) = at(&task.task) { (boxed(task, x, y)) }
                }
            }
        }
    }
}

fn boxed(task: &FlowTask, x: f64, y: f64) -> Markup {
    let sign = sign(task);
    html! {
        svg class="pic-box" x=(x) y=(y) width=(WIDE) height=(HIGH) {
            title { (task.task) ", " (sign.word) @if task.critical { ", on the critical path" } }
            rect class=(format!("n-{0} s-{0}", sign.colour.as_str())) x="1" y="1" width=(WIDE - 2.0) height=(HIGH - 2.0) rx="4"
                stroke-width=(if task.critical { "3" } else { "1" }) {}
            use class=(format!("glyph t-{}", sign.colour.as_str())) href=(sign.icon.href()) x="7" y="7" width="12" height="12" {}
            text x="25" y="17.5" { @if task.critical { "◆ " } (task.task) }
        }
    }
}

/// Level and row of each task: a task lies as near as it can to the middle of what it waits for.
fn places<'a>(tasks: &[&'a FlowTask]) -> BTreeMap<&'a str, (usize, usize)> {
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    let mut levels: BTreeMap<usize, Vec<&FlowTask>> = BTreeMap::new();
    for task in tasks {
        let level = usize::try_from(task.level.unwrap_or(0)).unwrap_or(0);
        levels.entry(level).or_default().push(task);
    }
    for (level, mut column) in levels {
        let middle = |task: &FlowTask| {
            let rows: Vec<usize> = task
                .after
                .iter()
                .filter_map(|b| places.get(b.as_str()).map(|p| p.1))
                .collect();
            rows.iter().sum::<usize>() * 100 / rows.len().max(1)
        };
        column.sort_by_key(|task| (middle(task), task.task.as_str()));
        for (row, task) in column.iter().enumerate() {
            places.insert(&task.task, (level, row));
        }
    }
    places
}

/// Dependencies that are not implied by another one of the same task.
fn direct<'a>(task: &'a FlowTask, all: &[FlowTask]) -> Vec<&'a str> {
    let implied: BTreeSet<&str> = all
        .iter()
        .filter(|t| task.after.contains(&t.task))
        .flat_map(|t| t.after.iter().map(String::as_str))
        .collect();
    task.after
        .iter()
        .map(String::as_str)
        .filter(|name| !implied.contains(name))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn task(name: &str, level: i64, after: &[&str]) -> FlowTask {
        FlowTask {
            task: name.to_owned(),
            requires: Vec::new(),
            after: after.iter().map(|a| (*a).to_owned()).collect(),
            level: Some(level),
            critical: false,
            duration_ms: None,
            end: None,
        }
    }

    #[test]
    fn an_edge_that_another_path_implies_is_left_out() {
        let all = [task("a", 0, &[]), task("b", 1, &["a"]), task("c", 2, &["a", "b"])];
        assert_eq!(direct(&all[2], &all), ["b"]);
    }

    #[test]
    fn no_two_tasks_lie_in_one_place() {
        let all = [
            task("a", 0, &[]),
            task("b", 1, &["a"]),
            task("c", 1, &["a"]),
            task("d", 2, &["c"]),
        ];
        let places = places(&all.iter().collect::<Vec<_>>());
        let distinct: BTreeSet<_> = places.values().collect();
        assert_eq!(distinct.len(), 4);
        assert_eq!(places["d"].0, 2);
    }
}
