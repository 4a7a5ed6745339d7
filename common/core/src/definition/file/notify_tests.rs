use crate::definition::{Definitions, load_all};
use crate::document::{Located, Source};
use crate::notify::{Channel, Format, Topic};

fn read(text: &str) -> Result<Definitions, Vec<Located>> {
    let source = Source {
        name: "j.toml".to_owned(),
        text: text.to_owned(),
    };
    load_all(&[source]).map_err(|mistakes| mistakes.located())
}

fn mistake(text: &str) -> Located {
    let mut found = read(text).expect_err(text);
    assert_eq!(found.len(), 1, "{text}: {found:#?}");
    found.remove(0)
}

#[test]
fn a_job_names_its_targets_and_may_inherit_them() {
    let all = read(
        "[defaults]\nnotify = 'ops'\n[notify.ops]\nwebhook = 'https://h/x'\nemail = ['a@b', 'c@d']\n\
         [notify.night]\nwebhook_file = 'night.url'\nheaders_file = 'night.headers'\non = ['recovery', 'failure']\n\
         [job.a]\ncommand = 'x'\nnotify = ['ops', 'night']\n[job.b]\ncommand = 'x'\n",
    )
    .unwrap();
    assert_eq!(all.jobs[0].spec.notify, ["night", "ops"]);
    assert_eq!(all.jobs[1].spec.notify, ["ops"]);
    let [night, ops] = &all.targets[..] else {
        panic!("{:?}", all.targets);
    };
    assert_eq!(night.spec.on, [Topic::Failure, Topic::Recovery]);
    assert!(!night.spec.wants(Topic::Deadline) && night.spec.wants(Topic::Test));
    assert_eq!(ops.spec.on, Topic::CHOSEN);
    assert_eq!(ops.spec.channels(), [Channel::Webhook, Channel::Email]);
}

#[test]
fn an_unknown_target_is_shown_where_it_is_named() {
    let found = mistake("[notify.ops]\nemail = 'a@b'\n[job.a]\ncommand = 'x'\nnotify = [\"opps\"]\n");
    assert_eq!((found.line, found.column), (5, 11));
    assert_eq!(found.what, "`notify`: there is no target \"opps\"");
    assert_eq!(found.fix, "did you mean \"ops\"?");
    let found = mistake("[job.a]\ncommand = 'x'\nnotify = 'ops'\n");
    assert!(found.fix.contains("[notify.ops]"), "{}", found.fix);
}

#[test]
fn a_target_that_could_not_work_is_refused() {
    for (text, what) in [
        (
            "webhook = 'hooks.example/x'",
            "`webhook`: it does not begin with https:// or http://",
        ),
        (
            "webhook = 'https://u:p@h/'",
            "`webhook`: it holds a user or a password: they belong into `headers_file`",
        ),
        (
            "webhook_file = '/etc/shadow'",
            "`webhook_file`: not a plain file name",
        ),
        ("webhook_file = '../x'", "`webhook_file`: not a plain file name"),
        (
            "email = 'Ops <a@b>'",
            "`email`: it holds characters that no plain address has; a display name is not wanted",
        ),
        (
            "email = 'a@b'\non = []",
            "`on`: it is empty, so nothing would ever be sent",
        ),
        (
            "webhook = 'https://h'\nwebhook_file = 'x'",
            "`webhook` and `webhook_file` exclude each other",
        ),
        ("email = 'a@b'\nformat = 'slack'", "`format` without a webhook"),
        (
            "email = 'a@b'\nheaders_file = 'x'",
            "`headers_file` without a webhook",
        ),
        ("on = 'failure'", "target `ops` leads nowhere"),
        ("email = []", "target `ops` leads nowhere"),
    ] {
        let found = mistake(&format!("[notify.ops]\n{text}\n"));
        assert_eq!(found.what, what, "{text}");
    }
    let found = mistake("[notify.ops]\nemail = 'a@b'\non = ['failed']\n");
    assert!(found.what.contains("failed"), "{}", found.what);
    let found = mistake("[notify]\nops = 'https://h'\n");
    assert_eq!(found.what, "target `ops`: expected a table");
}

#[test]
fn a_target_may_name_each_service_that_has_a_form() {
    for format in Format::ALL {
        let all = read(&format!(
            "[notify.ops]\nwebhook = 'https://h/x'\nformat = '{format}'\n"
        ))
        .unwrap();
        assert_eq!(all.targets[0].spec.format, Some(*format));
    }
}

#[test]
fn a_secret_url_is_not_repeated_in_a_mistake() {
    let found = mistake("[notify.ops]\nwebhook = 'https://h:x/geheim'\n");
    assert!(!format!("{found:?}").contains("geheim"), "{found:?}");
}

#[test]
fn the_example_is_taken() {
    let file = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../deploy/examples/notify/ops.toml"
    );
    let all = read(&std::fs::read_to_string(file).unwrap()).unwrap();
    assert_eq!((all.jobs.len(), all.targets.len()), (2, 2));
}
