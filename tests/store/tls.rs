//! TLS to the server: always verified, the host's name too unless the URL says verify-ca. And what happens without it.

use std::path::Path;

use crate::authority::Authority;
use farmhand_store::reading::now;
use farmhand_store::{Db, DbConfig, PasswordIn, StoreError};
use farmhand_tests::pg::{Options, PrivateServer};

/// Starts a server again with what its data directory holds now.
fn restart(server: &mut PrivateServer, settings: &[(&str, &str)]) {
    let settings = settings
        .iter()
        .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
        .collect();
    server.restart(Some(Options {
        settings,
        ..Options::default()
    }));
}

/// A server that shows this certificate.
pub async fn tls_server(cert: &Path, key: &Path, ca: &str) -> PrivateServer {
    let mut server = PrivateServer::start(Options::default()).await;
    let place = |file: &Path, name: &str| {
        let to = server.data().join(name);
        std::fs::copy(file, &to).expect("a copy");
        let to = to.display().to_string();
        server.own(&to);
        to
    };
    let (cert, key, ca) = (
        place(cert, "s.crt"),
        place(key, "s.key"),
        place(Path::new(ca), "ca.crt"),
    );
    restart(
        &mut server,
        &[
            ("ssl", "on"),
            ("ssl_cert_file", &cert),
            ("ssl_key_file", &key),
            ("ssl_ca_file", &ca),
        ],
    );
    server
}

pub fn hba(server: &PrivateServer, rules: &str) {
    std::fs::write(
        server.data().join("pg_hba.conf"),
        format!("local all all trust\n{rules}\n"),
    )
    .unwrap();
}

pub fn with(server: &PrivateServer, options: &str) -> DbConfig {
    let url = format!("{}?{options}", server.tcp_url());
    DbConfig::from_url(&url, PasswordIn::Allowed).unwrap()
}

async fn refused(config: &DbConfig) -> String {
    Db::connect(config).await.err().expect("a refusal").to_string()
}

pub const LOOPBACK: &str = "subjectAltName=IP:127.0.0.1";

#[tokio::test]
async fn tls_is_verified_against_the_given_root_and_the_hosts_name() {
    let (own, other) = (Authority::new(), Authority::new());
    let (cert, key) = own.signs("server", "db", LOOPBACK, 0);
    let server = tls_server(&cert, &key, &own.root()).await;
    let mut open = Vec::new();
    for mode in ["verify-full", "verify-ca", "require"] {
        let good = with(&server, &format!("sslmode={mode}&sslrootcert={}", own.root()));
        let db = Db::connect(&good).await.unwrap();
        now(&db).await.unwrap();
        open.push(db);
    }
    let encrypted: bool = server
        .admin()
        .await
        .value(
            "SELECT bool_and(s.ssl) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE a.usename = 'farm'").await;
    assert!(encrypted);
    for mode in ["verify-full", "verify-ca", "require"] {
        // Another authority's root, and the system's.
        for root in [format!("&sslrootcert={}", other.root()), String::new()] {
            if mode == "verify-ca" && root.is_empty() {
                continue;
            }
            let said = refused(&with(&server, &format!("sslmode={mode}{root}"))).await;
            assert!(said.contains("invalid peer certificate"), "{mode}{root}: {said}");
        }
    }
}

#[tokio::test]
async fn a_certificate_for_another_host_is_refused_unless_the_name_is_left_out() {
    let (own, other) = (Authority::new(), Authority::new());
    let (cert, key) = own.signs("server", "127.0.0.1", "subjectAltName=DNS:other.example", 0);
    let server = tls_server(&cert, &key, &own.root()).await;
    for mode in ["verify-full", "require"] {
        let said = refused(&with(
            &server,
            &format!("sslmode={mode}&sslrootcert={}", own.root()),
        ))
        .await;
        assert!(said.contains("not valid for name"), "{mode}: {said}");
    }
    chain_alone_is_verified(&server, &own, &other).await;
}

/// As Cloud SQL's certificates need it: they name a project, and no host, and no name that is an alternative one.
#[tokio::test]
async fn a_certificate_without_a_usable_name_is_believed_for_its_chain() {
    let (own, other) = (Authority::new(), Authority::new());
    let (cert, key) = own.signs("server", "project:instance", "extendedKeyUsage=serverAuth", 0);
    let server = tls_server(&cert, &key, &own.root()).await;
    chain_alone_is_verified(&server, &own, &other).await;
}

async fn chain_alone_is_verified(server: &PrivateServer, own: &Authority, other: &Authority) {
    let root = |root: String| with(server, &format!("sslmode=verify-ca&sslrootcert={root}"));
    now(&Db::connect(&root(own.root())).await.unwrap()).await.unwrap();
    let said = refused(&root(other.root())).await;
    assert!(said.contains("invalid peer certificate"), "{said}");
    // Of the system's roots anybody can get a certificate.
    for root in ["", "&sslrootcert=system"] {
        let url = format!("{}?sslmode=verify-ca{root}", server.tcp_url());
        let error = DbConfig::from_url(&url, PasswordIn::Allowed).unwrap_err();
        assert!(error.to_string().contains("sslrootcert=FILE"), "{error}");
    }
}

#[tokio::test]
async fn an_expired_certificate_is_refused() {
    let own = Authority::new();
    let (cert, key) = own.signs("server", "db", LOOPBACK, 5);
    let server = tls_server(&cert, &key, &own.root()).await;
    for mode in ["verify-full", "verify-ca"] {
        let options = format!("sslmode={mode}&sslrootcert={}", own.root());
        let said = refused(&with(&server, &options)).await;
        assert!(said.contains("expired"), "{mode}: {said}");
    }
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_where_tls_is_due() {
    let server = PrivateServer::start(Options::default()).await;
    let own = Authority::new();
    let said = refused(&with(
        &server,
        &format!("sslmode=verify-full&sslrootcert={}", own.root()),
    ))
    .await;
    assert!(said.contains("does not support TLS"), "{said}");
    for mode in ["prefer", "allow"] {
        let url = format!("{}?sslmode={mode}", server.tcp_url());
        let error = DbConfig::from_url(&url, PasswordIn::Allowed).unwrap_err();
        assert!(error.to_string().contains("downgraded"), "{error}");
    }
}

#[tokio::test]
async fn a_client_shows_its_certificate_and_key() {
    let own = Authority::new();
    let (cert, key) = own.signs("server", "db", LOOPBACK, 0);
    let mut server = tls_server(&cert, &key, &own.root()).await;
    let (mine, my_key) = own.signs("client", "farm", "extendedKeyUsage=clientAuth", 0);
    hba(&server, "hostssl all all 127.0.0.1/32 cert");
    server.reload().await;
    let url = |key: &Path| {
        format!(
            "sslmode=verify-full&sslrootcert={}&sslcert={}&sslkey={}",
            own.root(),
            mine.display(),
            key.display()
        )
    };
    set_mode(&my_key, 0o600);
    now(&Db::connect(&with(&server, &url(&my_key))).await.unwrap())
        .await
        .unwrap();
    // Without one the server refuses.
    let error = Db::connect(&with(
        &server,
        &format!("sslmode=verify-full&sslrootcert={}", own.root()),
    ))
    .await
    .err()
    .unwrap();
    assert!(matches!(error, StoreError::Denied(_)), "{error}");
    // A key that others can read is not used, and half of the pair is a mistake.
    set_mode(&my_key, 0o644);
    for options in [
        url(&my_key),
        format!("sslmode=verify-full&sslcert={}", mine.display()),
    ] {
        let url = format!("{}?{options}", server.tcp_url());
        let error = DbConfig::from_url(&url, PasswordIn::Allowed).unwrap_err();
        assert_eq!(error.class(), "config", "{error}");
    }
    server.stop();
}

pub fn set_mode(file: &Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(file, std::fs::Permissions::from_mode(mode)).unwrap();
}

#[tokio::test]
async fn scram_proves_the_password_and_binds_it_to_the_tls_channel() {
    let own = Authority::new();
    let (cert, key) = own.signs("server", "db", LOOPBACK, 0);
    let server = tls_server(&cert, &key, &own.root()).await;
    server
        .admin()
        .await
        .exec("SET password_encryption = 'scram-sha-256'; ALTER ROLE farm PASSWORD 'geheim'")
        .await;
    hba(&server, "hostssl all all 127.0.0.1/32 scram-sha-256");
    server.reload().await;
    let options = |password: &str, more: &str| {
        format!(
            "sslmode=verify-full&sslrootcert={}&password={password}{more}",
            own.root()
        )
    };
    // tokio-postgres goes on only if the server took part in the binding.
    let bound = with(&server, &options("geheim", "&channel_binding=require"));
    now(&Db::connect(&bound).await.unwrap()).await.unwrap();
    let error = Db::connect(&with(&server, &options("falsch", "")))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, StoreError::Denied(_)), "{error}");
    assert!(!error.to_string().contains("falsch"));
}

#[tokio::test]
async fn without_tls_a_password_is_shown_to_nobody_and_proven_by_the_server() {
    let server = PrivateServer::start(Options::default()).await;
    server
        .admin()
        .await
        .exec("SET password_encryption = 'md5'; ALTER ROLE farm PASSWORD 'geheim'")
        .await;
    let config = with(&server, "password=geheim");
    for (method, said) in [
        ("password", "asks for the password"),
        ("md5", "MD5"),
        ("trust", "without showing"),
    ] {
        hba(&server, &format!("host all all 127.0.0.1/32 {method}"));
        server.reload().await;
        let error = Db::connect(&config).await.err().expect(method);
        assert!(
            matches!(&error, StoreError::Denied(why) if why.contains(said)),
            "{method}: {error}"
        );
    }
    // Nothing to lose: no password, no proof.
    Db::connect(&with(&server, "application_name=x")).await.unwrap();
    server
        .admin()
        .await
        .exec("SET password_encryption = 'scram-sha-256'; ALTER ROLE farm PASSWORD 'geheim'")
        .await;
    hba(&server, "host all all 127.0.0.1/32 scram-sha-256");
    server.reload().await;
    now(&Db::connect(&config).await.unwrap()).await.unwrap();
    let error = Db::connect(&with(&server, "password=falsch"))
        .await
        .err()
        .unwrap();
    assert!(matches!(error, StoreError::Denied(_)), "{error}");
}

#[tokio::test]
async fn a_password_comes_from_a_file_that_others_cannot_read() {
    let server = PrivateServer::start(Options::default()).await;
    server
        .admin()
        .await
        .exec("SET password_encryption = 'scram-sha-256'; ALTER ROLE farm PASSWORD 'ge:heim'")
        .await;
    hba(&server, "host all all 127.0.0.1/32 scram-sha-256");
    server.reload().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pass");
    std::fs::write(&file, "127.0.0.1:*:farmhand:farm:ge\\:heim\n").unwrap();
    set_mode(&file, 0o600);
    let option = format!("passfile={}", file.display());
    now(&Db::connect(&with(&server, &option)).await.unwrap())
        .await
        .unwrap();
    set_mode(&file, 0o640);
    for option in [option, "passfile=/nowhere".to_owned()] {
        let error = DbConfig::from_url(&format!("{}?{option}", server.tcp_url()), PasswordIn::Allowed);
        let said = error.unwrap_err().to_string();
        assert!(said.contains("password file") && !said.contains("heim"), "{said}");
    }
}
