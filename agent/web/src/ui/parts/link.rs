//! Addresses of pages.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// RFC 3986, 2.3.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// A path segment or a value of a query, so that any name can stand in it.
pub fn encode(text: &str) -> String {
    utf8_percent_encode(text, RESERVED).to_string()
}

pub fn job(name: &str) -> String {
    format!("/jobs/{}", encode(name))
}

pub fn run(id: i64) -> String {
    format!("/runs/{id}")
}

pub fn node(address: &str) -> String {
    format!("/nodes/{}", encode(address))
}

pub fn pool(name: &str) -> String {
    format!("/pools/{}", encode(name))
}

/// A path with a query; values that are empty are left out, so that the address says only what was chosen.
pub fn query(path: &str, pairs: &[(&str, &str)]) -> String {
    let mut address = path.to_owned();
    let mut sign = '?';
    for (name, value) in pairs.iter().filter(|(_, value)| !value.is_empty()) {
        address.push(sign);
        address.push_str(name);
        address.push('=');
        address.push_str(&encode(value));
        sign = '&';
    }
    address
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_any_letters_makes_one_segment() {
        assert_eq!(job("a/b ü?"), "/jobs/a%2Fb%20%C3%BC%3F");
    }

    #[test]
    fn what_is_not_chosen_is_not_in_the_address() {
        assert_eq!(
            query("/runs", &[("job", ""), ("state", "failed")]),
            "/runs?state=failed"
        );
        assert_eq!(query("/runs", &[("job", "")]), "/runs");
    }
}
