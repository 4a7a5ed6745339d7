//! Names of tasks and marks as names of files.

use sha2::{Digest, Sha256};

/// An encoding longer than this is cut.
const LONGEST: usize = 200;
/// What is kept of one that is.
const KEPT: usize = 100;

/// The file name that stands for a name in `$FARMHAND_DEPS`: the name itself, except that `/`, `%`, control
/// bytes and a leading `.` become `%XX`, the empty name becomes `%`, and what is longer than 200 bytes
/// becomes `%%`, its first 100 bytes, `~` and its SHA-256. Different names have different encodings, and none
/// of them begins with `.`.
pub fn encode_name(name: &[u8]) -> Vec<u8> {
    if name.is_empty() {
        return b"%".to_vec();
    }
    let mut encoded = Vec::with_capacity(name.len());
    for (index, byte) in name.iter().copied().enumerate() {
        let plain = !matches!(byte, b'/' | b'%') && !byte.is_ascii_control() && (index > 0 || byte != b'.');
        if plain {
            encoded.push(byte);
        } else {
            encoded.extend(format!("%{byte:02X}").into_bytes());
        }
    }
    if encoded.len() <= LONGEST {
        return encoded;
    }
    let mut cut = b"%%".to_vec();
    cut.extend(&encoded[..KEPT]);
    cut.push(b'~');
    cut.extend(hex::encode(Sha256::digest(&encoded)).into_bytes());
    cut
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(name: &str) -> String {
        String::from_utf8(encode_name(name.as_bytes())).unwrap()
    }

    #[test]
    fn plain_names_stay_and_dangerous_bytes_do_not() {
        assert_eq!(encoded("db-1.sh ünïx"), "db-1.sh ünïx");
        assert_eq!(encoded("../etc"), "%2E.%2Fetc");
        assert_eq!(encoded(".status"), "%2Estatus");
        assert_eq!(encoded("100%\n"), "100%25%0A");
        assert_eq!(encoded(""), "%");
        assert_eq!(encode_name(b"\xff\x7f"), b"\xff%7F");
    }

    #[test]
    fn long_names_are_cut_and_stay_apart() {
        let a = encoded(&"a".repeat(201));
        let b = encoded(&format!("{}b", "a".repeat(200)));
        assert_eq!(encoded(&"a".repeat(200)), "a".repeat(200));
        assert_eq!(a.len(), 2 + 100 + 1 + 64);
        assert!(a.starts_with("%%aaa") && a != b, "{a}");
    }
}
