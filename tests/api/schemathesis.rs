//! schemathesis makes up requests from the OpenAPI document: no answer is a 500, and none that the document does not know.

use std::process::Command;

use super::definitions::with_login;
use super::fixture::{JOBS, tool};

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_one_that_the_document_knows() {
    let tool = tool("schemathesis");
    let f = with_login().await;
    f.farm.apply(JOBS);
    let token = f.token("fuzz", "admin", "1h");
    // Something to be found.
    for _ in 0..3 {
        f.post(&token, "/api/v1/jobs/done/runs", "").await.json();
    }
    // A real one, so that more than "there is no such thing" is looked at.
    std::fs::write(
        f.farm.dir().join("schemathesis.toml"),
        "[parameters]\n\"path.job\" = \"done\"\n\"path.run\" = 2\n\"path.node\" = \"n1\"\n",
    )
    .expect("its configuration");
    let out = Command::new(tool)
        .current_dir(f.farm.dir())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .args(["run", &format!("http://127.0.0.1:{}/api/v1/openapi.json", f.port)])
        .args(["-H", &format!("Authorization: Bearer {token}")])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--checks"])
        .arg(
            "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
        )
        // Streams go on until their reader leaves.
        .args(["--exclude-path-regex", "stream|follow"])
        .args([
            "--max-examples",
            "12",
            "--rate-limit",
            "90/s",
            "--request-timeout",
            "15",
        ])
        .args(["--generation-database", "none", "--seed", "1", "--no-color"])
        .output()
        .expect("schemathesis starts");
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(
        out.status.success(),
        "{said}\n{}",
        String::from_utf8_lossy(&out.stderr)
    );
    println!("{said}");
}
