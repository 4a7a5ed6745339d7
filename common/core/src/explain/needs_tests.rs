use super::sample::{Case, at, check, held, live};
use super::*;
use crate::definition::{FlowSpec, TaskSpec};

const CASES: &[Case] = &[
    (
        "waits for a pool",
        |f, k| {
            k.live = vec![live(Some("pool"))];
            k.needed = Some(Needed {
                now: f.now,
                pool: Some("mailer".to_owned()),
                pool_size: Some(1),
                holders: vec![held(Some("mailer"), None, &[])],
                ..Needed::default()
            });
        },
        Some(Gate::Pool),
        "run 7 waits for a place in pool mailer: 1 of 1 are taken by run 4 (other on n1 since 2027-03-10T12:30:00Z)",
    ),
    (
        "waits for a pool of size 0",
        |f, k| {
            k.live = vec![live(Some("pool"))];
            k.needed = Some(Needed {
                now: f.now,
                pool: Some("mailer".to_owned()),
                pool_size: Some(0),
                ..Needed::default()
            });
        },
        Some(Gate::Pool),
        "size 0",
    ),
    (
        "waits for a lock",
        |f, k| {
            k.live = vec![live(Some("lock"))];
            k.needed = Some(Needed {
                now: f.now,
                locks: vec!["db".to_owned(), "disk".to_owned()],
                holders: vec![held(None, None, &["db", "tape"])],
                ..Needed::default()
            });
        },
        Some(Gate::Lock),
        "run 7 waits for the lock db: held by run 4 (other on n1",
    ),
    (
        "waits for a lock that a lease has",
        |f, k| {
            k.live = vec![live(Some("lock"))];
            k.needed = Some(Needed {
                now: f.now,
                locks: vec!["db".to_owned(), "disk".to_owned()],
                leases: vec![Leased {
                    name: "disk".to_owned(),
                    client: "farmhand 10.0.0.7".to_owned(),
                    login: "shop".to_owned(),
                    since: f.now,
                }],
                ..Needed::default()
            });
        },
        Some(Gate::Lock),
        "run 7 waits for the lock disk: farmhand 10.0.0.7 has it as shop",
    ),
    (
        "comes later",
        |f, k| {
            k.live = vec![live(Some("lock"))];
            k.needed = Some(Needed {
                now: f.now,
                locks: vec!["db".to_owned()],
                before: Some((3, "big".to_owned())),
                ..Needed::default()
            });
        },
        Some(Gate::Lock),
        "run 3 of big waits for some of the same and comes first",
    ),
    (
        "waits for its rate",
        |f, k| {
            k.live = vec![live(Some("rate"))];
            k.needed = Some(Needed {
                now: f.now,
                rate: Some("10/1m".to_owned()),
                rate_free_at: Some(at("2027-03-10T13:00:30Z")),
                ..Needed::default()
            });
        },
        Some(Gate::Rate),
        "rate 10/1m",
    ),
    (
        "has a place, its locks and its rate",
        |f, k| {
            k.live = vec![live(Some("pool"))];
            k.needed = Some(Needed {
                now: f.now,
                pool: Some("mailer".to_owned()),
                pool_size: Some(1),
                locks: vec!["db".to_owned()],
                rate: Some("10/1m".to_owned()),
                node_pool: Some("disk".to_owned()),
                node_pool_size: Some(1),
                ..Needed::default()
            });
        },
        None,
        "nothing holds it back",
    ),
    (
        "waits for the pool of a node",
        |f, k| {
            k.live = vec![live(Some("pool"))];
            k.needed = Some(Needed {
                now: f.now,
                node_pool: Some("disk".to_owned()),
                node_pool_size: Some(1),
                holders: vec![held(None, Some("disk"), &[])],
                ..Needed::default()
            });
        },
        Some(Gate::NodePool),
        "pool disk on a node: all are taken by run 4",
    ),
    (
        "waits for a retry before it asks for its pool",
        |f, k| {
            k.live = vec![Live {
                ready_at: at("2027-03-10T13:05:00Z"),
                reason: Some("retry".to_owned()),
                ..live(Some("pool"))
            }];
            k.needed = Some(Needed {
                now: f.now,
                pool: Some("mailer".to_owned()),
                pool_size: Some(0),
                ..Needed::default()
            });
        },
        Some(Gate::Ready),
        "waits until 2027-03-10T13:05:00Z",
    ),
];

#[test]
fn who_holds_a_pool_or_a_lock_and_what_frees_it_is_said() {
    check(CASES);
}

#[test]
fn where_the_locks_of_a_job_and_of_its_tasks_hold_is_said_whether_it_waits_or_not() {
    let mut facts = sample::facts();
    let known = facts.known.as_mut().unwrap();
    known.spec.locks = vec!["db".to_owned(), "tape".to_owned()];
    let task = |locks: &[&str]| TaskSpec {
        locks: locks.iter().map(|l| (*l).to_owned()).collect(),
        ..TaskSpec::default()
    };
    known.spec.flow = Some(FlowSpec {
        tasks: [("a", task(&["disk"])), ("b", task(&["disk"]))]
            .map(|(n, t)| (n.to_owned(), t))
            .into(),
        dir: Some("/etc/my rc".to_owned()),
        ..FlowSpec::default()
    });
    let explanation = explain(&facts);
    let said: Vec<&str> = (explanation.gates.iter())
        .filter(|finding| finding.gate == Gate::Lock)
        .map(|finding| finding.what.as_str())
        .collect();
    assert_eq!(
        said,
        [
            "the locks db, tape of its runs: on the whole farm, among runs of jobs, `farmhand lock` and `farmhand.acquire`",
            "the lock disk of its tasks: on the node that runs it, among flows and `farmhand lock --local` of its user",
            "locks that its scripts name (`# LOCK:`): on the node that runs it, among flows and `farmhand lock --local` of its user; \
             `farmhand flow plan '/etc/my rc'` there lists them",
        ]
    );
}
