use crate::definition::{Command, Resume, load};
use crate::document::{Located, Source};

fn read(text: &str) -> Result<crate::definition::JobSpec, Vec<Located>> {
    let source = Source {
        name: "j.toml".to_owned(),
        text: text.to_owned(),
    };
    load(&[source])
        .map(|mut jobs| jobs.remove(0).spec)
        .map_err(|m| m.located())
}

#[test]
fn tasks_of_a_job_file_are_a_flow_and_survive_storage() {
    let spec = read(
        "[job.n]\nresume = 'skip-finished'\n[job.n.task.a]\ncommand = 'true'\nprovides = 'm'\n\
         [job.n.task.b]\ncommand = ['x', '{y}']\nrequires = ['m']\nlocks = ['l']\ntimeout = '5s'\nretry = { max = 2 }\nalways_run = true\n",
    )
    .unwrap();
    assert_eq!(spec.resume, Resume::SkipFinished);
    let stored = serde_json::to_value(&spec).unwrap();
    assert_eq!(stored["resume"], "skip_finished");
    let back: crate::definition::JobSpec = serde_json::from_value(stored).unwrap();
    assert_eq!(back, spec);
    let flow = spec.flow.unwrap();
    let b = &flow.tasks["b"];
    assert_eq!(
        b.command,
        Some(Command::Argv(vec!["x".to_owned(), "{y}".to_owned()]))
    );
    assert_eq!(
        (b.retry.max, b.always_run, b.locks.as_slice()),
        (2, true, &["l".to_owned()][..])
    );
    assert_eq!(flow.tasks().len(), 2);
}

#[test]
fn a_cycle_and_a_missing_name_are_shown_where_they_are_written() {
    let wrong =
        read("[job.n.task.a]\nrequires = ['b', 'nobody']\n[job.n.task.b]\nafter = ['a']\n").unwrap_err();
    let told: Vec<_> = wrong.iter().map(|w| (w.line, w.what.as_str())).collect();
    assert_eq!(
        told,
        [
            (2, "`b` comes before `a`, in a cycle of `a`, `b`"),
            (2, "nobody provides `nobody`"),
            (4, "`a` comes before `b`, in a cycle of `a`, `b`"),
        ]
    );
}

#[test]
fn a_cycle_in_which_nothing_is_required_is_no_error() {
    let spec = read("[job.n.task.a]\nafter = ['b']\n[job.n.task.b]\nafter = ['a']\n").unwrap();
    assert_eq!(spec.flow.unwrap().tasks().len(), 2);
}

#[test]
fn a_command_and_tasks_exclude_each_other() {
    let wrong = read("[job.n]\ncommand = 'x'\n[job.n.task.a]\ncommand = 'y'\n").unwrap_err();
    assert!(wrong[0].what.contains("exclude each other"), "{wrong:?}");
}

#[test]
fn a_library_is_preloaded_for_flows_alone() {
    let spec = read("[job.n]\nflow = '/etc/rc.d'\npreload = '/etc/rc.subr'\n").unwrap();
    assert_eq!(spec.flow.unwrap().preload.as_deref(), Some("/etc/rc.subr"));
    let spec = read("[job.n]\npreload = '/etc/rc.subr'\n[job.n.task.a]\ncommand = 'x'\n").unwrap();
    assert_eq!(spec.flow.unwrap().preload.as_deref(), Some("/etc/rc.subr"));
    let wrong = read("[job.n]\ncommand = 'x'\npreload = '/etc/rc.subr'\n").unwrap_err();
    assert_eq!(wrong[0].what, "`preload` is for flows");
    assert!(read("[job.n]\nflow = '/etc/rc.d'\npreload = 'rc.subr'\n").is_err());
}

#[test]
fn the_pool_of_a_task_must_be_defined_and_have_a_place() {
    let job = "[job.n.task.a]\ncommand = 'x'\npool = 'disk'\n";
    let flow = read(&format!("[pool.disk]\nsize = 2\n{job}"))
        .unwrap()
        .flow
        .unwrap();
    assert_eq!(flow.tasks["a"].pool.as_deref(), Some("disk"));
    assert_eq!(flow.pools["disk"], 2);
    assert!(read(job).is_err(), "nobody defines it");
    let wrong = read(&format!("[pool.disk]\nsize = 0\n{job}")).unwrap_err();
    assert!(wrong[0].what.contains("has no place"), "{wrong:?}");
}

#[test]
fn a_directory_flow_says_what_the_options_of_flow_run_say() {
    let spec = read(
        "[job.n]\nflow = { dir = '/etc/rc.d', stop = true, skip = 'nostart', keep = ['a', 'b'], missing = 'warn', facilities = '/etc/f', extract = 'x -h', jobs = 3 }\n",
    )
    .unwrap();
    let flow = spec.flow.clone().unwrap();
    let words = |list: &[&str]| list.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>();
    let expected = crate::definition::Scripts {
        stop: true,
        skip: words(&["nostart"]),
        keep: words(&["a", "b"]),
        missing_warns: true,
        facilities: words(&["/etc/f"]),
        extract: Some("x -h".to_owned()),
        jobs: Some(3),
    };
    assert_eq!(
        (flow.dir.as_deref(), &flow.scripts),
        (Some("/etc/rc.d"), &expected)
    );
    let stored = serde_json::to_value(&spec).unwrap();
    assert_eq!(
        serde_json::from_value::<crate::definition::JobSpec>(stored).unwrap(),
        spec
    );
    let plain = serde_json::to_value(read("[job.n]\nflow = '/etc/rc.d'\n").unwrap()).unwrap();
    let keys: Vec<_> = plain["flow"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(
        keys,
        ["dir", "pools", "preload", "tasks"],
        "stored revisions stay as they are"
    );
}

#[test]
fn a_directory_flow_without_a_directory_or_with_no_task_at_a_time_is_refused() {
    let told = |text: &str| read(text).unwrap_err()[0].what.clone();
    assert_eq!(told("[job.n]\nflow = { stop = true }\n"), "`flow` has no `dir`");
    assert!(told("[job.n]\nflow = { dir = '/x', jobs = 0 }\n").contains("0 is out of range"));
    assert!(told("[job.n]\nflow = { dir = '/x', stp = true }\n").contains("stp"));
}
