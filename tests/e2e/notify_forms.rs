//! Webhooks of services that take no form but their own.

use farmhand_tests::farm::{Farm, SOON};
use farmhand_tests::outside::{Call, Hook};

use super::notify::looks;

#[tokio::test(flavor = "multi_thread")]
async fn each_service_gets_a_failure_and_its_recovery_in_its_own_form() {
    let hook = Hook::start().await;
    let secrets = tempfile::tempdir().unwrap();
    let targets = [
        ("plain", "/plain"),
        ("slack", "/services/T/B/X"),
        ("teams", "/teams"),
        ("pagerduty", "/v2/enqueue?routing_key=geheim"),
        ("opsgenie", "/v2/alerts"),
        ("ntfy", "/alerts"),
    ];
    let mut jobs = String::new();
    for (name, path) in targets {
        let format = if name == "plain" {
            String::new()
        } else {
            format!("format = '{name}'\n")
        };
        std::fs::write(secrets.path().join(name), hook.url(path)).unwrap();
        jobs += &format!("[notify.{name}]\nwebhook_file = '{name}'\n{format}");
    }
    let names = targets.map(|(name, _)| format!("'{name}'")).join(", ");
    jobs +=
        &format!("[job.payroll]\ncommand = 'test -e @DIR@/good'\nowner = 'payments'\nnotify = [{names}]\n");
    let farm = Farm::new()
        .jobs(&jobs)
        .env("FARMHAND_SECRETS_DIR", secrets.path().display().to_string())
        .start()
        .await;
    let run = farm.submit("payroll").await;
    assert_eq!(farm.over(run, SOON).await.state, "failed");
    let calls = async |wanted: usize| -> Vec<Call> {
        farm.eventually("the calls", SOON, async || {
            let calls = hook.calls();
            if calls.len() == wanted {
                Ok(calls)
            } else {
                Err(format!("{calls:?}"))
            }
        })
        .await
    };
    calls(targets.len()).await;
    std::fs::write(farm.dir().join("good"), "").unwrap();
    let run = farm.submit("payroll").await;
    farm.succeeds(run).await;
    let all = calls(2 * targets.len()).await;
    let of = |path: &str| -> Vec<&Call> { all.iter().filter(|call| call.path.starts_with(path)).collect() };

    for call in of("/plain") {
        let trace = call.body["traceparent"].as_str().unwrap();
        assert!(
            trace.starts_with("00-") && call.body["parent_run"].is_null(),
            "{call:?}"
        );
    }
    for call in of("/services/") {
        assert!(
            call.body["text"].as_str().unwrap().ends_with("\nOwner: payments"),
            "{call:?}"
        );
    }
    assert_eq!(of("/teams").len(), 2);
    let events: Vec<(&str, &str)> = (of("/v2/enqueue").iter())
        .map(|call| {
            (
                call.body["event_action"].as_str().unwrap(),
                call.body["dedup_key"].as_str().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        events,
        [("trigger", "farmhand/payroll"), ("resolve", "farmhand/payroll")]
    );
    assert!(
        of("/v2/enqueue")
            .iter()
            .all(|call| call.path == "/v2/enqueue" && call.body["routing_key"] == "geheim")
    );
    let alerts: Vec<&str> = of("/v2/alerts").iter().map(|call| call.path.as_str()).collect();
    assert_eq!(
        alerts,
        [
            "/v2/alerts",
            "/v2/alerts/farmhand%2Fpayroll/close?identifierType=alias"
        ]
    );
    let topics = all
        .iter()
        .filter(|call| call.path == "/" && call.body["topic"] == "alerts");
    assert_eq!(topics.count(), 2);
}

/// Whoever mends a job that missed its deadline defines it anew, and it waits for a later one.
#[tokio::test(flavor = "multi_thread")]
async fn a_missed_deadline_is_resolved_although_the_job_was_defined_anew() {
    let hook = Hook::start().await;
    let secrets = tempfile::tempdir().unwrap();
    let url = hook.url("/v2/enqueue?routing_key=geheim");
    std::fs::write(secrets.path().join("oncall"), url).unwrap();
    let jobs = "[notify.oncall]\nwebhook_file = 'oncall'\nformat = 'pagerduty'\n
         [job.yearly]\nschedule = '0 3 1 1 *'\ncommand = 'true'\nnotify = 'oncall'\n";
    let farm = Farm::new()
        .jobs(jobs)
        .env("FARMHAND_SECRETS_DIR", secrets.path().display().to_string())
        .start()
        .await;
    let actions = async |wanted: &[&str]| {
        farm.eventually("the events", SOON, async || {
            let calls = hook.calls();
            let actions: Vec<&str> = (calls.iter())
                .map(|call| call.body["event_action"].as_str().unwrap_or_default())
                .collect();
            (actions == wanted)
                .then_some(())
                .ok_or_else(|| format!("{actions:?}"))
        })
        .await;
    };
    let sql = "UPDATE farmhand.job SET applied_at = now() - interval '3 years'";
    farm.exec(sql).await;
    actions(&["trigger"]).await;
    farm.apply(&format!("{jobs}description = 'by the new year'\n"));
    looks(&farm).await;
    let run = farm.submit("yearly").await;
    farm.succeeds(run).await;
    actions(&["trigger", "resolve"]).await;
}
