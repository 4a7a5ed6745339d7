//! What a page shows of output that was written for a terminal: colours as data, every other escape sequence left out. The
//! result is text and never markup; whoever shows it must still escape it.

use crate::text::sanitize::steers;

/// Bytes of a control sequence (CSI), and of a string of one (OSC, DCS), that are waited for; longer ones are text.
const LONGEST_SEQUENCE: usize = 64;
const LONGEST_STRING: usize = 4096;

/// Colours of a stretch of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Brighter or heavier.
    pub bold: bool,
    /// 0 to 7, and 8 to 15 for the bright ones.
    pub colour: Option<u8>,
    /// 0 to 7.
    pub background: Option<u8>,
}

/// Text of one style. It has no control characters but newlines and tabs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    pub style: Style,
    /// Without escape sequences.
    pub text: String,
}

/// Where the reader is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum At {
    #[default]
    Text,
    /// Behind a carriage return, which is left out before a newline.
    Return,
    /// Behind ESC.
    Escape,
    /// Behind ESC and an intermediate byte.
    Charset,
    /// In a control sequence: ESC [.
    Sequence,
    /// In a string that BEL or ESC \ ends.
    String,
    /// Behind ESC in such a string.
    StringEscape,
}

/// Reads one stream; what a piece of it cuts in two is looked at with the next.
#[derive(Debug, Default)]
pub struct Ansi {
    at: At,
    style: Style,
    /// A sequence that has begun, without its ESC. It becomes text again when it does not end as sequences do, so that
    /// nothing written is hidden by one that was only begun.
    begun: Vec<u8>,
    /// Text that is not decoded yet.
    text: Vec<u8>,
    spans: Vec<Span>,
}

impl Ansi {
    /// The next bytes, as they may be shown.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<Span> {
        let mut rest = bytes;
        while let [first, after @ ..] = rest {
            if self.at == At::Text {
                let plain = rest
                    .iter()
                    .position(|b| (*b < 0x20 && *b != b'\n' && *b != b'\t') || *b == 0x7f)
                    .unwrap_or(rest.len());
                if plain > 0 {
                    self.text.extend_from_slice(&rest[..plain]);
                    rest = &rest[plain..];
                    continue;
                }
            }
            self.byte(*first);
            rest = after;
        }
        self.decode(false);
        std::mem::take(&mut self.spans)
    }

    /// What was still waited for.
    pub fn finish(&mut self) -> Vec<Span> {
        self.give_up();
        self.decode(true);
        std::mem::take(&mut self.spans)
    }

    fn byte(&mut self, byte: u8) {
        // A line is never part of a sequence: one that was only begun hides no line after it.
        if byte == b'\n' && self.at != At::Return {
            self.give_up();
        }
        match (self.at, byte) {
            (At::Text, 0x1b) => self.at = At::Escape,
            (At::Text, b'\r') => self.at = At::Return,
            (At::Text, _) => self.put(byte),
            (At::Return, b'\n') => {
                self.at = At::Text;
                self.put(b'\n');
            }
            // What the rest of the line would be written over on a terminal.
            (At::Return, _) => {
                self.at = At::Text;
                self.text.extend_from_slice("␍".as_bytes());
                self.byte(byte);
            }
            (At::Escape, b'[') => self.begin(At::Sequence, byte),
            (At::Escape, b']' | b'P' | b'X' | b'^' | b'_') => self.begin(At::String, byte),
            (At::Escape, b' '..=b'/') => self.begin(At::Charset, byte),
            (At::Escape, 0x30..=0x7e) => self.at = At::Text,
            (At::Charset, 0x30..=0x7e) => self.end(),
            (At::Charset | At::Sequence, b' '..=b'/') | (At::Sequence, 0x30..=0x3f) => {
                self.wait(byte, LONGEST_SEQUENCE);
            }
            (At::Sequence, 0x40..=0x7e) => {
                if byte == b'm' {
                    self.set();
                }
                self.end();
            }
            (At::String, 0x07) | (At::StringEscape, b'\\') => self.end(),
            (At::String, 0x1b) => self.at = At::StringEscape,
            (At::String, _) => self.wait(byte, LONGEST_STRING),
            (At::Escape | At::Charset | At::Sequence | At::StringEscape, _) => {
                let escape = self.at == At::StringEscape;
                self.give_up();
                if escape {
                    self.at = At::Escape;
                }
                self.byte(byte);
            }
        }
    }

    /// A character of text; other controls than newline and tab say nothing here.
    fn put(&mut self, byte: u8) {
        if byte >= b' ' && byte != 0x7f || byte == b'\n' || byte == b'\t' {
            self.text.push(byte);
        }
    }

    fn begin(&mut self, at: At, byte: u8) {
        self.at = at;
        self.begun.push(byte);
    }

    fn wait(&mut self, byte: u8, most: usize) {
        self.begun.push(byte);
        if self.begun.len() >= most {
            self.give_up();
        }
    }

    fn end(&mut self) {
        self.begun.clear();
        self.at = At::Text;
    }

    /// What has begun as a sequence is none.
    fn give_up(&mut self) {
        if self.at == At::Return {
            self.text.extend_from_slice("␍".as_bytes());
        }
        self.at = At::Text;
        for byte in std::mem::take(&mut self.begun) {
            self.put(byte);
        }
    }

    /// SGR: `begun` is `[` and its numbers.
    fn set(&mut self) {
        let numbers = self.begun.get(1..).unwrap_or_default();
        if !numbers.iter().all(|b| matches!(b, b'0'..=b'9' | b';' | b':')) {
            return;
        }
        let numbers: Vec<u32> = numbers
            .split(|b| matches!(b, b';' | b':'))
            .map(|digits| {
                let digit = |n: u32, b: &u8| n.saturating_mul(10).saturating_add(u32::from(b - b'0'));
                digits.iter().fold(0, digit)
            })
            .collect();
        let mut style = self.style;
        let mut rest = numbers.as_slice();
        while let [first, after @ ..] = rest {
            rest = after;
            match *first {
                0 => style = Style::default(),
                1 => style.bold = true,
                22 => style.bold = false,
                n @ 30..=37 => style.colour = small(n - 30),
                n @ 90..=97 => style.colour = small(n - 82),
                39 => style.colour = None,
                n @ 40..=47 => style.background = small(n - 40),
                49 => style.background = None,
                which @ (38 | 48) => {
                    // One of 256 colours, of which the first are these; or three bytes, which are not shown.
                    let (colour, length) = match after {
                        [5, n, ..] => (Some(*n), 2),
                        [2, ..] => (None, 4),
                        _ => (None, after.len()),
                    };
                    rest = after.get(length..).unwrap_or_default();
                    match (which, colour) {
                        (38, Some(n)) if n < 16 => style.colour = small(n),
                        (48, Some(n)) if n < 8 => style.background = small(n),
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        if style != self.style {
            self.decode(true);
            self.style = style;
        }
    }

    fn decode(&mut self, last: bool) {
        let keep = match std::str::from_utf8(&self.text) {
            Err(e) if !last && e.error_len().is_none() => e.valid_up_to(),
            // Bad bytes before one that is cut.
            Err(_) if !last => self.text.len() - begun_at_end(&self.text),
            _ => self.text.len(),
        };
        let rest = self.text.split_off(keep);
        let raw = std::mem::replace(&mut self.text, rest);
        if raw.is_empty() {
            return;
        }
        let mut text = String::from_utf8_lossy(&raw).into_owned();
        let bad = |c: char| steers(c) && c != '\n' && c != '\t';
        if text.contains(bad) {
            let spell = |c: char| match bad(c) {
                true => format!("<U+{:04X}>", u32::from(c)),
                false => c.to_string(),
            };
            text = text.chars().map(spell).collect();
        }
        match self.spans.last_mut() {
            Some(span) if span.style == self.style => span.text.push_str(&text),
            _ => self.spans.push(Span {
                style: self.style,
                text,
            }),
        }
    }
}

fn small(number: u32) -> Option<u8> {
    u8::try_from(number).ok()
}

/// Bytes of a character that is begun at the end.
fn begun_at_end(text: &[u8]) -> usize {
    (1..=3.min(text.len()))
        .find(|back| text[text.len() - back] & 0xC0 == 0xC0)
        .filter(|back| (text[text.len() - back].leading_ones() as usize) > *back)
        .unwrap_or(0)
}

/// The text alone, without colours.
pub fn plain(bytes: &[u8]) -> String {
    let mut reader = Ansi::default();
    let mut spans = reader.push(bytes);
    spans.extend(reader.finish());
    spans.into_iter().map(|span| span.text).collect()
}

#[cfg(test)]
#[path = "ansi_tests.rs"]
mod tests;
