//! People whom a proxy has signed in. The proxy shows a token of its own and names the user in a header.

use std::net::IpAddr;

use axum::http::HeaderMap;
use farmhand_store::proxy::TrustedProxy;
use farmhand_store::tokens::Known;

use super::token::Shown;
use super::{Caller, Rejection};

/// Longest name of a user.
const NAME: usize = 200;

/// The user for whom the proxy asks. The proxy's token is valid only from the proxy's addresses, and only together with a user.
pub fn user(
    proxy: &TrustedProxy,
    token: &Known,
    shown: Shown,
    headers: &HeaderMap,
    remote: IpAddr,
) -> Result<Caller, Rejection> {
    if shown == Shown::Session || !proxy.is_at(remote) {
        let name = token.name.clone();
        return Err(Rejection::NotTheProxy { name });
    }
    let unknown = |name: Option<&str>| Rejection::UnknownUser {
        name: name.map(|name| format!("header:{name}")),
    };
    let name = only(headers, &proxy.user_header).filter(|name| is_name(name));
    let name = name.ok_or_else(|| unknown(None))?;
    let groups = match &proxy.groups_header {
        Some(header) if headers.contains_key(header) => {
            only(headers, header).ok_or_else(|| unknown(Some(name)))?
        }
        _ => "",
    };
    let role = proxy.role(name, groups.split(',').map(str::trim));
    let role = role.ok_or_else(|| unknown(Some(name)))?;
    Ok(Caller {
        name: name.to_owned(),
        role: role.min(token.role),
        jobs: token.jobs.clone(),
        remote,
        token_id: token.token_id,
        shown: Shown::User,
    })
}

/// The value of a header that is there once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn is_name(text: &str) -> bool {
    (1..=NAME).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic() && byte != b',')
}
