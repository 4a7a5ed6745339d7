//! What commands print with `--json` is what the API answers to the same question.

use farmhand_tests::farm::SOON;
use serde_json::Value;

use super::fixture::Fixture;

/// Moments, which differ from one answer to the next.
const MOMENTS: [&str; 3] = ["db_now", "lease_until", "clock_offset_ms"];

fn without_moments(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.retain(|name, _| !MOMENTS.contains(&name.as_str()));
            fields.values_mut().for_each(without_moments);
        }
        Value::Array(items) => items.iter_mut().for_each(without_moments),
        _ => {}
    }
}

#[tokio::test]
async fn commands_print_the_json_of_the_api() {
    let f = Fixture::new().await;
    let token = f.token("ann", "viewer", "1h");
    f.farm
        .apply("[job.daily]\ncommand = ['true']\nschedule = '0 4 * * *'\n");
    let run = f.farm.submit("done").await;
    f.farm.succeeds(run).await;
    let (run, run_path) = (run.to_string(), format!("/api/v1/runs/{run}"));
    let (explain_path, items_path) = (format!("{run_path}/explain"), format!("{run_path}/items"));
    let events_path = format!("/api/v1/events?run={run}");
    let same: [(&[&str], &str); _] = [
        (&["status"], "/api/v1/farm"),
        (&["job", "ls"], "/api/v1/jobs"),
        (&["job", "show", "daily"], "/api/v1/jobs/daily"),
        (&["run", "ls"], "/api/v1/runs"),
        (&["run", "show", &run], &run_path),
        (&["node", "ls"], "/api/v1/nodes"),
        (&["node", "show", "n1"], "/api/v1/nodes/n1"),
        (&["lease", "ls"], "/api/v1/leases"),
        (&["pool", "ls"], "/api/v1/pools"),
        (&["job", "history", "done"], "/api/v1/runs?job=done"),
        (&["job", "diff", "--job", "daily"], "/api/v1/jobs/daily/diff"),
        (&["explain", "job", "daily"], "/api/v1/jobs/daily/explain"),
        (&["explain", "run", &run], &explain_path),
        (&["run", "items", &run], &items_path),
        (&["notify", "ls"], "/api/v1/targets"),
        (
            &["next", "daily", "--from", "2030-01-01T00:00:00Z"],
            "/api/v1/jobs/daily/next?from=2030-01-01T00:00:00Z",
        ),
        (&["next", "--by", "day"], "/api/v1/ahead?by=day"),
        (&["events", "--run", &run], &events_path),
    ];
    for (command, path) in same {
        // A run that ends between the two answers makes them differ.
        f.farm
            .eventually(&format!("{command:?} is {path}"), SOON, async || {
                let text = f.farm.ok(&[command, &["--json"]].concat());
                let mut printed: Value = serde_json::from_str(&text).expect("JSON");
                let mut answered = f.get(&token, path).await.json();
                without_moments(&mut printed);
                without_moments(&mut answered);
                if printed == answered {
                    return Ok(());
                }
                Err(format!("{printed:#}\n{answered:#}"))
            })
            .await;
    }
}
