//! Bytes on the warden's socket, in any pieces, beside an agent that is served meanwhile.
//!
//! The input is the stream itself, or (when it begins with a brace) requests in JSON, one to a line, put into frames here.

use std::cell::RefCell;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;

use bytes::BytesMut;
use farmhand_warden::fuzzing::Captive;
use farmhand_warden_client::wire::frame::{decode, encode};
use farmhand_warden_client::wire::{FromAgent, FromWarden, PROTOCOL, Refusal, Reply, Request};

use super::input::pieces;

pub fn run(data: &[u8]) {
    thread_local! {
        static CAPTIVE: RefCell<Captive> = RefCell::new(captive());
    }
    let stream = framed(data);
    CAPTIVE.with_borrow_mut(|warden| {
        warden.again();
        converse(warden, &stream);
        assert_eq!(warden.living(), 0, "nothing was started");
    });
}

fn captive() -> Captive {
    let dir = std::env::temp_dir().join(format!("farmhand-fuzz-{}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("a directory");
    let warden = Captive::new(&dir).expect("a warden");
    std::fs::remove_dir_all(&dir).expect("its directory");
    warden
}

fn framed(data: &[u8]) -> Vec<u8> {
    if data.first() != Some(&b'{') {
        return data.to_vec();
    }
    let mut stream = Vec::new();
    for line in data.split(|b| *b == b'\n') {
        stream.extend_from_slice(&u32::try_from(line.len()).unwrap_or(u32::MAX).to_be_bytes());
        stream.extend_from_slice(line);
    }
    stream
}

fn converse(warden: &mut Captive, stream: &[u8]) {
    let mut agent = Peer::new(warden);
    agent.ask(
        0,
        Request::Hello {
            protocol: PROTOCOL,
            agent_pid: 1,
            expect: None,
            address: String::new(),
        },
    );
    warden.turn().expect("it goes on");
    assert!(
        matches!(agent.hear()[..], [(0, Ok(_)), ..]),
        "the agent is let in"
    );
    let mut stranger = Peer::new(warden);
    let mut heard = Vec::new();
    // What is still answered to whoever is no agent any more.
    let mut question = Request::List { after: None };
    for (piece, seq) in pieces(stream).into_iter().zip(1..) {
        stranger.send(piece);
        // The agent's own request makes sure that there is something to wait for.
        agent.ask(seq, question.clone());
        warden.turn().expect("it goes on");
        heard.extend(stranger.hear());
        let served = agent
            .hear()
            .iter()
            .any(|(found, result)| *found == seq && result.is_ok());
        if !served {
            assert!(agent.gone, "the agent waits for an answer");
            assert!(
                heard.iter().any(|(_, result)| result.is_ok()),
                "nobody took it over"
            );
            agent = Peer::new(warden);
            question = Request::Identify;
        }
        if stranger.gone {
            break;
        }
    }
    heard.extend(stranger.hear());
    right(stream, &heard, stranger.gone);
}

/// Each request got one answer, in order, and none but a refusal before a hello.
fn right(stream: &[u8], heard: &[(u64, Heard)], gone: bool) {
    let mut rest = BytesMut::from(stream);
    let mut known = false;
    let mut answers = heard.iter();
    loop {
        let asked = match decode::<FromAgent>(&mut rest) {
            Ok(Some(asked)) => asked,
            Ok(None) => break,
            Err(_) => {
                assert!(gone, "what makes no sense ends the conversation");
                break;
            }
        };
        let Some((seq, result)) = answers.next() else {
            assert!(gone, "request {} has no answer", asked.seq);
            break;
        };
        assert_eq!(*seq, asked.seq);
        match asked.request {
            Request::Identify | Request::Hold => assert!(result.is_ok()),
            Request::Hello { .. } => known |= result.is_ok(),
            // An attempt that has ended here is said to have been started, and not started.
            Request::Spawn(_) => assert!(matches!(result, Ok(true) | Err(_))),
            _ => assert!(known || matches!(result, Err(Refusal::NoHello)), "{result:?}"),
        }
    }
    assert_eq!(answers.next().map(|(seq, _)| seq), None, "an answer to nothing");
}

/// Whether the answer says that an attempt had been started before.
type Heard = Result<bool, Refusal>;

struct Peer {
    socket: UnixStream,
    input: BytesMut,
    gone: bool,
}

impl Peer {
    fn new(warden: &mut Captive) -> Self {
        let socket = warden.connect().expect("a connection");
        socket.set_nonblocking(true).expect("a mode");
        Self {
            socket,
            input: BytesMut::new(),
            gone: false,
        }
    }

    fn send(&mut self, bytes: &[u8]) {
        match self.socket.write_all(bytes) {
            Err(e) if e.kind() != ErrorKind::BrokenPipe => panic!("the warden does not read: {e}"),
            _ => {}
        }
    }

    fn ask(&mut self, seq: u64, request: Request) {
        let mut wire = Vec::new();
        encode(&FromAgent { seq, request }, &mut wire).expect("a request");
        self.send(&wire);
    }

    /// The answers that have arrived; notices are read, and passed over.
    fn hear(&mut self) -> Vec<(u64, Heard)> {
        let mut buffer = [0; 64 << 10];
        loop {
            match self.socket.read(&mut buffer) {
                Ok(0) => self.gone = true,
                Ok(count) => {
                    self.input.extend_from_slice(&buffer[..count]);
                    continue;
                }
                Err(e) if e.kind() == ErrorKind::ConnectionReset => self.gone = true,
                Err(_) => {}
            }
            break;
        }
        let mut answers = Vec::new();
        while let Some(message) = decode(&mut self.input).expect("the warden says what can be read") {
            if let FromWarden::Reply { seq, result } = message {
                let already = |reply| matches!(reply, Reply::Spawned { already: true, .. });
                answers.push((seq, result.map(already)));
            }
        }
        answers
    }
}
