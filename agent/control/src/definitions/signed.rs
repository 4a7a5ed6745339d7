//! Signatures that come with job files.
//!
//! FILE.sig holds one JSON object per line and job: the text that was signed, the key's name, the signature.

use std::collections::BTreeMap;

use farmhand_policy::trust::{self, Document, Refused, Trust};
use farmhand_store::signatures::Signed;

use super::files::Wanted;
use crate::Refusal;

/// What is signed of a file, by job.
pub type Signatures = BTreeMap<String, (Document, Signed)>;

/// The signatures in a FILE.sig, which `name` is of.
pub fn parse(name: &str, text: &str) -> Result<Signatures, Refusal> {
    trust::parse_signatures(text).map_err(|(line, why)| {
        Refusal::usage(format!("{name} line {line} is not a valid signature")).why(why)
    })
}

/// Adds to jobs the signatures of their files, which `read` finds. Before they belong to a name.
/// Errors: 4 when a file has changed since it was signed, or only some of its jobs are signed; what `read` says.
pub fn attach<E: From<Refusal>>(
    jobs: &mut [Wanted],
    read: impl Fn(&str) -> Result<Signatures, E>,
) -> Result<(), E> {
    let mut files: BTreeMap<String, Signatures> = BTreeMap::new();
    for job in jobs.iter_mut().filter(|job| job.source != "-") {
        if !files.contains_key(&job.source) {
            files.insert(job.source.clone(), read(&job.source)?);
        }
        let signed = &files[&job.source];
        match signed.get(&job.name) {
            Some((document, signature)) if document.spec_is(&job.spec) => {
                job.signed = Some(signature.clone())
            }
            None if signed.is_empty() => {}
            found => {
                let what = if found.is_some() {
                    "has changed since it was signed"
                } else {
                    "is not signed"
                };
                return Err(Refusal::refused(format!("job {} of {} {what}", job.name, job.source),
                )
                .next("`farmhand job sign FILE --key KEY` signs it, with the same --set and --prefix; nothing was applied")
                .into());
            }
        }
    }
    Ok(())
}

/// The jobs that nodes with these keys would not execute, and why.
pub fn untrusted<'a>(jobs: &'a [Wanted], trusted: &Trust) -> impl Iterator<Item = (&'a str, Refused)> {
    (jobs.iter()).filter_map(|job| Some((job.name.as_str(), trusted.check(job.signed.as_ref()).err()?)))
}

/// Refuses the first of them.
/// Errors: 4 for a job that one of the keys did not sign.
pub fn must_be_trusted(jobs: &[Wanted], trusted: &Trust) -> Result<(), Refusal> {
    match untrusted(jobs, trusted).next() {
        None => Ok(()),
        Some((job, why)) => Err(Refusal::refused(format!("job {job} would not be executed"))
            .why(why)
            .next("sign it with a trusted key; nothing was applied")),
    }
}
