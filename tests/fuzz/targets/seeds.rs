//! Writes what each target begins with into directories of their names below `FARMHAND_FUZZ_SEEDS`, and fuzzes nothing: it is
//! a target because code that is built to be fuzzed needs libfuzzer's runtime.
#![no_main]

use std::path::Path;

fn write() {
    let into = std::env::var_os("FARMHAND_FUZZ_SEEDS").expect("FARMHAND_FUZZ_SEEDS names a directory");
    for (target, _) in farmhand_fuzz::TARGETS {
        let dir = Path::new(&into).join(target);
        std::fs::create_dir_all(&dir).expect("a directory");
        for (seed, nth) in farmhand_fuzz::seeds::of(target).iter().zip(0..) {
            std::fs::write(dir.join(format!("seed-{nth:03}")), seed).expect("a file");
        }
    }
    std::process::exit(0)
}

libfuzzer_sys::fuzz_target!(init: write(), |_data: &[u8]| {});
