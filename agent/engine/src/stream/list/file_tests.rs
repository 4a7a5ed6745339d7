use std::fs::OpenOptions;
use std::io::Write;
use std::path::PathBuf;

use farmhand_core::stream::{Course, Line, Step};
use tempfile::TempDir;

use super::*;

/// A file that a test writes to, and the moments at which it is looked at.
struct Bench {
    dir: TempDir,
    now: Instant,
}

impl Bench {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().expect("a temporary directory"),
            now: Instant::now(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("list")
    }

    fn append(&self, text: &str) {
        let mut file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.path())
            .expect("the list");
        file.write_all(text.as_bytes()).expect("it takes more");
    }

    fn list(&self, follow: Follow, from: &Checkpoint) -> Growing {
        Growing::new(&self.path().to_string_lossy(), follow, from, self.now)
    }

    /// All that is there at this moment.
    fn lines(&self, list: &mut Growing, course: &mut Course) -> (Vec<String>, Next) {
        let mut lines = Vec::new();
        loop {
            match list.next(self.now) {
                Next::Line(read) => {
                    if let Step::Run(number) = course.read(read.end, read.mark) {
                        course.succeeded(number);
                    }
                    let Line::Whole(line) = read.line else {
                        panic!("{read:?}")
                    };
                    lines.push(String::from_utf8(line).expect("text"));
                }
                // It has more at once.
                Next::Later if list.wake() <= self.now => {}
                other => return (lines, other),
            }
        }
    }

    fn later(&mut self, by: Duration) {
        self.now += by;
    }
}

fn course() -> Course {
    Course::new(&Checkpoint::default(), &[])
}

fn why(next: Next) -> String {
    let Next::Broken(why) = next else {
        panic!("{next:?}")
    };
    why
}

#[test]
fn a_list_is_read_to_its_end_with_the_line_that_lacks_a_newline() {
    let (bench, mut course) = (Bench::new(), course());
    bench.append("one\ntwo\nthree");
    let read = bench.lines(&mut bench.list(Follow::No, &Checkpoint::default()), &mut course);
    assert_eq!(
        read,
        (vec!["one".into(), "two".into(), "three".into()], Next::End)
    );
    assert_eq!((course.checkpoint().line, course.checkpoint().at), (4, 13));
}

#[test]
fn a_growing_list_is_waited_for_and_half_lines_wait_for_their_newline() {
    let (mut bench, mut course) = (Bench::new(), course());
    let mut list = bench.list(Follow::For { ms: 60_000 }, &Checkpoint::default());
    assert_eq!(bench.lines(&mut list, &mut course), (vec![], Next::Later));
    assert!(list.waits().is_some_and(|what| what.contains("not there yet")));
    for (text, lines) in [("one\ntw", vec!["one"]), ("o", vec![]), ("\nthr", vec!["two"])] {
        bench.append(text);
        bench.later(LOOK);
        let (found, next) = bench.lines(&mut list, &mut course);
        assert_eq!(
            (found, next),
            (lines.iter().map(|l| (*l).to_owned()).collect(), Next::Later)
        );
    }
    assert_eq!(list.waits(), None);
    // When it is over, the half line is one too.
    bench.later(Duration::from_secs(60) + REST);
    assert_eq!(
        bench.lines(&mut list, &mut course),
        (vec!["thr".into()], Next::End)
    );
}

#[test]
fn another_attempt_goes_on_at_the_checkpoint_wherever_the_lines_end() {
    let (bench, mut first) = (Bench::new(), course());
    bench.append(&format!("{}\nb\nc\n", "a".repeat(200)));
    let mut list = bench.list(Follow::No, &Checkpoint::default());
    let Next::Line(read) = list.next(bench.now) else {
        panic!("a line")
    };
    first.read(read.end, read.mark);
    first.succeeded(1);
    let from = first.checkpoint();
    let mut second = Course::new(&from, &[]);
    let read = bench.lines(&mut bench.list(Follow::No, &from), &mut second);
    assert_eq!(read, (vec!["b".into(), "c".into()], Next::End));
}

#[test]
fn what_is_not_the_list_any_more_is_told_apart() {
    let (mut bench, mut first) = (Bench::new(), course());
    bench.append("one\ntwo\n");
    bench.lines(&mut bench.list(Follow::No, &Checkpoint::default()), &mut first);
    let done = first.checkpoint();
    let again = |bench: &Bench| why(bench.list(Follow::No, &done).next(bench.now));
    std::fs::write(bench.path(), "one\n").expect("the list");
    assert!(
        again(&bench).contains("shrank to 4 bytes after 8"),
        "{}",
        again(&bench)
    );
    std::fs::write(bench.path(), "one\nTWO\nthree\n").expect("the list");
    assert!(again(&bench).contains("is another list"), "{}", again(&bench));
    std::fs::remove_file(bench.path()).expect("it goes");
    assert!(
        again(&bench).contains("has vanished; 2 of its lines"),
        "{}",
        again(&bench)
    );
    let none = why(bench.list(Follow::No, &Checkpoint::default()).next(bench.now));
    assert!(none.contains("does not exist"), "{none}");
    std::fs::create_dir(bench.path()).expect("a directory");
    let dir = why(bench.list(Follow::No, &Checkpoint::default()).next(bench.now));
    assert!(dir.contains("is not a file"), "{dir}");
    std::fs::remove_dir(bench.path()).expect("it goes");
    let mut late = bench.list(Follow::For { ms: 0 }, &Checkpoint::default());
    bench.later(REST);
    let never = why(late.next(bench.now));
    assert!(never.contains("has not appeared"), "{never}");
}

#[test]
fn a_list_that_changes_while_it_is_followed_ends_what_follows_it() {
    for change in ["shrink", "rewrite", "rotate", "vanish"] {
        let (mut bench, mut course) = (Bench::new(), course());
        bench.append("one\ntwo\nhal");
        let mut list = bench.list(Follow::ForEver, &Checkpoint::default());
        assert_eq!(bench.lines(&mut list, &mut course).0.len(), 2);
        let aside = bench.dir.path().join("aside");
        let (expected, left): (&str, &[&str]) = match change {
            "shrink" => ("shrank to 4 bytes", &[]),
            "rewrite" => ("was changed in what had been read", &[]),
            "rotate" => ("was replaced by another file", &["half", "last"]),
            _ => ("has vanished; what was in it is done", &["hal"]),
        };
        match change {
            "shrink" => std::fs::write(bench.path(), "one\n").expect("the list"),
            "rewrite" => std::fs::write(bench.path(), "oNe\ntwo\nhalf\n").expect("the list"),
            _ => std::fs::rename(bench.path(), &aside).expect("it is moved"),
        }
        if change == "rotate" {
            bench.append("new\n");
            let mut old = OpenOptions::new().append(true).open(&aside).expect("the old one");
            old.write_all(b"f\nlast\n").expect("it takes more");
        }
        bench.later(LOOK);
        let (lines, next) = bench.lines(&mut list, &mut course);
        assert_eq!(lines, left, "{change}");
        assert!(why(next).contains(expected), "{change}");
    }
}

#[test]
fn a_half_line_of_a_list_that_cannot_be_looked_at_waits_for_another_attempt() {
    let (mut bench, mut course) = (Bench::new(), course());
    bench.append("one\nhal");
    let mut list = bench.list(Follow::ForEver, &Checkpoint::default());
    assert_eq!(bench.lines(&mut list, &mut course).0, ["one"]);
    let aside = bench.dir.path().with_extension("aside");
    std::fs::rename(bench.dir.path(), &aside).expect("the directory is moved");
    std::fs::write(bench.dir.path(), "").expect("something else is there");
    bench.later(LOOK);
    let (lines, next) = bench.lines(&mut list, &mut course);
    std::fs::remove_file(bench.dir.path()).expect("it goes");
    std::fs::rename(&aside, bench.dir.path()).expect("the directory is back");
    assert_eq!(lines, Vec::<String>::new());
    assert!(why(next).contains("cannot be looked at"));
    bench.append("f\n");
    let from = course.checkpoint();
    let mut second = Course::new(&from, &[]);
    let rest = bench.lines(&mut bench.list(Follow::No, &from), &mut second);
    assert_eq!(rest, (vec!["half".into()], Next::End));
}
