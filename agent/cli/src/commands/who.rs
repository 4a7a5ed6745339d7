//! Who does this.

/// Who does this, as the database remembers it: user@host.
pub(super) fn who() -> String {
    let user = ["SUDO_USER", "USER", "LOGNAME"]
        .iter()
        .find_map(|name| std::env::var(name).ok().filter(|user| !user.is_empty()))
        .unwrap_or_else(|| {
            let uid = rustix::process::getuid().as_raw();
            let known = farmhand_os::accounts::of(uid).ok().flatten();
            known.map_or_else(
                || format!("uid{uid}"),
                |user| user.name.to_string_lossy().into_owned(),
            )
        });
    format!("{user}@{}", gethostname::gethostname().to_string_lossy())
}
