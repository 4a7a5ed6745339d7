//! Who may write a target of notifications reads no file of the nodes by it.

use std::fs;
use std::os::unix::fs::symlink;

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::outside::Hook;
use farmhand_tests::pg::connect;
use serde_json::json;

#[tokio::test(flavor = "multi_thread")]
async fn a_targets_file_is_an_entry_of_the_secrets_directory_and_nothing_else() {
    let hook = Hook::start().await;
    let base = tempfile::tempdir().expect("a directory");
    let secrets = base.path().join("secrets");
    fs::create_dir(&secrets).expect("a directory");
    // As a file that an agent can read and nobody else should: it happens to look like headers.
    let outside = base.path().join("outside");
    fs::write(&outside, "root: sesame\n").expect("a file");
    fs::write(secrets.join("good"), "X-Good: yes\n").expect("a file");
    symlink(&outside, secrets.join("link")).expect("a link");
    let farm = Farm::new()
        .env("FARMHAND_SECRETS_DIR", secrets.display().to_string())
        .start()
        .await;
    let operator = connect(&farm.database.operator_url()).await;
    for (name, file) in [
        ("absolute", outside.display().to_string()),
        ("above", "../outside".to_owned()),
        ("link", "link".to_owned()),
        ("good", "good".to_owned()),
    ] {
        let spec = json!({"webhook": hook.url(&format!("/{name}")), "headers_file": file, "on": ["failure"]});
        operator
            .exec_with(
                "INSERT INTO farmhand.notify_target (name, spec, source, changed_by, changed_at)
                 VALUES ($1, $2, '', 'x', now())",
                &[&name, &spec],
            )
            .await;
        let _ = farm.farmhand(&["notify", "test", name]);
    }
    farm.eventually("the honest one arrives, the others are tried", SOON, async || {
        let tried = "SELECT count(*) FROM farmhand.notification WHERE tries > 0 OR state = 'delivered'";
        match (hook.calls().len(), farm.value::<i64>(tried).await) {
            (1.., 4) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let calls = hook.calls();
    assert_eq!(
        calls.iter().map(|call| call.path.as_str()).collect::<Vec<_>>(),
        ["/good"]
    );
    assert_eq!(calls[0].header("x-good"), "yes");
}
