//! What keeps an agent from starting: said clearly, with the exit code that scripts lean on.

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::pg::{Options, PrivateServer};
use farmhand_tests::tmpfs::Tmpfs;

/// Starts the one agent of the farm and gives its exit code and what it said.
async fn refused(mut farm: Farm) -> (Option<i32>, String) {
    farm.agents[0].spawn();
    let status = farm.agents[0].exit(SOON).await;
    let said = farm.agents[0].log();
    eprintln!("{said}");
    assert!(said.contains("error: "), "{said}");
    (status.code(), said)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_state_directory_that_cannot_be_written_is_named() {
    let mut farm = Farm::new().prepare().await;
    let file = farm.dir().join("file");
    std::fs::write(&file, "not a directory").expect("a file");
    farm.agents[0].state_dir = file.join("state");
    let (code, said) = refused(farm).await;
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("state"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_waited_for() {
    let server = PrivateServer::start(Options::default()).await;
    let jobs = "[job.short]\ncommand = [WITNESS, '50']\n";
    let mut farm = Farm::new().jobs(jobs).on(server).prepare().await;
    farm.database.server().stop();
    farm.agents[0].spawn();
    farm.eventually("it says what it waits for", SOON, async || {
        let said = farm.agents[0].log();
        said.contains("PostgreSQL").then_some(()).ok_or(said)
    })
    .await;
    assert!(farm.agents[0].exited().is_none());
    farm.database.server().restart(None);
    farm.agents[0].ready().await;
    farm.sql = farm.database.client().await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_state_directory_costs_output_that_is_said_to_be_missing_and_nothing_else() {
    let mut farm = Farm::new()
        .jobs(
            "[job.flood]\ncommand = 'head -c 2000000 /dev/urandom | base64; echo done'\n
             [job.short]\ncommand = [WITNESS, '50', 'say=1']\n",
        )
        .prepare()
        .await;
    let small = Tmpfs::mount(&farm.agents[0].state_dir, "512k");
    farm.agents[0].start().await;
    let flood = farm.submit("flood").await;
    farm.succeeds(flood).await;
    let dropped: i64 = farm
        .value(&format!(
            "SELECT coalesce(output_dropped, 0) FROM farmhand.run WHERE run_id = {flood}"
        ))
        .await;
    assert!(dropped > 0, "output must be missing");
    farm.event("output_dropped").await;
    let short = farm.submit("short").await;
    farm.succeeds(short).await;
    assert_eq!(farm.output(short, 1).await, "line 1\n");
    // Full to the last byte, whoever wrote it.
    let fill = farm.agents[0].state_dir.join("fill");
    let _ = std::fs::write(&fill, vec![0; 1 << 20]);
    let full = farm.submit("short").await;
    let done = farm.over(full, SOON * 2).await;
    eprintln!("with a full disk: {done:?}");
    assert!(matches!(done.state.as_str(), "succeeded" | "failed"), "{done:?}");
    std::fs::remove_file(&fill).expect("it was there");
    let after = farm.submit("short").await;
    farm.succeeds(after).await;
    drop(farm);
    drop(small);
}
