//! `$names` of LSB headers: what they stand for, as `insserv.conf` says it.

use std::collections::{BTreeMap, BTreeSet};

/// What Debian 12 and its packages say. `+` marks what may be absent.
const DEBIAN: &str = "\
$local_fs +mountall +mountall-bootclean +mountoverflowtmp +umountfs
$network +networking +ifupdown
$named +named +dnsmasq +lwresd +bind9 +unbound +pdns-recursor $network
$remote_fs $local_fs +mountnfs +mountnfs-bootclean +umountnfs +sendsigs
$syslog +rsyslog +sysklogd +syslog-ng +dsyslog +inetutils-syslogd
$time +hwclock
$x-display-manager +gdm3 +lightdm +sddm +xdm
$mail-transport-agent +postfix +exim4 +sendmail
$portmap +rpcbind
";

/// The facility that means every other script.
const ALL: &str = "$all";

/// Names of LSB facilities, and what each of them stands for.
#[derive(Clone, Debug)]
pub struct Facilities(BTreeMap<String, Vec<String>>);

impl Default for Facilities {
    fn default() -> Self {
        Self::parse(DEBIAN)
    }
}

impl Facilities {
    /// Reads `insserv.conf`: a facility and its members on each line.
    pub fn parse(text: &str) -> Self {
        let mut facilities: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for line in text.lines() {
            let mut words = line.split_whitespace();
            if let Some(name) = words.next().filter(|n| n.starts_with('$')) {
                let members = facilities.entry(name.to_owned()).or_default();
                members.extend(words.map(str::to_owned));
            }
        }
        Self(facilities)
    }

    /// Later lines add to what a facility has.
    pub fn extend(&mut self, other: Self) {
        for (name, members) in other.0 {
            self.0.entry(name).or_default().extend(members);
        }
    }

    /// The names of scripts behind a name, and whether each may be absent. A facility that is not known
    /// stays as it is: a script may provide it.
    pub(super) fn expand(&self, name: &str, optional: bool) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        self.collect(name, optional, &mut BTreeSet::new(), &mut found);
        found
    }

    fn collect<'a>(
        &'a self,
        name: &'a str,
        optional: bool,
        seen: &mut BTreeSet<&'a str>,
        found: &mut Vec<(String, bool)>,
    ) {
        let (name, optional) = match name.strip_prefix('+') {
            Some(bare) => (bare, true),
            None => (name, optional),
        };
        if !seen.insert(name) {
            return;
        }
        match self.0.get(name) {
            Some(members) => {
                for member in members {
                    self.collect(member, optional, seen, found);
                }
            }
            None => found.push((name.to_owned(), optional || name == ALL)),
        }
    }
}
