//! Bytes on a connection of the API and the page: a stranger gets nothing that is not for everybody, and whatever reaches a
//! handler is answered in words.

use std::sync::OnceLock;

use farmhand_web::fuzzing::{Answer, Served};

use super::input::pieces;

pub fn run(data: &[u8]) {
    static SERVED: OnceLock<Served> = OnceLock::new();
    let served = SERVED.get_or_init(|| Served::new().expect("an agent without a database"));
    let pieces = pieces(data);
    for answer in served.stranger(&pieces) {
        dressed(&answer);
        let good = (200..300).contains(&answer.status);
        assert!(!good || served.is_open(&answer.path), "a stranger got {answer:?}");
        let elsewhere = answer.headers.get("location").and_then(|to| to.to_str().ok());
        assert!(elsewhere.is_none_or(|to| to.starts_with("/login")), "{answer:?}");
    }
    for answer in served.admin(&pieces) {
        dressed(&answer);
    }
}

fn dressed(answer: &Answer) {
    assert_ne!(answer.status, 500, "{answer:?}");
    let says = |name, value| answer.headers.get(name).is_some_and(|found| found == value);
    assert!(
        says("x-content-type-options", "nosniff") && says("x-frame-options", "DENY"),
        "{answer:?}"
    );
    assert!(
        answer.headers.contains_key("content-security-policy"),
        "{answer:?}"
    );
    assert!(answer.headers.contains_key("cache-control"), "{answer:?}");
    assert!(
        !answer.headers.contains_key("access-control-allow-origin"),
        "{answer:?}"
    );
}
