//! Agents come and go; the warden and its attempts stay.

use std::io::{Read, Write};
use std::time::Duration;

use farmhand_warden_client::wire::*;
use farmhand_warden_client::{Notice, WardenClient, WardenError};

use super::harness::*;

#[tokio::test]
async fn after_an_agents_crash_the_next_one_finds_the_same_attempt_and_all_its_output() {
    let mut farmer = Farmer::new().await;
    let script = "echo before; echo $$ >up; read x <go; echo after";
    std::fs::create_dir_all(farmer.paths().runs()).unwrap();
    let mut request = sh(id(1, 1), &format!("mkfifo go; {script}"));
    request.extra = serde_json::json!({ "job": "report" });
    let pid = farmer.spawn(request).await;
    farmer.file(id(1, 1), "up").await;
    let identity = farmer.client.identity().clone();
    let (client, notices) = WardenClient::connect(farmer.dir.path(), None, "n1")
        .await
        .unwrap()
        .expect("it lives on");
    // The old agent says nothing and is gone.
    farmer.client = client;
    farmer.notices = notices;
    let now = farmer.client.identity();
    assert_eq!(
        (now.serving, now.warden_pid, now.generation),
        (identity.serving, identity.warden_pid, 2)
    );
    let listed = farmer.client.list().await.unwrap();
    let found = listed.find(id(1, 1)).unwrap();
    assert_eq!((found.pid, found.state, found.fence), (pid, State::Running, 1001));
    assert_eq!(found.extra["job"], "report");
    std::fs::write(farmer.paths().run_dir(id(1, 1)).join("go"), "go\n").unwrap();
    let (result, output) = farmer.ended(id(1, 1)).await;
    assert!(result.succeeded());
    assert_eq!(output.stdout, "before\nafter\n");
}

#[tokio::test]
async fn an_exit_is_told_to_every_new_agent_until_it_is_acknowledged() {
    let mut farmer = Farmer::new().await;
    let mut request = sh(id(1, 1), "exit 8");
    request.extra = serde_json::json!({ "job": "report" });
    farmer.run(request).await;
    for _ in 0..2 {
        let found = WardenClient::connect(farmer.dir.path(), None, "n1")
            .await
            .unwrap();
        (farmer.client, farmer.notices) = found.unwrap();
        let listed = farmer.client.list().await.unwrap();
        assert_eq!(listed.find(id(1, 1)).unwrap().extra["job"], "report");
        let Notice::Event(Event::Exited(told)) = farmer.notice().await else {
            panic!("nothing else is to be told");
        };
        assert_eq!(told.result.unwrap().exit_code(), Some(8));
        assert!(
            told.extra.is_null(),
            "what the list tells travels once: {:?}",
            told.extra
        );
    }
    farmer.client.ack(id(1, 1), false).await.unwrap();
    assert!(farmer.client.list().await.unwrap().attempts.is_empty());
    assert!(farmer.paths().attempt_dir(id(1, 1)).exists());
    assert_eq!(farmer.paths().attempts_on_disk().unwrap(), [id(1, 1)]);
}

#[tokio::test]
async fn attempts_of_which_more_is_noted_than_an_answer_holds_are_all_listed() {
    let mut farmer = Farmer::new().await;
    // As of jobs with a long input for their commands.
    let noted = serde_json::json!({ "stdin": "x".repeat(MAX_STDIN) });
    for run in 1..=20 {
        let mut request = sh(id(run, 1), if run % 2 == 0 { "true" } else { "sleep 1000" });
        request.extra.clone_from(&noted);
        farmer.spawn(request).await;
    }
    let mut ended = 0;
    while ended < 10 {
        match farmer.notice().await {
            Notice::Event(Event::Exited(_)) => ended += 1,
            Notice::Gone => panic!("the warden is gone"),
            Notice::Event(_) => {}
        }
    }
    farmer.client.forbid(id(30, 1)).await.unwrap();
    let listed = farmer.client.list().await.unwrap();
    let mut runs: Vec<i64> = listed.attempts.iter().map(|report| report.id.run_id).collect();
    runs.sort_unstable();
    assert_eq!(runs, Vec::from_iter(1..=20));
    assert!(listed.attempts.iter().all(|report| report.extra == noted));
    assert_eq!((listed.tombstones, listed.more), (vec![id(30, 1)], false));
}

#[tokio::test]
async fn a_superseded_agent_is_told_and_can_do_nothing_more() {
    let mut farmer = Farmer::new().await;
    farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    let (newer, _notices) = WardenClient::connect(farmer.dir.path(), None, "n1")
        .await
        .unwrap()
        .unwrap();
    assert!(matches!(
        farmer.notice().await,
        Notice::Event(Event::Superseded { generation: 2 })
    ));
    assert!(matches!(farmer.notice().await, Notice::Gone));
    let kill = farmer
        .client
        .kill(id(1, 1), Duration::ZERO, KillReason::Cancel)
        .await;
    assert!(matches!(kill, Err(WardenError::Gone)));
    let listed = newer.list().await.unwrap();
    assert_eq!(listed.find(id(1, 1)).unwrap().state, State::Running);
}

#[tokio::test]
async fn an_agent_of_another_node_is_refused_and_takes_nothing_over() {
    let farmer = Farmer::new().await;
    let connect = |address| WardenClient::connect(farmer.dir.path(), None, address);
    match connect("n2").await {
        Err(WardenError::Refused(Refusal::WrongAddress { address, serving })) => {
            assert_eq!(
                (address.as_str(), serving),
                ("n1", farmer.client.identity().serving)
            );
        }
        other => panic!("{other:?}"),
    }
    // The agent that is there goes on.
    assert!(farmer.client.list().await.unwrap().attempts.is_empty());
    let (client, _notices) = connect("n1").await.unwrap().unwrap();
    assert_eq!(client.identity().address, "n1");
}

#[tokio::test]
async fn asking_who_is_there_takes_nothing_over() {
    let farmer = Farmer::new().await;
    let told = WardenClient::identify(farmer.dir.path()).await.unwrap().unwrap();
    assert_eq!(
        (told.generation, told.serving),
        (1, farmer.client.identity().serving)
    );
    assert!(farmer.client.list().await.is_ok());
}

#[tokio::test]
async fn that_no_warden_lives_is_told_only_when_it_is_certain() {
    let dir = state_dir();
    assert!(
        WardenClient::connect(dir.path(), None, "n1")
            .await
            .unwrap()
            .is_none()
    );
    let farmer = Farmer::new().await;
    farmer.kill_warden().await;
    assert!(
        WardenClient::connect(farmer.dir.path(), None, "n1")
            .await
            .unwrap()
            .is_none()
    );
    // And a new one can serve there.
    let next = launch(farmer.dir.path());
    let (client, _notices) = next.start().await.unwrap();
    assert_eq!(client.identity().serving, next.serving);
    client.proof().kill_warden().unwrap();
    client.proof().tree_gone().await.unwrap();
}

#[tokio::test]
async fn a_stopped_warden_is_no_answer_and_can_be_ended() {
    let farmer = Farmer::new().await;
    let main = farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    // SAFETY: a process this test started.
    unsafe { libc::kill(farmer.client.identity().warden_pid, libc::SIGSTOP) };
    let refused = WardenClient::connect(farmer.dir.path(), None, "n1").await;
    let Err(WardenError::NoAnswer { proof: Some(proof) }) = refused else {
        panic!("{refused:?}")
    };
    proof.kill_warden().unwrap();
    proof.tree_gone().await.unwrap();
    assert!(!alive(main));
}

#[tokio::test]
async fn another_user_may_not_speak_to_a_warden() {
    needs_root();
    let farmer = Farmer::new().await;
    let socket = farmer.dir.path().join("warden/main.sock");
    // Even where the directory would let it through.
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(
        farmer.dir.path().join("warden"),
        std::fs::Permissions::from_mode(0o777),
    )
    .unwrap();
    std::fs::set_permissions(&socket, std::fs::Permissions::from_mode(0o666)).unwrap();
    let answer = std::thread::spawn(move || {
        // SAFETY: the system call itself, unlike its wrapper, changes this thread alone.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, 65534, 65534, 65534) };
        assert_eq!(changed, 0);
        let mut stream = std::os::unix::net::UnixStream::connect(socket).unwrap();
        let question = br#"{"seq":1,"request":{"type":"identify"}}"#;
        let mut frame = (question.len() as u32).to_be_bytes().to_vec();
        frame.extend_from_slice(question);
        // It may be cut off before or after the question.
        let _ = stream.write_all(&frame);
        stream.read(&mut [0; 100]).unwrap_or(0)
    });
    assert_eq!(answer.join().unwrap(), 0);
    assert!(farmer.client.list().await.is_ok());
}

#[tokio::test]
async fn bytes_that_are_no_message_end_their_connection_and_no_other() {
    let farmer = Farmer::new().await;
    farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    let socket = farmer.dir.path().join("warden/main.sock");
    for bytes in [
        &b"\x7f\xff\xff\xffmore than any message may have"[..],
        b"\0\0\0\x04{{{{",
        b"\0\0\0\x02{}",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        let mut stranger = std::os::unix::net::UnixStream::connect(&socket).unwrap();
        stranger.write_all(bytes).unwrap();
        stranger.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        // The end of the connection, or its reset with bytes unread.
        let answer = stranger.read(&mut [0; 100]);
        assert!(
            matches!(&answer, Ok(0))
                || matches!(&answer, Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset),
            "{}: {answer:?}",
            bytes.escape_ascii()
        );
    }
    let listed = farmer.client.list().await.unwrap();
    assert_eq!(listed.find(id(1, 1)).unwrap().state, State::Running);
}

#[tokio::test]
async fn a_shutdown_ends_all_attempts_reports_them_and_exits() {
    let mut farmer = Farmer::new().await;
    farmer.spawn(sh(id(1, 1), "sleep 1000")).await;
    farmer.client.shutdown(Duration::from_secs(1)).await.unwrap();
    let refused = farmer.client.spawn(sh(id(2, 1), "true")).await;
    assert!(matches!(
        refused,
        Err(WardenError::Refused(Refusal::ShuttingDown))
    ));
    assert_eq!(farmer.exited(id(1, 1)).await.killed, Some(KillReason::Shutdown));
    farmer.client.ack(id(1, 1), true).await.unwrap();
    farmer.gone().await;
}

#[tokio::test]
async fn a_thousand_quick_commands_all_end_and_none_twice() {
    let mut farmer = Farmer::new().await;
    let mut waiting: std::collections::BTreeSet<i64> = (0..1000).collect();
    for run in 0..1000 {
        farmer.spawn(argv(id(run, 1), &["/bin/true"])).await;
    }
    while !waiting.is_empty() {
        match farmer.notice().await {
            Notice::Event(Event::Exited(report)) => {
                assert!(waiting.remove(&report.id.run_id));
                assert!(report.result.unwrap().succeeded());
                farmer.client.ack(report.id, true).await.unwrap();
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(farmer.client.list().await.unwrap().attempts.is_empty());
}
