//! The commands of guides are run as they stand there.

use std::fs;
use std::process::Stdio;
use std::time::Duration;

use farmhand_tests::guides::{blocks, shell};
use farmhand_tests::wait::eventually;

use super::fixture::write_script;

/// Each command of the guide runs; with `-n` a second call is refused meanwhile, else it comes after the first.
#[test]
fn the_guides_locks_keep_a_second_call_out() {
    let blocks = blocks("locks.md");
    assert_eq!(blocks.len(), 4);
    for block in blocks {
        let place = tempfile::tempdir().unwrap();
        let job =
            "#!/bin/sh\necho \"${FARMHAND_SLOT:-none}\" >> calls\nwhile ! [ -e go ]; do sleep 0.02; done\n";
        for name in ["backup", "import", "mail"] {
            write_script(place.path(), name, job);
        }
        let calls = || fs::read_to_string(place.path().join("calls")).unwrap_or_default();
        let run = || {
            let mut shell = shell(&block, place.path());
            shell.env("FARMHAND_LOCK_DIR", place.path());
            shell.spawn().unwrap()
        };
        let (refuses, seats) = (block.contains(" -n "), block.contains("=2"));
        let at_a_time = if seats { 2 } else { 1 };
        let mut first = run();
        eventually("it runs", Duration::from_secs(20), || {
            let calls = calls();
            (calls.lines().count() == at_a_time).then_some(()).ok_or(calls)
        });
        if seats {
            assert!(["1\n2\n", "2\n1\n"].contains(&calls().as_str()), "{}", calls());
        }
        let mut second = run();
        if refuses {
            assert_eq!(second.wait().unwrap().code(), Some(1), "{block}");
        }
        assert_eq!(calls().lines().count(), at_a_time, "{block}");
        fs::write(place.path().join("go"), "").unwrap();
        assert!(first.wait().unwrap().success(), "{block}");
        let code = second.wait().unwrap().code();
        let all = if refuses { 1 } else { 2 * at_a_time };
        assert_eq!(
            (code, calls().lines().count()),
            (Some(i32::from(refuses)), all),
            "{block}"
        );
    }
}

#[test]
fn both_wrappers_of_the_guide_keep_eight_workers() {
    let blocks = blocks("workers.md");
    assert_eq!(blocks.len(), 2, "the shell's and ours");
    for block in blocks {
        let place = tempfile::tempdir().unwrap();
        write_script(
            place.path(),
            "php",
            "#!/bin/sh\necho \"$@\" >> calls\nsleep 0.2\n",
        );
        let mut wrapper = shell(&block, place.path()).stderr(Stdio::null()).spawn().unwrap();
        eventually("each worker runs twice", Duration::from_secs(20), || {
            let calls = fs::read_to_string(place.path().join("calls")).unwrap_or_default();
            let twice = |n: i32| calls.lines().filter(|l| *l == format!("worker.php {n}")).count() >= 2;
            (0..8).all(twice).then_some(()).ok_or(calls)
        });
        // SAFETY: the group of a child that was not waited for.
        unsafe { libc::kill(-wrapper.id().cast_signed(), libc::SIGKILL) };
        wrapper.wait().unwrap();
    }
}

/// Each old loop and what stands for it call the same scripts in the same order; those of one number in any.
#[test]
fn the_loops_over_init_scripts_and_their_replacements_call_the_same() {
    let blocks = blocks("init-scripts.md");
    assert_eq!(blocks.len(), 4);
    let called = |block: &String| {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("rc2.d")).unwrap();
        let script = format!(
            "#!/bin/sh\necho \"${{0##*/}} $1\" >> {}/calls\n",
            place.path().display()
        );
        for name in ["S10disk", "S20mail", "S20net", "S30web", "K01web", "K05net"] {
            write_script(&place.path().join("rc2.d"), name, &script);
        }
        let mut shell = shell(block, place.path());
        shell.stdout(Stdio::null()).stderr(Stdio::null());
        assert!(shell.status().unwrap().success(), "{block}");
        let calls = fs::read_to_string(place.path().join("calls")).unwrap();
        let mut calls: Vec<String> = calls.lines().map(str::to_owned).collect();
        // The sort is stable: it orders what has one number, and nothing else.
        let numbers: Vec<String> = calls.iter().map(|call| call[..3].to_owned()).collect();
        assert!(numbers.is_sorted(), "{block}{calls:?}");
        calls.sort();
        calls
    };
    for pair in blocks.chunks(2) {
        assert_eq!(called(&pair[0]), called(&pair[1]), "{pair:?}");
    }
}
