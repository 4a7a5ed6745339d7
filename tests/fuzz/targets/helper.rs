#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| farmhand_fuzz::bounded("helper", data));
