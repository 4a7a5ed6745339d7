//! Lines from the progress descriptor.

use farmhand_core::stream::MAX_CHECKPOINT;

/// The line that is not complete yet.
#[derive(Debug, Default)]
pub struct Lines {
    line: Vec<u8>,
    /// Longer than a checkpoint may be: the rest of it is not kept.
    over: bool,
}

/// What some bytes said.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// A line was complete.
    pub alive: bool,
    /// The last one that is a checkpoint; an empty line is a sign of life only.
    pub checkpoint: Option<String>,
    /// Why a line is none. It would come back to the next attempt as something else than it was.
    pub refused: Option<&'static str>,
}

impl Lines {
    pub fn take(&mut self, bytes: &[u8]) -> Said {
        let mut said = Said::default();
        for byte in bytes {
            if *byte != b'\n' {
                self.over |= self.line.len() == MAX_CHECKPOINT;
                if !self.over {
                    self.line.push(*byte);
                }
                continue;
            }
            said.alive = true;
            match self.complete() {
                Ok(line) if line.trim().is_empty() => {}
                Ok(line) => said.checkpoint = Some(line),
                Err(why) => said.refused = Some(why),
            }
        }
        said
    }

    fn complete(&mut self) -> Result<String, &'static str> {
        let mut line = std::mem::take(&mut self.line);
        if std::mem::take(&mut self.over) {
            return Err("it is longer than 4095 bytes");
        }
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        if line.contains(&0) {
            return Err("it holds a NUL byte");
        }
        String::from_utf8(line).map_err(|_| "it is no UTF-8")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_in_pieces_and_the_last_checkpoint_counts() {
        let mut lines = Lines::default();
        assert_eq!(lines.take(b"on"), Said::default());
        let said = lines.take(b"e\n\ntwo\r\n\nthr");
        assert_eq!((said.alive, said.checkpoint.as_deref()), (true, Some("two")));
        assert_eq!(lines.take(b"ee\n").checkpoint.as_deref(), Some("three"));
    }

    #[test]
    fn what_would_come_back_changed_is_refused_and_still_a_sign_of_life() {
        let mut lines = Lines::default();
        let longest = vec![b'x'; MAX_CHECKPOINT];
        for wrong in [[&longest[..], b"x"].concat(), b"a\0b".to_vec(), vec![0xff]] {
            lines.take(&wrong);
            let said = lines.take(b"\n");
            assert!(said.alive && said.refused.is_some() && said.checkpoint.is_none());
        }
        lines.take(&longest);
        assert_eq!(
            lines.take(b"\n").checkpoint.map(|c| c.len()),
            Some(MAX_CHECKPOINT)
        );
    }
}
