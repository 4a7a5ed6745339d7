//! What a client has PostgreSQL execute, read off its side of a connection without TLS
//! (<https://www.postgresql.org/docs/current/protocol-message-formats.html>).

use std::collections::HashMap;

/// One connection.
#[derive(Default)]
pub(super) struct Statements {
    /// Of a message that has not come whole yet.
    pending: Vec<u8>,
    started: bool,
    /// Prepared ones by name; the unnamed one, too.
    prepared: HashMap<Vec<u8>, Vec<u8>>,
}

impl Statements {
    /// The texts of what these bytes have executed. A statement that is only prepared is not.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<Vec<u8>> {
        self.pending.extend_from_slice(bytes);
        let mut executed = Vec::new();
        while let Some((kind, body)) = self.message() {
            match kind {
                b'Q' => executed.push(words(&body).next().unwrap_or_default().to_vec()),
                b'P' => {
                    let mut words = words(&body);
                    let (name, text) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
                    self.prepared.insert(name.to_vec(), text.to_vec());
                }
                // The portal's name comes first.
                b'B' => executed.extend(
                    words(&body)
                        .nth(1)
                        .and_then(|name| self.prepared.get(name))
                        .cloned(),
                ),
                _ => {}
            }
        }
        executed
    }

    fn message(&mut self) -> Option<(u8, Vec<u8>)> {
        // Until the start-up message there is no byte for the kind.
        let skip = usize::from(self.started);
        let length = self.pending.get(skip..skip + 4)?;
        let whole = skip + u32::from_be_bytes(length.try_into().ok()?) as usize;
        if self.pending.len() < whole {
            return None;
        }
        let message: Vec<u8> = self.pending.drain(..whole).collect();
        if self.started {
            return Some((message[0], message[5..].to_vec()));
        }
        // Requests for encryption, which have this first half of a code, come before it.
        self.started = message.get(4..6) != Some(&[0x04, 0xd2]);
        Some((0, Vec::new()))
    }
}

fn words(body: &[u8]) -> impl Iterator<Item = &[u8]> {
    body.split(|byte| *byte == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(kind: &[u8], body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [kind, &length, body].concat()
    }

    #[test]
    fn a_prepared_statement_is_executed_when_it_is_bound_and_not_before() {
        let wire = [
            message(b"", &[0x04, 0xd2, 0x16, 0x2f]),
            message(b"", b"\0\x03\0\0user\0farm\0\0"),
            message(b"P", b"s1\0SELECT 1\0\0\0"),
            message(b"B", b"\0s1\0\0\0\0\0\0\0"),
            message(b"P", b"\0SELECT 2\0\0\0"),
            message(b"B", b"\0\0\0\0\0\0\0\0"),
            message(b"Q", b"SELECT 3\0"),
        ];
        let mut statements = Statements::default();
        let executed: Vec<usize> = wire.iter().map(|m| statements.feed(m).len()).collect();
        assert_eq!(executed, [0, 0, 0, 1, 0, 1, 1]);
        // However the bytes arrive.
        let mut statements = Statements::default();
        let bytes = wire.concat();
        let texts: Vec<Vec<u8>> = bytes.iter().flat_map(|b| statements.feed(&[*b])).collect();
        assert_eq!(texts, [b"SELECT 1", b"SELECT 2", b"SELECT 3"]);
    }
}
