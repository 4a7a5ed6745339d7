use super::*;
use crate::graph::{Graph, Relation};

fn script(name: &str, text: &str) -> Script {
    Script {
        name: name.to_owned(),
        path: format!("/etc/rc.d/{name}"),
        text: text.to_owned(),
        executable: true,
    }
}

fn pairs(tasks: &[Task]) -> Vec<String> {
    let members: Vec<_> = tasks.iter().map(|t| t.member.clone()).collect();
    let graph = Graph::new(&members);
    let pairs = graph.pairs();
    pairs
        .iter()
        .map(|(a, b)| format!("{} {}", graph.label(*a), graph.label(*b)))
        .collect()
}

fn lsb(provides: &str, rest: &str) -> String {
    format!("#!/bin/sh\n### BEGIN INIT INFO\n# Provides: {provides}\n{rest}\n### END INIT INFO\n")
}

#[test]
fn rcorder_annotations_have_several_names_a_line_and_several_lines() {
    let text = "#!/bin/sh\n#\n\n# PROVIDE: a aa\n# REQUIRE: b c\n#\n# REQUIRE: d\n# BEFORE: e\n# KEYWORD: nojail shutdown\n\n. /etc/rc.subr\n# REQUIRE: no\n";
    let all: Vec<_> = ["b", "c", "d", "e"]
        .map(|n| script(n, &format!("# PROVIDE: {n}\n")))
        .into_iter()
        .chain([script("a.sh", text)])
        .collect();
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(pairs(&tasks), ["b a.sh", "c a.sh", "d a.sh", "a.sh e"]);
    assert_eq!(tasks[4].keywords, ["nojail", "shutdown"]);
    assert_eq!(tasks[4].member.references[2].at.to_string(), "/etc/rc.d/a.sh:7");
}

#[test]
fn stopping_is_rcorder_backwards_and_requires_nothing() {
    let all = [
        script("a", "# PROVIDE: a\n"),
        script("b", "# PROVIDE: b\n# REQUIRE: a\n"),
    ];
    let stop = Selection {
        direction: Direction::Stop,
        ..Selection::default()
    };
    let tasks = scripts(&all, &stop).unwrap();
    assert_eq!(pairs(&tasks), ["b a"]);
    assert_eq!(tasks[1].member.references[0].relation, Relation::Before);
}

#[test]
fn a_left_out_script_still_stands_between_its_neighbours() {
    let all = [
        script("a", "# PROVIDE: a\n"),
        script("b", "# PROVIDE: b\n# REQUIRE: a\n# KEYWORD: nostart\n"),
        script("c", "# PROVIDE: c\n# REQUIRE: b\n"),
    ];
    let skip = Selection {
        skip: vec!["nostart".to_owned()],
        ..Selection::default()
    };
    let tasks = scripts(&all, &skip).unwrap();
    assert_eq!(pairs(&tasks), ["a b", "b c"]);
    let out: Vec<_> = tasks.iter().map(|t| t.left_out.is_some()).collect();
    assert_eq!(out, [false, true, false]);
    let keep = Selection {
        keep: vec!["nostart".to_owned()],
        ..Selection::default()
    };
    let out: Vec<_> = scripts(&all, &keep)
        .unwrap()
        .iter()
        .map(|t| t.left_out.is_some())
        .collect();
    assert_eq!(out, [true, false, true]);
}

#[test]
fn lsb_headers_expand_facilities_and_forgive_what_only_should_be_there() {
    let all = [
        script("mountall.sh", &lsb("mountall", "# Default-Start: S")),
        script(
            "db",
            &lsb(
                "db",
                "# Required-Start: $remote_fs $named gone\n# Should-Start: absent\n# X-Start-Before: web",
            ),
        ),
        script("web.sh", &lsb("www", "# Required-Start: $all")),
    ];
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(
        pairs(&tasks),
        ["mountall.sh db", "mountall.sh web.sh", "db web.sh"]
    );
    let members: Vec<_> = tasks.iter().map(|t| t.member.clone()).collect();
    let missing: Vec<_> = Graph::new(&members)
        .missing()
        .iter()
        .map(|m| m.name.clone())
        .collect();
    assert_eq!(missing, ["gone"]);
}

#[test]
fn lsb_scripts_stop_by_their_own_stop_lines() {
    let all = [
        script("fs", &lsb("fs", "# Default-Stop: 0 6")),
        script(
            "db",
            &lsb(
                "db",
                "# Required-Start: fs\n# Required-Stop: fs\n# Default-Stop: 0",
            ),
        ),
        script(
            "late",
            &lsb("late", "# X-Stop-After: fs\n# Default-Start: S\n# Default-Stop:"),
        ),
    ];
    let stop = Selection {
        direction: Direction::Stop,
        ..Selection::default()
    };
    let tasks = scripts(&all, &stop).unwrap();
    assert_eq!(pairs(&tasks), ["fs late", "db fs"]);
    assert!(tasks[2].left_out.is_some());
}

#[test]
fn a_header_that_does_not_end_is_an_error_at_its_beginning() {
    let bad = script(
        "bad",
        "#!/bin/sh\n### BEGIN INIT INFO\n# Provides: x\necho\n### END INIT INFO\n",
    );
    let worse = script("worse", "### BEGIN INIT INFO\n# Provides: y\n");
    let wrong = scripts(&[bad, worse], &Selection::default()).unwrap_err();
    assert_eq!(wrong.len(), 2);
    assert_eq!(
        wrong[0].to_string(),
        "/etc/rc.d/bad:2: `### BEGIN INIT INFO` has no `### END INIT INFO`"
    );
}

#[test]
fn functions_with_annotations_right_above_them_are_tasks() {
    let text = "#!/bin/sh\nhelper() { :; }\n\n# PROVIDE: net\n# brings it up\nup_net() {\n  :\n}\n\n# REQUIRE: net\nfunction db {\n :\n}\n# REQUIRE: up_net\n\nlost() { :; }\n";
    let tasks = functions("/x/all.sh", text, &Selection::default());
    let names: Vec<_> = tasks.iter().map(Task::name).collect();
    assert_eq!(names, ["up_net", "db"]);
    assert_eq!(pairs(&tasks), ["up_net db"]);
    assert_eq!(tasks[1].member.references[0].at.line, 10);
}

#[test]
fn pairs_name_tasks_or_relate_those_there_are() {
    let mut tasks = Vec::new();
    add_pairs(&mut tasks, "-", "a b\nb c a c\nd d\n", true).unwrap();
    assert_eq!(pairs(&tasks), ["a b", "a c", "b c"]);
    assert_eq!(tasks.len(), 4);
    let odd = add_pairs(&mut tasks, "e", "a b\nc\n", true).unwrap_err();
    assert_eq!(odd.to_string(), "e:2: `c` stands alone: names come in pairs");

    let mut tasks = scripts(&[script("a", ""), script("b", "")], &Selection::default()).unwrap();
    add_pairs(&mut tasks, "e", "a b\nx a\nb y\n", false).unwrap();
    let members: Vec<_> = tasks.iter().map(|t| t.member.clone()).collect();
    let graph = Graph::new(&members);
    let missing: Vec<_> = graph.missing().iter().map(|m| m.name.as_str()).collect();
    assert_eq!(missing, ["x", "y"]);
    assert_eq!(pairs(&tasks), ["a b"]);
}

#[test]
fn locks_and_conflicts_are_annotations() {
    let all = [
        script("a", "# PROVIDE: a\n# LOCK: disk tape\n"),
        script("b", "# PROVIDE: b\n# CONFLICTS: a\n"),
    ];
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(tasks[0].extras.locks, ["disk", "tape"]);
    let graph = Graph::new(&tasks.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
    assert_eq!(graph.conflicts(0), [1]);
}

#[test]
fn locks_conflicts_and_keywords_are_added_to_an_lsb_header() {
    let with = |text: String| {
        text.replace(
            "### END INIT INFO\n",
            "### END INIT INFO\n# LOCK: disk\n\n# CONFLICTS: web\n# KEYWORD: slow\n\nrun\n# LOCK: of code\n",
        )
    };
    let all = [
        script("fs", &lsb("fs", "# Default-Stop: 0 6")),
        script("web.sh", &lsb("www", "# Default-Start: S")),
        script(
            "db",
            &with(lsb("db", "# Required-Start: fs\n# Required-Stop: fs")),
        ),
    ];
    for (direction, pair) in [(Direction::Start, "fs db"), (Direction::Stop, "db fs")] {
        let selection = Selection {
            direction,
            ..Selection::default()
        };
        let tasks = scripts(&all, &selection).unwrap();
        assert_eq!(pairs(&tasks), [pair]);
        assert_eq!(tasks[2].extras.locks, ["disk"]);
        assert_eq!(tasks[2].keywords, ["slow"]);
        let graph = Graph::new(&tasks.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
        assert_eq!(graph.conflicts(2), [1]);
    }
}

#[test]
fn locks_conflicts_and_keywords_leave_the_order_to_the_numbers() {
    let all = [
        script("10-disk", "# LOCK: disk\n"),
        script("20-mail", "# CONFLICTS: 20-net\n"),
        script("20-net", "# KEYWORD: net\n"),
    ];
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(pairs(&tasks), ["10-disk 20-mail", "10-disk 20-net"]);
    assert_eq!(tasks[0].extras.locks, ["disk"]);
    let graph = Graph::new(&tasks.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
    assert_eq!(graph.conflicts(1), [2]);
    assert_eq!(doubtful(&all, &Selection::default()), []);
}

#[test]
fn a_lock_apart_from_the_order_of_its_script_takes_nothing_from_it() {
    let all = [
        script(
            "a",
            "#!/bin/sh\n# LOCK: disk\n\n# PROVIDE: a\n# REQUIRE: b\n\n# REQUIRE: c\n",
        ),
        script("b", "# PROVIDE: b\n"),
    ];
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(pairs(&tasks), ["b a"]);
    assert_eq!(tasks[0].extras.locks, ["disk"]);
}

#[test]
fn a_name_that_is_provided_means_its_providers_and_not_the_script_of_that_name() {
    let all = [
        script("x", "# PROVIDE: y\n"),
        script("y", "# PROVIDE: why\n"),
        script("z", "# PROVIDE: z\n# REQUIRE: y\n"),
        script("plain", &lsb("y", "# Default-Start: S")),
    ];
    let tasks = scripts(&all[..3], &Selection::default()).unwrap();
    assert_eq!(pairs(&tasks), ["x z"]);
    let graph = Graph::new(&tasks.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
    assert_eq!(graph.names()["task y"], 1);
    let told: Vec<_> = graph.collisions().iter().map(ToString::to_string).collect();
    assert_eq!(
        told,
        [
            "/etc/rc.d/x:1: `y` is the name of a task, and x provides it: what waits for it waits for x, not the task"
        ]
    );
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(pairs(&tasks), ["x z", "plain z"]);
}

#[test]
fn misspelt_annotations_are_told_with_their_line() {
    let text = "#!/bin/sh\n# PROVIDE: a\n# REQURE: b\n# NOTE: not an annotation\n\n# REQURE: code follows\nrun\n# BEFROE: c\n";
    let found = doubtful(&[script("a", text)], &Selection::default());
    let said: Vec<_> = found.iter().map(|m| format!("{m}: {}", m.fix)).collect();
    assert_eq!(
        said,
        [
            "/etc/rc.d/a:3: `REQURE` is not an annotation: write `# REQUIRE:`",
            "/etc/rc.d/a:6: `REQURE` is not an annotation: write `# REQUIRE:`",
        ]
    );
}

#[test]
fn misspelt_keys_of_an_lsb_header_are_told() {
    let text = lsb(
        "a",
        "# Requird-Start: b\n# Default-Strat: S\n# X-Interactive: true\n# Description: one\n#  Provide: two",
    );
    let found = doubtful(&[script("a", &text)], &Selection::default());
    let said: Vec<_> = found.iter().map(|m| format!("{m}: {}", m.fix)).collect();
    assert_eq!(
        said,
        [
            "/etc/rc.d/a:4: `Requird-Start` is not a key of an LSB header: write `# Required-Start:`",
            "/etc/rc.d/a:5: `Default-Strat` is not a key of an LSB header: write `# Default-Start:`",
        ]
    );
}

#[test]
fn misspelt_annotations_of_every_function_are_told() {
    let text = "# PROVIDE: a\na() { :; }\nb=1\n# REQURE: lost\n\n# REQURE: a\n# BEFORE: c\nb() {\n # BEFROE: x\n :\n}\n";
    let found = doubtful_functions(&script("all", text));
    let said: Vec<_> = found.iter().map(|m| format!("{m}: {}", m.fix)).collect();
    assert_eq!(
        said,
        ["/etc/rc.d/all:6: `REQURE` is not an annotation: write `# REQUIRE:`"]
    );
}

#[test]
fn numbers_that_count_for_nothing_are_told() {
    let told = |all: &[Script]| doubtful(all, &Selection::default()).len();
    assert_eq!(told(&[script("10-a", ""), script("20-b", "")]), 0);
    assert_eq!(told(&[script("10-a", ""), script("backup", "")]), 1);
    assert_eq!(told(&[script("10-a", ""), script("b", "# PROVIDE: b\n")]), 1);
    assert_eq!(told(&[script("10-a", "# PROVIDE: a\n"), script("b", "")]), 0);
}

#[test]
fn a_cycle_in_which_nothing_is_required_loses_one_line() {
    let soft = |name: &str, other: &str| script(name, &lsb(name, &format!("# Should-Start: {other}")));
    let tasks = scripts(&[soft("a", "b"), soft("b", "a")], &Selection::default()).unwrap();
    let mut graph = Graph::new(&tasks.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
    let broken: Vec<_> = graph
        .break_soft_cycles()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(broken, ["a before b (/etc/rc.d/b:4)"]);
    assert_eq!(graph.cycles(), []);
    assert!(graph.order().is_some());
}

#[test]
fn a_cycle_with_a_requirement_stays() {
    let all = [
        script("a", &lsb("a", "# Required-Start: b")),
        script("b", &lsb("b", "# Should-Start: a")),
    ];
    let tasks = scripts(&all, &Selection::default()).unwrap();
    let mut graph = Graph::new(&tasks.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
    assert_eq!(graph.break_soft_cycles(), []);
    assert_eq!(graph.cycles().len(), 1);
}

fn left_out(tasks: &[Task]) -> Vec<&str> {
    tasks
        .iter()
        .filter(|t| t.left_out.is_some())
        .map(Task::name)
        .collect()
}

fn stop() -> Selection {
    Selection {
        direction: Direction::Stop,
        ..Selection::default()
    }
}

#[test]
fn names_of_s_and_k_say_what_is_done_with_scripts_that_have_headers() {
    let all = [
        script(
            "K01web",
            &lsb(
                "web",
                "# Default-Start: 2\n# Required-Start: db\n# Required-Stop: db",
            ),
        ),
        script("K05db", &lsb("db", "# Default-Start: 2\n# Default-Stop:")),
        script("S01db", &lsb("db", "# Default-Start: 2\n# Default-Stop:")),
        // An administrator had it started here, whatever its author meant.
        script(
            "S02log",
            &lsb("log", "# Required-Start: db\n# Default-Start:\n# Default-Stop: 0"),
        ),
        script("S03ntp", &lsb("ntp", "# KEYWORD: none")),
    ];
    let up = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(left_out(&up), ["K01web", "K05db"]);
    assert_eq!(
        up[0].left_out.as_deref(),
        Some("its name begins with K: it is for stopping")
    );
    let down = scripts(&all, &stop()).unwrap();
    assert_eq!(left_out(&down), ["S01db", "S02log", "S03ntp"]);
    assert!(pairs(&down).contains(&"K01web K05db".to_owned()));
    // One other name in the directory takes no meaning from them.
    let mixed = [all[0].clone(), script("local", ""), script("K20x", "")];
    assert_eq!(
        left_out(&scripts(&mixed, &Selection::default()).unwrap()),
        ["K01web", "K20x"]
    );
    let plain = [script("K20x", ""), script("local", "")];
    assert_eq!(
        left_out(&scripts(&plain, &Selection::default()).unwrap()),
        ["K20x"]
    );
    // A service's own name.
    let services = [
        script("K8s-proxy", &lsb("k8s", "# Default-Start: 2")),
        script("S3fs", ""),
    ];
    assert_eq!(
        left_out(&scripts(&services, &Selection::default()).unwrap()),
        [""; 0]
    );
    assert_eq!(left_out(&scripts(&services, &stop()).unwrap()), [""; 0]);
}

#[test]
fn headers_give_the_order_and_numbers_where_headers_are_silent() {
    let all = [
        script("S10late", &lsb("late", "# Required-Start: early")),
        script("S20plain", "#!/bin/sh\n"),
        script("S25other", "#!/bin/sh\n"),
        script("S30early", &lsb("early", "#")),
        script("S40free", "# PROVIDE: free\n"),
        script("S50last", "# LOCK: disk\n"),
    ];
    let up = scripts(&all, &Selection::default()).unwrap();
    let expected = [
        "S10late S50last",
        "S20plain S25other",
        "S20plain S30early",
        "S20plain S40free",
        "S20plain S50last",
        "S25other S30early",
        "S25other S40free",
        "S25other S50last",
        "S30early S10late",
        "S30early S50last",
        "S40free S50last",
    ];
    let mut found = pairs(&up);
    found.retain(|pair| !pair.ends_with("S10late") || pair.starts_with("S30early"));
    assert_eq!(found, expected);
    let graph = Graph::new(&up.iter().map(|t| t.member.clone()).collect::<Vec<_>>());
    assert_eq!((graph.missing(), graph.cycles().len()), (&[][..], 0));
    assert_eq!(doubtful(&all, &Selection::default()), []);
}

#[test]
fn a_script_without_the_run_bit_is_left_out_and_told_whatever_it_says_about_itself() {
    let mut all = [
        script("S10lsb", &lsb("a", "#")),
        script("S20rcorder", "# PROVIDE: b\n"),
        script("S30plain", "#!/bin/sh\n"),
        script("unnumbered", "#!/bin/sh\n"),
        script("README", "Read me.\n"),
        script("S40good", "# PROVIDE: c\n# REQUIRE: b\n"),
    ];
    for script in &mut all[..5] {
        script.executable = false;
    }
    let tasks = scripts(&all, &Selection::default()).unwrap();
    assert_eq!(left_out(&tasks), ["S10lsb", "S20rcorder"]);
    assert_eq!(pairs(&tasks), ["S20rcorder S40good"]);
    let told: Vec<_> = doubtful(&all, &Selection::default())
        .iter()
        .map(|m| format!("{m}: {}", m.fix))
        .collect();
    let text =
        |name| format!("/etc/rc.d/{name}:1: it has no run bit and is left out: chmod +x /etc/rc.d/{name}");
    assert_eq!(told, ["S10lsb", "S20rcorder", "S30plain", "unnumbered"].map(text));
}
