//! What names may be made of.

pub(in crate::definition) const NAME_RULE: &str =
    "use letters, digits, `.`, `_` and `-`, a letter or digit first, at most 100 of them";

pub(in crate::definition) fn is_resource_name(name: &str) -> bool {
    name.len() <= 100
        && name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
}

/// Names go into file names, environment variables, URLs and tables.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    match is_resource_name(name) {
        true => Ok(()),
        false => Err(NAME_RULE),
    }
}

/// Whether an account may be called so.
pub fn is_user_name(name: &str) -> bool {
    let odd = |c: char| c.is_whitespace() || c.is_control() || c == ':' || c == '/';
    !name.is_empty() && !name.contains(odd) && !name.starts_with('-')
}

/// The agent's own variables are not a job's to set: the command must be able to trust them.
pub fn variable_name(name: &str) -> Result<(), &'static str> {
    if name.starts_with("FARMHAND_") {
        return Err("names with FARMHAND_ are the agent's: choose another, or use `params`");
    }
    match is_variable(name) {
        true => Ok(()),
        false => Err("use letters, digits and `_`, no digit first"),
    }
}

/// Whether a shell could have a variable of this name.
pub fn is_variable(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// Of a secret, and of its entry in a store.
pub(in crate::definition) const LONGEST_NAME: usize = 100;

/// Checks the name of a secret: it becomes a variable's and a file's.
pub fn secret_name(name: &str) -> Result<(), &'static str> {
    if name.len() > LONGEST_NAME {
        return Err("100 letters are the most");
    }
    variable_name(name)
}

pub(in crate::definition) fn is_param_name(name: &str) -> bool {
    is_variable(&name.replace('-', "_")) && !name.starts_with('-')
}
