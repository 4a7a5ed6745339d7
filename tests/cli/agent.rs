//! `farmhand agent`: its settings, and what keeps it from starting.

use std::net::TcpListener;

use super::farm::Farm;

#[tokio::test(flavor = "multi_thread")]
async fn every_wrong_setting_is_named_at_once() {
    let farm = Farm::new().await;
    let config = farm.file(
        "agent.toml",
        "slots = 0\nlabel = { a = 'b' }\nstate_dirr = '/x'\n",
    );
    let mut command = farm.command();
    command
        .env("FARMHAND_RETENTION", "1s")
        .env("FARMHAND_LOG", "warning")
        .args(["agent", "--lease-ttl", "1s", "--listen", "here", "--config"])
        .arg(config);
    let ran = super::farm::ran(&mut command);
    ran.refused(
        2,
        &[
            "--lease-ttl \"1s\"",
            "--listen \"here\"",
            "FARMHAND_RETENTION=\"1s\"",
            "FARMHAND_LOG=\"warning\"",
            "agent.toml:1:9",
            "did you mean `labels`?",
            "did you mean `state_dir`?",
            "7 mistakes",
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_in_use_is_named() {
    let farm = Farm::new().await;
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let listen = taken.local_addr().unwrap().to_string();
    let state = farm.dir.path().join("state");
    let ran = farm.run(&[
        "agent",
        "--listen",
        &listen,
        "--state-dir",
        state.to_str().unwrap(),
    ]);
    ran.refused(1, &["--listen", &listen, "in use"]);
}

/// A secret may be mounted after the start: systemd starts the agent again after any other code than 2.
#[tokio::test(flavor = "multi_thread")]
async fn a_missing_password_or_certificate_file_ends_the_agent_with_a_code_that_is_tried_again() {
    let farm = Farm::new().await;
    let missing = farm.dir.path().join("not-mounted");
    let missing = missing.to_str().unwrap();
    let root = format!("postgresql://f@db.example.com/f?sslrootcert={missing}");
    for (variable, value) in [
        ("FARMHAND_DATABASE_PASSWORD_FILE", missing),
        ("FARMHAND_DATABASE_URL", root.as_str()),
    ] {
        let ran = super::farm::ran(farm.command().arg("agent").env(variable, value));
        let fix = format!("fix {missing}, or name another file");
        ran.refused(1, &["cannot be used", "No such file", &fix]);
    }
    let mut rows = farm.command();
    rows.env("FARMHAND_ROWS_DATABASE_URL", &root).arg("agent");
    super::farm::ran(&mut rows).refused(1, &[missing]);
}
