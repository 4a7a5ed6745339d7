//! Directories whose scripts are ordered by numbers in their names: `S23ntp`, `K01cron`, `50-net`.

use super::{Direction, Task, reference};
use crate::graph::Relation;

/// Orders `tasks` by the numbers in their names, where each has one and none has annotations that order it. A script that fails does
/// not keep later numbers from running, as init has it. `K` is for stopping and `S` for starting; a number alone is for
/// both, and backwards when stopping.
pub(super) fn by_number(tasks: &mut [Task], direction: Direction) {
    let names: Option<Vec<Name>> = tasks.iter().map(|t| Name::of(t.name())).collect();
    let Some(names) = names else {
        return;
    };
    let backwards = |name: &Name| name.letter.is_none() && direction == Direction::Stop;
    let rank = |name: &Name| {
        if backwards(name) {
            u32::MAX - name.number
        } else {
            name.number
        }
    };
    let wanted = |name: &Name| {
        let other = match direction {
            Direction::Start => 'K',
            Direction::Stop => 'S',
        };
        name.letter != Some(other)
    };
    let mut ranks: Vec<u32> = names.iter().filter(|n| wanted(n)).map(rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for (task, name) in tasks.iter_mut().zip(&names) {
        let at = task.at.clone();
        if !wanted(name) {
            let what = match direction {
                Direction::Start => "its name begins with K: it is for stopping",
                Direction::Stop => "its name begins with S: it is for starting",
            };
            task.left_out = Some(what.to_owned());
            continue;
        }
        let own = rank(name);
        task.member.provides = vec![(mark(own, direction), at.clone())];
        if let Some(before) = ranks.iter().rev().find(|r| **r < own) {
            let after = reference(Relation::After, &mark(*before, direction), false, &at);
            task.member.references.push(after);
        }
    }
}

/// Whether the name has a place in an order.
pub(super) fn is_numbered(name: &str) -> bool {
    Name::of(name).is_some()
}

/// All scripts of one number, as something to wait for.
fn mark(rank: u32, direction: Direction) -> String {
    match direction {
        Direction::Stop if rank > u32::MAX / 2 => format!("number {}", u32::MAX - rank),
        _ => format!("number {rank}"),
    }
}

struct Name {
    letter: Option<char>,
    number: u32,
}

impl Name {
    fn of(name: &str) -> Option<Self> {
        let letter = name.chars().next().filter(|c| matches!(c, 'S' | 'K'));
        let rest = &name[letter.map_or(0, char::len_utf8)..];
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        // A date or a version is not a place in an order.
        let number = rest[..digits]
            .parse()
            .ok()
            .filter(|_| (1..=4).contains(&digits))?;
        (digits < rest.len()).then_some(Self { letter, number })
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Script, Selection, scripts};
    use super::*;
    use crate::graph::Graph;

    fn tasks(names: &[&str], direction: Direction) -> Vec<Task> {
        let script = |name: &&str| Script {
            name: (*name).to_owned(),
            path: format!("/etc/rc2.d/{name}"),
            text: "#!/bin/sh\n".to_owned(),
            executable: true,
        };
        let selection = Selection {
            direction,
            ..Selection::default()
        };
        scripts(&names.iter().map(script).collect::<Vec<_>>(), &selection).unwrap()
    }

    fn pairs(tasks: &[Task]) -> Vec<String> {
        let members: Vec<_> = tasks.iter().map(|t| t.member.clone()).collect();
        let graph = Graph::new(&members);
        assert_eq!(graph.missing(), []);
        let pairs = graph.pairs();
        let name = |t: &usize| graph.label(*t).to_owned();
        pairs
            .iter()
            .map(|(a, b)| format!("{} {}", name(a), name(b)))
            .collect()
    }

    #[test]
    fn numbers_are_the_order_and_equal_ones_run_at_once() {
        let all = tasks(&["10-disk", "20-mail", "20-net", "30-web"], Direction::Start);
        let expected = [
            "10-disk 20-mail",
            "10-disk 20-net",
            "20-mail 30-web",
            "20-net 30-web",
        ];
        assert_eq!(pairs(&all), expected);
    }

    #[test]
    fn plain_numbers_stop_backwards() {
        let all = tasks(&["10-disk", "20-net", "30-web"], Direction::Stop);
        assert_eq!(pairs(&all), ["20-net 10-disk", "30-web 20-net"]);
    }

    #[test]
    fn letters_say_what_a_script_is_for() {
        let names = ["K01web", "K05net", "S01net", "S23web"];
        let up = tasks(&names, Direction::Start);
        assert_eq!(pairs(&up), ["S01net S23web"]);
        let left_out: Vec<_> = up
            .iter()
            .filter(|t| t.left_out.is_some())
            .map(Task::name)
            .collect();
        assert_eq!(left_out, ["K01web", "K05net"]);
        assert_eq!(pairs(&tasks(&names, Direction::Stop)), ["K01web K05net"]);
    }

    #[test]
    fn names_without_numbers_have_no_order() {
        assert_eq!(
            pairs(&tasks(&["10-disk", "backup"], Direction::Start)),
            Vec::<String>::new()
        );
        assert_eq!(
            pairs(&tasks(&["20260101-a", "20260102-b"], Direction::Start)),
            Vec::<String>::new()
        );
    }
}
