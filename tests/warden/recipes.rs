//! The stores of secrets in docs/guides/recipes.md, as they stand there.

use std::process::Command;

use farmhand_tests::guides::blocks_of;
use farmhand_warden_client::wire::*;

use crate::harness::{Farmer, id, needs_root, policy, sh};

const VALUE: &str = "sesame-4711-open";

/// Makes the store of this number and has a job of `nobody` read its secret.
async fn store(nth: usize) {
    needs_root();
    let mut farmer = Farmer::new().await;
    let dir = farmer.dir.path().to_owned();
    let here = |text: &str| {
        let text = text.replace("/etc/farmhand", &dir.join("etc").display().to_string());
        // Not with a key of this machine, which would be made for it.
        text.replace(
            "systemd-creds encrypt",
            "systemd-creds --with-key=tpm2-absent encrypt",
        )
    };
    std::fs::create_dir(dir.join("etc")).unwrap();
    std::fs::write(dir.join("mail-out.txt"), VALUE).unwrap();
    let (scripts, tables) = (blocks_of("recipes.md", "sh"), blocks_of("recipes.md", "toml"));
    let made = Command::new("/bin/sh")
        .args(["-euc", &here(&scripts[nth])])
        .current_dir(&dir)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    std::fs::remove_file(dir.join("mail-out.txt")).unwrap();
    let rules = format!(
        "users = ['nobody']\n{}",
        here(&tables[nth]).replace("[user.mailer]", "[user.nobody]")
    );
    let rules = policy(&dir, &rules);

    let mut request = sh(
        id(1, 1),
        "f=$FARMHAND_SECRET_MAIL_FILE; stat -c '%a %U %s' $f; cat $f",
    );
    request.user = Some("nobody".to_owned());
    request.policy = rules;
    request.secrets.insert("MAIL".to_owned(), "mail-out".to_owned());
    let (result, output) = farmer.run(request.clone()).await;
    assert!(matches!(result.ending, Ending::Exited { code: 0 }), "{result:?}");
    assert_eq!(output.stdout, format!("400 nobody {}\n***", VALUE.len()));

    // One that is not in the store.
    request.id = id(2, 1);
    request.secrets.insert("MAIL".to_owned(), "mail-in".to_owned());
    let (result, _) = farmer.run(request).await;
    assert!(matches!(result.ending, Ending::StartFailed(_)), "{result:?}");
}

#[tokio::test]
async fn systemd_creds_keep_secrets() {
    store(0).await;
}

#[tokio::test]
async fn age_keeps_secrets() {
    store(1).await;
}
