use std::path::Path;

use farmhand_core::attempt::Signed;
use farmhand_core::definition::{Command, JobSpec};

use super::*;

fn spec(command: &str) -> JobSpec {
    JobSpec {
        command: Some(Command::Shell(command.to_owned())),
        ..JobSpec::default()
    }
}

fn key(name: &str) -> PrivateKey {
    let dir = tempfile::tempdir().unwrap();
    PrivateKey::create(name, &dir.path().join("key")).unwrap()
}

fn trusting(keys: &[&PrivateKey]) -> Trust {
    Trust::Keys {
        file: "/etc/k".to_owned(),
        keys: keys.iter().map(|k| k.public()).collect(),
    }
}

fn signed(key: &PrivateKey, job: &str, serial: u64, command: &str) -> Signed {
    key.sign(
        Document::new(job, serial, &spec(command))
            .unwrap()
            .text()
            .unwrap(),
    )
}

#[test]
fn what_a_trusted_key_signed_is_vouched_for_and_nothing_else_is() {
    let (alice, mallory) = (key("alice"), key("mallory"));
    let trust = trusting(&[&alice]);
    let good = signed(&alice, "a", 3, "true");
    let vouched = trust.check(Some(&good)).unwrap().unwrap();
    assert_eq!((vouched.serial, &vouched.spec), (3, &spec("true")));
    assert_eq!(trust.check(None), Err(Refused::Unsigned));
    let unknown = trust.check(Some(&signed(&mallory, "a", 3, "true"))).unwrap_err();
    assert!(
        unknown.to_string().starts_with("not signed by a trusted key"),
        "{unknown}"
    );
    // Another key's signature under a trusted name, another text, no base64, too short.
    let bad = Err(Refused::BadSignature {
        key: "alice".to_owned(),
    });
    let forged = Signed {
        key: "alice".to_owned(),
        ..signed(&mallory, "a", 3, "true")
    };
    assert_eq!(trust.check(Some(&forged)), bad);
    let altered = Signed {
        document: good.document.replace("true\"", "id\""),
        ..good.clone()
    };
    assert_ne!(altered.document, good.document);
    assert_eq!(trust.check(Some(&altered)), bad);
    for signature in ["", "AAAA", "?", &good.signature[1..]] {
        let cut = Signed {
            signature: signature.to_owned(),
            ..good.clone()
        };
        assert_eq!(trust.check(Some(&cut)), bad);
    }
    assert_eq!(Trust::Off.check(None), Ok(None));
}

#[test]
fn a_definition_that_differs_from_the_signed_one_does_not_fit() {
    let alice = key("alice");
    let vouched = trusting(&[&alice])
        .check(Some(&signed(&alice, "a", 1, "true")))
        .unwrap()
        .unwrap();
    let stored = |command| serde_json::to_value(spec(command)).unwrap();
    assert_eq!(vouched.fits("a", &stored("true")), Ok(()));
    assert!(matches!(
        vouched.fits("b", &stored("true")),
        Err(Refused::OtherJob { .. })
    ));
    assert!(matches!(
        vouched.fits("a", &stored("id")),
        Err(Refused::Altered { .. })
    ));
    assert!(matches!(
        vouched.fits("a", &serde_json::Value::Null),
        Err(Refused::Altered { .. })
    ));
}

#[test]
fn serials_only_grow_in_every_process_and_over_restarts() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seen");
    let (mut one, mut other) = (Seen::new(path.clone()), Seen::new(path.clone()));
    assert_eq!(one.note("a", 5), Ok(()));
    assert_eq!(other.note("a", 4), Err(Refused::Older { serial: 4, seen: 5 }));
    assert_eq!(other.note("a", 5), Ok(()));
    assert_eq!(other.note("a", 9), Ok(()));
    assert_eq!(one.note("a", 8), Err(Refused::Older { serial: 8, seen: 9 }));
    assert_eq!(one.note("b", 1), Ok(()));
    assert_eq!(other.note("b", 0), Err(Refused::Older { serial: 0, seen: 1 }));
    assert!(Seen::new(path.clone()).note("a", 1).is_err());
    // Taken away: whoever is there still knows.
    std::fs::remove_file(&path).unwrap();
    assert!(one.note("a", 1).is_err());
    std::fs::write(&path, "rubbish\n").unwrap();
    assert!(matches!(one.note("a", 10), Err(Refused::Memory { .. })));
    assert!(matches!(one.note("a b", 10), Err(Refused::Memory { .. })));
}

#[test]
fn serials_that_were_only_seen_are_noted_in_a_set_and_never_lower_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("seen");
    let mut seen = Seen::new(path.clone());
    let set = |pairs: &[(&str, u64)]| -> Vec<(String, u64)> {
        pairs.iter().map(|(job, n)| ((*job).to_owned(), *n)).collect()
    };
    seen.note_all(&set(&[("a", 5), ("b", 2), ("c d", 9), ("a", 7), ("a", 6)]))
        .unwrap();
    seen.note_all(&set(&[("a", 3), ("b", 4)])).unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "7 a\n4 b\n");
    let mut later = Seen::new(path.clone());
    assert_eq!(later.note("a", 6), Err(Refused::Older { serial: 6, seen: 7 }));
    assert_eq!(later.note("b", 4), Ok(()));
    // What can be kept nowhere is not known either.
    let mut nowhere = Seen::new(dir.path().join("no/such/place"));
    assert!(nowhere.note_all(&set(&[("a", 1)])).is_err());
    assert!(
        nowhere
            .note("a", 0)
            .is_err_and(|e| matches!(e, Refused::Memory { .. }))
    );
}

#[test]
fn a_list_of_keys_is_read_line_by_line_and_says_what_is_wrong() {
    let alice = key("alice");
    let line = alice.public().line();
    assert_eq!(
        keys::list(&format!("# people\n\n{line}\n")).unwrap(),
        [alice.public()]
    );
    for (text, why) in [
        (format!("{line}\n{line}\n"), "two keys"),
        ("farmhand-ed25519 a AAAA\n".to_owned(), "32 bytes"),
        ("ssh-ed25519 a AAAA\n".to_owned(), "line 1"),
        ("farmhand-ed25519 a/b AAAA\n".to_owned(), "name"),
        ("farmhand-ed25519-private a AAAA\n".to_owned(), "private"),
    ] {
        let said = keys::list(&text).unwrap_err();
        assert!(said.contains(why), "{text}: {said}");
    }
}

#[test]
fn a_private_key_that_others_can_read_is_not_used() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("key");
    let made = PrivateKey::create("alice", &path).unwrap();
    assert_eq!(
        std::fs::metadata(&path).unwrap().permissions().mode() & 0o777,
        0o600
    );
    assert_eq!(PrivateKey::read(&path).unwrap().public(), made.public());
    assert!(
        PrivateKey::create("alice", &path).is_err(),
        "it overwrites nothing"
    );
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o640)).unwrap();
    assert!(PrivateKey::read(&path).unwrap_err().contains("0640"));
    assert!(!format!("{made:?}").contains("=="));
}

#[test]
fn a_list_that_others_may_change_lets_nothing_run() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trusted-keys");
    let alice = key("alice");
    std::fs::write(&path, alice.public().line()).unwrap();
    let good = signed(&alice, "a", 1, "true");
    assert!(Trust::now(Some(&path)).check(Some(&good)).is_ok());
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o666)).unwrap();
    let refused = Trust::now(Some(&path)).check(Some(&good)).unwrap_err();
    assert!(refused.to_string().contains("0666"), "{refused}");
    assert!(
        Trust::now(Some(Path::new("/no/such/keys")))
            .check(Some(&good))
            .is_err()
    );
}
