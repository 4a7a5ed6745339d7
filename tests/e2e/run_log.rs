//! Output of runs on its way to journald or syslog.

use std::collections::{HashMap, HashSet};
use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, FarmBuilder, SOON};
use tempfile::TempDir;

/// What journald does with its socket, as far as agents can tell.
struct Journal {
    dir: TempDir,
    socket: Option<UnixDatagram>,
    entries: Vec<Entry>,
}

type Entry = HashMap<String, Vec<u8>>;

impl Journal {
    fn new() -> Self {
        let mut journal = Self::absent();
        journal.listen();
        journal
    }

    /// Not started yet.
    fn absent() -> Self {
        let dir = tempfile::Builder::new()
            .prefix("fh-log-")
            .tempdir_in("/tmp")
            .unwrap();
        Self {
            dir,
            socket: None,
            entries: Vec::new(),
        }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("socket")
    }

    fn listen(&mut self) {
        let _ = std::fs::remove_file(self.path());
        let socket = UnixDatagram::bind(self.path()).unwrap();
        // As long as datagrams keep coming: the kernel's queue may have room for ten of them only.
        socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        self.socket = Some(socket);
    }

    /// Agents that send their lines here.
    fn farm(&self, format: &str) -> FarmBuilder {
        Farm::new().arguments(&["--run-log", &format!("{format}:{}", self.path().display())])
    }

    fn datagrams(&mut self) -> Vec<Vec<u8>> {
        let mut buffer = vec![0; 256 << 10];
        let mut found = Vec::new();
        let Some(socket) = &self.socket else {
            return found;
        };
        while let Ok(length) = socket.recv(&mut buffer) {
            found.push(buffer[..length].to_vec());
        }
        found
    }

    /// Takes in what has been sent, as journald reads it.
    fn read(&mut self) -> &[Entry] {
        let new: Vec<Entry> = self.datagrams().iter().map(|d| fields(d)).collect();
        self.entries.extend(new);
        &self.entries
    }

    /// The lines of a run so far, without those that the agent itself adds.
    fn lines(&mut self, run: i64) -> Vec<String> {
        let run = run.to_string();
        let of_run = self.read().iter().filter(|e| text(e, "FARMHAND_RUN") == run);
        of_run.map(|e| text(e, "MESSAGE")).collect()
    }
}

fn fields(mut datagram: &[u8]) -> Entry {
    let mut entry = Entry::new();
    while !datagram.is_empty() {
        let line = datagram
            .iter()
            .position(|b| *b == b'\n')
            .expect("a field ends with a newline");
        let (field, rest) = (&datagram[..line], &datagram[line + 1..]);
        let (name, value, rest) = match field.iter().position(|b| *b == b'=') {
            Some(at) => (&field[..at], &field[at + 1..], rest),
            None => {
                let length = u64::from_le_bytes(*rest.first_chunk().unwrap()) as usize;
                (field, &rest[8..8 + length], &rest[8 + length + 1..])
            }
        };
        let name = String::from_utf8(name.to_vec()).unwrap();
        assert!(entry.insert(name, value.to_vec()).is_none(), "a field twice");
        datagram = rest;
    }
    entry
}

fn text(entry: &Entry, field: &str) -> String {
    String::from_utf8_lossy(entry.get(field).map_or(&[][..], Vec::as_slice)).into_owned()
}

/// Waits until the run's last line is there; all of its lines.
async fn until(farm: &Farm, journal: &mut Journal, run: i64, last: &str) -> Vec<String> {
    farm.eventually("its lines are in the journal", SOON, async || {
        let lines = journal.lines(run);
        match lines.last() {
            Some(line) if line == last => Ok(lines),
            other => Err(format!("{} lines, the last one {other:?}", lines.len())),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn each_line_of_a_run_reaches_the_journal_with_job_run_attempt_and_node() {
    let mut journal = Journal::new();
    let script = r"printf 'one\n\n\033[1mbold\033[0m\tü \377\n'; echo oops >&2; head -c 100000 /dev/zero | tr '\0' x; echo; printf end";
    let farm = journal.farm("journald").agents(2).prepare().await;
    let mut farm = farm;
    farm.apply(&format!(
        "[job.says]\ncommand = '''{script}'''\nretry = {{ max = 1 }}\n"
    ));
    farm.start_agents().await;
    let run = farm.submit("says").await;
    let node = {
        farm.succeeds(run).await;
        farm.run(run).await.running_at.expect("it ran somewhere")
    };
    until(&farm, &mut journal, run, "end").await;
    let entries = journal.read();
    for entry in entries {
        assert_eq!(text(entry, "FARMHAND_JOB"), "says");
        assert_eq!(text(entry, "FARMHAND_RUN"), run.to_string());
        assert_eq!(text(entry, "FARMHAND_ATTEMPT"), "1");
        assert!(text(entry, "TRACEPARENT").starts_with("00-"), "{entry:?}");
        assert_eq!(text(entry, "FARMHAND_NODE"), node);
        assert_eq!(text(entry, "SYSLOG_IDENTIFIER"), "farmhand/says");
        assert!(text(entry, "FARMHAND_TIME").ends_with('Z'), "{entry:?}");
    }
    let of = |stream: &str| -> Vec<&Entry> {
        let of_stream = entries.iter().filter(|e| text(e, "FARMHAND_STREAM") == stream);
        of_stream.collect()
    };
    let (out, err) = (of("stdout"), of("stderr"));
    assert_eq!(err.len(), 1);
    assert_eq!(
        (text(err[0], "MESSAGE"), text(err[0], "PRIORITY")),
        ("oops".into(), "4".into())
    );
    assert_eq!(out[0]["MESSAGE"], b"one");
    assert_eq!(out[1]["MESSAGE"], b"");
    assert_eq!(out[2]["MESSAGE"], b"\x1b[1mbold\x1b[0m\t\xc3\xbc \xff");
    assert_eq!(text(out[0], "PRIORITY"), "6");
    let long: Vec<(usize, bool)> = (out[3..out.len() - 1].iter())
        .map(|e| (e["MESSAGE"].len(), e.contains_key("FARMHAND_GOES_ON")))
        .collect();
    assert_eq!(
        long,
        [(48 << 10, true), (48 << 10, true), (100_000 - (96 << 10), false)]
    );
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_takes_over_the_warden_goes_on_where_the_killed_one_stopped() {
    let mut journal = Journal::new();
    let mut farm = journal
        .farm("journald")
        .ttl(CALM)
        .jobs("[job.counts]\ncommand = 'for i in $(seq 1 40); do echo line $i; sleep 0.1; done; echo rest'\n")
        .start()
        .await;
    let run = farm.submit("counts").await;
    farm.eventually("some lines are in the journal", SOON, async || {
        match journal.lines(run).len() {
            few @ 0..10 => Err(format!("{few}")),
            _ => Ok(()),
        }
    })
    .await;
    farm.agents[0].kill();
    farm.agents[0].start().await;
    farm.succeeds(run).await;
    let lines = until(&farm, &mut journal, run, "rest").await;
    let mut expected: Vec<String> = (1..=40).map(|i| format!("line {i}")).collect();
    expected.push("rest".to_owned());
    // What was sent and not yet noted when it was killed comes twice: not all of the ten and more that were sent.
    assert!(lines.len() < expected.len() + 10, "{lines:?}");
    let mut seen = HashSet::new();
    let once: Vec<String> = lines.into_iter().filter(|l| seen.insert(l.clone())).collect();
    assert_eq!(once, expected, "each line, in order");
    assert_eq!(farm.run(run).await.attempt, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_not_there_holds_up_nothing_and_gets_what_waited_when_it_comes() {
    let mut journal = Journal::absent();
    let farm = journal
        .farm("journald")
        .jobs("[job.short]\ncommand = 'echo waited; echo end'\n")
        .start()
        .await;
    let run = farm.submit("short").await;
    farm.succeeds(run).await;
    farm.eventually("it is said", SOON, async || {
        let log = farm.agents[0].log();
        log.contains("cannot be sent to").then_some(()).ok_or(log)
    })
    .await;
    journal.listen();
    assert_eq!(until(&farm, &mut journal, run, "end").await, ["waited", "end"]);
    // As journald restarts: another socket under the same name.
    journal.listen();
    let second = farm.submit("short").await;
    assert_eq!(until(&farm, &mut journal, second, "end").await, ["waited", "end"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_takes_nothing_costs_lines_that_are_counted_and_nothing_else() {
    const LINES: usize = 60_000;
    let mut journal = Journal::new();
    let farm = journal
        .farm("journald")
        .jobs(&format!(
            "[job.flood]\ncommand = 'yes {} | head -n {LINES}'\n[job.short]\ncommand = [WITNESS, '10']\n",
            "0123456789".repeat(10)
        ))
        .start()
        .await;
    let flood = farm.submit("flood").await;
    farm.succeeds(flood).await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    let dropped = farm
        .eventually("what is dropped is counted", SOON, async || {
            match farm.agents[0]
                .metric("farmhand_log_dropped_bytes_total", &[])
                .await
            {
                0.0 => Err("nothing yet".to_owned()),
                bytes => Ok(bytes),
            }
        })
        .await;
    farm.event("output_dropped").await;
    let lost = dropped as usize / 101;
    let lines = farm
        .eventually("the rest comes", SOON, async || {
            match journal.lines(flood).len() {
                some if some + lost < LINES => Err(format!("{some} lines, {lost} lost")),
                _ => Ok(journal.lines(flood).len()),
            }
        })
        .await;
    assert_eq!(lines + lost, LINES, "each line is there or counted");
    assert!(lines > 1_000, "some were kept: {lines}");
}

#[tokio::test(flavor = "multi_thread")]
async fn syslog_gets_rfc_5424_with_the_same_fields() {
    let mut journal = Journal::new();
    let farm = journal
        .farm("syslog")
        .jobs("[job.says]\ncommand = 'echo hello'\n")
        .start()
        .await;
    let run = farm.submit("says").await;
    farm.succeeds(run).await;
    let message = farm
        .eventually("a message", SOON, async || {
            let first = journal.datagrams().into_iter().next();
            first.ok_or_else(|| "none yet".to_owned())
        })
        .await;
    let message = String::from_utf8(message).unwrap();
    let front = format!("[farmhand@32473 job=\"says\" run=\"{run}\" attempt=\"1\" traceparent=\"00-");
    assert!(
        message.starts_with("<30>1 2")
            && message.contains(&front)
            && message.ends_with("-01\" node=\"n1\" stream=\"stdout\"] hello"),
        "{message}"
    );
    assert!(
        message.contains(&format!(" n1 farmhand/says {run} stdout ")),
        "{message}"
    );
}
