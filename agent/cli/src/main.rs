use std::process::ExitCode;

fn main() -> ExitCode {
    farmhand_os::signal::hear_of_children();
    // The reaper and the warden are this binary under other names, and must start before anything has threads.
    farmhand_warden::dispatch();
    farmhand::commands::main()
}
