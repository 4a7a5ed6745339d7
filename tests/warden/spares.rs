//! Directories that serve again.

use crate::harness::{Farmer, id, needs_root, policy, sh};

/// Its run directory's number, mode, owner and entries.
const LOOK: &str = "stat -c '%i %a %u:%g' \"$FARMHAND_RUN_DIR\"; ls -A \"$FARMHAND_RUN_DIR\"";

async fn looked(farmer: &mut Farmer, run: i64, script: &str, user: Option<&str>) -> String {
    let mut request = sh(id(run, 1), script);
    request.user = user.map(str::to_owned);
    request.policy = policy(farmer.dir.path(), "users = ['daemon', 'root']");
    let (result, output) = farmer.run(request).await;
    assert!(result.succeeded(), "{result:?} {output:?}");
    farmer.client.ack(id(run, 1), true).await.unwrap();
    assert!(!farmer.paths().attempt_dir(id(run, 1)).exists());
    output.stdout
}

#[tokio::test]
async fn what_one_attempt_left_empty_is_the_next_ones_and_what_it_left_full_is_gone() {
    needs_root();
    let mut farmer = Farmer::new().await;
    let first = looked(&mut farmer, 1, LOOK, None).await;
    let second = looked(
        &mut farmer,
        2,
        &format!("{LOOK}; touch \"$FARMHAND_RUN_DIR/x\""),
        None,
    )
    .await;
    assert_eq!(first, second);
    let third = looked(&mut farmer, 3, LOOK, None).await;
    assert!(third.ends_with(" 700 0:0\n"), "{third}");
    // A user's own, and then nobody's.
    let fourth = looked(
        &mut farmer,
        4,
        "stat -c '%a %U' \"$FARMHAND_RUN_DIR\"",
        Some("daemon"),
    )
    .await;
    assert_eq!(fourth, "700 daemon\n");
    let fifth = looked(&mut farmer, 5, LOOK, None).await;
    assert!(fifth.ends_with(" 700 0:0\n"), "{fifth}");
}
