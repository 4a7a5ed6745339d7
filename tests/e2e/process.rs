//! What the command finds, and what is said when it cannot be started.

use std::os::fd::AsRawFd;

use farmhand_tests::farm::{Farm, SOON};

#[tokio::test(flavor = "multi_thread")]
async fn the_command_runs_as_the_user_in_the_directory_with_the_mask_and_environment_defined() {
    let farm = Farm::new()
        .env("SECRET_OF_THE_AGENT", "hush")
        .policy("users = ['nobody']")
        .jobs(
            r#"
            [job.who]
            user = "nobody"
            cwd = "/usr"
            umask = "027"
            env = { COLOUR = "blue" }
            stdin = "from the file"
            params = { day = { type = "date", default = "2026-12-01" } }
            command = "id -un; pwd; umask; echo $COLOUR; cat; echo; echo $FARMHAND_PARAM_DAY; touch $FARMHAND_RUN_DIR/mine && echo touched; env"
            "#,
        )
        .start()
        .await;
    let run_id = farm.submit("who").await;
    farm.succeeds(run_id).await;
    let output = farm.output(run_id, 1).await;
    assert!(
        output.starts_with("nobody\n/usr\n0027\nblue\nfrom the file\n2026-12-01\ntouched\n"),
        "{output}"
    );
    for secret in ["SECRET_OF_THE_AGENT", "DATABASE_URL", "postgresql://"] {
        assert!(!output.contains(secret), "{secret} in {output}");
    }
    for variable in [
        "FARMHAND_JOB=who",
        "FARMHAND_ATTEMPT=1",
        "FARMHAND_NODE=n1",
        "FARMHAND_FENCE=",
        "TRACEPARENT=00-",
        "FARMHAND_DUE=",
        "HOME=/nonexistent",
        "USER=nobody",
        "LOGNAME=nobody",
        "SHELL=/bin/sh",
    ] {
        assert!(output.contains(variable), "{variable} is not in {output}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn output_is_complete_within_its_cap_and_what_is_cut_is_said() {
    let farm = Farm::new()
        .jobs(
            "[job.chatty]\ncommand = 'for i in $(seq 1 20000); do echo line $i; done; echo bad >&2'\n
             [job.flood]\noutput = { keep = '64KiB' }\ncommand = 'head -c 3100000 /dev/zero | tr \"\\\\0\" x; echo; echo end'\n",
        )
        .start()
        .await;
    let (chatty, flood) = (farm.submit("chatty").await, farm.submit("flood").await);
    farm.succeeds(chatty).await;
    let output = farm.output(chatty, 1).await;
    let lines: Vec<&str> = output.lines().filter(|l| *l != "bad").collect();
    assert_eq!(lines.len(), 20_000);
    assert_eq!(lines[19_999], "line 20000");
    assert!(output.contains("bad\n"));
    farm.succeeds(flood).await;
    let kept = farm.output(flood, 1).await;
    assert!(kept.len() <= 70 << 10, "{} bytes", kept.len());
    assert!(
        kept.ends_with("end\n"),
        "the end of the output is what matters: {:?}",
        &kept[kept.len() - 40..]
    );
    let shown = farm.farmhand(&["run", "logs", &flood.to_string()]);
    let said = String::from_utf8_lossy(&shown.stderr);
    assert!(
        said.contains("2.8 MiB of the last attempt's output were not kept"),
        "nothing says that output was cut: {said}"
    );
    assert!(
        said.contains("… 2.8 MiB not kept …"),
        "nothing says where: {said}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_for_root_is_refused_by_the_policy_with_a_reason_and_an_event_and_others_run() {
    let farm = Farm::new()
        .policy("users = ['*']\ndefault_user = 'nobody'\n")
        .jobs("[job.root]\nuser = 'root'\ncommand = 'id'\n[job.plain]\ncommand = 'id -un'\n")
        .start()
        .await;
    let (root, plain) = (farm.submit("root").await, farm.submit("plain").await);
    farm.succeeds(plain).await;
    assert_eq!(farm.output(plain, 1).await, "nobody\n");
    let refused = farm.over(root, SOON).await;
    assert_eq!((refused.state.as_str(), refused.exit_code), ("failed", Some(126)));
    let reason = refused.reason.unwrap_or_default();
    assert!(
        reason.contains("this node does not let jobs run as: root") && reason.contains("policy.toml"),
        "{reason}"
    );
    farm.event("user_refused").await;
    farm.check().await;
}

/// A full disk, or a reader that is gone: what the agent says is lost, and the agent is not.
#[tokio::test(flavor = "multi_thread")]
async fn an_agent_whose_log_cannot_be_written_goes_on() {
    let mut farm = Farm::new()
        .agents(2)
        .jobs("[job.each]\nrun_on = 'each-node'\ncommand = 'true'\n")
        .prepare()
        .await;
    let (reader, writer) = std::io::pipe().unwrap();
    farm.agents[0].log = "/dev/full".into();
    farm.agents[1].log = format!("/proc/self/fd/{}", writer.as_raw_fd()).into();
    for agent in &mut farm.agents {
        agent.spawn();
    }
    drop(reader);
    for agent in &mut farm.agents {
        agent.ready().await;
    }
    farm.ok(&["job", "run", "each", "--wait"]);
    for agent in &mut farm.agents {
        assert_eq!(agent.exited(), None, "{}", agent.address);
    }
}
