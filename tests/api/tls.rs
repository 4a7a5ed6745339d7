//! From other machines: by TLS or not at all.

use std::process::Command;

use farmhand_tests::bin::farmhand;
use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::outside::Certificate;

use super::client::send;

fn curl(port: u16, ca: &str, path: &str, more: &[&str]) -> (bool, String) {
    let out = Command::new("curl")
        .args(["-si", "--max-time", "10", "--cacert", ca])
        .args(more)
        .arg(format!("https://localhost:{port}{path}"))
        .output()
        .expect("this test needs curl: apt-get install curl");
    (
        out.status.success(),
        String::from_utf8_lossy(&out.stdout).into_owned(),
    )
}

#[tokio::test]
async fn by_tls_the_cookie_is_secure_and_a_new_certificate_is_taken_over() {
    let dir = tempfile::tempdir().unwrap();
    let certificate = Certificate::new(dir.path());
    let (cert, key) = (dir.path().join("localhost.crt"), dir.path().join("localhost.key"));
    let mut farm = Farm::new()
        .arguments(&[
            "--tls-cert",
            cert.to_str().unwrap(),
            "--tls-key",
            key.to_str().unwrap(),
        ])
        .prepare()
        .await;
    farm.agents[0].spawn();
    let port = farm.agents[0].port;
    let ca = certificate.file.to_str().unwrap().to_owned();
    let log = || farm.agents[0].log_tail(20);
    let so = |is: bool| if is { Ok(()) } else { Err(log()) };
    farm.eventually("it is ready", SOON, async || {
        so(curl(port, &ca, "/readyz", &[]).1.contains(" 200 "))
    })
    .await;
    let token = farm.ok(&["token", "create", "t", "--role", "viewer"]);
    let (_, login) = curl(port, &ca, "/login", &["-d", &format!("token={}", token.trim())]);
    assert!(
        login.contains("__Host-farmhand=fh_") && login.contains("; Secure"),
        "{login}"
    );
    let plain = super::client::raw(port, b"GET /healthz HTTP/1.1\r\nHost: farm\r\n\r\n").await;
    assert!(!plain.contains("200"), "{plain}");

    let other = tempfile::tempdir().unwrap();
    let next = Certificate::new(other.path());
    std::fs::copy(other.path().join("localhost.key"), &key).unwrap();
    std::fs::copy(&next.file, &cert).unwrap();
    farm.agents[0].signal(libc::SIGHUP);
    let ca = next.file.to_str().unwrap();
    farm.eventually("the new certificate", SOON, async || {
        so(curl(port, ca, "/healthz", &[]).0)
    })
    .await;
    // A broken one changes nothing.
    std::fs::write(&cert, "no certificate").unwrap();
    farm.agents[0].signal(libc::SIGHUP);
    farm.eventually("it says that the certificate is none", SOON, async || {
        so(farm.agents[0].log().contains("the configuration stays as it was"))
    })
    .await;
    assert!(curl(port, ca, "/healthz", &[]).0);
}

#[tokio::test]
async fn the_api_is_not_served_in_the_clear_where_others_reach_it() {
    let agent = |listen: &str, more: &[&str]| {
        let out = Command::new(farmhand())
            .args(["agent", "--listen", listen, "--state-dir", "/dev/null/fh"])
            .args(more)
            .env("FARMHAND_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/none")
            .output()
            .expect("farmhand starts");
        (
            out.status.code(),
            String::from_utf8_lossy(&out.stderr).into_owned(),
        )
    };
    for listen in ["0.0.0.0:7070", "[::]:7070", "192.0.2.1:7070"] {
        let (code, said) = agent(listen, &[]);
        assert_eq!(code, Some(2), "{said}");
        for way in ["--tls-cert", "127.0.0.1", "--api off"] {
            assert!(said.contains(way), "{said}");
        }
    }
    for more in [&["--tls-cert", "/x"][..], &["--tls-key", "/x"]] {
        let (code, said) = agent("127.0.0.1:0", more);
        assert!(code == Some(2) && said.contains("go together"), "{said}");
    }
    // The state directory cannot be made: so far it gets.
    for (listen, more) in [("0.0.0.0:0", &["--api", "off"][..]), ("127.0.0.1:0", &[])] {
        let (code, said) = agent(listen, more);
        assert!(code == Some(1) && said.contains("/dev/null/fh"), "{said}");
    }
}

#[tokio::test]
async fn without_the_api_only_metrics_and_health_are_there() {
    let mut farm = Farm::new().arguments(&["--api", "off"]).prepare().await;
    farm.start_agents().await;
    let port = farm.agents[0].port;
    for path in ["/metrics", "/healthz", "/readyz"] {
        assert_eq!(send(port, "GET", path, &[], "").await.status, 200, "{path}");
    }
    for path in ["/", "/login", "/api/v1/me", "/api/v1/openapi.json"] {
        send(port, "GET", path, &[], "").await.problem(404);
    }
}
