//! A list of trusted keys, a FILE.sig, and definitions that a trusted key signed and somebody then changed.

use std::sync::OnceLock;

use farmhand_core::attempt::Signed;
use farmhand_core::definition::{Command, JobSpec};
use farmhand_policy::trust::parse_signatures as signatures;
use farmhand_policy::trust::{Document, PrivateKey, Trust, keys};

use super::input::{number, parts, text};

pub fn run(data: &[u8]) {
    let parts = parts(data, 4);
    listed(text(parts[0]));
    beside(text(parts[1]));
    altered(text(parts[2]), parts[3]);
}

/// A list of keys that is read is written as it is read.
fn listed(list: &str) {
    match keys::list(list) {
        Ok(keys) => {
            let lines: Vec<String> = keys.iter().map(keys::PublicKey::line).collect();
            assert_eq!(keys::list(&lines.join("\n")), Ok(keys.clone()));
            for key in &keys {
                assert_eq!(keys::named(key.name()), Ok(key.name().to_owned()));
            }
        }
        Err(why) => {
            let line = why.strip_prefix("line ").and_then(|rest| rest.split_once(':'));
            let line: usize = line
                .and_then(|(n, _)| n.parse().ok())
                .expect("it says in which line");
            assert!((1..=list.lines().count()).contains(&line), "{why}");
        }
    }
}

/// What a file beside a job file says is looked for by job, and vouched for by nobody here.
fn beside(file: &str) {
    let Ok(found) = signatures(file) else { return };
    for (job, (document, signed)) in found {
        assert_eq!(job, document.job);
        assert_eq!(Document::parse(&signed.document).as_ref(), Ok(&document));
        let vouched = trust().check(Some(&signed));
        assert!(vouched.is_err(), "nobody signed {signed:?}");
    }
}

fn key() -> &'static PrivateKey {
    static KEY: OnceLock<PrivateKey> = OnceLock::new();
    KEY.get_or_init(|| {
        let file = std::env::temp_dir().join(format!("farmhand-fuzz-{}.key", std::process::id()));
        let key = PrivateKey::create("alice", &file).expect("a key");
        std::fs::remove_file(&file).expect("its file");
        key
    })
}

fn trust() -> Trust {
    Trust::Keys {
        file: "/etc/keys".to_owned(),
        keys: vec![key().public()],
    }
}

/// Only what was signed is vouched for, whatever is done to text, name and signature.
fn altered(command: &str, change: &[u8]) {
    let spec = JobSpec {
        command: Some(Command::Shell(command.to_owned())),
        ..JobSpec::default()
    };
    let serial = number(change);
    let document = Document::new("job", serial, &spec).expect("a document");
    let good = key().sign(document.text().expect("its text"));
    let vouched = trust()
        .check(Some(&good))
        .expect("it is signed")
        .expect("by a trusted key");
    assert_eq!(
        (vouched.job.as_str(), vouched.serial, &vouched.spec),
        ("job", serial, &spec)
    );
    let stored = serde_json::to_value(&spec).expect("JSON");
    assert_eq!(vouched.fits("job", &stored), Ok(()));
    let [field, at, tail @ ..] = change else { return };
    let mut bad = good.clone();
    let changed = match field % 3 {
        0 => &mut bad.document,
        1 => &mut bad.signature,
        _ => &mut bad.key,
    };
    *changed = spliced(changed, usize::from(*at) * 8 % (changed.len() + 1), tail);
    match trust().check(Some(&bad)) {
        Ok(vouched) => {
            assert_eq!(
                (&bad.document, &bad.key),
                (&good.document, &good.key),
                "what was not signed is vouched for"
            );
            assert_eq!(vouched.map(|v| v.spec).as_ref(), Some(&spec));
        }
        Err(why) => assert_ne!(bad, good, "{why}"),
    }
    let unsigned = Signed {
        signature: String::new(),
        ..good
    };
    assert!(trust().check(Some(&unsigned)).is_err());
    assert!(trust().check(None).is_err());
}

/// The text with some bytes from `at` on replaced, where that leaves a text.
fn spliced(text: &str, at: usize, with: &[u8]) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let until = bytes.len().min(at + with.len());
    bytes.splice(at..until, with.iter().copied());
    String::from_utf8(bytes).unwrap_or_else(|_| format!("{text} "))
}
