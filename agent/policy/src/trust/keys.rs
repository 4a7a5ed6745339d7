//! Keys as files: a private one is a secret of whoever signs, public ones are lines of a node's list.
//!
//! ```text
//! farmhand-ed25519 NAME BASE64             public: 32 bytes
//! farmhand-ed25519-private NAME BASE64     private: PKCS#8
//! ```

use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use farmhand_core::attempt::Signed;
use ring::rand::SystemRandom;
use ring::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};

use super::document::signed_bytes;

const PUBLIC: &str = "farmhand-ed25519";
const PRIVATE: &str = "farmhand-ed25519-private";
const KEY_BYTES: usize = 32;
const LONGEST_NAME: usize = 100;

/// A key that definitions may be signed with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    name: String,
    bytes: [u8; KEY_BYTES],
}

impl PublicKey {
    /// Who signs with it, as its file says.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// As it stands in a list of trusted keys.
    pub fn line(&self) -> String {
        format!("{PUBLIC} {} {}", self.name, BASE64.encode(self.bytes))
    }

    /// Whether a signature in base64 was made with this key over this document.
    pub fn verifies(&self, document: &str, signature: &str) -> bool {
        BASE64.decode(signature).is_ok_and(|signature| {
            UnparsedPublicKey::new(&ED25519, &self.bytes)
                .verify(&signed_bytes(document), &signature)
                .is_ok()
        })
    }

    fn parse(line: &str) -> Result<Self, String> {
        let mut words = line.split_whitespace();
        let (kind, name, key) = (words.next(), words.next(), words.next());
        let (Some(PUBLIC), Some(name), Some(key), None) = (kind, name, key, words.next()) else {
            return Err(if kind == Some(PRIVATE) {
                "it is a private key, which belongs to whoever signs alone".to_owned()
            } else {
                format!("a key is written: {PUBLIC} NAME BASE64")
            });
        };
        let bytes = BASE64.decode(key).ok().and_then(|b| b.try_into().ok());
        Ok(Self {
            name: named(name)?,
            bytes: bytes.ok_or_else(|| format!("{KEY_BYTES} bytes in base64 are expected"))?,
        })
    }
}

/// The name of a key: what people recognise it by, in one word.
pub fn named(name: &str) -> Result<String, String> {
    let good = |c: char| c.is_ascii_alphanumeric() || "._@-".contains(c);
    if name.is_empty() || name.len() > LONGEST_NAME || !name.chars().all(good) {
        return Err(format!(
            "the name of a key has 1 to {LONGEST_NAME} letters, digits and . _ @ -"
        ));
    }
    Ok(name.to_owned())
}

/// The keys of a list: one to a line; empty lines and lines that begin with # say nothing.
pub fn list(text: &str) -> Result<Vec<PublicKey>, String> {
    let mut keys = Vec::new();
    let mut names = BTreeSet::new();
    for (nth, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let at = |why: String| format!("line {}: {why}", nth + 1);
        let key = PublicKey::parse(line).map_err(at)?;
        if !names.insert(key.name.clone()) {
            return Err(at(format!("there are two keys named \"{}\"", key.name)));
        }
        keys.push(key);
    }
    Ok(keys)
}

/// What definitions are signed with. Never shown.
pub struct PrivateKey {
    name: String,
    pair: Ed25519KeyPair,
}

impl std::fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PrivateKey({})", self.name)
    }
}

impl PrivateKey {
    /// Makes a key and its file, which must not exist; only its owner can read it.
    pub fn create(name: &str, path: &Path) -> Result<Self, String> {
        let name = named(name)?;
        let pkcs8 = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new())
            .map_err(|_| "the system gives no randomness".to_owned())?;
        let said = |e: std::io::Error| format!("{}: {e}", path.display());
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .map_err(said)?;
        let text = format!("{PRIVATE} {name} {}\n", BASE64.encode(pkcs8.as_ref()));
        file.write_all(text.as_bytes())
            .and_then(|()| file.sync_all())
            .map_err(said)?;
        let pair = Ed25519KeyPair::from_pkcs8(pkcs8.as_ref()).map_err(|e| e.to_string())?;
        Ok(Self { name, pair })
    }

    /// Errors: When the file is none of a private key, or others could read it.
    pub fn read(path: &Path) -> Result<Self, String> {
        let said = |e: std::io::Error| format!("{}: {e}", path.display());
        let wrong = |why: &str| format!("{}: {why}", path.display());
        let file = std::fs::File::open(path).map_err(said)?;
        let mode = file.metadata().map_err(said)?.mode();
        if mode & 0o077 != 0 {
            return Err(wrong(&format!(
                "others than its owner may use it: its mode is {:04o}; chmod 600",
                mode & 0o7777
            )));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(said)?;
        let mut words = text.split_whitespace();
        let (Some(PRIVATE), Some(name), Some(key)) = (words.next(), words.next(), words.next()) else {
            return Err(wrong("not a private key of `farmhand key new`"));
        };
        let bytes = BASE64.decode(key).map_err(|_| wrong("it is damaged"))?;
        let pair = Ed25519KeyPair::from_pkcs8(&bytes).map_err(|_| wrong("it is damaged"))?;
        Ok(Self {
            name: named(name).map_err(|why| wrong(&why))?,
            pair,
        })
    }

    /// Who signs with it, as its file says.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What others need to check its signatures.
    pub fn public(&self) -> PublicKey {
        let mut bytes = [0; KEY_BYTES];
        bytes.copy_from_slice(self.pair.public_key().as_ref());
        PublicKey {
            name: self.name.clone(),
            bytes,
        }
    }

    /// Signs the text of a [`super::Document`].
    pub fn sign(&self, document: String) -> Signed {
        let signature = self.pair.sign(&signed_bytes(&document));
        Signed {
            key: self.name.clone(),
            signature: BASE64.encode(signature.as_ref()),
            document,
        }
    }
}
