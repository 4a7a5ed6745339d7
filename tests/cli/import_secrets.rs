//! Passwords that `farmhand import` finds.

use std::path::Path;

use super::import::run;

#[test]
fn passwords_are_written_for_the_nodes_store_alone_and_nowhere_printed() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let (crontab, out) = (dir.path().join("tab"), dir.path().join("jobs.toml"));
    std::fs::write(&crontab, "DB_PASSWORD=streng geheim\n0 1 * * * x\n").unwrap();
    let crontab = crontab.to_str().unwrap();
    let secrets = dir.path().join("jobs.secrets");
    for told in [
        run(dir.path(), &[crontab]).ok(),
        run(dir.path(), &[crontab, "--json"]).ok(),
        run(dir.path(), &[crontab, "--dry-run"]).ok(),
    ] {
        let said = told.out + &told.err;
        assert!(said.contains("DB_PASSWORD") && !said.contains("geheim"), "{said}");
        assert!(!secrets.exists());
    }
    let (entry, elsewhere) = (secrets.join("tab-x.DB_PASSWORD"), dir.path().join("elsewhere"));
    std::fs::write(&elsewhere, "mine").unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    for _ in 0..2 {
        let told = run(dir.path(), &[crontab, "-o", out.to_str().unwrap()]).ok();
        assert!(
            told.err.contains("jobs.secrets: 1 secret that only you can read"),
            "{told:?}"
        );
        assert!(!told.err.contains("geheim"), "{told:?}");
        assert_eq!(std::fs::read_to_string(&entry).unwrap(), "streng geheim");
        assert_eq!((mode(&secrets), mode(&entry)), (0o700, 0o600));
        let toml = std::fs::read_to_string(&out).unwrap();
        assert!(
            toml.contains("secrets  = { DB_PASSWORD = \"tab-x.DB_PASSWORD\" }"),
            "{toml}"
        );
        assert!(!toml.contains("geheim"), "{toml}");
        // A link in its place is not followed, and what was opened to others is closed.
        std::fs::remove_file(&entry).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &entry).unwrap();
        std::fs::set_permissions(&secrets, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&elsewhere).unwrap(), "mine");
    // Nothing is written beside a job file that would not be written over.
    std::fs::write(&out, "[job.precious]\n").unwrap();
    std::fs::remove_dir_all(&secrets).unwrap();
    run(dir.path(), &[crontab, "-o", out.to_str().unwrap()]).refused(4, &["--force"]);
    assert!(!secrets.exists());
}
