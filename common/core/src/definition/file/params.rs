//! `params` of a job: which there are, and their defaults.

use super::from_table::read as read_keys;
use super::keys::PARAM;
use crate::definition::fill::params::check_param;
use crate::definition::fill::placeholders::OWN;
use crate::definition::spec::job::JobSpec;
use crate::definition::spec::names::is_param_name;
use crate::definition::spec::params::ParamSpec;
use crate::document::{Reader, Spanned};

pub(super) fn read(job: &mut Reader<'_>, spec: &mut JobSpec) {
    let Some(params) = job.table("params") else {
        return;
    };
    let example = "for example since = { type = \"duration\", default = \"5m\" }";
    for (name, table) in params.tables("parameter", example) {
        let param = one(table, &name);
        spec.params.insert(name.value.to_owned(), param);
    }
}

fn one(mut table: Reader<'_>, name: &Spanned<&str>) -> ParamSpec {
    let sink = table.sink();
    if !is_param_name(name.value) {
        sink.report(
            name.span.clone(),
            format!("`{}` is not a valid parameter name", name.value),
            "use letters, digits, `_` and `-`, a letter first",
        );
    }
    if OWN.contains(&name.value) {
        sink.report(
            name.span.clone(),
            format!("`{{{}}}` stands for something else in every job", name.value),
            "rename the parameter",
        );
    }
    let param: ParamSpec = read_keys(&mut table, PARAM);
    if table.key_span("type").is_none() {
        sink.report(
            name.span.clone(),
            format!("parameter `{}` has no `type`", name.value),
            "it is one of string, integer, number, boolean, duration, date",
        );
    } else if let (Some(value), Some(found)) = (&param.default, table.raw("default"))
        && let Err(error) = check_param(name.value, param.kind, value)
    {
        sink.report(found.span, error.to_string(), "make the default fit the type");
    }
    param
}
