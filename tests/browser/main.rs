//! The web page in Debian's Chromium, on live farms: a script per scenario (`*.mjs`), which asks for what only the test can
//! do by a line that begins with `@`.

mod scripted;

use std::time::Duration;

use farmhand_tests::farm::{Farm, FarmBuilder};
use scripted::run;

/// Runs until somebody ends it, and says so ten times a second.
const LONG: &str = r#"
[job.long]
command = "i=0; while :; do i=$((i+1)); echo line $i; sleep 0.1; done"
where   = { role = "work" }
"#;

/// Three agents of which the first two work; the browser talks to the third, which nobody kills.
async fn farm(builder: FarmBuilder) -> Farm {
    let mut farm = builder.prepare().await;
    for agent in &mut farm.agents {
        let role = if agent.address == "n3" {
            "role=web"
        } else {
            "role=work"
        };
        agent.arguments.extend(["--label".to_owned(), role.to_owned()]);
    }
    farm.start_agents().await;
    farm
}

#[tokio::test]
async fn a_takeover_shows_in_the_lanes_without_a_reload() {
    let mut farm = farm(Farm::new().agents(3).ttl(Duration::from_secs(5)).jobs(LONG)).await;
    run(&mut farm, "takeover").await;
}

#[tokio::test]
async fn jobs_are_run_paused_and_cancelled_by_clicks_and_by_keys_alone() {
    let mut farm = farm(Farm::new().agents(3).jobs(LONG).jobs(
        r#"
        [job.greet]
        command = ["/bin/echo", "hello", "{whom}"]
        params  = { whom = { type = "string", default = "you" } }
        [job.hourly]
        schedule = "@hourly"
        command  = ["/bin/true"]
        "#,
    ))
    .await;
    run(&mut farm, "acting").await;
}

#[tokio::test]
async fn ten_megabytes_of_output_stay_usable() {
    let wide = "x".repeat(95);
    let mut farm = farm(Farm::new().agents(3).jobs(&format!(
        r#"
        [job.flood]
        command = ["/usr/bin/seq", "-f", "line %.0f {wide}", "0", "99999"]
        output  = {{ keep = "16MiB", local = "64MiB" }}
        "#
    )))
    .await;
    run(&mut farm, "log").await;
}

#[tokio::test]
async fn output_is_searched_and_each_of_its_lines_has_an_address() {
    let mut farm = farm(Farm::new().agents(3).jobs(
        r#"
        [job.colours]
        command = '''printf '\033[31mred <b>bold?</b>\033[0m plain\n\033[1;32mgreen\033[0m \033]0;title\007<script>window.evil = 1</script><img src=x onerror="window.evil = 1">\n\033[44mblue\033[0m\n'
        seq -f "line %.0f of many that fill more than one stretch" 4 9000; echo ERROR 1234 here
        seq -f "line %.0f" 9002 9100; echo the disk is full >&2'''
        "#,
    ))
    .await;
    run(&mut farm, "output").await;
}

#[tokio::test]
async fn every_page_is_fit_for_every_reader_and_says_what_is_wrong() {
    let mut farm = farm(Farm::new().agents(3).proxied().jobs(
        r#"
        [job.greet]
        command = ["/bin/echo", "hello"]
        params  = { whom = { type = "string", default = "you" } }
        [job.shards]
        schedule  = "@every 3s"
        instances = 4
        command   = "sleep 0.$FARMHAND_INSTANCE; echo shard $FARMHAND_INSTANCE"
        [pool.disk]
        size = 1
        [job.scrub]
        command = ["sleep", "3600"]
        pool    = "disk"
        [job.broken]
        schedule = "@every 7s"
        command  = "echo the disk is full >&2; exit 3"
        [job.stock-mail]
        schedule = "*/5 8-18 * * MON-FRI"
        timezone = "Europe/Berlin"
        command  = ["/bin/true"]
        [job.archive]
        schedule = "0 4 29 2 *"
        timezone = "Europe/Berlin"
        command  = ["/bin/true"]
        [job.night.task.dump]
        command = ["sleep", "0.6"]
        [job.night.task.verify]
        command  = ["sleep", "0.3"]
        requires = ["dump"]
        [job.night.task.upload]
        command  = ["sleep", "0.9"]
        requires = ["dump"]
        [job.night.task.rotate]
        command  = ["sleep", "0.2"]
        requires = ["verify", "upload"]
        [job.night.task.mail]
        command = ["sleep", "0.1"]
        after   = ["rotate"]
        "#,
    ))
    .await;
    run(&mut farm, "pages").await;
}

#[tokio::test]
async fn a_waiting_run_leads_to_its_pool_and_to_the_run_that_has_the_place() {
    let mut farm = farm(Farm::new().agents(3).jobs(
        r#"
        [pool.db]
        size = 1
        [job.hold]
        command = ["sleep", "600"]
        pool    = "db"
        where   = { role = "work" }
        [job.want]
        command = ["sleep", "600"]
        pool    = "db"
        where   = { role = "work" }
        [job.quick]
        command = ["true"]
        "#,
    ))
    .await;
    run(&mut farm, "pools").await;
}

#[tokio::test]
async fn an_open_page_says_what_is_away_and_recovers() {
    let mut farm = farm(Farm::new().agents(3).proxied().jobs(LONG)).await;
    run(&mut farm, "away").await;
}

#[tokio::test]
async fn what_is_done_at_night_takes_few_clicks() {
    let farm_of_three = Farm::new().agents(3).ttl(Duration::from_secs(5));
    let mut farm = farm(farm_of_three.jobs(LONG).jobs(
        r#"
        [job.broken]
        command = "echo the disk is full >&2; exit 3"
        [job.held]
        command = ["/bin/true"]
        [job.nowhere]
        command = ["/bin/true"]
        where   = { gpu = "yes" }
        [pool.tape]
        size = 1
        [job.archive]
        command = ["/bin/sleep", "600"]
        pool    = "tape"
        [job.nightly]
        command  = ["/bin/true"]
        schedule = "0 3 * * *"
        [job.moody]
        command = "exit $FARMHAND_PARAM_CODE"
        params  = { code = { type = "integer" } }
        [job.sleeper]
        command = ["/bin/sleep", "{seconds}"]
        params  = { seconds = { type = "integer", default = 0 } }
        "#,
    ))
    .await;
    for job in ["broken", "sleeper", "sleeper", "sleeper", "sleeper", "sleeper"] {
        let run = farm.submit(job).await;
        farm.over(run, Duration::from_secs(90)).await;
    }
    run(&mut farm, "oncall").await;
}
