//! Programs whose wall clock is another one: libfaketime's library without its program `faketime`, which fails where a
//! process that was killed left a semaphore of the same pid.

use std::path::Path;

/// The environment under which a program's wall clock differs by `offset`, e.g. `-5d`.
pub fn by(offset: &str) -> [(String, String); 2] {
    [preload(), ("FAKETIME".to_owned(), offset.to_owned())]
}

/// The environment under which a program's wall clock follows `file`, a line such as `+3600`. `refresh` says how often it is
/// read, as a variable of libfaketime.
pub fn following(file: &Path, refresh: (&str, &str)) -> Vec<(String, String)> {
    let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
    vec![
        preload(),
        ("FAKETIME_TIMESTAMP_FILE".to_owned(), file.display().to_string()),
        owned(refresh),
        owned(("FAKETIME_DONT_FAKE_MONOTONIC", "1")),
        owned(("DONT_FAKE_MONOTONIC", "1")),
        owned(("NO_FAKE_STAT", "1")),
    ]
}

fn preload() -> (String, String) {
    let places = [
        "/usr/lib/x86_64-linux-gnu",
        "/usr/lib/aarch64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
    ];
    let library = (places.iter())
        .map(|p| Path::new(p).join("faketime/libfaketime.so.1"))
        .find(|p| p.exists())
        .expect("this needs libfaketime: apt-get install faketime");
    ("LD_PRELOAD".to_owned(), library.display().to_string())
}
