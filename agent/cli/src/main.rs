use std::process::ExitCode;

fn main() -> ExitCode {
    // The guard and the warden are this binary under other names, and must start before anything has threads.
    farmhand_warden::dispatch();
    farmhand::commands::main()
}
