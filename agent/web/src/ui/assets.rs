//! What the browser loads: three files in the binary, under addresses that change with their content.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use xxhash_rust::xxh3::xxh3_64;

struct Asset {
    name: &'static str,
    kind: &'static str,
    bytes: &'static [u8],
}

const ASSETS: [Asset; 3] = [
    Asset {
        name: "farmhand.css",
        kind: "text/css; charset=utf-8",
        bytes: include_bytes!("../../assets/farmhand.css"),
    },
    Asset {
        name: "farmhand.js",
        kind: "text/javascript; charset=utf-8",
        bytes: include_bytes!("../../assets/farmhand.js"),
    },
    Asset {
        name: "icon.svg",
        kind: "image/svg+xml",
        bytes: include_bytes!("../../assets/icon.svg"),
    },
];

/// One name for the content of all of them: an agent of another version has other addresses, and a browser that
/// goes from one agent to the next never mixes two versions.
static VERSION: LazyLock<String> = LazyLock::new(|| {
    let all: Vec<u8> = ASSETS.iter().flat_map(|a| a.bytes).copied().collect();
    format!("{:016x}", xxh3_64(&all))
});

/// Where the browser finds an asset.
pub fn address(name: &str) -> String {
    format!("/assets/{}/{name}", *VERSION)
}

/// Any version is answered with ours: during an upgrade a page of the older agent asks this one. Only ours may be kept.
pub async fn serve(Path((version, name)): Path<(String, String)>) -> Response {
    let Some(asset) = ASSETS.iter().find(|a| a.name == name) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let keep = if version == *VERSION {
        "public, max-age=31536000, immutable"
    } else {
        "no-store"
    };
    let headers = [
        (header::CONTENT_TYPE, asset.kind),
        (header::CACHE_CONTROL, keep),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    (headers, asset.bytes).into_response()
}
