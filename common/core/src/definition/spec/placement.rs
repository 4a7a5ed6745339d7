//! `where`: the labels that a node must have.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};

use crate::serde_list::one_or_many;

/// The label that every node has by itself: its address.
pub const NODE_LABEL: &str = "node";

/// Labels that a node must have, each with one of these values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Placement(BTreeMap<String, Values>);

/// Of one label, in order and each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Values(#[serde(with = "one_or_many")] Vec<String>);

impl Placement {
    /// Any node will do.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Each label with each of its values.
    pub fn pairs(&self) -> impl Iterator<Item = (&str, &str)> {
        (self.0.iter()).flat_map(|(label, Values(all))| all.iter().map(|one| (label.as_str(), one.as_str())))
    }

    /// What of it a node with these labels does not have.
    pub fn lacking(&self, labels: &BTreeMap<String, String>) -> Self {
        let lacks = |(label, Values(all)): &(&String, &Values)| {
            labels.get(*label).is_none_or(|has| !all.contains(has))
        };
        let lacking = self.0.iter().filter(lacks);
        Self(lacking.map(|(label, all)| (label.clone(), all.clone())).collect())
    }

    /// The sets of labels of which a node must have one: the form in which the database compares them.
    pub fn sets(&self) -> Vec<BTreeMap<String, String>> {
        let mut sets = vec![BTreeMap::new()];
        for (label, Values(all)) in &self.0 {
            let with = |set: &BTreeMap<String, String>, one: &String| {
                let mut set = set.clone();
                set.insert(label.clone(), one.clone());
                set
            };
            sets = (sets.iter())
                .flat_map(|set| all.iter().map(|one| with(set, one)))
                .collect();
        }
        sets
    }

    /// How many sets that are, if it can be counted.
    pub fn combinations(&self) -> Option<usize> {
        (self.0.values()).try_fold(1_usize, |sets, Values(all)| sets.checked_mul(all.len()))
    }

    /// The way back from [`Self::sets`].
    pub fn of_sets(sets: &[BTreeMap<String, String>]) -> Self {
        let mut found: BTreeMap<&String, BTreeSet<&String>> = BTreeMap::new();
        for (label, value) in sets.iter().flatten() {
            found.entry(label).or_default().insert(value);
        }
        let values = |all: BTreeSet<&String>| Values(all.into_iter().cloned().collect());
        Self(
            found
                .into_iter()
                .map(|(label, all)| (label.clone(), values(all)))
                .collect(),
        )
    }
}

impl<const N: usize> From<[(String, String); N]> for Placement {
    fn from(labels: [(String, String); N]) -> Self {
        Self::of_sets(&[BTreeMap::from(labels)])
    }
}

/// As in `role=batch, node=web-1 or web-2`.
impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (nth, (label, Values(all))) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            write!(f, "{comma}{label}={}", all.join(" or "))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definition::load;
    use crate::document::Source;

    fn read(line: &str) -> Result<Placement, String> {
        let source = Source {
            name: "j".to_owned(),
            text: format!("[job.a]\ncommand = 'x'\nwhere = {line}\n"),
        };
        let jobs = load(&[source]).map_err(|wrong| {
            let first = wrong.located().remove(0);
            format!("{} {}; {}", first.line, first.what, first.fix)
        })?;
        Ok(jobs[0].spec.placement.clone())
    }

    fn labels(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(label, value): &(&str, &str)| ((*label).to_owned(), (*value).to_owned());
        pairs.iter().map(owned).collect()
    }

    #[test]
    fn a_list_is_one_of_its_values() {
        let placement = read("{ role = 'batch', node = ['b', 'a', 'b'] }").unwrap();
        assert_eq!(placement.to_string(), "node=a or b, role=batch");
        for (has, lacks) in [
            (&[("node", "a"), ("role", "batch"), ("zone", "x")][..], ""),
            (&[("node", "b"), ("role", "web")], "role=batch"),
            (&[("node", "c"), ("role", "batch")], "node=a or b"),
            (&[], "node=a or b, role=batch"),
        ] {
            assert_eq!(placement.lacking(&labels(has)).to_string(), lacks, "{has:?}");
        }
        let sets = placement.sets();
        assert_eq!(
            sets,
            [
                labels(&[("node", "a"), ("role", "batch")]),
                labels(&[("node", "b"), ("role", "batch")])
            ]
        );
        assert_eq!(Placement::of_sets(&sets), placement);
    }

    #[test]
    fn a_list_of_one_is_stored_as_its_value_and_an_order_says_nothing() {
        let stored = |line: &str| serde_json::to_string(&read(line).unwrap()).unwrap();
        assert_eq!(stored("{ node = ['a'] }"), stored("{ node = 'a' }"));
        assert_eq!(stored("{ node = 'a' }"), r#"{"node":"a"}"#);
        assert_eq!(stored("{ node = ['b', 'a'] }"), r#"{"node":["a","b"]}"#);
        assert_eq!(stored("{}"), "{}");
        let back: Placement = serde_json::from_str(r#"{"node":["a","b"],"role":"x"}"#).unwrap();
        assert_eq!(back.to_string(), "node=a or b, role=x");
        assert_eq!(Placement::default().sets(), [labels(&[])]);
    }

    #[test]
    fn what_is_no_label_is_told_with_its_line() {
        let many: Vec<String> = (0..40).map(|n| format!("'v{n}'")).collect();
        let many = many.join(", ");
        for (line, said) in [
            (
                "{ node = [] }",
                "3 `node`: no node has one of no values; name a value",
            ),
            (
                "{ node = ['a', 1] }",
                "3 `node`: expected a string, found an integer",
            ),
            ("{ node = 1 }", "3 `node`: expected a string, found an integer"),
            (
                &format!("{{ a = [{many}], b = [{many}] }}"),
                "3 `where`: its lists can be combined in more than 1000 ways; name fewer values",
            ),
        ] {
            let wrong = read(line).unwrap_err();
            assert!(wrong.starts_with(said), "{line}: {wrong}");
        }
    }
}
