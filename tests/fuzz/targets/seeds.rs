//! Writes what each target begins with into directories of their names.

fn main() {
    let into = std::env::args_os().nth(1).expect("a directory");
    for (target, _) in farmhand_fuzz::TARGETS {
        let dir = std::path::Path::new(&into).join(target);
        std::fs::create_dir_all(&dir).expect("a directory");
        for (seed, nth) in farmhand_fuzz::seeds::of(target).iter().zip(0..) {
            std::fs::write(dir.join(format!("seed-{nth:03}")), seed).expect("a file");
        }
    }
}
