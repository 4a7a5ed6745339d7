//! The table behind the picture.

use jiff::Timestamp;
use maud::{Markup, html};

use super::draw::sign;
use super::{Facts, Picture};
use crate::ui::parts::link;
use crate::ui::parts::time::{between, clock, ran, took};

/// Attempts that are listed; the picture says the rest in bands.
const LISTED: usize = 200;

/// What the picture shows, in words, the newest first.
pub fn table(facts: &Facts, picture: &Picture, now: Timestamp) -> Markup {
    let mut attempts: Vec<_> = facts.attempts.iter().collect();
    attempts.sort_by_key(|a| std::cmp::Reverse((a.from, a.run_id, a.attempt)));
    let left_out = attempts.len().saturating_sub(LISTED);
    attempts.truncate(LISTED);
    html! {
        details class="behind" id="lanes-table" {
            summary { "The same as a table" }
            div class="scroll" {
                table {
                    @if left_out > 0 { caption { "The newest " (LISTED) "; " (left_out) " more are in " a href="/runs" { "runs" } "." } }
                    thead { tr { th { "Node" } th { "Run" } th { "Job" } th { "Attempt" } th { "Fence" } th { "From (UTC)" } th { "Took" } th { "End" } th { "Took over from" } } }
                    tbody {
                        @for a in attempts {
                            tr {
                                td { (a.address) " " small { "session " (a.session) } }
                                td { a href=(link::run(a.run_id)) { (a.run_id) } }
                                td { (a.job_id) }
                                td class="num" { (a.attempt) }
                                td class="num mono" { (a.fence) }
                                td class="nowrap" { (clock(a.from)) }
                                td class="nowrap" { (took(ran(a.ran_ms, a.from, a.to.unwrap_or(now)))) }
                                td { (sign(a).markup()) }
                                td {
                                    @if let Some(arrow) = picture.arrows.iter().find(|w| (w.run_id, w.attempt) == (a.run_id, a.attempt)) {
                                        (arrow.from_node)
                                    }
                                }
                            }
                        }
                        @for s in &facts.silences {
                            tr {
                                td { (s.address) " " small { "session " (s.session) } }
                                td colspan="4" { "silent" }
                                td class="nowrap" { (clock(s.from)) }
                                td class="nowrap" { (took(between(s.from, s.to.unwrap_or(now)))) }
                                td colspan="2" { @if s.to.is_some() { "expired" } @else { "not expired yet" } }
                            }
                        }
                        @for o in &facts.outages {
                            tr {
                                td { (o.address) }
                                td colspan="4" { "did not reach the database" }
                                td class="nowrap" { (clock(o.from)) }
                                td class="nowrap" { (took(between(o.from, o.to))) }
                                td colspan="2" {}
                            }
                        }
                        @for z in &facts.zombies {
                            tr {
                                td { (z.address) }
                                td { a href=(link::run(z.run_id)) { (z.run_id) } }
                                td {}
                                td class="num" { (z.attempt) }
                                td {}
                                td class="nowrap" { (clock(z.at)) }
                                td {}
                                td colspan="2" { (z.word) }
                            }
                        }
                    }
                }
            }
        }
    }
}
