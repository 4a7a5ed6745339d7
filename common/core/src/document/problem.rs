//! A mistake, where it stands, and how it is shown.

use std::fmt;
use std::ops::Range;

use annotate_snippets::renderer::DecorStyle;
use annotate_snippets::{AnnotationKind, Level, Renderer, Snippet};
use serde::Serialize;

/// A text with the name people know it by.
#[derive(Clone, Debug)]
pub struct Source {
    /// A path, or what else they call it.
    pub name: String,
    pub text: String,
}

/// One mistake in one of several sources. Spans are byte offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// Index into the sources.
    pub source: usize,
    /// The bytes that are wrong.
    pub span: Range<usize>,
    pub what: String,
    /// What to write instead.
    pub fix: String,
    /// Another place that it has to do with.
    pub related: Option<Related>,
}

/// Another place that has to do with the mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Related {
    /// Index into the sources.
    pub source: usize,
    /// The bytes of the other place.
    pub span: Range<usize>,
    /// What is there.
    pub label: String,
}

/// Every mistake of a set of sources, in reading order; never empty.
#[derive(Clone, Debug)]
pub struct Mistakes {
    sources: Vec<Source>,
    problems: Vec<Problem>,
}

/// A mistake of a job file, for programs. Lines and columns count from 1, columns in characters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Located {
    pub file: String,
    pub line: usize,
    pub column: usize,
    pub end_line: usize,
    /// Behind its last character.
    pub end_column: usize,
    pub what: String,
    pub fix: String,
}

impl Mistakes {
    /// `Ok(())` when there is nothing to complain about. A mistake reported twice (say, in defaults that
    /// several jobs inherit) is kept once.
    pub fn check(sources: &[Source], mut problems: Vec<Problem>) -> Result<(), Self> {
        problems.sort_by_key(|p| (p.source, p.span.start, p.span.end));
        let mut kept: Vec<Problem> = Vec::with_capacity(problems.len());
        for problem in problems {
            let is_here = |other: &&Problem| other.source == problem.source && other.span == problem.span;
            if !kept
                .iter()
                .rev()
                .take_while(is_here)
                .any(|other| *other == problem)
            {
                kept.push(problem);
            }
        }
        if kept.is_empty() {
            return Ok(());
        }
        Err(Self {
            sources: sources.to_vec(),
            problems: kept,
        })
    }

    /// How many mistakes there are.
    pub fn len(&self) -> usize {
        self.problems.len()
    }

    /// Never, for mistakes that [`Self::check`] returned.
    pub fn is_empty(&self) -> bool {
        self.problems.is_empty()
    }

    /// The mistakes with lines and columns, for machines.
    pub fn located(&self) -> Vec<Located> {
        self.first(usize::MAX)
    }

    /// The first of them.
    pub fn first(&self, most: usize) -> Vec<Located> {
        let ends = |source: &Source| -> Vec<usize> {
            let found = source.text.match_indices('\n');
            found.map(|(at, _)| at).collect()
        };
        let lines: Vec<Vec<usize>> = self.sources.iter().map(ends).collect();
        self.problems
            .iter()
            .take(most)
            .map(|p| {
                let source = &self.sources[p.source];
                let (line, column) = place(source, &lines[p.source], p.span.start);
                let (end_line, end_column) = place(source, &lines[p.source], p.span.end.max(p.span.start));
                Located {
                    file: source.name.clone(),
                    line,
                    column,
                    end_line,
                    end_column,
                    what: p.what.clone(),
                    fix: p.fix.clone(),
                }
            })
            .collect()
    }

    /// The mistakes with the lines they stand in, for a terminal `width` columns wide.
    pub fn render(&self, color: bool, width: usize) -> String {
        let renderer = if color {
            Renderer::styled().decor_style(DecorStyle::Unicode)
        } else {
            Renderer::plain()
        }
        .term_width(width);
        let mut out = String::new();
        for problem in &self.problems {
            out.push_str(&self.render_one(&renderer, problem));
            out.push_str("\n\n");
        }
        out
    }

    fn render_one(&self, renderer: &Renderer, problem: &Problem) -> String {
        let source = &self.sources[problem.source];
        let mut first = Snippet::source(&source.text)
            .path(&source.name)
            .annotation(AnnotationKind::Primary.span(clamp(&source.text, &problem.span)));
        let mut second = None;
        if let Some(related) = &problem.related {
            let other = &self.sources[related.source];
            let note = AnnotationKind::Context
                .span(clamp(&other.text, &related.span))
                .label(&related.label);
            if related.source == problem.source {
                first = first.annotation(note);
            } else {
                second = Some(Snippet::source(&other.text).path(&other.name).annotation(note));
            }
        }
        let mut group = Level::ERROR.primary_title(&problem.what).element(first);
        if let Some(second) = second {
            group = group.element(second);
        }
        renderer.render(&[group.element(Level::HELP.message(&problem.fix))])
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, p) in self.located().iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            write!(f, "{}:{}:{}: {} ({})", p.file, p.line, p.column, p.what, p.fix)?;
        }
        Ok(())
    }
}

impl std::error::Error for Mistakes {}

/// Line and column from 1; the column counts characters. `ends` is where lines end.
fn place(source: &Source, ends: &[usize], offset: usize) -> (usize, usize) {
    let at = floor(&source.text, offset);
    let before = ends.partition_point(|end| *end < at);
    let line_start = before.checked_sub(1).map_or(0, |last| ends[last] + 1);
    (before + 1, source.text[line_start..at].chars().count() + 1)
}

/// The renderer panics on spans outside the text or inside a character, and a parser's recovery may yield both.
fn clamp(text: &str, span: &Range<usize>) -> Range<usize> {
    let start = floor(text, span.start);
    start..floor(text, span.end).max(start)
}

fn floor(text: &str, offset: usize) -> usize {
    let mut at = offset.min(text.len());
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
