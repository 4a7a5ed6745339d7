//! Job × run: a column per firing, a row per shard or node.

use std::collections::{BTreeMap, BTreeSet};

use farmhand_store::reading::Cell;
use maud::{Markup, html};

use crate::ui::parts::link;
use crate::ui::parts::time::clock;
use crate::ui::parts::words;

/// Columns, the newest of them.
const COLUMNS: usize = 30;
/// Rows that fit a page.
const ROWS: usize = 64;

pub fn grid(cells: &[Cell]) -> Markup {
    let firings: BTreeSet<i64> = cells.iter().map(|c| c.firing).collect();
    let columns: Vec<i64> = firings.iter().rev().take(COLUMNS).rev().copied().collect();
    let mut rows: BTreeMap<String, BTreeMap<i64, &Cell>> = BTreeMap::new();
    // The newest come first, and a run by hand that repeats a shard is newer.
    for cell in cells.iter().filter(|c| columns.contains(&c.firing)) {
        rows.entry(row(cell))
            .or_default()
            .entry(cell.firing)
            .or_insert(cell);
    }
    let left_out = rows.len().saturating_sub(ROWS);
    let head = |firing: &i64| {
        cells
            .iter()
            .find(|c| c.firing == *firing)
            .map(|c| clock(c.due_at))
    };
    html! {
        @if !rows.is_empty() {
            p class="legend" { "The last " (columns.len()) " firings, the newest on the right; a row per shard or node."
                @if left_out > 0 { " " (left_out) " rows more are in the list of runs." } }
            div class="scroll newest" tabindex="0" role="region" aria-label="Runs as a grid" {
                table class="runs-grid" {
                    tbody {
                        @for (name, cells) in rows.iter().take(ROWS) {
                            tr {
                                th scope="row" { (name) }
                                @for firing in &columns {
                                    td {
                                        @if let Some(cell) = cells.get(firing) {
                                            @let sign = words::run(cell.state);
                                            @let title = format!("run {}, {}, due {}", cell.run_id, sign.word, head(firing).unwrap_or_default());
                                            a href=(link::run(cell.run_id)) class=(format!("t-{}", sign.colour.as_str())) title=(title) aria-label=(title) {
                                                (sign.icon.markup())
                                            }
                                        }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn row(cell: &Cell) -> String {
    match (&cell.node, cell.instances) {
        (Some(node), _) => node.clone(),
        (None, 2..) => format!("shard {:>3}", cell.instance),
        _ => "runs".to_owned(),
    }
}
