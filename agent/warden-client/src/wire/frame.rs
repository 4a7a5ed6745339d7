//! Length-prefixed JSON: four bytes big-endian, then so many bytes of one message.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Room for a spawn with the largest stdin, or a part of a listing. A longer frame ends the connection.
pub const MAX_FRAME: usize = 8 << 20;

/// Bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("a message of {0} bytes; at most {MAX_FRAME} are allowed")]
    TooLong(usize),
    #[error("not a message: {0}")]
    Json(#[from] serde_json::Error),
}

/// Appends one frame to `out`.
pub fn encode<T: Serialize>(message: &T, out: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    if let Err(error) = serde_json::to_writer(&mut *out, message) {
        out.truncate(start);
        return Err(error.into());
    }
    let length = out.len() - start - 4;
    if length > MAX_FRAME {
        out.truncate(start);
        return Err(FrameError::TooLong(length));
    }
    out[start..start + 4].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(())
}

/// Takes one whole frame off the front of `buffer`; `None` until it has arrived.
pub fn decode<T: DeserializeOwned>(buffer: &mut bytes::BytesMut) -> Result<Option<T>, FrameError> {
    let Some(prefix) = buffer.first_chunk::<4>() else {
        return Ok(None);
    };
    let length = u32::from_be_bytes(*prefix) as usize;
    if length > MAX_FRAME {
        return Err(FrameError::TooLong(length));
    }
    if buffer.len() < 4 + length {
        return Ok(None);
    }
    let frame = buffer.split_to(4 + length);
    Ok(Some(serde_json::from_slice(&frame[4..])?))
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;

    #[test]
    fn a_frame_arrives_whole_or_not_yet() {
        let mut request = SpawnRequest::new(
            AttemptId {
                run_id: 7,
                attempt: 1,
            },
            9,
            farmhand_core::definition::Command::Shell("true".into()),
        );
        request.stdin = Some(vec![0, 255, 16]);
        let mut wire = Vec::new();
        encode(
            &FromAgent {
                seq: 3,
                request: Request::Spawn(Box::new(request)),
            },
            &mut wire,
        )
        .unwrap();
        let mut buffer = bytes::BytesMut::new();
        for (at, byte) in wire.iter().enumerate() {
            buffer.extend_from_slice(&[*byte]);
            let got = decode::<FromAgent>(&mut buffer).unwrap();
            assert_eq!(got.is_some(), at + 1 == wire.len());
            if let Some(FromAgent {
                seq,
                request: Request::Spawn(spawn),
            }) = got
            {
                assert_eq!((seq, spawn.stdin), (3, Some(vec![0, 255, 16])));
            }
        }
    }

    #[test]
    fn an_overlong_frame_is_an_error_before_it_is_buffered() {
        let mut buffer = bytes::BytesMut::from(&u32::MAX.to_be_bytes()[..]);
        assert!(matches!(
            decode::<FromAgent>(&mut buffer),
            Err(FrameError::TooLong(_))
        ));
    }
}
