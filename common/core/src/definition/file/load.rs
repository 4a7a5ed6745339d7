//! Job files become definitions, or the list of everything that is wrong with them.

use std::collections::BTreeMap;

use toml::de::DeTable;

use super::defined::{Place, defined_twice, too_long};
use super::definition::{Definitions, JobDefinition};
use super::job::{JobLayer, Shared, read_job};
use super::vars::Vars;
use crate::definition::spec::names::check_name;
use crate::document::{Mistakes, Problem, Reader, Sink, Source, parse_table};

/// The jobs of [`load_all`].
pub fn load(sources: &[Source]) -> Result<Vec<JobDefinition>, Mistakes> {
    load_all(sources).map(|all| all.jobs)
}

/// [`load_with`] the variables that the files have.
pub fn load_all(sources: &[Source]) -> Result<Definitions, Mistakes> {
    load_with(sources, &BTreeMap::new(), "")
}

/// Reads job files, each with its own `[defaults]`. `set` has values for variables, and wins over `[vars]`. The jobs, pools and
/// targets that the files define or name have the prefix before their names, one that [`super::prefix::check_prefix`] takes.
pub fn load_with(
    sources: &[Source],
    set: &BTreeMap<String, String>,
    prefix: &str,
) -> Result<Definitions, Mistakes> {
    let sinks: Vec<Sink<'_>> = (sources.iter().enumerate())
        .map(|(index, source)| Sink::new(index, &source.text))
        .collect();
    let mut tables: Vec<DeTable<'_>> = (sources.iter().zip(&sinks))
        .map(|(source, sink)| parse_table(sink, &source.text))
        .collect();
    // Before all else: what is checked, signed and stored is what the variables made of it.
    let mut vars = Vars::default();
    for (index, (table, sink)) in tables.iter().zip(&sinks).enumerate() {
        vars.read(index, table, sink);
    }
    let mut faults = vars.set(set);
    for (table, sink) in tables.iter_mut().zip(&sinks) {
        vars.fill(table, sink);
    }
    faults.extend(vars.unknown(set));
    // They stand on the command line, in no file.
    if let Some(first) = sinks.first() {
        faults
            .into_iter()
            .for_each(|(what, fix)| first.report(0..0, what, fix));
    }
    // What jobs refer to may stand in another file.
    let mut shared = Shared::default();
    for (index, (table, sink)) in tables.iter().zip(&sinks).enumerate() {
        let mut file = Reader::new(vec![table], sink);
        if let Some(table) = file.table("calendar") {
            shared.calendars.read(index, &table);
        }
        if let Some(table) = file.table("pool") {
            shared.pools.read(index, &table);
        }
        if let Some(table) = file.table("notify") {
            shared.targets.read(index, &table);
        }
    }
    let mut jobs = Vec::new();
    for (index, (table, sink)) in tables.iter().zip(&sinks).enumerate() {
        read_file(index, table, sink, &shared, &mut jobs);
    }
    drop(tables);
    let mut problems: Vec<Problem> = sinks.into_iter().flat_map(Sink::into_problems).collect();
    let named = [
        (
            "job",
            (jobs.iter())
                .map(|job| Place::new(&job.name, job.source, &job.span))
                .collect(),
        ),
        ("pool", shared.pools.places()),
        ("target", shared.targets.places()),
    ];
    problems.extend(
        named
            .iter()
            .flat_map(|(kind, places)| too_long(prefix, kind, places)),
    );
    let unprefixed = [
        ("variable", vars.places()),
        ("calendar", shared.calendars.places()),
    ];
    let all = named.iter().chain(&unprefixed);
    problems.extend(all.flat_map(|(kind, places)| defined_twice(kind, places, sources)));
    Mistakes::check(sources, problems)?;
    jobs.sort_by(|a, b| a.name.cmp(&b.name));
    let pools = shared.pools.into_definitions();
    let targets = shared.targets.into_definitions();
    let mut all = Definitions { jobs, pools, targets };
    all.put_before(prefix);
    Ok(all)
}

fn read_file<'a>(
    index: usize,
    table: &'a DeTable<'a>,
    sink: &'a Sink<'a>,
    shared: &Shared,
    jobs: &mut Vec<JobDefinition>,
) {
    let mut file = Reader::new(vec![table], sink);
    file.key_span("vars");
    file.key_span("calendar");
    file.key_span("pool");
    file.key_span("notify");
    let defaults = file.layer("defaults");
    if let Some(defaults) = defaults {
        let reader = Reader::new(vec![defaults], sink);
        read_job(reader, &JobLayer::Defaults, shared);
    }
    if let Some(table) = file.table("job") {
        for (name, value) in table.entries() {
            if let Err(rule) = check_name(name.value) {
                sink.report(
                    name.span.clone(),
                    format!("`{}` is not a valid job name", name.value),
                    rule,
                );
            }
            let Some(own) = value.value.as_table() else {
                sink.report(
                    value.span,
                    format!(
                        "job `{}`: expected a table, found a {}",
                        name.value,
                        value.value.type_str()
                    ),
                    "write [job.NAME] on a line of its own, and the job's keys below it",
                );
                continue;
            };
            let layers = [Some(own), defaults].into_iter().flatten().collect();
            let layer = JobLayer::Job {
                name: name.span.clone(),
            };
            jobs.push(JobDefinition {
                name: name.value.to_owned(),
                spec: read_job(Reader::new(layers, sink), &layer, shared),
                parents: (Reader::new(vec![own], sink).texts("triggered_by").into_iter())
                    .map(|found| (found.value.to_owned(), found.span))
                    .collect(),
                source: index,
                span: name.span,
            });
        }
    }
    file.finish(&[
        ("jobs", "write [job.NAME]"),
        ("var", "did you mean `vars`?"),
        ("default", "did you mean `defaults`?"),
        ("calendars", "write [calendar.NAME]"),
        ("pools", "write [pool.NAME]"),
    ]);
}
