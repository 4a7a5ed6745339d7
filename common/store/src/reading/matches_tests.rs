use super::*;

fn found(sought: &Sought, rows: &[(i64, &[u8])]) -> LogMatches {
    let mut finder = Finder::new(sought);
    for (seq, bytes) in rows {
        finder.row((7, 1), *seq, bytes);
    }
    finder.end();
    finder.found
}

fn lines(sought: &Sought, rows: &[(i64, &[u8])]) -> Vec<(i64, String)> {
    let items = found(sought, rows).items;
    items.into_iter().map(|m| (m.line, m.text)).collect()
}

#[test]
fn lines_are_found_across_rows_and_numbered_from_one() {
    let sought = Sought::new("ERROR 1234", false).unwrap();
    let rows: [(i64, &[u8]); 3] = [(0, b"one\nERR"), (7, b"OR 12"), (12, b"34 x\nlast ERROR 1234")];
    assert_eq!(
        lines(&sought, &rows),
        [(2, "ERROR 1234 x".to_owned()), (3, "last ERROR 1234".to_owned())]
    );
}

#[test]
fn nothing_is_found_across_what_was_not_kept_and_rows_stored_twice_count_once() {
    let sought = Sought::new("ab", false).unwrap();
    let rows: [(i64, &[u8]); 3] = [(0, b"xa"), (0, b"xa"), (10, b"b\nab\n")];
    let found = found(&sought, &rows);
    assert_eq!((found.bytes, found.not_kept), (7, 8));
    assert_eq!(found.items.iter().map(|m| m.line).collect::<Vec<_>>(), [2]);
}

#[test]
fn colours_do_not_hide_a_text_and_escapes_are_not_shown() {
    let sought = Sought::new("ERROR 1234", false).unwrap();
    let rows: [(i64, &[u8]); 1] = [(0, b"\x1b[31mERROR\x1b[0m 1234\x1b]0;x\x07\r\n")];
    assert_eq!(lines(&sought, &rows), [(1, "ERROR 1234".to_owned())]);
}

#[test]
fn case_counts_unless_it_is_told_not_to() {
    let rows: [(i64, &[u8]); 1] = [(0, "Größe\ngrösse\nGRÖSSE\n".as_bytes())];
    let numbers = |text, ignore| {
        let found = lines(&Sought::new(text, ignore).unwrap(), &rows);
        found.into_iter().map(|(line, _)| line).collect::<Vec<_>>()
    };
    assert_eq!(numbers("GRÖ", false), [3]);
    assert_eq!(numbers("grö", true), [1, 2, 3]);
}

#[test]
fn a_long_line_is_shown_around_its_match() {
    let line = format!("{}needle{}\n", "ä".repeat(1_000), "ö".repeat(1_000));
    let shown = &lines(&Sought::new("needle", false).unwrap(), &[(0, line.as_bytes())])[0].1;
    assert!(
        shown.starts_with("…ä") && shown.contains("äneedleö") && shown.ends_with("ö…"),
        "{shown}"
    );
    assert_eq!(shown.chars().count(), SHOWN + 2);
}

#[test]
fn a_text_is_one_line_of_bounded_length() {
    for bad in ["", "a\nb", &"x".repeat(MOST_SOUGHT + 1)] {
        assert!(Sought::new(bad, false).is_err(), "{bad}");
    }
}
