use std::time::Duration;

use crate::definition::{Definitions, Rate, load_all};
use crate::document::{Located, Source};

fn read(files: &[(&str, &str)]) -> Result<Definitions, Vec<Located>> {
    let sources: Vec<Source> = (files.iter())
        .map(|(name, text)| Source {
            name: (*name).to_owned(),
            text: (*text).to_owned(),
        })
        .collect();
    load_all(&sources).map_err(|mistakes| mistakes.located())
}

fn mistake(text: &str) -> Located {
    let mut found = read(&[("j.toml", text)]).expect_err(text);
    assert_eq!(found.len(), 1, "{found:#?}");
    found.remove(0)
}

#[test]
fn a_job_names_a_pool_of_another_file() {
    let all = read(&[
        (
            "jobs.toml",
            "[job.a]\ncommand = 'x'\npool = 'mailer'\nnode_pool = 'disk'\nlocks = ['b', 'a']\nrate = '10/1m'\n",
        ),
        ("pools.toml", "[pool.mailer]\nsize = 4\n[pool.disk]\nsize = 0\n"),
    ])
    .unwrap();
    let pools: Vec<_> = all.pools.iter().map(|p| (p.name.as_str(), p.size)).collect();
    assert_eq!(pools, [("disk", 0), ("mailer", 4)]);
    let needs = all.jobs[0].spec.needs().unwrap().unwrap();
    assert_eq!(
        (needs.gate, needs.pool.as_deref(), needs.node_pool.as_deref()),
        ("pool", Some("mailer"), Some("disk"))
    );
    assert_eq!(needs.locks, ["a", "b"]);
    assert_eq!((needs.rate_count, needs.rate_ms), (Some(10), Some(60_000)));
}

#[test]
fn a_job_without_needs_needs_nothing() {
    let all = read(&[("j.toml", "[job.a]\ncommand = 'x'\n")]).unwrap();
    assert_eq!(all.jobs[0].spec.needs().unwrap(), None);
}

#[test]
fn an_unknown_pool_is_shown_where_it_is_named() {
    let found = mistake("[pool.mailer]\nsize = 4\n[job.a]\ncommand = 'x'\npool = \"mialer\"\n");
    assert_eq!((found.line, found.column), (5, 8));
    assert_eq!(found.what, "`pool`: there is no pool \"mialer\"");
    assert_eq!(found.fix, "did you mean \"mailer\"?");
    let found = mistake("[job.a]\ncommand = 'x'\nnode_pool = 'disk'\n");
    assert_eq!(found.what, "`node_pool`: there is no pool \"disk\"");
    assert!(found.fix.contains("[pool.disk]"), "{}", found.fix);
}

#[test]
fn what_is_wrong_with_pools_locks_and_rates_is_said() {
    for (text, what) in [
        ("[pool.p]\n", "pool `p` has no size"),
        ("[pool.p]\nsize = -1\n", "`size`: -1 is out of range"),
        ("[pool]\np = 3\n", "pool `p`: expected a table"),
        ("[pool.'a b']\nsize = 1\n", "`a b` is not a valid pool name"),
        (
            "[job.a]\ncommand = 'x'\nlocks = ['a', 'a']\n",
            "`locks`: \"a\" is named twice",
        ),
        (
            "[job.a]\ncommand = 'x'\nlocks = ['a b']\n",
            "`locks`: \"a b\" is not a valid name",
        ),
        (
            "[job.a]\ncommand = 'x'\nrate = '10'\n",
            "`rate`: \"10\" is not a valid rate",
        ),
        (
            "[job.a]\ncommand = 'x'\nrate = '0/1m'\n",
            "`rate`: \"0\" is not a number of starts from 1 to 10000",
        ),
        (
            "[job.a]\ncommand = 'x'\nrate = '5/0s'\n",
            "`rate`: the time is zero",
        ),
        (
            "[job.a]\ncommand = 'x'\nrate = '5/soon'\n",
            "`rate`: \"soon\" is not a valid duration",
        ),
    ] {
        assert_eq!(mistake(text).what, what, "{text}");
    }
    let found = read(&[
        ("a.toml", "[pool.p]\nsize = 1\n"),
        ("b.toml", "[pool.p]\nsize = 1\n"),
    ])
    .unwrap_err();
    assert_eq!(found[0].what, "pool `p` is already defined in a.toml");
}

#[test]
fn a_rate_is_starts_in_a_time() {
    let rate = |text: &str| text.parse::<Rate>().unwrap();
    assert_eq!(
        rate("10/1m"),
        Rate {
            count: 10,
            window: Duration::from_secs(60)
        }
    );
    assert_eq!(rate("3 / h"), rate("3/1h"));
    assert_eq!(rate("3/60m").to_string(), "3/1h");
}
