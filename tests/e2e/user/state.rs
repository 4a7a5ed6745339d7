//! The state directory of an agent without rights: whose it must be, and whose the node is.

use std::fs;
use std::os::unix::fs::{chown, symlink};
use std::path::Path;

use super::*;

/// What an agent says that does not start.
async fn refused(farm: &mut Farm) -> String {
    let before = farm.agents[0].log().len();
    farm.agents[0].spawn();
    let status = farm.agents[0].exit(SOON).await;
    let said = farm.agents[0].log().split_off(before);
    assert_eq!(status.code(), Some(1), "{said}");
    said
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_others_could_change_is_refused() {
    let mut farm = farm().prepare().await;
    let (state, uid) = (farm.agents[0].state_dir.clone(), uid_of(AGENT));
    fs::create_dir(&state).expect("a directory");
    for part in ["", "warden", "runs"] {
        let part = state.join(part);
        if !part.exists() {
            fs::create_dir(&part).expect("a directory");
            mode(&part, 0o700);
        }
        chown(&part, Some(uid), None).expect("its owner");
        let said = refused(&mut farm).await;
        assert!(
            said.contains(&format!("belongs to user {uid}")) && said.contains("chown root"),
            "{said}"
        );
        chown(&part, Some(0), None).expect("its owner");
    }
    let outside = farm.dir().join("outside");
    fs::create_dir(&outside).expect("a directory");
    mode(&outside, 0o700);
    fs::remove_dir(state.join("runs")).expect("an empty directory");
    symlink(&outside, state.join("runs")).expect("a link");
    let said = refused(&mut farm).await;
    assert!(said.contains("runs is a link"), "{said}");
    assert_eq!(group_and_mode(&outside), (0, 0o700));
    fs::remove_file(state.join("runs")).expect("a link");
    mode(farm.dir(), 0o777);
    let said = refused(&mut farm).await;
    assert!(said.contains("0777"), "{said}");
    mode(farm.dir(), 0o755);
    farm.agents[0].start().await;
    farm.check().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_agent_that_does_not_get_the_node_leaves_the_first_ones_limits_alone() {
    let mut farm = farm().start().await;
    let bounds = farm.agents[0].state_dir.join("warden/bounds");
    let written = fs::read(&bounds).expect("bounds");
    let with_rights = |farm: &mut Farm| {
        let agent = &mut farm.agents[0];
        let at = agent
            .arguments
            .iter()
            .position(|a| a == "--user")
            .expect("its user");
        agent.arguments.drain(at..at + 2);
    };
    let before = farm.agents[0].arguments.clone();
    with_rights(&mut farm);
    let mut second = farm.agents[0].command();
    farm.agents[0].arguments = before;
    let status = tokio::task::spawn_blocking(move || second.status());
    let status = status.await.expect("no panic").expect("an agent");
    assert_eq!(status.code(), Some(1), "its port is taken: {status}");
    assert_eq!(fs::read(&bounds).expect("bounds"), written);
    let run = farm.submit("agent").await;
    let ended = farm.over(run, SOON).await;
    assert_eq!(
        (ended.state.as_str(), ended.exit_code),
        ("failed", Some(126)),
        "{ended:?}"
    );
    // One that gets it is held to nothing.
    let mut first = farm.agents[0].set_aside();
    with_rights(&mut farm);
    farm.agents[0].start().await;
    assert!(!bounds.exists());
    let run = farm.submit("agent").await;
    farm.succeeds(run).await;
    let left = tokio::task::spawn_blocking(move || first.wait()).await;
    assert!(left.expect("no panic").is_ok());
    farm.check().await;
}
