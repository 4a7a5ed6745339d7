//! Sentences that name runs and pools.

use maud::{Markup, html};

use super::link;

/// Names of one sentence that lead somewhere, at most. What people wrote may be in it, at any length.
const LINKS: usize = 100;

/// The sentence; `run 17` in it leads to that run, and `the pool db`, `in pool db` or `of pool db` to that pool.
pub fn linked(text: &str) -> Markup {
    let (mut rest, mut parts) = (text, Vec::new());
    while parts.len() < LINKS {
        let Some(Link { from, to, href }) = next(rest) else {
            break;
        };
        parts.push((&rest[..from], &rest[from..to], href));
        rest = &rest[to..];
    }
    html! { @for (before, name, href) in &parts { (before) a href=(href) { (name) } } (rest) }
}

struct Link {
    from: usize,
    to: usize,
    href: String,
}

/// The first name in the text.
fn next(text: &str) -> Option<Link> {
    let run = (text.match_indices("run ")).find_map(|(at, word)| number(text, at, at + word.len()));
    let pools = ["the pool ", "in pool ", "of pool "]
        .into_iter()
        .filter_map(|words| pool(text, words));
    run.into_iter().chain(pools).min_by_key(|found| found.from)
}

fn number(text: &str, from: usize, digits: usize) -> Option<Link> {
    let begins = text[..from]
        .chars()
        .next_back()
        .is_none_or(|c| !c.is_alphanumeric());
    let after = &text[digits..];
    let n = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
    let id = after[..n].parse().ok().filter(|_| begins)?;
    Some(Link {
        from,
        to: digits + n,
        href: link::run(id),
    })
}

fn pool(text: &str, words: &str) -> Option<Link> {
    let from = text.find(words)? + words.len();
    let after = &text[from..];
    let n = after.find([' ', ',', ':', ';']).unwrap_or(after.len());
    (n > 0).then(|| Link {
        from,
        to: from + n,
        href: link::pool(&after[..n]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_and_pools_in_a_sentence_are_links() {
        let text = "run 7 waits for a place in pool db: 1 of 1 are taken by run 5 (mail on n1)";
        let expected = "<a href=\"/runs/7\">run 7</a> waits for a place in pool <a href=\"/pools/db\">db</a>: 1 of 1 are taken \
                        by <a href=\"/runs/5\">run 5</a> (mail on n1)";
        assert_eq!(linked(text).0, expected);
    }

    #[test]
    fn a_sentence_of_any_length_is_told_with_its_first_links() {
        let told = linked(&"run 1 ".repeat(170_000)).0;
        assert_eq!(told.matches("<a ").count(), LINKS);
        assert_eq!(told.matches("run 1").count(), 170_000);
    }

    #[test]
    fn other_words_stay_as_they_are() {
        for text in [
            "`farmhand run cancel 5`, a prerun 4",
            "`farmhand pool set db N` opens it",
            "run",
            "",
        ] {
            assert_eq!(linked(text).0, text);
        }
    }
}
