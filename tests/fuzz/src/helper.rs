//! Messages to the helper, one to a line, from an agent without rights that somebody else has taken over.
//!
//! Whatever it is asked for, it removes directories of attempts and nothing else, opens records that are the job's own, and
//! shows the files that root named.

use std::cell::RefCell;
use std::fs;
use std::io::Read;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use farmhand_warden::helper::fuzzing::Captive as CaptiveHelper;
use farmhand_warden_client::Paths;
use farmhand_warden_client::wire::AttemptId;

const SECRET: &str = "nobody's business";
const RECORD: &str = "the job's own";
const NAMED: &str = "a file that root named";

pub fn run(data: &[u8]) {
    thread_local! {
        static NODE: RefCell<Node> = RefCell::new(Node::new());
    }
    NODE.with_borrow_mut(|node| {
        node.prepare();
        for message in data.split(|byte| *byte == b'\n').take(50) {
            node.ask(message);
        }
        node.check();
    });
}

struct Node {
    base: PathBuf,
    helper: CaptiveHelper,
}

impl Drop for Node {
    fn drop(&mut self) {
        // What is left in a directory for such things is no reason to fail.
        let _ = fs::remove_dir_all(&self.base);
    }
}

impl Node {
    fn new() -> Self {
        let base = std::env::temp_dir().join(format!("farmhand-fuzz-helper-{}", std::process::id()));
        for dir in ["state", "outside"] {
            fs::create_dir_all(base.join(dir)).expect("a directory");
        }
        fs::write(base.join("outside/record"), SECRET).expect("a file");
        fs::write(base.join("named"), NAMED).expect("a file");
        let helper = CaptiveHelper::new(base.join("state"), base.join("named")).expect("a helper");
        Self { base, helper }
    }

    /// One attempt with a record, and two whose jobs have put links in its place.
    fn prepare(&self) {
        let paths = Paths::new(&self.base.join("state"));
        let dir = |attempt| paths.run_dir(AttemptId { run_id: 1, attempt });
        if !dir(1).exists() {
            fs::create_dir_all(dir(1).join("flow")).expect("a directory");
            fs::write(dir(1).join("flow/record"), RECORD).expect("a file");
        }
        if !dir(2).exists() {
            fs::create_dir_all(dir(2)).expect("a directory");
            symlink(self.base.join("outside"), dir(2).join("flow")).expect("a link");
            fs::create_dir(dir(2).join("stream")).expect("a directory");
            symlink(self.base.join("outside/record"), dir(2).join("stream/record")).expect("a link");
        }
    }

    fn ask(&mut self, message: &[u8]) {
        let Some((reply, file)) = self.helper.answer(message).expect("an answer") else {
            return;
        };
        assert!(!reply.contains(SECRET), "{reply}");
        assert!(!reply.contains("\"type\":\"connected\""), "nobody lives: {reply}");
        if let Some(mut file) = file {
            let mut text = String::new();
            file.read_to_string(&mut text).expect("a record is text");
            assert_eq!(text, RECORD);
        }
    }

    /// Nothing outside of its directory has changed.
    fn check(&self) {
        let read = |name: &str| fs::read_to_string(self.base.join(name)).unwrap_or_default();
        assert_eq!(read("outside/record"), SECRET);
        assert_eq!(read("named"), NAMED);
        assert_eq!(names(&self.base), ["named", "outside", "state"]);
        assert_eq!(names(&self.base.join("outside")), ["record"]);
    }
}

fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("a directory");
    let mut names: Vec<String> = entries
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    names.sort();
    names
}
