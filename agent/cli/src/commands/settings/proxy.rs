//! `[trusted_proxy]`: who may sign people in before the API and the page. In the file alone.

use std::collections::BTreeMap;

use farmhand_core::document::{Reader, Wrong, text};
use farmhand_store::Role;
use farmhand_store::proxy::{Network, TrustedProxy};
use toml::de::DeValue;

use super::Merge;
use super::values::name;

impl Merge<'_> {
    /// `None`: it is wrong, and that has been said.
    pub(super) fn trusted_proxy(&mut self) -> Option<Option<TrustedProxy>> {
        let Some(mut table) = self.file.table("trusted_proxy") else {
            return Some(None);
        };
        let addresses = table.list("addresses", true, |value| checked(value, Network::parse));
        let token_name = table.read("token_name", |value| checked(value, token));
        let user_header = table.read("user_header", |value| checked(value, header));
        let groups_header = table.read("groups_header", |value| checked(value, header));
        let users = self.roles(table.table("users"));
        let groups = self.roles(table.table("groups"));
        table.finish(&[
            ("address", "did you mean `addresses`?"),
            ("token", "the name of the proxy's token: `token_name`"),
        ]);
        let (users, groups) = (users?, groups?);
        let addresses: Vec<_> = (addresses.unwrap_or_default().into_iter())
            .map(|found| found.value)
            .collect();
        let (Some(token_name), Some(user_header), false) = (token_name, user_header, addresses.is_empty())
        else {
            self.mistakes.push(
                "[trusted_proxy]: it needs `addresses`, where the proxy connects from, `token_name`, the name of the \
                 proxy's own token, and `user_header`"
                    .to_owned(),
            );
            return None;
        };
        if groups_header.is_some() == groups.is_empty() {
            let why = "[trusted_proxy]: `groups_header` and `[trusted_proxy.groups]` need each other";
            self.mistakes.push(why.to_owned());
            return None;
        }
        Some(Some(TrustedProxy {
            addresses,
            token_name: token_name.value,
            user_header: user_header.value,
            groups_header: groups_header.map(|found| found.value),
            users,
            groups,
        }))
    }

    fn roles(&mut self, table: Option<Reader<'_>>) -> Option<BTreeMap<String, Role>> {
        let mut roles = BTreeMap::new();
        for (who, written) in table.map(|table| table.values(text)).unwrap_or_default() {
            match written.value.parse() {
                Ok(role) => drop(roles.insert(who, role)),
                Err(why) => {
                    self.sink
                        .wrong(written.span, &who, Wrong::new(why, "for example operator"));
                    return None;
                }
            }
        }
        Some(roles)
    }
}

fn checked<T>(value: &DeValue<'_>, parse: impl Fn(&str) -> Result<T, String>) -> Result<T, Wrong> {
    parse(&text(value)?).map_err(|why| Wrong::new(why, "see the guide on security"))
}

fn token(text: &str) -> Result<String, String> {
    if text.starts_with("fh_") {
        return Err("this is a token, and its name is wanted".to_owned());
    }
    name(text)
}

/// The name of a header, in lower case. Not one that decides something else.
fn header(text: &str) -> Result<String, String> {
    let good = text
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let lower = text.to_ascii_lowercase();
    let taken = ["authorization", "cookie", "host", "origin", "sec-fetch-site"];
    if text.is_empty() || !good || taken.contains(&lower.as_str()) {
        return Err(format!(
            "{text:?} cannot be it: write a header such as X-Forwarded-User"
        ));
    }
    Ok(lower)
}
