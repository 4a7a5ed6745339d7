use super::*;

/// What is shown, with `{…}` before what has another style; the same however the bytes are cut.
fn shown(bytes: &[u8]) -> String {
    let mut whole = Ansi::default();
    let mut spans = whole.push(bytes);
    spans.extend(whole.finish());
    let mut cut = Ansi::default();
    let mut by_byte: Vec<Span> = bytes.iter().flat_map(|b| cut.push(&[*b])).collect();
    by_byte.extend(cut.finish());
    let (whole, by_byte) = (written(&spans), written(&by_byte));
    assert_eq!(whole, by_byte, "cut after each byte");
    whole
}

fn written(spans: &[Span]) -> String {
    let mut out = String::new();
    let mut style = Style::default();
    for span in spans {
        if span.style != style {
            style = span.style;
            let colour = style.colour.map_or(String::new(), |n| n.to_string());
            let background = style.background.map_or(String::new(), |n| format!("/{n}"));
            let bold = if style.bold { "!" } else { "" };
            out += &format!("{{{bold}{colour}{background}}}");
        }
        out += &span.text;
    }
    out
}

#[test]
fn colours_become_styles_until_they_are_reset() {
    assert_eq!(shown(b"a\x1b[31mred\x1b[0mb"), "a{1}red{}b");
    assert_eq!(shown(b"\x1b[1;92;44mx\x1b[my"), "{!10/4}x{}y");
    assert_eq!(
        shown(b"\x1b[1mb\x1b[22mn\x1b[33my\x1b[39mn\x1b[47mw\x1b[49mn"),
        "{!}b{}n{3}y{}n{/7}w{}n"
    );
    assert_eq!(shown(b"\x1b[31mone\ntwo\x1b[0m\n"), "{1}one\ntwo{}\n");
    assert_eq!(shown(b"\x1b[31m\x1b[32mx"), "{2}x");
}

#[test]
fn colours_of_256_and_of_three_bytes_are_read_whole() {
    assert_eq!(shown(b"\x1b[38;5;9mx"), "{9}x");
    assert_eq!(shown(b"\x1b[48;5;2mx"), "{/2}x");
    assert_eq!(shown(b"\x1b[38;5;200mx"), "x");
    assert_eq!(shown(b"\x1b[38;2;1;31;1mx\x1b[1my"), "x{!}y");
    assert_eq!(shown(b"\x1b[38:2:1:31:1;1mx"), "{!}x");
    assert_eq!(shown(b"\x1b[38mx\x1b[38;5mx\x1b[38;2;1mx"), "xxx");
}

#[test]
fn other_escape_sequences_are_left_out() {
    assert_eq!(shown(b"a\x1b[2J\x1b[1;1H\x1b[?25l\x1b[>4;1mb"), "ab");
    assert_eq!(shown(b"a\x1b]0;title\x07b\x1b]52;c;cm0=\x1b\\c"), "abc");
    assert_eq!(
        shown(b"a\x1bP1$r\x1b\\b\x1b_x\x1b\\c\x1b^y\x1b\\d\x1bXz\x07e"),
        "abcde"
    );
    assert_eq!(
        shown(b"\x1b]8;;http://example.com\x1b\\link\x1b]8;;\x1b\\"),
        "link"
    );
    assert_eq!(shown(b"a\x1b(Bb\x1bcc\x1b7d\x1b=e"), "abcde");
    assert_eq!(shown(b"a\x07\x08\0\x7fb"), "ab");
}

#[test]
fn a_sequence_that_is_only_begun_hides_nothing() {
    assert_eq!(shown(b"\x1b]0;no end\nnext"), "]0;no end\nnext");
    assert_eq!(shown(b"\x1b[31\nnext"), "[31\nnext");
    assert_eq!(shown(b"\x1b\nnext\x1b"), "\nnext");
    assert_eq!(shown(b"x\x1b[1;"), "x[1;");
    assert_eq!(shown(b"\x1b[\x1b[31mx"), "[{1}x");
    assert_eq!(shown(b"\x1b]a\x1b[31mx"), "]a{1}x");
    let long = [b"\x1b]".as_slice(), &[b'x'; 10_000]].concat();
    assert_eq!(shown(&long).len(), 10_001);
    let long = [b"\x1b[".as_slice(), &[b'1'; 500], b"m"].concat();
    assert_eq!(shown(&long), format!("[{}m", "1".repeat(500)));
}

#[test]
fn numbers_of_any_size_are_no_colours() {
    assert_eq!(shown(b"\x1b[99999999999999999999mx\x1b[287m\x1b[256;;;;;;m"), "x");
    assert_eq!(shown(b"\x1b[38;5;99999999999999mx\x1b[ m\x1b[1 my"), "xy");
}

#[test]
fn markup_stays_text() {
    let text = "<script>alert(1)</script><b onclick='x'>&amp;\"";
    assert_eq!(shown(text.as_bytes()), text);
    assert_eq!(shown(b"\x1b[31m<img src=x>\x1b[0m"), "{1}<img src=x>");
    // A sequence that is left out may bring the halves of a tag together, which is still text.
    assert_eq!(shown(b"<scr\x1b[0mipt>"), "<script>");
}

#[test]
fn what_would_turn_or_hide_text_is_spelled_out() {
    assert_eq!(shown("a\u{202e}b\u{200b}".as_bytes()), "a<U+202E>b<U+200B>");
    assert_eq!(shown("\u{9b}31mx".as_bytes()), "<U+009B>31mx");
    assert_eq!(shown(b"\x9b31mx"), "\u{fffd}31mx");
}

#[test]
fn bytes_that_are_no_text_and_carriage_returns_show() {
    assert_eq!(shown(b"\xff\xc3(\xe2\x82"), "\u{fffd}\u{fffd}(\u{fffd}");
    assert_eq!(shown("grün ✓ 日本\t.\r\n".as_bytes()), "grün ✓ 日本\t.\n");
    assert_eq!(shown(b"10%\r20%\r\r\n"), "10%␍20%␍\n");
    assert_eq!(shown(b"x\r\x1b[Ky\r"), "x␍y␍");
    assert_eq!(shown(b"\xff\xe2\x82"), "\u{fffd}\u{fffd}");
}

#[test]
fn no_bytes_bring_control_characters_through() {
    // A small generator, so that each run of the test looks at the same bytes.
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let alphabet = b"\x1b\x1b\x1b[[]]P_^X;:0123457m\r\n\x07\\ (\x9b\xc2\x9b\xe2\x80\xae<>\x00a";
    for _ in 0..2_000 {
        let mut bytes = Vec::new();
        for _ in 0..64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            bytes.push(alphabet[usize::try_from(state % alphabet.len() as u64).unwrap()]);
        }
        let text = shown(&bytes);
        let bad = text.chars().find(|c| steers(*c) && *c != '\n');
        assert_eq!(bad, None, "{bytes:?}");
        let lines = bytes.iter().filter(|b| **b == b'\n').count();
        assert_eq!(text.matches('\n').count(), lines, "no line is hidden: {bytes:?}");
    }
}
