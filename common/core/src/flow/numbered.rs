//! Directories whose scripts are ordered by numbers in their names: `S23ntp`, `K01cron`, `50-net`.

use super::task::{Direction, Task, reference};
use crate::graph::{Graph, Relation};

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
    let unwanted = |name: &Name| name.letter.and_then(|letter| not_for(letter, direction));
    let wanted = names.iter().filter(|name| unwanted(name).is_none());
    let mut ranks: Vec<u32> = wanted.map(rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    for (task, name) in tasks.iter_mut().zip(&names) {
        let at = task.at.clone();
        if let Some(why) = unwanted(name) {
            task.left_out = Some(why.to_owned());
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

/// In a directory of S and K names in which some scripts say what they come after: orders those that are silent by their
/// numbers, among themselves and with all others. Where numbers contradict what scripts say they give way: a script counts
/// with the greatest number of itself and all that it comes after. So no cycle can begin here.
pub(super) fn where_silent(tasks: &mut [Task], silent: &[bool], direction: Direction) {
    let number = |task: &Task| {
        let name = Name::of(task.name())?;
        // What is not for this direction orders others by its header alone.
        Some((not_for(name.letter?, direction).is_none(), name.number))
    };
    let Some(numbers) = tasks.iter().map(number).collect::<Option<Vec<_>>>() else {
        return;
    };
    let (wanted, mut numbers): (Vec<bool>, Vec<u32>) = numbers
        .into_iter()
        .map(|(wanted, n)| (wanted, if wanted { n } else { 0 }))
        .unzip();
    // Scripts of rcorder(8) are known by what they provide alone, and these are waited for one by one.
    for member in tasks.iter_mut().map(|task| &mut task.member) {
        let name = member.name.to_string();
        if !member.aliases.contains(&name) {
            member.aliases.push(name);
        }
    }
    let graph = Graph::new(&tasks.iter().map(|t| &t.member).collect::<Vec<_>>());
    let before: Vec<Vec<usize>> = (0..tasks.len()).map(|t| graph.dependencies(t, false)).collect();
    // Numbers only grow, to the greatest at most, also in a cycle.
    loop {
        let most = |t: usize| before[t].iter().map(|b| numbers[*b]).fold(numbers[t], u32::max);
        let grown: Vec<u32> = (0..tasks.len()).map(most).collect();
        if grown == numbers {
            break;
        }
        numbers = grown;
    }
    for task in (0..tasks.len()).filter(|t| wanted[*t]) {
        let counts = |other: &usize| {
            wanted[*other] && (silent[task] || silent[*other]) && numbers[*other] < numbers[task]
        };
        let at = tasks[task].at.clone();
        let after = (0..tasks.len()).filter(counts);
        let after = after.map(|other| reference(Relation::After, tasks[other].name(), false, &at));
        let after: Vec<_> = after.collect();
        tasks[task].member.references.extend(after);
    }
}

/// The letter of a name as run levels have it: S or K, and at least two digits. `K8s-proxy` and `S3fs` are names of services.
pub(super) fn letter(name: &str) -> Option<char> {
    let name = Name::of(name).filter(|name| name.digits >= 2)?;
    name.letter
}

/// Why a script of that letter is not executed.
pub(super) fn not_for(letter: char, direction: Direction) -> Option<&'static str> {
    match (letter, direction) {
        ('K', Direction::Start) => Some("its name begins with K: it is for stopping"),
        ('S', Direction::Stop) => Some("its name begins with S: it is for starting"),
        _ => None,
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
    digits: usize,
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
        (digits < rest.len()).then_some(Self {
            letter,
            number,
            digits,
        })
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
