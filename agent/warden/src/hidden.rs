//! What an attempt writes, without its secrets.

use std::fs::File;
use std::sync::Arc;

use farmhand_core::text::redact::{Redactor, Secrets};

use super::child::secrets;
use farmhand_warden_client::output::Stream;

#[derive(Debug)]
pub(crate) struct Hidden {
    /// What the child told, until the first byte is read: then it is complete.
    memory: Option<File>,
    known: Option<Known>,
}

#[derive(Debug)]
struct Known {
    secrets: Arc<Secrets>,
    /// A secret may be cut on one stream while the other goes on.
    stdout: Redactor,
    stderr: Redactor,
}

impl Hidden {
    pub(crate) fn new(memory: Option<File>) -> Self {
        Self { memory, known: None }
    }

    /// The next bytes of a stream; `None` for a command without secrets, whose bytes stay as they are.
    pub(crate) fn output(&mut self, stream: Stream, bytes: &[u8]) -> Option<Result<Vec<u8>, String>> {
        self.learn().transpose().map(|known| {
            let known = known?;
            let mut out = Vec::with_capacity(bytes.len());
            match stream {
                Stream::Stderr => known.stderr.push(bytes, &mut out),
                Stream::Stdout | Stream::Agent => known.stdout.push(bytes, &mut out),
            }
            Ok(out)
        })
    }

    /// A whole text; `None` when it cannot be known what to hide.
    pub(crate) fn text(&mut self, text: String) -> Option<String> {
        match self.learn() {
            Ok(None) => Some(text),
            Ok(Some(known)) => {
                Some(String::from_utf8_lossy(&known.secrets.hide(text.as_bytes())).into_owned())
            }
            Err(_) => None,
        }
    }

    /// What is still held back when the streams have ended.
    pub(crate) fn rest(&mut self) -> Vec<(Stream, Vec<u8>)> {
        let Some(known) = &mut self.known else {
            return Vec::new();
        };
        let mut rest = Vec::new();
        for (stream, redactor) in [
            (Stream::Stdout, &mut known.stdout),
            (Stream::Stderr, &mut known.stderr),
        ] {
            let mut out = Vec::new();
            redactor.finish(&mut out);
            if !out.is_empty() {
                rest.push((stream, out));
            }
        }
        rest
    }

    /// A failure stays one: nothing is written down that may hold a secret.
    fn learn(&mut self) -> Result<Option<&mut Known>, String> {
        if let (None, Some(memory)) = (&self.known, &self.memory) {
            let secrets = secrets::told(memory)
                .map_err(|e| format!("output is not kept: its secrets cannot be read: {e}"))?;
            self.known = Some(Known {
                stdout: Redactor::new(secrets.clone()),
                stderr: Redactor::new(secrets.clone()),
                secrets,
            });
            self.memory = None;
        }
        Ok(self.known.as_mut())
    }
}
