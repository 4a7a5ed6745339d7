//! TLS to the server: always verified, the host's name too.

use farmhand_common::store::query::now;
use farmhand_common::store::{Db, DbConfig, PasswordIn, StoreError};
use farmhand_tests::pg::{Options, PrivateServer, config};

/// A certificate for `name` signed by itself, as (certificate, key).
fn certificate(dir: &std::path::Path, san: &str) -> (String, String) {
    let (crt, key) = (dir.join("server.crt"), dir.join("server.key"));
    let out = std::process::Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:P-256",
            "-nodes",
            "-days",
            "2",
        ])
        .args([
            "-subj",
            "/CN=test",
            "-addext",
            san,
            "-addext",
            "basicConstraints=critical,CA:FALSE",
        ])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&crt)
        .output()
        .expect("this test needs openssl: apt-get install openssl");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    (crt.display().to_string(), key.display().to_string())
}

async fn tls_server(san: &str) -> (PrivateServer, String) {
    let mut server = PrivateServer::start(Options::default()).await;
    let (crt, key) = certificate(&server.data(), san);
    server.own(&key);
    server.own(&crt);
    let settings = [
        ("ssl", "on"),
        ("ssl_cert_file", crt.as_str()),
        ("ssl_key_file", key.as_str()),
    ];
    let settings = settings.map(|(k, v)| (k.to_owned(), v.to_owned())).to_vec();
    server.restart(Some(Options {
        settings,
        ..Options::default()
    }));
    (server, crt)
}

#[tokio::test]
async fn tls_is_verified_against_the_given_root_and_the_hosts_name() {
    let (server, crt) = tls_server("subjectAltName=IP:127.0.0.1").await;
    let url = |options: &str| format!("{}?{options}", server.tcp_url());
    let config = |options: &str| DbConfig::from_url(&url(options), PasswordIn::Allowed).unwrap();
    let good = config(&format!("sslmode=verify-full&sslrootcert={crt}"));
    let db = Db::connect(&good).await.unwrap();
    now(&db).await.unwrap();
    let encrypted: bool = server
        .admin()
        .await
        .query_one("SELECT bool_or(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'farm'", &[])
        .await
        .unwrap()
        .get(0);
    assert!(encrypted);
    // Not signed by a root of the system's.
    let error = Db::connect(&config("sslmode=verify-full")).await.err().unwrap();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused() {
    let (server, crt) = tls_server("subjectAltName=DNS:other.example").await;
    let url = format!("{}?sslmode=require&sslrootcert={crt}", server.tcp_url());
    let error = Db::connect(&config(&url)).await.err().unwrap();
    assert!(error.to_string().contains("not valid for name"), "{error}");
}
