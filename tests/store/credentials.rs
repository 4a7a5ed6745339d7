//! Passwords and certificates that are replaced while connections come and go.

use std::path::Path;
use std::time::{Duration, Instant};

use crate::authority::Authority;
use crate::tls::{LOOPBACK, hba, set_mode, tls_server, with};
use farmhand_store::reading::now;
use farmhand_store::{Db, StoreError};
use farmhand_tests::pg::{Options, PrivateServer};

const SOON: Duration = Duration::from_secs(10);

fn keep(path: &Path, text: &str) {
    let new = path.with_extension("new");
    std::fs::write(&new, text).expect("a file");
    set_mode(&new, 0o600);
    std::fs::rename(&new, path).expect("a file");
}

/// Ends every connection of the pool's, and asks until an answer comes on a new one. What was lost with its connection is no
/// refusal.
async fn reconnects(server: &PrivateServer, db: &Db) {
    let ends = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'farm' AND pid <> pg_backend_pid()";
    server.admin().await.exec_with(ends, &[]).await;
    let began = Instant::now();
    while let Err(error) = now(db).await {
        assert!(matches!(error, StoreError::ConnectionLost { .. }), "{error}");
        assert!(began.elapsed() < SOON, "{error}");
    }
}

#[tokio::test]
async fn a_pool_reconnects_with_the_password_that_its_file_holds_now() {
    let server = PrivateServer::start(Options::default()).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pass");
    let admin = server.admin().await;
    let line = |password: &str| format!("127.0.0.1:*:farmhand:farm:{password}\n");
    admin.exec("ALTER ROLE farm PASSWORD 'first'").await;
    keep(&file, &line("first"));
    hba(&server, "host all all 127.0.0.1/32 scram-sha-256");
    server.reload().await;
    let db = Db::connect(&with(&server, &format!("passfile={}", file.display())))
        .await
        .unwrap();
    for round in 0..3 {
        let password = format!("p{round}");
        keep(&file, &line(&password));
        admin
            .exec(&format!("ALTER ROLE farm PASSWORD '{password}'"))
            .await;
        reconnects(&server, &db).await;
    }
    // While it is away, or open to others, what it held last serves.
    std::fs::remove_file(&file).unwrap();
    reconnects(&server, &db).await;
    std::fs::write(&file, line("falsch")).unwrap();
    set_mode(&file, 0o644);
    reconnects(&server, &db).await;
}

/// The whole authority is replaced, and with it what both sides show.
#[tokio::test]
async fn a_pool_reconnects_with_the_root_and_the_certificate_that_its_files_hold_now() {
    let dir = tempfile::tempdir().unwrap();
    let [root, mine, my_key] = ["root", "mine", "key"].map(|name| dir.path().join(name));
    let made = || {
        let own = Authority::new();
        let (cert, key) = own.signs("server", "db", LOOPBACK, 0);
        let (shown, its_key) = own.signs("client", "farm", "extendedKeyUsage=clientAuth", 0);
        for (from, to) in [(own.path("ca.crt"), &root), (shown, &mine), (its_key, &my_key)] {
            keep(to, &std::fs::read_to_string(from).unwrap());
        }
        (own, cert, key)
    };
    let (own, cert, key) = made();
    let server = tls_server(&cert, &key, &own.root()).await;
    hba(&server, "hostssl all all 127.0.0.1/32 cert");
    server.reload().await;
    let options = format!(
        "sslmode=verify-full&sslrootcert={}&sslcert={}&sslkey={}",
        root.display(),
        mine.display(),
        my_key.display()
    );
    let db = Db::connect(&with(&server, &options)).await.unwrap();
    now(&db).await.unwrap();
    let (own, cert, key) = made();
    for (file, name) in [(cert, "s.crt"), (key, "s.key"), (own.path("ca.crt"), "ca.crt")] {
        let to = server.data().join(name);
        std::fs::copy(file, &to).unwrap();
        server.own(&to.display().to_string());
    }
    server.reload().await;
    reconnects(&server, &db).await;
    // While they are away, what they held last serves.
    std::fs::remove_file(&root).unwrap();
    reconnects(&server, &db).await;
}
