//! Parameters of a run, checked against the job's definition.

use jiff::civil::Date;
use serde_json::{Map, Value};

use crate::definition::spec::job::JobSpec;
use crate::definition::spec::params::{ParamSpec, ParamType};
use crate::document::{closest, parse_duration};

/// The environment variable of a parameter: `FARMHAND_PARAM_` and its name in capitals, `-` as `_`.
pub fn param_variable(name: &str) -> String {
    format!("FARMHAND_PARAM_{}", name.replace('-', "_").to_ascii_uppercase())
}

/// One parameter that does not do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    #[error("there is no parameter `{name}`{}", did_you_mean(.near))]
    Unknown { name: String, near: Option<String> },
    #[error("parameter `{name}` has no value and no default")]
    Missing { name: String },
    #[error("parameter `{name}`: expected {expected}, found {found}")]
    Wrong {
        name: String,
        expected: &'static str,
        found: String,
    },
}

/// All of them; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", joined(.0))]
pub struct ParamErrors(pub Vec<ParamError>);

fn joined(errors: &[ParamError]) -> String {
    let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
    errors.join("; ")
}

fn did_you_mean(near: &Option<String>) -> String {
    near.as_ref()
        .map_or_else(String::new, |near| format!("; did you mean `{near}`?"))
}

/// The given parameters, checked, with the defaults of those not given. An optional one without a default
/// stays absent.
pub fn resolve_params(spec: &JobSpec, given: &Map<String, Value>) -> Result<Map<String, Value>, ParamErrors> {
    let mut errors = unknown(spec, given.keys().map(String::as_str));
    let mut resolved = Map::new();
    for (name, param) in &spec.params {
        match given.get(name).or(param.default.as_ref()) {
            Some(value) => match check_param(name, param.kind, value) {
                Ok(()) => {
                    resolved.insert(name.clone(), value.clone());
                }
                Err(error) => errors.push(error),
            },
            None if param.required => errors.push(ParamError::Missing { name: name.clone() }),
            None => {}
        }
    }
    if errors.is_empty() {
        Ok(resolved)
    } else {
        Err(ParamErrors(errors))
    }
}

/// As [`resolve_params`], from `name=value` texts as they come from a command line. The result holds only
/// what was given: defaults are the runner's to fill in.
pub fn parse_params(spec: &JobSpec, given: &[(String, String)]) -> Result<Map<String, Value>, ParamErrors> {
    let typed: Map<String, Value> = given
        .iter()
        .map(|(name, text)| {
            let kind = spec.params.get(name).map(|p| p.kind);
            (name.clone(), value_of_text(kind, text))
        })
        .collect();
    resolve_params(spec, &typed).map(|_| typed)
}

/// A text that does not read as its type stays a string, which the check then refuses.
fn value_of_text(kind: Option<ParamType>, text: &str) -> Value {
    let parsed = match kind {
        Some(ParamType::Integer) => text.parse::<i64>().ok().map(Value::from),
        Some(ParamType::Number) => text.parse::<f64>().ok().filter(|n| n.is_finite()).map(|n| {
            // An integer keeps its spelling, so that 5 does not become 5.0 in an argument.
            text.parse::<i64>().map_or_else(|_| Value::from(n), Value::from)
        }),
        Some(ParamType::Boolean) => text.parse::<bool>().ok().map(Value::from),
        _ => None,
    };
    parsed.unwrap_or_else(|| Value::from(text))
}

fn unknown<'a>(spec: &JobSpec, names: impl Iterator<Item = &'a str>) -> Vec<ParamError> {
    names
        .filter(|name| !spec.params.contains_key(*name))
        .map(|name| ParamError::Unknown {
            name: name.to_owned(),
            near: closest(name, spec.params.keys().map(String::as_str)).map(str::to_owned),
        })
        .collect()
}

/// Bytes of a string: it becomes one argument or variable, of which the kernel takes 128 KiB.
const STRING_MAX: usize = 65_536;

/// Whether a value is of a parameter's type.
/// Errors: `ParamError::Wrong` when it is not.
pub fn check_param(name: &str, kind: ParamType, value: &Value) -> Result<(), ParamError> {
    let (good, expected) = match kind {
        ParamType::String => (
            value
                .as_str()
                .is_some_and(|s| s.len() <= STRING_MAX && !s.contains('\0')),
            "a string of at most 65536 bytes without NUL",
        ),
        ParamType::Integer => (value.is_i64(), "an integer of 64 bits"),
        // Beyond that lies what no binary of ours could read back.
        ParamType::Number => (
            value.as_f64().is_some_and(|n| n.abs() <= 1e308),
            "a number of at most 1e308",
        ),
        ParamType::Boolean => (value.is_boolean(), "true or false"),
        ParamType::Duration => (
            value.as_str().is_some_and(|s| parse_duration(s).is_ok()),
            "a duration such as \"5m\" or \"1h30m\"",
        ),
        ParamType::Date => (
            value
                .as_str()
                .is_some_and(|s| s.len() == 10 && s.parse::<Date>().is_ok()),
            "a date such as \"2026-12-31\"",
        ),
    };
    if good {
        return Ok(());
    }
    Err(ParamError::Wrong {
        name: name.to_owned(),
        expected,
        found: shortened(&value.to_string()),
    })
}

fn shortened(text: &str) -> String {
    match text.char_indices().nth(200) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

/// A parameter as an argument or an environment variable gets it.
pub fn param_text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Whether a run may lack this parameter.
pub(in crate::definition) fn may_be_absent(param: &ParamSpec) -> bool {
    param.default.is_none() && !param.required
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn spec() -> JobSpec {
        let param = |kind, default, required| ParamSpec {
            kind,
            default,
            required,
        };
        JobSpec {
            params: [
                (
                    "since".to_owned(),
                    param(ParamType::Duration, Some(json!("5m")), false),
                ),
                ("count".to_owned(), param(ParamType::Integer, None, true)),
                ("day".to_owned(), param(ParamType::Date, None, false)),
            ]
            .into(),
            ..JobSpec::default()
        }
    }

    fn map(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn defaults_fill_in_what_was_not_given() {
        let resolved = resolve_params(&spec(), &map(json!({"count": 3}))).unwrap();
        assert_eq!(resolved, map(json!({"count": 3, "since": "5m"})));
    }

    #[test]
    fn every_mistake_is_reported_at_once() {
        let given = map(json!({"sinc": "5m", "since": "soon", "day": "2026-02-30"}));
        let ParamErrors(errors) = resolve_params(&spec(), &given).unwrap_err();
        let text = ParamErrors(errors.clone()).to_string();
        assert_eq!(errors.len(), 4, "{text}");
        assert!(text.contains("did you mean `since`?"), "{text}");
        assert!(text.contains("`count` has no value"), "{text}");
        assert!(text.contains("\"2026-02-30\""), "{text}");
    }

    #[test]
    fn texts_become_typed_values() {
        let given = [("count".to_owned(), "7".to_owned())];
        assert_eq!(parse_params(&spec(), &given).unwrap(), map(json!({"count": 7})));
        let given = [("count".to_owned(), "7.5".to_owned())];
        assert!(parse_params(&spec(), &given).is_err());
    }
}
