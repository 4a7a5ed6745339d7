use crate::definition::load;
use crate::document::{Located, Source};

fn mistakes(keys: &str) -> Vec<Located> {
    let source = Source {
        name: "j".to_owned(),
        text: format!("[job.a]\n{keys}\n"),
    };
    load(&[source]).map_or_else(|mistakes| mistakes.located(), |_| Vec::new())
}

#[test]
fn each_mistake_about_a_kind_of_job_names_its_place_and_its_mend() {
    let cases = [
        (
            "command = ['x']\nidle_exit = 250",
            (3, 1),
            "`idle_exit` is for continuous jobs",
            "@continuous",
        ),
        (
            "command = ['x']\nschedule = '@continuous'\nidle_exit = [0]",
            (4, 14),
            "0",
            "from 1 to 255",
        ),
        (
            "command = ['x']\nschedule = '@continuous'\nend = '2027-01-01'",
            (4, 1),
            "`end` has no meaning for a continuous job",
            "pause",
        ),
        (
            "command = ['x']\nschedule = '@Continuous'\ntriggered_by = 'b'",
            (4, 1),
            "`triggered_by` and @continuous exclude each other",
            "keep one of them",
        ),
        (
            "command = ['x']\nschedule = '@continuous'\nrun_on = 'each-node'",
            (4, 1),
            "a continuous job has `instances`",
            "`where`",
        ),
        ("command = ['x']\ninstances = 0", (3, 13), "0", "from 1 to 10000"),
        (
            "command = ['x']\nchild_limits = [{ max_age = '1m' }]",
            (3, 17),
            "a limit without a `name`",
            "wget",
        ),
        (
            "command = ['x']\nchild_limits = [{ name = 'wget' }]",
            (3, 17),
            "neither `max_age` nor `max_memory`",
            "how old or how large",
        ),
        (
            "command = ['x']\nchild_limits = [{ name = '/bin/wget', max_age = '1m' }]",
            (3, 26),
            "it is a name, not a path",
            "ps -o comm",
        ),
        (
            "command = ['x']\nprogress_timeout = '0s'",
            (3, 20),
            "longer than nothing",
            "",
        ),
        (
            "command = ['x']\nschedule = '@continuous'\noverlap = 'queue'",
            (4, 1),
            "`overlap` has no meaning for a continuous job",
            "leave it out",
        ),
        (
            "command = ['x']\nschedule = ['@continuous', '0 4 * * *']",
            (3, 1),
            "@continuous stands alone",
            "two jobs",
        ),
    ];
    for (keys, place, what, fix) in cases {
        let found = mistakes(keys);
        let fits = |l: &Located| (l.line, l.column) == place && l.what.contains(what) && l.fix.contains(fix);
        assert!(found.iter().any(fits), "{keys}: {found:#?}");
    }
}

#[test]
fn a_continuous_job_backs_off_from_a_second_unless_it_says_otherwise() {
    let spec = |keys: &str| {
        let source = Source {
            name: "j".to_owned(),
            text: format!("[job.a]\ncommand = ['x']\n{keys}\n"),
        };
        load(&[source]).unwrap().remove(0).spec
    };
    let plain = spec("schedule = '@continuous'");
    assert!(plain.is_continuous());
    assert_eq!((plain.retry.base.as_secs(), plain.retry.cap.as_secs()), (1, 300));
    let own = spec("schedule = '@continuous'\nretry = { base = '7s' }\nidle_exit = 7");
    assert_eq!((own.retry.base.as_secs(), own.idle_exit), (7, vec![7]));
    let source = Source {
        name: "j".to_owned(),
        text: "[defaults]\noverlap = 'queue'\n[job.a]\ncommand = ['x']\nschedule = '@continuous'\n"
            .to_owned(),
    };
    assert!(load(&[source]).is_ok(), "what it inherits is for the others");
    assert_eq!(spec("schedule = '@daily'").retry.base.as_secs(), 10);
}

#[test]
fn a_job_that_nothing_triggers_may_inherit_trigger_on() {
    let source = Source {
        name: "j".to_owned(),
        text: "[defaults]\ntrigger_on = 'finish'\n[job.a]\ncommand = 'x'\n[job.b]\ncommand = 'x'\ntriggered_by = 'a'\n"
            .to_owned(),
    };
    assert!(load(&[source]).is_ok());
}

#[test]
fn a_default_that_json_has_not_is_refused_and_a_long_one_is_as_the_database_gives_it_back() {
    let keys =
        |value: &str| format!("command = ['x']\nparams = {{ n = {{ type = 'number', default = {value} }} }}");
    for value in ["nan", "inf", "-inf", "1e400"] {
        let found = mistakes(&keys(value));
        assert_eq!(found.len(), 1, "{value}: {found:?}");
    }
    let source = Source {
        name: "j".to_owned(),
        text: format!("[job.a]\n{}\n", keys("1e16")),
    };
    let spec = load(&[source]).unwrap().remove(0).spec;
    assert_eq!(
        spec.params["n"].default,
        Some(serde_json::json!(10_000_000_000_000_000_u64))
    );
}
