//! Values as a job file has them.

use std::fmt::Write;

use farmhand_core::definition::for_importers::escape_variables;

/// One text alone, or a list of them.
pub fn text_or_list(values: &[String]) -> String {
    match values {
        [one] => quoted(one),
        more => list(more),
    }
}

/// Of texts.
pub fn list(values: &[String]) -> String {
    let values: Vec<String> = values.iter().map(quoted).collect();
    format!("[{}]", values.join(", "))
}

/// A key, in quotes where it must.
pub fn bare(name: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'_' || b == b'-';
    if !name.is_empty() && name.bytes().all(plain) {
        name.to_owned()
    } else {
        quoted(name)
    }
}

/// A TOML string; as it stands where TOML has a form for that.
pub fn quoted(text: impl AsRef<str>) -> String {
    let text = &escape_variables(text.as_ref());
    let plain = !text.contains(|c: char| c.is_control() && c != '\t');
    if plain && text.contains(['"', '\\']) && !text.contains('\'') {
        return format!("'{text}'");
    }
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            '\r' => out.push_str("\\r"),
            c if c.is_control() => {
                let _ = write!(out, "\\u{:04X}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
    out
}
