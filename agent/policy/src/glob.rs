//! Patterns of paths and names: `*` is anything but a slash, `**` anything, `?` one character but a slash.

/// Whether the whole of `text` fits. Takes time in proportion to the product of the lengths, whatever the pattern.
pub fn matches(pattern: &str, text: &str) -> bool {
    let (pattern, text) = (pattern.as_bytes(), text.as_bytes());
    // fits[i]: what has been read of the pattern fits the first i bytes.
    let mut fits = vec![false; text.len() + 1];
    fits[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        let deep = pattern[at..].starts_with(b"**");
        let mut next = vec![false; text.len() + 1];
        match pattern[at] {
            b'*' => {
                next[0] = fits[0];
                for i in 1..=text.len() {
                    next[i] = fits[i] || (next[i - 1] && (deep || text[i - 1] != b'/'));
                }
            }
            c => {
                for i in 1..=text.len() {
                    let same = if c == b'?' {
                        text[i - 1] != b'/'
                    } else {
                        text[i - 1] == c
                    };
                    next[i] = fits[i - 1] && same;
                }
            }
        }
        at += if deep { 2 } else { 1 };
        fits = next;
    }
    fits[text.len()]
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn a_star_stays_in_its_directory_and_two_do_not() {
        for (pattern, text, fits) in [
            ("/usr/bin/*", "/usr/bin/id", true),
            ("/usr/bin/*", "/usr/bin/x/id", false),
            ("/usr/bin/*", "/usr/bin/", true),
            ("/usr/bin/**", "/usr/bin/x/id", true),
            ("/usr/bin/id", "/usr/bin/id", true),
            ("/usr/bin/id", "/usr/bin/idle", false),
            ("/opt/*/bin/send-*", "/opt/a/bin/send-mail", true),
            ("/opt/*/bin/send-*", "/opt/a/b/bin/send-mail", false),
            ("/opt/**/send", "/opt/a/b/send", true),
            ("/usr/bin/pytho?", "/usr/bin/python", true),
            ("/usr?bin", "/usr/bin", false),
            ("", "", true),
            ("*", "", true),
        ] {
            assert_eq!(matches(pattern, text), fits, "{pattern} {text}");
        }
        let (pattern, text) = ("*a".repeat(2_000), "a".repeat(4_000));
        assert!(matches(&pattern, &text), "and soon");
    }
}
