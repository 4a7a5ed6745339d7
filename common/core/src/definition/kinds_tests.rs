use super::load;
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
