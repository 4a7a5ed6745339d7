//! Whom a proxy that signs people in may speak for.

use std::collections::BTreeMap;
use std::net::IpAddr;

use super::tokens::Role;

/// The agent's settings for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustedProxy {
    pub addresses: Vec<Network>,
    /// The name of the API token that it sends. No user gets a higher role than this token has.
    pub token_name: String,
    /// The header with the user's name, in lower case.
    pub user_header: String,
    /// The header with the user's groups, separated by commas.
    pub groups_header: Option<String>,
    /// A user's own entry counts more than those of the user's groups.
    pub users: BTreeMap<String, Role>,
    /// The role that members of a group have.
    pub groups: BTreeMap<String, Role>,
}

impl TrustedProxy {
    /// The role of a user in these groups, if there is one.
    pub fn role<'a>(&self, user: &str, groups: impl Iterator<Item = &'a str>) -> Option<Role> {
        let own = self.users.get(user).copied();
        own.or_else(|| groups.filter_map(|group| self.groups.get(group).copied()).max())
    }

    /// Whether it connects from this address.
    pub fn is_at(&self, remote: IpAddr) -> bool {
        self.addresses.iter().any(|network| network.has(remote))
    }
}

/// Addresses that begin with the same bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Reads `10.0.0.5`, `10.0.0.0/24` or `2001:db8::/64`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (first, bits) = text
            .split_once('/')
            .map_or((text, None), |(first, bits)| (first, Some(bits)));
        let unreadable = || format!("{text:?} is neither an address nor a network such as 10.0.0.0/24");
        let first: IpAddr = first.parse().map_err(|_| unreadable())?;
        let most = if first.is_ipv4() { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.parse().map_err(|_| unreadable()))?;
        if bits < 8 || bits > most {
            return Err(format!("{text:?}: the length is from 8 to {most}"));
        }
        let network = Self { first, bits };
        if network.rest_is_zero() {
            Ok(network)
        } else {
            Err(format!(
                "{text:?}: the bits of the address after the first {bits} must be 0"
            ))
        }
    }

    fn rest_is_zero(self) -> bool {
        match self.first {
            IpAddr::V4(first) => first.to_bits().checked_shl(self.bits).unwrap_or(0) == 0,
            IpAddr::V6(first) => first.to_bits().checked_shl(self.bits).unwrap_or(0) == 0,
        }
    }

    fn has(self, remote: IpAddr) -> bool {
        match (self.first, remote.to_canonical()) {
            (IpAddr::V4(first), IpAddr::V4(it)) => (first.to_bits() ^ it.to_bits()) >> (32 - self.bits) == 0,
            (IpAddr::V6(first), IpAddr::V6(it)) => (first.to_bits() ^ it.to_bits()) >> (128 - self.bits) == 0,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_its_own_addresses_alone() {
        let has = |network: &str, it: &str| Network::parse(network).unwrap().has(it.parse().unwrap());
        assert!(has("10.0.0.5", "10.0.0.5") && has("10.0.0.5/32", "::ffff:10.0.0.5"));
        assert!(!has("10.0.0.5", "10.0.0.4") && !has("10.0.0.0/24", "10.0.1.0"));
        assert!(has("10.0.0.0/24", "10.0.0.255") && has("2001:db8::/64", "2001:db8::1"));
        assert!(!has("2001:db8::/64", "2001:db8:0:1::1") && !has("::/8", "10.0.0.5"));
    }

    #[test]
    fn what_is_no_network_or_nearly_every_address_is_refused() {
        for text in [
            "",
            "proxy",
            "10.0.0.5/8",
            "0.0.0.0/0",
            "::/0",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "::ffff:0:0/95",
        ] {
            assert!(Network::parse(text).is_err(), "{text}");
        }
    }
}
