//! What jobs write: secrets hidden in it, terminals kept safe from it, lines made of it, however it is cut.
//! Lines of the first part are secrets, the second part is what was written.

use std::sync::Arc;

use farmhand_core::stream::{Line, Lines, MAX_LINE, Tail};
use farmhand_core::text::ansi::{Ansi, Span, Style};
use farmhand_core::text::redact::{MASK, Redactor, SHORTEST, Secrets};
use farmhand_core::text::sanitize::Visible;
use farmhand_node::runlog::lines::Lines as LogLines;
use farmhand_warden_client::output::SentSoFar;
use farmhand_warden_client::{Item, Stream};

use super::input::{parts, pieces};

pub fn run(data: &[u8]) {
    let parts = parts(data, 2);
    let written = parts[1..].join(&b'\n');
    hidden(parts[0], &written);
    visible(&written);
    coloured(&written);
    listed(&written);
    logged(&written);
}

fn hidden(secrets: &[u8], written: &[u8]) {
    let secrets: Vec<&[u8]> = secrets.split(|b| *b == b'\n').collect();
    let known = Arc::new(Secrets::new(secrets.iter().copied()).expect("few secrets"));
    let longest = secrets.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut redactor = Redactor::new(known.clone());
    let mut out = Vec::new();
    for piece in pieces(written) {
        redactor.push(piece, &mut out);
        assert!(redactor.holds() < longest.max(1));
    }
    redactor.finish(&mut out);
    assert_eq!(out, known.hide(written), "however it is cut");
    assert_eq!(out, slowly(&secrets, written));
}

/// Marks each byte of each occurrence, then writes one mask for each row of marked bytes.
fn slowly(secrets: &[&[u8]], text: &[u8]) -> Vec<u8> {
    let mut hidden = vec![false; text.len()];
    let with_lines = secrets
        .iter()
        .flat_map(|s| [*s, s.strip_suffix(b"\r").unwrap_or(s)]);
    for secret in with_lines.filter(|s| s.len() >= SHORTEST) {
        for at in 0..text.len() {
            if text[at..].starts_with(secret) {
                hidden[at..at + secret.len()].fill(true);
            }
        }
    }
    let mut out = Vec::new();
    for (at, byte) in text.iter().enumerate() {
        match (hidden[at], at > 0 && hidden[at - 1]) {
            (true, false) => out.extend_from_slice(MASK),
            (true, true) => {}
            (false, _) => out.push(*byte),
        }
    }
    out
}

fn coloured(written: &[u8]) {
    let characters = |spans: Vec<Span>| -> Vec<(Style, char)> {
        let each = |span: &Span| span.text.chars().map(|c| (span.style, c)).collect::<Vec<_>>();
        spans.iter().flat_map(each).collect()
    };
    let mut whole = Ansi::default();
    let mut spans = whole.push(written);
    spans.extend(whole.finish());
    let mut cut = Ansi::default();
    let mut again: Vec<Span> = pieces(written).into_iter().flat_map(|p| cut.push(p)).collect();
    again.extend(cut.finish());
    let shown = characters(spans);
    assert_eq!(shown, characters(again), "however it is cut");
    let bad = |c: char| farmhand_core::text::sanitize::steers(c) && c != '\n' && c != '\t';
    assert!(!shown.iter().any(|(_, c)| bad(*c)), "{shown:?}");
    assert_eq!(
        shown.iter().filter(|(_, c)| *c == '\n').count(),
        written.iter().filter(|b| **b == b'\n').count(),
        "no line is added or lost"
    );
}

fn visible(written: &[u8]) {
    let mut whole = Visible::default();
    let mut shown = whole.push(written);
    shown.extend(whole.finish());
    let mut cut = Visible::default();
    let mut again: Vec<u8> = pieces(written).into_iter().flat_map(|p| cut.push(p)).collect();
    again.extend(cut.finish());
    assert_eq!(shown, again, "however it is cut");
    let text = String::from_utf8(shown).expect("it is shown as text");
    let steering =
        |c: char| (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!text.contains(steering), "{text:?}");
    assert_eq!(
        text.matches('\n').count(),
        written.iter().filter(|b| **b == b'\n').count(),
        "no line is added or lost"
    );
}

fn listed(written: &[u8]) {
    let mut lines = Lines::default();
    let mut found = Vec::new();
    let mut tail = Tail::default();
    for piece in pieces(written) {
        tail.push(piece);
        let mut rest = piece;
        while !rest.is_empty() {
            let (taken, line) = lines.take(rest);
            assert!(taken > 0);
            rest = &rest[taken..];
            found.extend(line);
        }
    }
    found.extend(lines.finish());
    let expected = written
        .strip_suffix(b"\n")
        .unwrap_or(written)
        .split(|b| *b == b'\n');
    let expected: Vec<&[u8]> = if written.is_empty() {
        Vec::new()
    } else {
        expected.collect()
    };
    assert_eq!(found.len(), expected.len());
    for (line, expected) in found.iter().zip(expected) {
        match line {
            Line::Whole(text) => assert_eq!(text, expected),
            Line::Refused { start, .. } => {
                assert!(expected.starts_with(start) && (expected.len() > MAX_LINE || expected.contains(&0)));
            }
        }
    }
    assert!(written.ends_with(tail.bytes()));
}

/// Nothing of it is lost, whatever a line may have at most, and no part is longer.
fn logged(written: &[u8]) {
    for most in [8, 100, 48 << 10] {
        let lines = lines_of_log(&pieces(written), most);
        let mut together = Vec::new();
        for (bytes, goes_on) in &lines {
            assert!(bytes.len() <= most);
            together.extend_from_slice(bytes);
            if !goes_on {
                together.push(b'\n');
            }
        }
        let mut expected = written.to_vec();
        if !written.is_empty() && !written.ends_with(b"\n") {
            expected.push(b'\n');
        }
        assert_eq!(together, expected);
    }
}

/// The lines that a log of at most `most` bytes a line gets of a stream that comes in these pieces, and whether each goes on.
fn lines_of_log(pieces: &[&[u8]], most: usize) -> Vec<(Vec<u8>, bool)> {
    let mut lines = LogLines::new(most, SentSoFar::default());
    let mut position = 0;
    for piece in pieces {
        lines.push(Item::Chunk {
            position,
            stream: Stream::Stdout,
            at_ms: 0,
            bytes: piece.to_vec(),
        });
        position += piece.len() as u64;
    }
    lines.close();
    let mut found = Vec::new();
    while let Some(line) = lines.front() {
        found.push((line.bytes.clone(), line.goes_on));
        lines.pop();
    }
    found
}
