//! The graphs.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// What every script does.
#[derive(Clone, Copy)]
pub enum Body {
    Nothing,
    /// Loads a shell library and calls one of its functions.
    Library,
    Sleep(Duration),
}

pub struct Graph {
    pub name: String,
    /// In an order that violates no edge.
    pub names: Vec<String>,
    /// By task: what it waits for.
    pub after: Vec<Vec<usize>>,
    pub body: Body,
}

impl Graph {
    fn new(name: &str, after: Vec<Vec<usize>>, body: Body) -> Self {
        Self {
            name: name.to_owned(),
            names: (0..after.len()).map(|n| format!("t{n}")).collect(),
            after,
            body,
        }
    }

    /// Each task waits for up to four earlier ones.
    pub fn random(name: &str, tasks: usize, body: Body) -> Self {
        let mut state = 42;
        let after = (0..tasks).map(|task| {
            let count = random(&mut state) as usize % 5;
            let mut list: Vec<usize> = (0..count.min(task))
                .map(|_| random(&mut state) as usize % task)
                .collect();
            list.sort_unstable();
            list.dedup();
            list
        });
        Self::new(name, after.collect(), body)
    }

    /// One task, then `width` at once.
    pub fn fan(name: &str, width: usize, body: Body) -> Self {
        let after = (0..=width)
            .map(|task| if task == 0 { Vec::new() } else { vec![0] })
            .collect();
        Self::new(name, after, body)
    }

    pub fn chain(name: &str, length: usize, body: Body) -> Self {
        let after = (0..length)
            .map(|task| task.checked_sub(1).into_iter().collect())
            .collect();
        Self::new(name, after, body)
    }

    /// The boot scripts of a FreeBSD.
    pub fn freebsd(name: &str, body: Body) -> Self {
        let path =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("data/graphs/rc-freebsd-9-10-installed-2013-11.edges");
        let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let mut before: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for (from, to) in text.lines().filter_map(|l| l.split_once(' ')) {
            before.entry(from).or_default();
            if from != to {
                before.entry(to).or_default().push(from);
            }
        }
        let mut number: BTreeMap<&str, usize> = BTreeMap::new();
        let mut after = Vec::new();
        let mut names = Vec::new();
        while names.len() < before.len() {
            let ready = |(name, list): &(&&str, &Vec<&str>)| {
                !number.contains_key(**name) && list.iter().all(|d| number.contains_key(d))
            };
            let (next, list) = before.iter().find(ready).expect("the graph has no cycle");
            after.push(list.iter().map(|d| number[d]).collect());
            names.push((*next).to_owned());
            let next = *next;
            number.insert(next, names.len() - 1);
        }
        Self {
            name: name.to_owned(),
            names,
            after,
            body,
        }
    }

    /// The script of a task, with its annotations. With `preloaded` the library is there already.
    pub fn script(&self, task: usize, library: &Path, preloaded: bool) -> String {
        let requires: Vec<&str> = self.after[task].iter().map(|d| &*self.names[*d]).collect();
        let body = match self.body {
            Body::Nothing => String::new(),
            Body::Library if preloaded => "function_7".to_owned(),
            Body::Library => format!(". {}\nfunction_7", library.display()),
            Body::Sleep(time) => format!("exec sleep {}", time.as_secs_f64()),
        };
        let name = &self.names[task];
        format!(
            "#!/bin/sh\n# PROVIDE: {name}\n# REQUIRE: {}\n{body}\n",
            requires.join(" ")
        )
    }

    /// About as long as FreeBSD's rc.subr.
    pub fn library() -> String {
        let function = |n: usize| {
            format!(
                "function_{n}()\n{{\n\tlocal value\n\tvalue=\"${{1:-default {n}}}\"\n\tif [ -z \"$value\" ]; then\n\t\treturn 1\n\tfi\n\teval \"last_{n}=\\\"$value\\\"\"\n\treturn 0\n}}\n"
            )
        };
        (0..200).map(function).collect()
    }
}

/// SplitMix64.
pub fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
