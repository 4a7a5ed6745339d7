//! Another server in the place of a private one: what people do when they restore, dump and load, or upgrade.

use std::path::PathBuf;

use super::private::PrivateServer;

/// Where the database server's files were copied to.
pub struct Copy(PathBuf);

impl PrivateServer {
    /// A copy of its files, taken while it is down for a moment.
    pub fn copy(&mut self) -> Copy {
        self.stop();
        let copy = self.cluster().dir.join("copy");
        run(self, "cp", &["-a", &path(&self.data()), &path(&copy)]);
        self.restart(None);
        Copy(copy)
    }

    /// Killed, and started again as it was when the copy was taken.
    pub fn go_back_to(&mut self, copy: &Copy) {
        self.kill();
        std::fs::remove_dir_all(self.data()).expect("the data");
        std::fs::rename(&copy.0, self.data()).expect("the copy");
        self.restart(None);
    }

    /// On a timeline that no new cluster begins with, as after a failover.
    pub fn leave_first_timeline(&mut self) {
        self.stop();
        let data = path(&self.data());
        run(self, "pg_resetwal", &["-l", "0000000700000000000000F0", &data]);
        self.restart(None);
    }

    /// Everything is dumped, and loaded into a new cluster behind the same address.
    pub fn dump_and_load(&mut self) {
        let dump = self.dump(&[]);
        self.stop();
        std::fs::remove_dir_all(self.data()).expect("the data");
        self.cluster().init();
        self.restart(None);
        self.load(&dump);
    }

    fn dump(&self, options: &[&str]) -> String {
        let dump = path(&self.cluster().dir.join("dump.sql"));
        self.client_program("pg_dumpall", &[options, &["--file", &dump]].concat());
        dump
    }

    fn load(&self, dump: &str) {
        let load = ["--no-psqlrc", "--quiet", "--dbname", "postgres", "--file", dump];
        self.client_program("psql", &load);
    }

    fn client_program(&self, program: &str, arguments: &[&str]) {
        let at = [self.cluster().dir.display().to_string(), self.port().to_string()];
        let server = ["--host", &at[0], "--port", &at[1], "--username", super::ADMIN];
        run(self, program, &[&server[..], arguments].concat());
    }

    /// To a new server behind the same address by logical replication: the schema, the rows, then what is written meanwhile.
    /// Sequences are left behind. Needs `wal_level = logical`.
    pub async fn cut_over(&mut self) {
        let mut next = Self::empty(self.options().clone());
        next.cluster().init();
        next.restart(None);
        next.load(&self.dump(&["--schema-only"]));
        let (old, new) = (self.admin().await, next.admin().await);
        let publish = "CREATE PUBLICATION move FOR ALL TABLES";
        old.exec(publish).await;
        let subscribe = format!(
            "CREATE SUBSCRIPTION move CONNECTION '{}' PUBLICATION move",
            self.admin_url()
        );
        new.exec(&subscribe).await;
        let left = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'";
        super::replica::until(&new, left, 0).await;
        // Ends when all that was committed has been sent and confirmed.
        self.stop();
        let unsubscribe = "ALTER SUBSCRIPTION move DISABLE";
        new.exec(unsubscribe).await;
        let forget = "ALTER SUBSCRIPTION move SET (slot_name = NONE)";
        new.exec(forget).await;
        new.exec("DROP SUBSCRIPTION move").await;
        next.stop();
        std::fs::remove_dir_all(self.data()).expect("the data");
        std::fs::rename(next.data(), self.data()).expect("the new data");
        self.restart(None);
    }

    /// To the same version, as the tool does it to another.
    pub fn upgrade(&mut self) {
        self.stop();
        let old = self.cluster().dir.join("old");
        std::fs::rename(self.data(), &old).expect("the data");
        self.cluster().init();
        let program = self.cluster().client("pg_upgrade");
        let bin = path(program.parent().expect("a directory"));
        let socket = path(&self.cluster().dir);
        let (from, new) = (path(&old), path(&self.data()));
        let dirs = [
            "-d",
            &from,
            "-D",
            &new,
            "-b",
            &bin,
            "-B",
            &bin,
            "-s",
            &socket,
            "-U",
            super::ADMIN,
        ];
        run(self, "pg_upgrade", &dirs);
        std::fs::remove_dir_all(old).expect("the old data");
        self.restart(None);
    }
}

fn path(path: &std::path::Path) -> String {
    path.display().to_string()
}

/// One of PostgreSQL's programs, as the server's user.
fn run(server: &PrivateServer, program: &str, arguments: &[&str]) {
    let mut command = server.cluster().command(&server.cluster().client(program));
    let out = command
        // A database that takes no writes by default is loaded nonetheless.
        .env("PGOPTIONS", "-c default_transaction_read_only=off")
        .args(arguments)
        .current_dir(&server.cluster().dir)
        .output()
        .unwrap_or_else(|e| panic!("{program}: {e}: apt-get install postgresql"));
    let text = String::from_utf8_lossy(&out.stderr);
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success(), "{program}: {text}{said}");
}
