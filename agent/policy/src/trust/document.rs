//! What is signed: one line of JSON with the job's name, a serial number and the whole definition with every default
//! filled in, behind a line that says what it is, so that a signature for it is a signature for nothing else.

use std::collections::BTreeMap;

use farmhand_core::attempt::Signed;
use farmhand_core::definition::JobSpec;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Precedes the document in what is signed; another version of the form is another text.
pub const DOMAIN: &[u8] = b"farmhand job definition, version 1\n";
/// More than any definition has.
const LONGEST: usize = 4 << 20;

/// A definition as it is signed. Its text is kept as it was written: verifying never depends on writing it again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub job: String,
    /// Grows with every signature for the job; nodes refuse what is below the highest they have seen.
    pub serial: u64,
    pub spec: Value,
}

impl Document {
    /// Errors: When the definition cannot be written as JSON.
    pub fn new(job: &str, serial: u64, spec: &JobSpec) -> Result<Self, String> {
        Ok(Self {
            job: job.to_owned(),
            serial,
            spec: serde_json::to_value(spec).map_err(|e| e.to_string())?,
        })
    }

    /// The text that is signed, in one line.
    /// Errors: When it is longer than 4 MiB.
    pub fn text(&self) -> Result<String, String> {
        let text = serde_json::to_string(self).map_err(|e| e.to_string())?;
        match text.len() {
            0..=LONGEST => Ok(text),
            n => Err(format!("the definition has {n} bytes; {LONGEST} can be signed")),
        }
    }

    /// Reads what [`Self::text`] wrote.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > LONGEST {
            return Err(format!("it has {} bytes; {LONGEST} are the most", text.len()));
        }
        serde_json::from_str(text).map_err(|e| e.to_string())
    }

    /// Whether it is signed as this version would write it down.
    pub fn spec_is(&self, spec: &JobSpec) -> bool {
        serde_json::from_value::<JobSpec>(self.spec.clone()).is_ok_and(|signed| signed == *spec)
    }
}

/// The content of a FILE.sig, by job.
pub fn parse_signatures(text: &str) -> Result<BTreeMap<String, (Document, Signed)>, (usize, String)> {
    let mut found = BTreeMap::new();
    for (line, nth) in text.lines().zip(1..).filter(|(line, _)| !line.trim().is_empty()) {
        let parsed = serde_json::from_str::<Signed>(line).map_err(|e| e.to_string());
        let parsed = parsed.and_then(|signed| Ok((Document::parse(&signed.document)?, signed)));
        let (document, signed) = parsed.map_err(|why| (nth, why))?;
        found.insert(document.job.clone(), (document, signed));
    }
    Ok(found)
}

/// The bytes over which a signature is made.
pub fn signed_bytes(document: &str) -> Vec<u8> {
    [DOMAIN, document.as_bytes()].concat()
}
