//! JSON values as YAML that people can read.

use std::fmt::Write as _;

use serde_json::Value;

/// A document under a comment that says where it comes from.
pub fn document(value: &Value) -> String {
    let mut out =
        "# Written from grafana/alerts.toml; change that, and see there how this is written again.\n"
            .to_owned();
    block(&mut out, value, 0);
    out
}

/// Block style; scalars as JSON writes them, which YAML reads alike.
fn block(out: &mut String, value: &Value, depth: usize) {
    let indent = "  ".repeat(depth);
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let _ = write!(out, "{indent}{}:", key_text(key));
                child(out, value, depth + 1);
            }
        }
        Value::Array(list) => {
            for value in list {
                let mut item = String::new();
                block(&mut item, value, depth + 1);
                let _ = writeln!(out, "{indent}- {}", item.trim());
            }
        }
        scalar => {
            let _ = writeln!(out, "{indent}{scalar}");
        }
    }
}

fn child(out: &mut String, value: &Value, depth: usize) {
    let empty = match value {
        Value::Object(map) => map.is_empty(),
        Value::Array(list) => list.is_empty(),
        _ => true,
    };
    if empty {
        let _ = writeln!(out, " {value}");
    } else {
        out.push('\n');
        block(out, value, depth);
    }
}

fn key_text(key: &str) -> String {
    let plain = key.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if plain {
        key.to_owned()
    } else {
        Value::from(key).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn lists_of_maps_are_indented_under_their_dash() {
        let text = document(&json!({"a": [{"b": "x: y", "c": [1]}], "d": {}}));
        let body = text.split_once('\n').unwrap().1;
        assert_eq!(body, "a:\n  - b: \"x: y\"\n    c:\n      - 1\nd: {}\n");
    }
}
