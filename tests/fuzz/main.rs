//! The fuzz targets at a small scale, on any toolchain: what was found before, what people wrote, and a few thousand changes
//! of these. At full scale, guided by coverage: `tests/fuzz/run`.

#[path = "src/lib.rs"]
mod targets;

use targets::mutate::{Numbers, mutated};
use targets::{TARGETS, bounded, seeds};

/// Changed inputs of each target.
const TRIES: usize = 2_000;

fn small(target: &str) {
    let seeds = seeds::of(target);
    assert!(!seeds.is_empty(), "{target} has nothing to begin with");
    for seed in &seeds {
        shown(target, seed);
    }
    let mut numbers = Numbers(farmhand_core::stream::fnv1a(target.as_bytes()));
    for _ in 0..TRIES {
        shown(target, &mutated(&seeds, &mut numbers));
    }
}

/// Says which input it was, so that it can be kept.
fn shown(target: &str, input: &[u8]) {
    struct Say<'a>(&'a [u8]);
    impl Drop for Say<'_> {
        fn drop(&mut self) {
            if std::thread::panicking() {
                eprintln!("the input: b\"{}\"", self.0.escape_ascii());
            }
        }
    }
    let say = Say(input);
    bounded(target, input);
    drop(say);
}

macro_rules! targets {
    ($($sentence:ident: $target:literal,)*) => {
        $(#[test] fn $sentence() { small($target) })*

        #[test]
        fn every_target_is_tried() {
            let known: Vec<&str> = TARGETS.iter().map(|(name, _)| *name).collect();
            assert_eq!(known, [$($target),*]);
        }
    };
}

targets! {
    any_job_file_is_stored_as_it_was_read_or_refused_with_a_place: "job_file",
    any_expression_has_ascending_instants_or_an_error_with_a_column: "cron",
    any_crontab_becomes_a_job_file_that_runs_the_same: "crontab",
    any_headers_have_an_order_or_a_cycle_to_show: "script_header",
    any_bytes_get_a_stranger_nothing_and_no_handler_fails: "http",
    only_what_was_signed_is_vouched_for: "signature",
    the_warden_serves_its_agent_whatever_another_says: "warden",
    the_helper_gives_away_what_is_the_jobs_and_what_root_named: "helper",
    any_output_hides_secrets_and_steers_no_terminal_however_it_is_cut: "output",
    any_short_text_is_read_back_as_it_was_meant: "record",
}
