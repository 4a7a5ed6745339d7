//! Attacks by an agent without rights on its warden: what root wrote down holds, whatever the agent says.

use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::os::unix::net::UnixStream;

use farmhand_os::accounts::{self, Account};
use farmhand_warden_client::wire::*;
use farmhand_warden_client::{Bounds, WardenClient, prepare};

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
async fn an_agent_cannot_replace_the_policy_that_root_set() {
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
async fn an_agent_cannot_switch_off_the_check_of_signatures() {
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

/// As the helper hands it over: said before the agent without rights has it.
fn held(farmer: &Farmer) -> UnixStream {
    let mut stream = UnixStream::connect(farmer.paths().private_dir().join("main.sock")).unwrap();
    ask(&mut stream, Request::Hold).unwrap();
    stream
}

fn ask(stream: &mut UnixStream, request: Request) -> Result<Reply, Refusal> {
    let message = serde_json::to_vec(&FromAgent { seq: 1, request }).unwrap();
    stream
        .write_all(&u32::try_from(message.len()).unwrap().to_be_bytes())
        .unwrap();
    stream.write_all(&message).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut answer = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut answer).unwrap();
    match serde_json::from_slice(&answer).unwrap() {
        FromWarden::Reply { result, .. } => result,
        FromWarden::Event(event) => panic!("{event:?}"),
    }
}

#[tokio::test]
async fn when_the_bounds_are_gone_an_agent_without_rights_starts_nothing_more() {
    let farmer = bounded("users = ['*']").await;
    let mut agent = held(&farmer);
    let hello = Request::Hello {
        protocol: PROTOCOL,
        agent_pid: 1,
        expect: None,
        address: "n1".to_owned(),
    };
    ask(&mut agent, hello).unwrap();
    let spawn = |number, user: &str| {
        let mut request = sh(id(number, 1), "true");
        request.user = Some(user.to_owned());
        Request::Spawn(Box::new(request))
    };
    ask(&mut agent, spawn(1, "nobody")).unwrap();
    Bounds::remove(&farmer.paths()).unwrap();
    for user in ["nobody", "root"] {
        let refused = ask(&mut agent, spawn(2, user)).unwrap_err();
        assert!(refused.to_string().contains("bounds"), "{refused}");
    }
    let trusted_keys = farmer.dir.path().join("keys-of-its-own");
    let signed = Vec::new();
    assert!(ask(&mut agent, Request::Note { trusted_keys, signed }).is_err());
    // Whoever else has root's rights takes it over, and is held to nothing.
    let (client, _notices) = WardenClient::connect(farmer.paths().state_dir(), None, "n1")
        .await
        .unwrap()
        .unwrap();
    let mut request = sh(id(3, 1), "true");
    request.user = Some("root".to_owned());
    client.spawn(request).await.unwrap();
}

#[tokio::test]
async fn runs_that_are_a_link_or_somebody_elses_are_not_given_to_the_agents_group() {
    let farmer = bounded("users = ['*']").await;
    let (paths, outside) = (farmer.paths(), farmer.dir.path().join("outside"));
    prepare(&paths).unwrap();
    let found = std::fs::metadata(paths.runs()).unwrap();
    assert_eq!((found.gid(), found.mode() & 0o7777), (account(AGENT).gid, 0o751));
    std::fs::remove_dir(paths.runs()).unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::fs::set_permissions(&outside, std::fs::Permissions::from_mode(0o700)).unwrap();
    symlink(&outside, paths.runs()).unwrap();
    assert!(prepare(&paths).unwrap_err().to_string().contains("no link"));
    std::fs::remove_file(paths.runs()).unwrap();
    std::fs::rename(&outside, paths.runs()).unwrap();
    std::os::unix::fs::chown(paths.runs(), Some(account(AGENT).uid), None).unwrap();
    assert!(prepare(&paths).is_err());
    let found = std::fs::metadata(paths.runs()).unwrap();
    assert_eq!((found.gid(), found.mode() & 0o7777), (0, 0o700));
}
