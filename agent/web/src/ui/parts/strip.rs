//! The last outcomes of a job as a strip of shapes.

use farmhand_core::run::RunState;
use maud::{Markup, html};

use super::words;

/// How many are shown.
pub const OUTCOMES: usize = 30;

/// The oldest first. Each has its own shape: full height is a success, a cross a failure, a clock hand a timeout, a
/// slash a cancelled one, a hollow diamond a lost one, a dot a skipped one, a triangle what still runs.
pub fn strip(outcomes: &[(i64, RunState)]) -> Markup {
    let shown = &outcomes[outcomes.len().saturating_sub(OUTCOMES)..];
    let first = OUTCOMES - shown.len();
    html! {
        svg class="strip pic" viewBox="0 0 186 18" role="img" aria-label=(said(shown)) {
            @for n in 0..first { rect class="f-idle" x=(at(n) + 1.5) y="8" width="2" height="2" fill-opacity=".35" {} }
            @for (n, (_, state)) in shown.iter().enumerate() { (cell(at(first + n), *state)) }
        }
    }
}

fn at(n: usize) -> f64 {
    n as f64 * 6.2
}

fn cell(x: f64, state: RunState) -> Markup {
    let colour = words::run(state).colour.as_str();
    let (fill, stroke) = (format!("f-{colour}"), format!("none s-{colour}"));
    html! {
        @match state {
            RunState::Succeeded => rect class=(fill) x=(x) y="2" width="4.6" height="14" rx="1" {},
            RunState::Failed => path class=(stroke) stroke-width="2" d=(format!("M{x:.1} 4l4.6 10M{:.1} 4l-4.6 10", x + 4.6)) {},
            RunState::TimedOut => path class=(stroke) stroke-width="1.8" d=(format!("M{:.1} 3v7l2.3 4M{x:.1} 3h4.6", x + 2.3)) {},
            RunState::Cancelled => path class=(stroke) stroke-width="2" d=(format!("M{x:.1} 13l4.6 -8")) {},
            RunState::Lost => path class=(stroke) stroke-width="1.4" d=(format!("M{:.1} 3l2.3 6l-2.3 6l-2.3 -6z", x + 2.3)) {},
            RunState::Skipped => circle class=(fill) cx=(x + 2.3) cy="9" r="1.8" {},
            RunState::Running => path class=(fill) d=(format!("M{x:.1} 4l4.6 5l-4.6 5z")) {},
            RunState::Due => rect class=(stroke) stroke-width="1.2" x=(x + 0.6) y="5" width="3.4" height="8" {},
        }
    }
}

fn said(outcomes: &[(i64, RunState)]) -> String {
    if outcomes.is_empty() {
        return "no run yet".to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    for &state in RunState::ALL {
        let n = outcomes.iter().filter(|(_, s)| *s == state).count();
        if n > 0 {
            words.push(format!("{n} {}", words::run(state).word));
        }
    }
    let last = outcomes.last().map_or("", |(_, s)| words::run(*s).word);
    format!(
        "The last {}: {}; the newest {last}",
        outcomes.len(),
        words.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_strip_says_in_words_what_its_shapes_show() {
        let outcomes = [
            (1, RunState::Succeeded),
            (2, RunState::Succeeded),
            (3, RunState::TimedOut),
        ];
        let said = said(&outcomes);
        assert_eq!(said, "The last 3: 2 succeeded, 1 timed out; the newest timed out");
    }
}
