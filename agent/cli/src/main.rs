use std::process::ExitCode;

fn main() -> ExitCode {
    // The reaper and the warden are this binary under other names, and must start before anything has threads.
    farmhand_warden::dispatch();
    farmhand::commands::main()
}
