//! What a person is shown of a stream that others wrote: colours are left out, and whatever else could steer a terminal, or
//! make a text look like another, is spelled out. Nothing is dropped unseen.

/// As much of a colour sequence as is waited for.
const LONGEST_COLOUR: usize = 64;

/// One stream; what a piece of it cuts in two is looked at with the next.
#[derive(Debug, Default)]
pub struct Visible {
    pending: Vec<u8>,
}

impl Visible {
    /// The next bytes, as they may be shown.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.read(bytes, false)
    }

    /// What was still waited for.
    pub fn finish(&mut self) -> Vec<u8> {
        self.read(&[], true)
    }

    fn read(&mut self, bytes: &[u8], last: bool) -> Vec<u8> {
        let mut text = std::mem::take(&mut self.pending);
        text.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(text.len());
        let mut rest = text.as_slice();
        while let [first, after @ ..] = rest {
            let used = match first {
                0x1b => match colour(after) {
                    Some(Some(length)) => 1 + length,
                    None if !last => break,
                    _ => {
                        out.extend_from_slice(b"^[");
                        1
                    }
                },
                b'\r' if after.is_empty() && !last => break,
                b'\r' if after.first() == Some(&b'\n') => 1,
                b'\n' | b'\t' | b' '..=b'~' => {
                    out.push(*first);
                    1
                }
                0..0x20 | 0x7f => {
                    out.extend_from_slice(&[b'^', first ^ 0x40]);
                    1
                }
                0x80.. => match character(rest, last) {
                    Some((c, length)) => {
                        spell(c, &mut out);
                        length
                    }
                    None => break,
                },
            };
            rest = &rest[used..];
        }
        self.pending = rest.to_vec();
        out
    }
}

/// After ESC: the length of a sequence that sets colours alone; `Some(None)` when it is none, `None` when it is cut.
fn colour(after: &[u8]) -> Option<Option<usize>> {
    let parameters = match after {
        [] => return None,
        [b'[', parameters @ ..] => parameters,
        _ => return Some(None),
    };
    let end = parameters
        .iter()
        .position(|b| !matches!(b, b'0'..=b'9' | b';' | b':'));
    match end {
        Some(end) if end < LONGEST_COLOUR && parameters[end] == b'm' => Some(Some(end + 2)),
        None if parameters.len() < LONGEST_COLOUR => None,
        _ => Some(None),
    }
}

/// The first character and its length; `None` when it is cut.
fn character(text: &[u8], last: bool) -> Option<(char, usize)> {
    let start = &text[..text.len().min(4)];
    let valid = match std::str::from_utf8(start) {
        Ok(valid) => valid,
        Err(e) if e.valid_up_to() > 0 => std::str::from_utf8(&start[..e.valid_up_to()]).unwrap_or_default(),
        Err(e) => match e.error_len() {
            None if !last => return None,
            bad => return Some((char::REPLACEMENT_CHARACTER, bad.unwrap_or(start.len()))),
        },
    };
    valid.chars().next().map(|c| (c, c.len_utf8()))
}

fn spell(c: char, out: &mut Vec<u8>) {
    if steers(c) {
        out.extend_from_slice(format!("<U+{:04X}>", u32::from(c)).as_bytes());
    } else {
        out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
    }
}

/// Controls of C0 and C1, and what turns the direction of a text around or hides in it.
pub fn steers(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}')
}

/// As [`printable`], and what others wrote begins no line of its own.
pub fn one_line(text: &str) -> String {
    printable(text).replace('\n', "\u{fffd}")
}

/// Texts of others must not steer the terminal.
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if steers(c) && !matches!(c, '\n' | '\t') {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &[u8]) -> String {
        let mut whole = Visible::default();
        let mut out = whole.push(text);
        out.extend(whole.finish());
        // However it is cut, the same is shown.
        let mut cut = Visible::default();
        let mut by_byte: Vec<u8> = text.iter().flat_map(|b| cut.push(&[*b])).collect();
        by_byte.extend(cut.finish());
        assert_eq!(out, by_byte, "{}", String::from_utf8_lossy(text));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn escapes_cannot_steer_the_terminal_of_whoever_looks() {
        assert_eq!(
            shown(b"\x1b]0;title\x07x"),
            "^[]0;title^Gx",
            "the title of the window"
        );
        assert_eq!(
            shown(b"\x1b]52;c;cm0gLXJm\x1b\\"),
            "^[]52;c;cm0gLXJm^[\\",
            "the clipboard"
        );
        assert_eq!(shown(b"\x1b[2J\x1b[1;1Hok"), "^[[2J^[[1;1Hok", "the screen");
        assert_eq!(
            shown(b"\x1bP$q\x1b\\"),
            "^[P$q^[\\",
            "a question that is answered as if typed"
        );
        assert_eq!(
            shown("\u{9b}2J\u{9d}0;x\u{9c}".as_bytes()),
            "<U+009B>2J<U+009D>0;x<U+009C>",
            "C1"
        );
        assert_eq!(shown(b"\x9b2J"), "\u{fffd}2J", "C1 of eight bits");
        assert_eq!(shown(b"good\rbad \x08\x7f\0"), "good^Mbad ^H^?^@");
        assert_eq!(shown("a\u{202e}b".as_bytes()), "a<U+202E>b");
        assert_eq!(shown(b"\x1b[31"), "^[[31", "cut by its end");
    }

    #[test]
    fn a_message_keeps_tabs_and_line_ends_and_nothing_that_steers() {
        assert_eq!(
            printable("name\tsize\n\x1b[2J\r\u{202e}"),
            "name\tsize\n\u{fffd}[2J\u{fffd}\u{fffd}"
        );
    }

    #[test]
    fn what_others_wrote_stays_in_its_line() {
        let text = "no key \"x\ny\u{1b}]0;\"";
        assert_eq!(one_line(text), "no key \"x\u{fffd}y\u{fffd}]0;\"");
    }

    #[test]
    fn text_and_line_ends_stay_and_colours_are_left_out() {
        assert_eq!(
            shown(b"\x1b[1;31mred\x1b[0m\x1b[m\tgr\xc3\xbcn\r\n"),
            "red\tgrün\n"
        );
        assert_eq!(shown("日本 ✓".as_bytes()), "日本 ✓");
        assert_eq!(shown(b"\xff\xc3("), "\u{fffd}\u{fffd}(");
        let long = [b"\x1b[".as_slice(), &[b'1'; 100], b"m"].concat();
        assert!(shown(&long).starts_with("^[[111"));
    }
}
