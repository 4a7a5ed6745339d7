//! A stretch of output as numbered lines. What a command wrote becomes text and class names, never markup.

use farmhand_core::text::ansi::{Ansi, Span, Style};
use farmhand_store::LogStream;
use farmhand_store::logs::LogChunk;
use farmhand_store::reading::LogView;
use maud::{Markup, html};

use super::super::parts::link;
use super::super::parts::time::bytes;

enum Part {
    Text(LogStream, Span),
    /// So many bytes were not kept.
    Gap(i64),
}

/// Readers of the streams: a colour that one sets does not reach the others.
#[derive(Default)]
struct Readers {
    stdout: Ansi,
    stderr: Ansi,
    agent: Ansi,
}

impl Readers {
    fn of(&mut self, stream: LogStream) -> &mut Ansi {
        match stream {
            LogStream::Stdout => &mut self.stdout,
            LogStream::Stderr => &mut self.stderr,
            LogStream::Agent => &mut self.agent,
        }
    }
}

/// The lines of a stretch, each with the parts that stand in it. `until`: where the stretch was asked to end.
fn lines(view: &LogView, until: Option<i64>) -> Vec<Vec<Part>> {
    let mut readers = Readers::default();
    for chunk in &view.before {
        readers.of(chunk.stream).push(&chunk.bytes);
    }
    let mut lines = vec![Vec::new()];
    let mut next = view.from;
    for chunk in &view.chunks {
        add_gap(&mut lines, chunk.seq - next);
        next = end(chunk);
        let spans = readers.of(chunk.stream).push(&chunk.bytes);
        add(&mut lines, chunk.stream, spans);
    }
    if view.complete && next >= view.end {
        for stream in [LogStream::Stdout, LogStream::Stderr, LogStream::Agent] {
            let spans = readers.of(stream).finish();
            add(&mut lines, stream, spans);
        }
    }
    if let Some(until) = until {
        add_gap(&mut lines, until.min(view.end) - next);
    }
    if lines.last().is_some_and(Vec::is_empty) {
        lines.pop();
    }
    lines
}

fn end(chunk: &LogChunk) -> i64 {
    chunk.seq + i64::try_from(chunk.bytes.len()).unwrap_or(0)
}

fn add_gap(lines: &mut [Vec<Part>], size: i64) {
    if let Some(line) = lines.last_mut().filter(|_| size > 0) {
        line.push(Part::Gap(size));
    }
}

fn add(lines: &mut Vec<Vec<Part>>, stream: LogStream, spans: Vec<Span>) {
    for span in spans {
        for (index, text) in span.text.split('\n').enumerate() {
            if index > 0 {
                lines.push(Vec::new());
            }
            if let Some(line) = lines.last_mut().filter(|_| !text.is_empty()) {
                let text = text.to_owned();
                line.push(Part::Text(stream, Span { text, ..span }));
            }
        }
    }
}

/// The stretch, with what the window over it needs to know.
pub fn block(view: &LogView, until: Option<i64>) -> Markup {
    let lines = lines(view, until);
    // A line that is being written comes again with the next stretch.
    let last = view.chunks.last().map_or(view.from, end);
    let open = (last > view.next).then(|| lines.len().saturating_sub(1));
    let from = if view.chunks.is_empty() {
        view.next.min(view.from)
    } else {
        view.from
    };
    html! {
        div class="blk" data-from=(from) data-to=(view.next) data-end=(view.end) data-complete=(view.complete)
            data-line=[view.line] data-next-line=[view.next_line()] {
            @for (index, parts) in lines.iter().enumerate() {
                (line(view, index, parts, open == Some(index)))
            }
        }
    }
}

fn line(view: &LogView, index: usize, parts: &[Part], open: bool) -> Markup {
    let begins = index > 0 || !view.within;
    let number = view
        .line
        .filter(|_| begins)
        .and_then(|first| first.checked_add(i64::try_from(index).ok()?));
    html! {
        div class=(if open { "ln open" } else { "ln" }) id=[number.map(|n| format!("L{n}"))] {
            @if let Some(n) = number { a class="no" href=(address(view.run_id, view.attempt, n)) data-n=(n) aria-label=(n) {} }
            @for part in parts {
                @match part {
                    Part::Gap(size) => span class="drop" { "… " (bytes(*size)) " not kept …" },
                    Part::Text(stream, span) => (text(*stream, span)),
                }
            }
        }
    }
}

/// Where a run's page shows a line.
pub fn address(run: i64, attempt: i32, line: i64) -> String {
    format!("{}?attempt={attempt}&line={line}#L{line}", link::run(run))
}

fn text(stream: LogStream, span: &Span) -> Markup {
    let class = class(stream, span.style);
    html! {
        @if class.is_empty() { (span.text) } @else {
            span class=(class) title=[(stream == LogStream::Stderr).then_some("stderr")] { (span.text) }
        }
    }
}

/// Names of the sheet: `err` for stderr, `b` for bold, `f0` to `f15` for colours, `k0` to `k7` for backgrounds.
fn class(stream: LogStream, style: Style) -> String {
    let mut names = Vec::new();
    if stream == LogStream::Stderr {
        names.push("err".to_owned());
    }
    if style.bold {
        names.push("b".to_owned());
    }
    names.extend(style.colour.map(|n| format!("f{n}")));
    names.extend(style.background.map(|n| format!("k{n}")));
    names.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(bytes: &[u8]) -> LogView {
        let chunk = LogChunk {
            run_id: 7,
            attempt: 2,
            seq: 0,
            stream: LogStream::Stdout,
            at: jiff::Timestamp::UNIX_EPOCH,
            bytes: bytes.to_vec(),
        };
        let size = end(&chunk);
        LogView {
            run_id: 7,
            attempt: 2,
            before: Vec::new(),
            chunks: vec![chunk],
            from: 0,
            next: size,
            line: Some(41),
            within: false,
            end: size,
            complete: true,
        }
    }

    #[test]
    fn output_is_never_markup() {
        let evil = b"<script>alert(1)</script>\n\x1b[31m<img src=x onerror=alert(1)>\x1b[0m\n<scr\x1b[0mipt>\" ' &lt;\n";
        let page = block(&view(evil), None).0;
        let tags: Vec<&str> = page
            .split('<')
            .skip(1)
            .map(|rest| rest.split([' ', '>']).next().unwrap())
            .filter(|tag| !tag.starts_with('/'))
            .collect();
        assert!(
            tags.iter().all(|tag| ["div", "a", "span"].contains(tag)),
            "{page}"
        );
        assert!(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"), "{page}");
        assert!(
            page.contains("<span class=\"f1\">&lt;img src=x onerror=alert(1)&gt;</span>"),
            "{page}"
        );
        assert!(page.contains("&quot;") && page.contains("&amp;lt;"), "{page}");
    }

    #[test]
    fn lines_have_numbers_and_addresses() {
        let page = block(&view(b"one\n\nthree"), None).0;
        for n in [41, 42, 43] {
            let link = format!("id=\"L{n}\"><a class=\"no\" href=\"/runs/7?attempt=2&amp;line={n}#L{n}\"");
            assert!(page.contains(&link), "{page}");
        }
        assert!(!page.contains("L44"), "{page}");
    }

    #[test]
    fn a_colour_goes_on_from_what_lies_before_and_ends_with_its_stream() {
        let mut view = view(b"red\n");
        view.before = vec![LogChunk {
            bytes: b"\x1b[1;31;44m".to_vec(),
            ..view.chunks[0].clone()
        }];
        view.chunks.push(LogChunk {
            seq: 4,
            stream: LogStream::Stderr,
            bytes: b"plain\n".to_vec(),
            ..view.chunks[0].clone()
        });
        let page = block(&view, None).0;
        assert!(page.contains("<span class=\"b f1 k4\">red</span>"), "{page}");
        assert!(
            page.contains("<span class=\"err\" title=\"stderr\">plain</span>"),
            "{page}"
        );
    }

    #[test]
    fn what_was_not_kept_and_what_is_being_written_is_told() {
        let mut view = view(b"one\n");
        view.chunks.push(LogChunk {
            seq: 2052,
            bytes: b"begun".to_vec(),
            ..view.chunks[0].clone()
        });
        (view.next, view.end, view.complete) = (2052, 2057, false);
        let page = block(&view, None).0;
        assert!(page.contains("not kept"), "{page}");
        assert!(page.contains("class=\"ln open\" id=\"L42\""), "{page}");
        assert_eq!(view.next_line(), Some(42));
    }
}
