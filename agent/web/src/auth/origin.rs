//! Whether a browser's request comes from our own page. `SameSite=Strict` is the first line, this the second.

use axum::http::{HeaderMap, header};

/// For requests with a cookie: the browser says that it comes from here.
pub fn is_own(headers: &HeaderMap) -> bool {
    said(headers).unwrap_or(false)
}

/// For requests without: nothing says that it comes from elsewhere.
pub fn may_be_own(headers: &HeaderMap) -> bool {
    said(headers).unwrap_or(true)
}

fn said(headers: &HeaderMap) -> Option<bool> {
    if let Some(site) = headers.get("sec-fetch-site") {
        return Some(site == "same-origin");
    }
    let origin = headers.get(header::ORIGIN)?;
    let host = headers.get(header::HOST);
    let same = |origin: &str, host: &str| {
        let (_, authority) = origin.split_once("://").unwrap_or(("", origin));
        authority.eq_ignore_ascii_case(host)
    };
    let both = origin.to_str().ok().zip(host.and_then(|h| h.to_str().ok()));
    Some(both.is_some_and(|(origin, host)| same(origin, host)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |(name, value): &(&'static str, &'static str)| {
            (
                axum::http::HeaderName::from_static(name),
                axum::http::HeaderValue::from_static(value),
            )
        };
        pairs.iter().map(pair).collect()
    }

    #[test]
    fn only_the_own_page_acts_with_a_cookie() {
        let host = ("host", "farm:7070");
        for (own, sent) in [
            (true, vec![host, ("sec-fetch-site", "same-origin")]),
            (false, vec![host, ("sec-fetch-site", "cross-site")]),
            (false, vec![host, ("sec-fetch-site", "same-site")]),
            (false, vec![host, ("sec-fetch-site", "none")]),
            // The browser's own word counts more than the rest.
            (
                false,
                vec![
                    host,
                    ("sec-fetch-site", "cross-site"),
                    ("origin", "http://farm:7070"),
                ],
            ),
            (true, vec![host, ("origin", "http://farm:7070")]),
            (false, vec![host, ("origin", "http://farm:7071")]),
            (false, vec![host, ("origin", "http://evil.example")]),
            (false, vec![host, ("origin", "null")]),
            (false, vec![("origin", "http://farm:7070")]),
            (false, vec![host]),
        ] {
            assert_eq!(is_own(&headers(&sent)), own, "{sent:?}");
        }
        assert!(may_be_own(&headers(&[host])));
        assert!(!may_be_own(&headers(&[host, ("origin", "null")])));
    }
}
