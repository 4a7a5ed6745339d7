//! Every route × every caller.

use farmhand_store::Role;
use farmhand_web::{Access, routes};

use super::client::send;
use super::fixture::Fixture;

/// A path that leads to the route and to nothing that exists.
fn concrete(path: &str) -> String {
    let mut out = String::new();
    for part in path.split('/').skip(1) {
        out.push('/');
        out.push_str(if part.starts_with('{') { "424242" } else { part });
    }
    out
}

#[tokio::test]
async fn every_route_asks_for_its_role_and_nothing_less_will_do() {
    let f = Fixture::new().await;
    let tokens: Vec<(Role, String)> = Role::ALL
        .iter()
        .map(|role| (*role, f.token(&format!("t-{role}"), role.as_str(), "1h")))
        .collect();
    let expired = f.token("expired", "admin", "1s");
    let revoked = f.token("revoked", "admin", "1h");
    f.farm.ok(&["token", "revoke", "revoked"]);
    let made_up = "fh_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
    let over = async || f.get(&expired, "/api/v1/me").await.status;
    f.refused_soon("an expired token", over).await;
    let table = routes();
    let table = table.table();
    assert!(table.len() > 12, "{table:#?}");
    let mut walked = 0;
    for route in table {
        let (method, path) = (route.method.as_str(), concrete(&route.path));
        let (needs, page) = match route.access {
            Access::Open => {
                let reply = send(f.port, method, &path, &[], "").await;
                assert!(![401, 403].contains(&reply.status), "{method} {path}: {reply:?}");
                continue;
            }
            Access::Api(role) => (role, false),
            Access::Page(role) => (role, method == "GET"),
        };
        let turned_away = |status: u16| status == 401 || (page && status == 303);
        let reply = send(f.port, method, &path, &[], "").await;
        assert!(
            turned_away(reply.status),
            "{method} {path} without a token: {reply:?}"
        );
        for bad in [&expired, &revoked, made_up, ""] {
            let bearer = format!("Bearer {bad}");
            let reply = send(f.port, method, &path, &[("Authorization", &bearer)], "").await;
            // The address has shown many wrong ones by then.
            assert!(
                turned_away(reply.status) || reply.status == 429,
                "{method} {path} with {bad:?}: {reply:?}"
            );
        }
        for (role, token) in &tokens {
            if path.ends_with("/stream") || path.ends_with("/follow") {
                continue;
            }
            let bearer = format!("Bearer {token}");
            let reply = send(f.port, method, &path, &[("Authorization", &bearer)], "").await;
            assert_eq!(
                reply.status == 403,
                *role < needs,
                "{method} {path} as {role}, needs {needs}: {reply:?}"
            );
            assert!(![401, 500].contains(&reply.status), "{method} {path}: {reply:?}");
        }
        walked += 1;
    }
    assert!(walked >= 12, "{walked}");
    for reason in ["no_token", "role"] {
        f.recorded(reason).await;
    }
}

#[tokio::test]
async fn machines_need_no_token_and_learn_nothing_of_jobs() {
    let f = Fixture::new().await;
    for path in ["/metrics", "/healthz", "/readyz", "/api/v1/openapi.json"] {
        let reply = send(f.port, "GET", path, &[], "").await;
        assert_eq!(reply.status, 200, "{path}: {reply:?}");
        for name in ["daily", "done"] {
            assert!(
                !reply.body.contains(&format!("\"{name}\"")) || path == "/metrics",
                "{path}"
            );
        }
        for header in [
            "content-security-policy",
            "x-content-type-options",
            "x-frame-options",
            "referrer-policy",
        ] {
            assert!(reply.header(header).is_some(), "{path}: no {header}");
        }
    }
}
