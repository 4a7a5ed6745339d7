//! What `%` stands for in a unit, as far as its name alone tells.

pub(super) struct Specifiers(Vec<(char, String)>);

impl Specifiers {
    /// Of the unit of this name, `backup@home.timer` or `backup@home.service`.
    pub fn of(unit: &str) -> Self {
        let stem = unit.rsplit_once('.').map_or(unit, |(stem, _)| stem);
        let (prefix, instance) = stem.split_once('@').unwrap_or((stem, ""));
        let list = [
            ('n', unit),
            ('N', stem),
            ('p', prefix),
            ('i', instance),
            ('I', instance),
            ('t', "/run"),
            ('S', "/var/lib"),
            ('C', "/var/cache"),
            ('L', "/var/log"),
            ('E', "/etc"),
            ('T', "/tmp"),
            ('V', "/var/tmp"),
            ('%', "%"),
        ];
        Self(list.iter().map(|(c, text)| (*c, (*text).to_owned())).collect())
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
