//! What is watched while an attempt runs: its children.

use super::from_table::read as read_keys;
use super::keys::CHILD_LIMIT;
use crate::definition::spec::job::{ChildLimit, JobSpec};
use crate::document::Reader;

pub(super) fn read(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let Some(found) = job.raw("child_limits") else {
        return;
    };
    let sink = job.sink();
    let example = "for example child_limits = [{ name = \"wget\", max_age = \"10m\" }]";
    let Some(items) = found.value.as_array() else {
        let what = format!(
            "`child_limits`: expected a list, found a {}",
            found.value.type_str()
        );
        sink.report(found.span, what, example);
        return;
    };
    for item in items {
        let Some(table) = item.get_ref().as_table() else {
            let what = format!(
                "`child_limits`: expected a table, found a {}",
                item.get_ref().type_str()
            );
            sink.report(item.span(), what, example);
            continue;
        };
        let mut limit = Reader::new(vec![table], sink);
        let read: ChildLimit = read_keys(&mut limit, CHILD_LIMIT);
        let limits = limit.key_span("max_age").or(limit.key_span("max_memory"));
        if limit.key_span("name").is_none() {
            sink.report(item.span(), "`child_limits`: a limit without a `name`", example);
        } else if limits.is_none() {
            sink.report(
                item.span(),
                "`child_limits`: neither `max_age` nor `max_memory`",
                "say how old or how large the child may become",
            );
        }
        spec.child_limits.push(read);
    }
}
