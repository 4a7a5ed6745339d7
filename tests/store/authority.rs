//! A certificate authority of a test's own.

use std::path::PathBuf;
use std::process::Command;

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
        self.run("openssl", arguments);
    }

    fn run(&self, program: &str, arguments: &[&str]) {
        let out = Command::new(program)
            .args(arguments)
            .current_dir(self.dir.path())
            .output()
            .unwrap_or_else(|e| panic!("these tests need {program}: apt-get install {program}: {e}"));
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
            "openssl",
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
        if ago == 0 {
            self.openssl(&sign[1..]);
        } else {
            let back = format!("-{ago}d");
            let mut arguments = vec!["-f", back.as_str()];
            arguments.extend(sign);
            self.run("faketime", &arguments);
        }
        (self.path(&cert), self.path(&key))
    }
}
