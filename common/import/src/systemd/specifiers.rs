//! What `%` stands for in a unit, as far as its name alone tells.

pub(super) struct Specifiers(Vec<(char, String)>);

/// Those that stand for a directory, which is another one for units of a user.
const DIRECTORIES: &[(char, &str)] = &[
    ('t', "/run"),
    ('S', "/var/lib"),
    ('C', "/var/cache"),
    ('L', "/var/log"),
    ('E', "/etc"),
];

impl Specifiers {
    /// Of the unit of this name, `backup@home.timer` or `backup@home.service`.
    pub fn of(unit: &str, of_user: bool) -> Self {
        let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
        let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
        let list = [
            ('n', unit),
            ('N', stem),
            ('p', prefix),
            ('i', instance),
            ('T', "/tmp"),
            ('V', "/var/tmp"),
            ('%', "%"),
        ];
        let last = |text: &str| unescaped(text.rsplit('-').next().unwrap_or_default());
        let directories = DIRECTORIES.iter().filter(|_| !of_user);
        let mut all: Vec<(char, String)> = (list.iter().chain(directories))
            .map(|(c, text)| (*c, (*text).to_owned()))
            .collect();
        all.push(('P', unescaped(prefix)));
        all.push(('I', unescaped(instance)));
        all.push(('j', (*prefix).rsplit('-').next().unwrap_or_default().to_owned()));
        all.push(('J', last(prefix)));
        let path = if instance.is_empty() { prefix } else { instance };
        all.push(('f', format!("/{}", unescaped(path).trim_start_matches('/'))));
        Self(all)
    }

    /// The text, and the specifiers that stand for something that only the machine knows; those are left in it.
    pub fn expand(&self, text: &str) -> (String, Vec<String>) {
        let (mut out, mut unknown) = (String::new(), Vec::new());
        let mut chars = text.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let Some(next) = chars.next() else {
                out.push(c);
                break;
            };
            match self.0.iter().find(|(name, _)| *name == next) {
                Some((_, value)) => out.push_str(value),
                None => {
                    out.extend(['%', next]);
                    unknown.push(format!("%{next}"));
                }
            }
        }
        (out, unknown)
    }
}

/// As systemd-escape(1) undoes it: `-` is a slash, `\xNN` a byte.
fn unescaped(text: &str) -> String {
    let (mut out, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let code = tail.get(..3).filter(|code| *first == b'\\' && code[0] == b'x');
        let byte = code.and_then(|code| u8::from_str_radix(std::str::from_utf8(&code[1..]).ok()?, 16).ok());
        match (first, byte) {
            (_, Some(byte)) => {
                out.push(byte);
                rest = &tail[3..];
                continue;
            }
            (b'-', None) => out.push(b'/'),
            (other, None) => out.push(*other),
        }
        rest = tail;
    }
    String::from_utf8_lossy(&out).into_owned()
}
