//! The commands of docs/guides/dispatcher-table.md, as they stand there.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use farmhand_tests::bin::farmhand;
use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::guides::blocks_of;

fn blocks(language: &str) -> Vec<String> {
    blocks_of("dispatcher-table.md", language)
}

/// `send-mail` of the guide is one of ours, that writes down how it was called.
fn shell(farm: &Farm, block: &str) -> Command {
    let ours = farmhand().parent().unwrap().display().to_string();
    let mut shell = Command::new("sh");
    shell.args([
        "-euc",
        &block.replace("/usr/local/bin", &farm.dir().display().to_string()),
    ]);
    shell.current_dir(farm.dir()).process_group(0);
    shell.env("PATH", format!("{ours}:{}", std::env::var("PATH").unwrap()));
    shell
        .env("DATABASE", farm.database.url())
        .env("FARMHAND_DATABASE_URL", farm.database.url());
    shell
}

async fn sent(farm: &Farm, calls: &str) {
    farm.eventually("all mails are sent", SOON, async || {
        let said = std::fs::read_to_string(farm.dir().join("calls")).unwrap_or_default();
        let waits: i64 = farm
            .value("SELECT count(*) FROM shop.outbox WHERE exit_code IS DISTINCT FROM 3")
            .await;
        let all = said == calls && waits == 0;
        all.then_some(()).ok_or(format!("{said}{waits} wait"))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_old_loop_and_the_job_that_replaces_it_send_the_same_in_the_same_order() {
    let farm = Farm::new().agents(2).start().await;
    let (sql, sh, toml) = (blocks("sql"), blocks("sh"), blocks("toml"));
    assert_eq!((sql.len(), sh.len(), toml.len()), (2, 2, 1));
    farm.exec(&sql[0]).await;
    let program = farm.dir().join("send-mail");
    let script = format!(
        "#!/bin/sh\necho \"$1\" >> {}/calls\nexit 3\n",
        farm.dir().display()
    );
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    // The oldest has the largest number.
    let insert = "INSERT INTO shop.outbox (address, created_at) SELECT 'a@b', now() - n * interval '1 hour' FROM generate_series(1, 3) n";
    farm.exec(insert).await;
    let mut old = shell(&farm, &sh[0]).spawn().unwrap();
    sent(&farm, "3\n2\n1\n").await;
    // SAFETY: the group of a child that was not waited for.
    unsafe { libc::kill(-old.id().cast_signed(), libc::SIGKILL) };
    old.wait().unwrap();

    farm.exec(insert).await;
    farm.exec("GRANT USAGE ON SCHEMA shop TO farm_agent, farm_operator; GRANT SELECT, UPDATE ON shop.outbox TO farm_agent, farm_operator").await;
    let applied = shell(
        &farm,
        &sh[1].replace(
            "farmhand job apply",
            "echo 'max_running = 1' >> outbox.toml; farmhand job apply",
        ),
    )
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&applied.stderr).into_owned();
    assert!(applied.status.success() && !said.contains("missing"), "{said}");
    sent(&farm, "3\n2\n1\n6\n5\n4\n").await;
    let file = std::fs::read_to_string(farm.dir().join("outbox.toml")).unwrap();
    let shown = toml[0].replace("/usr/local/bin", &farm.dir().display().to_string());
    assert_eq!(file, format!("{shown}max_running = 1\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_with_a_status_and_a_key_of_two_columns_becomes_a_table_of_a_job() {
    let farm = Farm::new().start().await;
    farm.exec(
        "CREATE SCHEMA shop; CREATE TABLE shop.tasks (tenant int, id bigint, status text, PRIMARY KEY (tenant, id));
         INSERT INTO shop.tasks VALUES (1, 1, 'done'), (1, 2, 'new'), (2, 1, 'new');"
    ).await;
    let check = ["job", "check", "--table", "shop.tasks"];
    let before = farm.farmhand(&check);
    let said = String::from_utf8_lossy(&before.stderr).into_owned();
    assert_eq!(before.status.code(), Some(4), "{said}");
    let adds = "ALTER TABLE shop.tasks ADD COLUMN dispatched_at timestamptz;";
    assert!(
        said.contains("(`dispatch`)") && said.contains(adds) && !said.contains("(`key`)"),
        "{said}"
    );
    for block in &blocks("sql")[1..] {
        farm.exec(block).await;
    }
    farm.exec("GRANT USAGE ON SCHEMA shop TO farm_agent, farm_operator; GRANT SELECT, UPDATE ON shop.tasks TO farm_agent, farm_operator").await;
    let job = farm.ok(&check);
    assert!(
        job.contains("key = [\"tenant\", \"id\"]\ndispatch = \"dispatched_at\"\n"),
        "{job}"
    );
    farm.apply(&job);
    let mut outputs = Vec::new();
    for run in [0, 1] {
        let run = farm
            .eventually("both run", SOON, async || {
                farm.runs("tasks")
                    .await
                    .get(run)
                    .cloned()
                    .ok_or("not yet".to_owned())
            })
            .await;
        farm.succeeds(run.run_id).await;
        outputs.push(farm.output(run.run_id, 1).await);
    }
    outputs.sort();
    assert_eq!(outputs, ["[\"1\", \"2\"]\n", "[\"2\", \"1\"]\n"]);
    let gone = farm.farmhand(&["job", "check", "--table", "tasks"]);
    let said = String::from_utf8_lossy(&gone.stderr).into_owned();
    assert_eq!(gone.status.code(), Some(3), "{said}");
    assert!(said.contains("there is shop.tasks"), "{said}");
}
