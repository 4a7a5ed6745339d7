//! Tables and lists for people.

use comfy_table::{Cell, Color, ColumnConstraint, ContentArrangement, Table, Width, presets};
use farmhand_core::colour::Colour;
use farmhand_core::text::sanitize::{one_line, printable};
use jiff::Timestamp;

use super::out;

/// Columns of text; their headers have a `|` between them. On a terminal too narrow for them times of today lose their date, then the widest columns fold, between
/// words if they can; where not even words fit, each row becomes a block of lines. Nothing is cut off. Without a terminal they
/// are as wide as they like.
pub(crate) fn table(headers: &str, rows: impl IntoIterator<Item = Vec<String>>) {
    table_with_optional(headers, rows, &[]);
}

/// As [`table`], but where a terminal has no room these columns are left out, the first of them first, and a note says so.
/// Blocks have room for all.
pub(crate) fn table_with_optional(
    headers: &str,
    rows: impl IntoIterator<Item = Vec<String>>,
    optional: &[&str],
) {
    let headers: Vec<&str> = headers.split('|').collect();
    let mut rows: Vec<Vec<String>> = rows.into_iter().collect();
    for cell in rows.iter_mut().flatten() {
        *cell = one_line(cell).replace('\t', " ");
    }
    let (width, color) = (out::width(), out::data_color());
    let mut left_out = Vec::new();
    let mut text = None;
    if let Some(width) = width {
        let (mut headers, mut rows) = (headers.clone(), rows.clone());
        if natural(&headers, &rows) > usize::from(width) {
            let today = Timestamp::now().to_zoned(out::zone().clone()).date();
            shorten(&mut rows, &format!("{today} "));
        }
        for name in optional {
            if natural(&headers, &rows) <= usize::from(width) {
                break;
            }
            if let Some(at) = headers.iter().position(|header| header == name) {
                headers.remove(at);
                rows.iter_mut().for_each(|row| drop(row.remove(at)));
                left_out.push(*name);
            }
        }
        text = columns(&headers, &rows, Some(width), color);
        if text.is_none() {
            left_out.clear();
        }
    }
    let text = text.unwrap_or_else(|| format_table(&headers, &rows, width, color));
    for text in text.lines() {
        out::raw(format!("{}\n", text.trim_end()).as_bytes());
    }
    if !left_out.is_empty() {
        out::note(&format!("left out: {}; --json has all", left_out.join(", ")));
    }
}

/// How wide the table is when nothing folds.
fn natural(headers: &[&str], rows: &[Vec<String>]) -> usize {
    let widest = |(column, header): (usize, &&str)| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let widest = cells.map(|text| text.chars().count()).max().unwrap_or(0);
        widest.max(header.len()) + PADDING
    };
    headers.iter().enumerate().map(widest).sum()
}

/// Takes the date of today from cells that are a time.
fn shorten(rows: &mut [Vec<String>], today: &str) {
    for cell in rows.iter_mut().flatten() {
        if let Some(time) = cell.strip_prefix(today)
            && time.as_bytes().get(2) == Some(&b':')
            && time.len() <= "00:00:00+00:00".len()
        {
            *cell = time.to_owned();
        }
    }
}

/// The colour of a state's word, with whatever follows it.
fn paint(header: &str, text: &str) -> Option<Color> {
    let states = header.ends_with("STATE") || header == "OUTCOME";
    let word = text.split([' ', ':', ',']).next().filter(|_| states)?;
    match Colour::of(word)? {
        Colour::Ok => Some(Color::Green),
        Colour::Bad => Some(Color::Red),
        Colour::Warn => Some(Color::Yellow),
        Colour::Lost => Some(Color::Magenta),
        Colour::Run => Some(Color::Cyan),
        Colour::Idle => None,
    }
}

/// A word longer than this may be broken; than the second where there is no room otherwise.
const WORDS: [usize; 2] = [24, 16];
/// Blanks beside each column.
const PADDING: usize = 2;

fn format_table(headers: &[&str], rows: &[Vec<String>], width: Option<u16>, color: bool) -> String {
    columns(headers, rows, width, color).unwrap_or_else(|| blocks(headers, rows, width))
}

/// None if not even words fit.
fn columns(headers: &[&str], rows: &[Vec<String>], width: Option<u16>, color: bool) -> Option<String> {
    let cell = |(header, text): (&&str, &String)| match paint(header, text) {
        Some(hue) if color => Cell::new(text).fg(hue),
        _ => Cell::new(text),
    };
    let cells = rows
        .iter()
        .map(|row| headers.iter().zip(row).map(cell).collect::<Vec<_>>());
    let mut table = Table::new();
    if color {
        table.enforce_styling();
    }
    table
        .load_style(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled)
        .set_header(headers)
        .add_rows(cells);
    let Some(width) = width else {
        return Some(table.to_string());
    };
    let natural: Vec<usize> = table
        .column_max_content_widths()
        .iter()
        .map(|w| usize::from(*w))
        .collect();
    let folded = (WORDS.iter())
        .find_map(|most| fold(&natural, &longest_words(headers, rows, *most), usize::from(width)))?;
    for (column, width) in table.column_iter_mut().zip(folded) {
        let width = u16::try_from(width + PADDING).unwrap_or(u16::MAX);
        column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width)));
    }
    table
        .set_content_arrangement(ContentArrangement::Dynamic)
        .set_width(width);
    Some(table.to_string())
}

/// Widths that fit `room`: the widest columns give way first, none below its longest word.
fn fold(natural: &[usize], least: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let mut over = (widths.iter().sum::<usize>() + PADDING * widths.len()).saturating_sub(room);
    while over > 0 {
        let widest = (0..widths.len())
            .filter(|i| widths[*i] > least[*i])
            .max_by_key(|i| widths[*i])?;
        widths[widest] -= 1;
        over -= 1;
    }
    Some(widths)
}

fn longest_words(headers: &[&str], rows: &[Vec<String>], most: usize) -> Vec<usize> {
    let longest = |text: &str| text.split_whitespace().map(|w| w.chars().count()).max();
    let mut least: Vec<usize> = headers.iter().map(|h| longest(h).unwrap_or(0)).collect();
    for row in rows {
        for (least, text) in least.iter_mut().zip(row) {
            *least = (*least).max(longest(text).unwrap_or(0).min(most));
        }
    }
    least
}

fn blocks(headers: &[&str], rows: &[Vec<String>], width: Option<u16>) -> String {
    let widest = headers.iter().map(|h| h.len()).max().unwrap_or(0);
    let block = |row: &Vec<String>| {
        let lines: Vec<String> = headers
            .iter()
            .zip(row)
            .map(|(header, text)| named(header, widest, text, width))
            .collect();
        lines.join("\n")
    };
    rows.iter().map(block).collect::<Vec<_>>().join("\n\n")
}

/// Names and values, one to a line.
pub(crate) fn pairs(pairs: &[(&str, String)]) {
    let (widest, width) = (
        pairs.iter().map(|(name, _)| name.len()).max().unwrap_or(0),
        out::width(),
    );
    for (name, value) in pairs {
        let lines = named(name, widest, &printable(value), width);
        lines.lines().for_each(out::line);
    }
}

/// A name and its value, which goes on below itself.
fn named(name: &str, widest: usize, value: &str, width: Option<u16>) -> String {
    let room = width.map_or(usize::MAX, |width| usize::from(width).saturating_sub(widest + 2));
    let mut text = String::new();
    for (nth, part) in wrapped(value, room.max(WORDS[0] / 2)).iter().enumerate() {
        let name = if nth == 0 { name } else { "\n" };
        let pad = if nth == 0 { widest } else { widest + 1 };
        text.push_str(format!("{name:pad$}  {part}").trim_end_matches(' '));
    }
    text
}

/// Lines of at most `room` characters, broken between words where that is possible.
fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for line in text.split('\n') {
        let mut rest: Vec<char> = line.chars().collect();
        while rest.len() > room {
            let blank = rest[..=room].iter().rposition(|c| *c == ' ').filter(|at| *at > 0);
            let cut = blank.unwrap_or(room);
            let tail = rest.split_off(cut);
            lines.push(rest.iter().collect::<String>().trim_end().to_owned());
            rest = tail.into_iter().skip(usize::from(blank.is_some())).collect();
        }
        lines.push(rest.into_iter().collect());
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(width: Option<u16>) -> String {
        let row = [
            "job-with-a-name",
            "succeeded",
            "a reason of several words that is long",
        ]
        .map(str::to_owned);
        format_table(&["JOB", "STATE", "REASON"], &[row.to_vec()], width, false)
    }

    #[test]
    fn a_wide_terminal_and_no_terminal_show_one_line_per_row() {
        assert_eq!(sample(None).lines().count(), 2);
        assert_eq!(sample(Some(120)).lines().count(), 2);
    }

    #[test]
    fn a_narrow_terminal_folds_between_words_and_cuts_nothing_off() {
        let text = sample(Some(50));
        assert!(text.lines().all(|l| l.trim_end().chars().count() <= 50), "{text}");
        for word in "job-with-a-name succeeded a reason of several words that is long".split(' ') {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(text.lines().count() > 2, "{text}");
    }

    #[test]
    fn a_long_value_goes_on_below_itself() {
        assert_eq!(wrapped("ab cd efghij", 5), ["ab cd", "efghi", "j"]);
        assert_eq!(wrapped("abc", 3), ["abc"]);
        assert_eq!(wrapped("a\nb", 9), ["a", "b"]);
        assert_eq!(wrapped("", 9), [""]);
        assert_eq!(
            named("why", 5, "one two three four five", Some(20)),
            "why    one two three\n       four five"
        );
        assert_eq!(named("why", 5, "", Some(20)), "why");
    }

    #[test]
    fn the_widest_columns_give_way_first_and_none_below_its_longest_word() {
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 60), Some(vec![10, 24, 20]));
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 36), Some(vec![10, 10, 10]));
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 33), None);
        assert_eq!(fold(&[10, 40, 20], &[10, 8, 10], 100), Some(vec![10, 40, 20]));
    }

    #[test]
    fn a_terminal_too_narrow_for_columns_shows_blocks() {
        assert_eq!(
            sample(Some(30)),
            "JOB     job-with-a-name\nSTATE   succeeded\nREASON  a reason of several\n        words that is long"
        );
    }

    #[test]
    fn only_a_time_of_today_loses_its_date() {
        let cells = [
            "2026-11-25 14:08:45Z",
            "2026-11-25 14:08:45+05:30",
            "2026-11-25 backup",
            "2026-11-24 14:08:45Z",
        ];
        let mut rows = vec![cells.map(str::to_owned).to_vec()];
        shorten(&mut rows, "2026-11-25 ");
        assert_eq!(
            rows[0],
            [
                "14:08:45Z",
                "14:08:45+05:30",
                "2026-11-25 backup",
                "2026-11-24 14:08:45Z"
            ]
        );
    }

    #[test]
    fn states_alone_are_coloured_and_cells_keep_their_width() {
        assert_eq!(paint("LAST STATE", "failed"), Some(Color::Red));
        assert_eq!(paint("STATE", "paused: by ann"), Some(Color::Yellow));
        assert_eq!(paint("JOB", "failed"), None);
        let rows = [vec!["failed".to_owned(), "x".to_owned()]];
        let colored = format_table(&["STATE", "JOB"], &rows, None, true);
        assert!(colored.contains("\u{1b}["), "{colored:?}");
        let plain = format_table(&["STATE", "JOB"], &rows, None, false);
        assert_eq!(farmhand_core::text::sanitize::printable(&plain), plain);
    }
}
