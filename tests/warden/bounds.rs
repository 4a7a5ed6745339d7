//! Attacks by an agent without rights on its warden: what root wrote down holds, whatever the agent says.

use farmhand::accounts::{self, Account};
use farmhand::warden::Bounds;
use farmhand::warden::protocol::*;

use crate::harness::{Farmer, id, needs_root, policy, sh};

/// Named by nobody in any policy here.
const AGENT: &str = "www-data";

fn account(name: &str) -> Account {
    let found = accounts::find(name).unwrap();
    found
        .unwrap_or_else(|| panic!("this test needs the user {name}, as Debian has it"))
        .account
}

async fn bounded(rules: &str) -> Farmer {
    needs_root();
    let farmer = Farmer::new().await;
    let bounds = Bounds {
        agent: account(AGENT),
        policy: policy(farmer.dir.path(), rules).unwrap(),
        trusted_keys: None,
        secrets_dir: farmer.dir.path().join("store"),
    };
    bounds.write(&farmer.paths()).unwrap();
    farmer
}

async fn refusal(farmer: &mut Farmer, request: SpawnRequest) -> StartFailure {
    match farmer.run(request).await.0.ending {
        Ending::StartFailed(failure) => failure,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn an_agent_names_its_own_policy_or_none_and_the_roots_holds() {
    let mut farmer = bounded("users = ['*']").await;
    let generous = farmer.dir.path().join("generous.toml");
    std::fs::write(&generous, format!("users = ['*', 'root', '{AGENT}']")).unwrap();
    let mut number = 0;
    for named in [None, Some(generous)] {
        for user in [None, Some("root"), Some(AGENT)] {
            number += 1;
            let mut request = sh(id(number, 1), "id -un");
            request.policy.clone_from(&named);
            request.user = user.map(str::to_owned);
            let failure = refusal(&mut farmer, request).await;
            assert_eq!(failure.stage, Stage::Policy, "{failure:?}");
        }
        number += 1;
        let mut request = sh(id(number, 1), "id -un");
        request.policy.clone_from(&named);
        request.user = Some("nobody".to_owned());
        let (result, output) = farmer.run(request).await;
        assert!(result.succeeded(), "{result:?}");
        assert_eq!(output.stdout, "nobody\n");
    }
}

#[tokio::test]
async fn an_agent_says_that_no_keys_are_asked_for_and_they_are() {
    let mut farmer = bounded("users = ['*']").await;
    let list = farmer.dir.path().join("trusted-keys");
    std::fs::write(&list, "# nobody is trusted\n").unwrap();
    let mut bounds = Bounds::now(&farmer.paths()).unwrap().unwrap();
    bounds.trusted_keys = Some(list);
    bounds.write(&farmer.paths()).unwrap();
    let mut request = sh(id(1, 1), "id -un");
    request.user = Some("nobody".to_owned());
    request.trusted_keys = None;
    let failure = refusal(&mut farmer, request).await;
    assert_eq!(failure.stage, Stage::Signature, "{failure:?}");
}

#[tokio::test]
async fn bounds_that_cannot_be_read_let_nothing_start() {
    let farmer = bounded("users = ['*']").await;
    std::fs::write(farmer.paths().bounds(), "{").unwrap();
    let mut request = sh(id(1, 1), "id -un");
    request.user = Some("nobody".to_owned());
    let refused = farmer.client.spawn(request).await.unwrap_err();
    assert!(refused.to_string().contains("bounds"), "{refused}");
}

#[tokio::test]
async fn a_secret_named_like_a_path_becomes_no_file() {
    let farmer = bounded("users = ['*']\nsecrets = ['*']").await;
    let store = farmer.dir.path().join("store");
    std::fs::create_dir(&store).unwrap();
    std::fs::write(store.join("mail"), "sesame-4711").unwrap();
    let planted = farmer.dir.path().join("planted");
    for name in [
        "../../../planted".to_owned(),
        planted.display().to_string(),
        String::new(),
    ] {
        let mut request = sh(id(1, 1), "true");
        request.user = Some("nobody".to_owned());
        request.secrets.insert(name.clone(), "mail".to_owned());
        let refused = farmer.client.spawn(request).await.unwrap_err();
        assert!(refused.to_string().contains("secret's name"), "{name}: {refused}");
    }
    assert!(!planted.exists());
}
