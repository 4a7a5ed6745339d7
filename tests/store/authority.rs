//! A certificate authority of a test's own.

use std::path::PathBuf;
use std::process::Command;

use farmhand_tests::faketime;
use tempfile::TempDir;

/// An authority of the test's own, and what it signed.
pub struct Authority {
    dir: TempDir,
}

impl Authority {
    pub fn new() -> Self {
        let it = Self {
            dir: tempfile::tempdir().expect("a directory"),
        };
        it.key("ca");
        it.openssl(&[
            "req",
            "-x509",
            "-new",
            "-key",
            "ca.key",
            "-days",
            "2",
            "-subj",
            "/CN=test authority",
            "-addext",
            "basicConstraints=critical,CA:TRUE",
            "-out",
            "ca.crt",
        ]);
        it
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn root(&self) -> String {
        self.path("ca.crt").display().to_string()
    }

    fn openssl(&self, arguments: &[&str]) {
        self.run(arguments, &[]);
    }

    fn run(&self, arguments: &[&str], env: &[(String, String)]) {
        let out = Command::new("openssl")
            .args(arguments)
            .envs(env.iter().cloned())
            .current_dir(self.dir.path())
            .output()
            .unwrap_or_else(|e| panic!("these tests need openssl: apt-get install openssl: {e}"));
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    }

    fn key(&self, name: &str) {
        let file = format!("{name}.key");
        self.openssl(&[
            "ecparam",
            "-name",
            "prime256v1",
            "-genkey",
            "-noout",
            "-out",
            &file,
        ]);
    }

    /// A certificate for `subject`, with its key, as files; `ago` days old, valid for two.
    pub fn signs(&self, name: &str, subject: &str, extension: &str, ago: u32) -> (PathBuf, PathBuf) {
        self.key(name);
        let (key, request, cert) = (
            format!("{name}.key"),
            format!("{name}.csr"),
            format!("{name}.crt"),
        );
        self.openssl(&[
            "req",
            "-new",
            "-key",
            &key,
            "-subj",
            &format!("/CN={subject}"),
            "-out",
            &request,
        ]);
        std::fs::write(
            self.path("ext"),
            format!("{extension}\nbasicConstraints=critical,CA:FALSE\n"),
        )
        .unwrap();
        let sign = [
            "x509",
            "-req",
            "-in",
            &request,
            "-CA",
            "ca.crt",
            "-CAkey",
            "ca.key",
            "-CAcreateserial",
            "-days",
            "2",
            "-extfile",
            "ext",
            "-out",
            &cert,
        ];
        self.run(&sign, &faketime::by(&format!("-{ago}d")));
        (self.path(&cert), self.path(&key))
    }
}
