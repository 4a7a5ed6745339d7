//! Keys that the design knows and this version's agents do not honour. Refusing them is the promise that no
//! key is ever silently ignored; a key leaves this list in the change that makes it work end to end.

use crate::core::document::Reader;

/// Key of a job, and what to do meanwhile.
const JOB_KEYS: &[(&str, &str)] = &[("stream", "loop over the list in the command")];

/// Reports the keys of a job that are for later.
pub(super) fn refuse_job_keys(job: &mut Reader<'_>) {
    refuse(job, JOB_KEYS);
}

fn refuse(reader: &mut Reader<'_>, keys: &[(&'static str, &str)]) {
    for (key, meanwhile) in keys {
        if let Some(span) = reader.key_span(key) {
            reader.sink().report(
                span,
                format!("`{key}` is not supported by this version yet"),
                *meanwhile,
            );
        }
    }
}
