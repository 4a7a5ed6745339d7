//! Who is told of what: webhooks, mail, a sign of life, and senders that die.

use std::time::Duration;

use farmhand_tests::farm::{CALM, Farm, SOON};
use farmhand_tests::outside::{Answer, Call, Certificate, Hook, Mailbox};
use serde_json::Value;

/// The lease of a message, and what it takes to see that it is over.
const SENT_ELSEWHERE: Duration = Duration::from_secs(45);

/// Waits for so many calls.
async fn calls(farm: &Farm, hook: &Hook, wanted: usize, bound: Duration) -> Vec<Call> {
    farm.eventually("the calls", bound, async || {
        let calls = hook.calls();
        if calls.len() >= wanted {
            Ok(calls)
        } else {
            Err(format!("{calls:?}"))
        }
    })
    .await
}

fn events(calls: &[Call]) -> Vec<&str> {
    calls.iter().map(Call::event).collect()
}

async fn fails(farm: &Farm, job: &str) {
    let run = farm.submit(job).await;
    assert_eq!(farm.over(run, SOON).await.state, "failed");
}

/// Waits until missed deadlines were looked for some times more.
pub(crate) async fn looks(farm: &Farm) {
    let mut at = String::new();
    for _ in 0..3 {
        at = farm
            .eventually("another turn", SOON, async || {
                let sql = "SELECT at::text FROM farmhand.notify_turn WHERE name = 'deadlines'";
                let now: String = farm.value(sql).await;
                if now == at { Err(now) } else { Ok(now) }
            })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn three_failing_runs_with_retries_are_one_message_and_the_recovery_another() {
    let (hook, mailbox) = (Hook::start().await, Mailbox::start().await);
    let password = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(password.path(), "geheim\n").unwrap();
    let retry = "retry = { max = 1, backoff = 'constant', base = '10ms' }\nnotify = 'ops'\n";
    let farm = Farm::new()
        .agents(2)
        .jobs(&format!(
            "[notify.ops]\nwebhook = '{}'\nemail = ['ops@example.org', 'nobody@example.org']\n
             [job.payroll]\ncommand = 'test -e @DIR@/good || exit 3'\n{retry}
             [job.flaky]\ncommand = 'test $FARMHAND_ATTEMPT = 2'\n{retry}",
            hook.url("/farm?x=1")
        ))
        .env("FARMHAND_SMTP_HOST", "127.0.0.1")
        .env("FARMHAND_SMTP_PORT", mailbox.port().to_string())
        .env("FARMHAND_SMTP_TLS", "none")
        .env("FARMHAND_SMTP_FROM", "farm@example.org")
        .env("FARMHAND_SMTP_USER", "farm")
        .env(
            "FARMHAND_SMTP_PASSWORD_FILE",
            password.path().display().to_string(),
        )
        .start()
        .await;
    for _ in 0..3 {
        fails(&farm, "payroll").await;
    }
    let flaky = farm.submit("flaky").await;
    farm.succeeds(flaky).await;
    calls(&farm, &hook, 1, SOON).await;
    std::fs::write(farm.dir().join("good"), "").unwrap();
    let good = farm.submit("payroll").await;
    farm.succeeds(good).await;
    let all = calls(&farm, &hook, 2, SOON).await;
    assert_eq!(events(&all), ["failure", "recovery"]);
    let [failure, recovery] = &all[..] else {
        panic!("{all:?}")
    };
    assert_eq!(
        (failure.method.as_str(), failure.path.as_str()),
        ("POST", "/farm?x=1")
    );
    assert_eq!(failure.header("content-type"), "application/json");
    let id = failure.body["id"].as_str().unwrap();
    assert_eq!(failure.header("idempotency-key"), id);
    assert_eq!(failure.header("x-farmhand-delivery"), id);
    assert_eq!(failure.body["job"], "payroll");
    assert_eq!(failure.body["exit_code"], 3);
    assert_eq!(failure.body["attempt"], 2);
    assert_eq!(recovery.body["failures"], 3);
    assert_eq!(recovery.body["run"], good);
    assert_eq!(recovery.body["first_failed_run"], failure.body["run"]);
    let mails = farm
        .eventually("the mails", SOON, async || {
            let mails = mailbox.mails();
            if mails.len() >= 2 {
                Ok(mails)
            } else {
                Err(format!("{mails:?}"))
            }
        })
        .await;
    assert_eq!(mails.len(), 2, "{mails:?}");
    assert_eq!(mails[0].to, ["TO:<ops@example.org>"]);
    // \0farm\0geheim
    assert_eq!(mails[0].login.as_deref(), Some("PLAIN AGZhcm0AZ2VoZWlt"));
    assert!(
        mails[0].text.contains("Subject: [farmhand] payroll: failure\n"),
        "{mails:?}"
    );
    assert!(
        mails[1]
            .text
            .contains("payroll succeeded again after 3 failed runs"),
        "{mails:?}"
    );
    farm.event("notification_refused").await;
    assert_eq!(hook.calls().len(), 2, "{:?}", hook.calls());
    let told: i64 = farm.value("SELECT count(*) FROM farmhand.notification").await;
    assert_eq!(told, 4, "by webhook and mail, and each once");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_webhook_that_fails_is_tried_again_and_people_see_it() {
    let hook = Hook::start().await;
    hook.answer(Answer::Status(503));
    let farm = Farm::new()
        .agents(2)
        .jobs(&format!(
            "[notify.ops]\nwebhook = '{}'\n[job.bad]\ncommand = 'false'\nnotify = 'ops'\n",
            hook.url("/geheim")
        ))
        .start()
        .await;
    fails(&farm, "bad").await;
    farm.event("notification_delayed").await;
    let error = farm
        .eventually("its trouble is listed", SOON, async || {
            let listed = farm.ok(&["notify", "ls", "--json"]);
            let first: Value = serde_json::from_str(&listed).unwrap();
            let error = first["items"][0]["trouble"]["error"].as_str().map(str::to_owned);
            error.ok_or(listed)
        })
        .await;
    assert!(
        error.contains("answered 503") && error.ends_with("answer"),
        "{error}"
    );
    assert!(!error.contains("geheim"), "{error}");
    let doctor = farm.farmhand(&["doctor"]);
    let said = String::from_utf8_lossy(&doctor.stdout).into_owned();
    assert!(
        said.contains("WARNING  notify") && said.contains("answered 503"),
        "{said}"
    );
    hook.answer(Answer::Redirect(hook.url("/elsewhere")));
    calls(&farm, &hook, 2, SOON).await;
    hook.answer(Answer::Status(204));
    farm.becomes(
        SOON,
        "SELECT count(*) FROM farmhand.notification WHERE state = 'delivered'",
        1_i64,
    )
    .await;
    let all = hook.calls();
    assert!(
        all.iter().all(|c| c.path == "/geheim"),
        "no redirect is followed: {all:?}"
    );
    assert!(all.iter().all(|c| c.body["id"] == all[0].body["id"]), "{all:?}");
    let mut moved = [0.0, 0.0];
    for agent in &farm.agents {
        for (n, result) in ["error", "delivered"].iter().enumerate() {
            let labels = ["channel=\"webhook\"".to_owned(), format!("result=\"{result}\"")];
            let labels: Vec<&str> = labels.iter().map(String::as_str).collect();
            moved[n] += agent.metric("farmhand_notifications_total", &labels).await;
        }
    }
    assert!(moved[0] >= 2.0 && moved[1] == 1.0, "{moved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_whose_sender_is_killed_in_the_middle_is_sent_by_another() {
    let hook = Hook::start().await;
    hook.answer(Answer::Silence);
    let mut farm = Farm::new()
        .agents(2)
        .jobs(&format!(
            "[notify.ops]\nwebhook = '{}'\n[job.bad]\ncommand = 'false'\nnotify = 'ops'\n",
            hook.url("/")
        ))
        .start()
        .await;
    fails(&farm, "bad").await;
    let first = calls(&farm, &hook, 1, SOON).await.remove(0);
    let sender: String = farm.value("SELECT sent_by FROM farmhand.notification").await;
    farm.agent(&sender).kill_with_wardens();
    hook.answer(Answer::Status(200));
    let all = calls(&farm, &hook, 2, SENT_ELSEWHERE).await;
    assert_eq!(all[1].body["id"], first.body["id"]);
    let state = "SELECT state || ' ' || (sent_by <> $$SENDER$$) FROM farmhand.notification";
    farm.eventually("it is recorded", SOON, async || {
        let row: String = farm.value(&state.replace("SENDER", &sender)).await;
        if row == "delivered true" { Ok(()) } else { Err(row) }
    })
    .await;
    assert_eq!(hook.calls().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_secret_address_and_its_headers_come_from_files_of_the_agent() {
    let secrets = tempfile::tempdir().unwrap();
    let pair = Certificate::new(secrets.path());
    let hook = Hook::start_tls(&pair).await;
    std::fs::write(secrets.path().join("ops.url"), hook.url("/geheim") + "\n").unwrap();
    let farm = Farm::new()
        .jobs(
            "[notify.ops]\nwebhook_file = 'ops.url'\nheaders_file = 'ops.headers'\n
             [notify.mail]\nemail = 'ops@example.org'\n[job.quiet]\ncommand = 'true'\nnotify = 'mail'\n",
        )
        .env("FARMHAND_SECRETS_DIR", secrets.path().display().to_string())
        .env("SSL_CERT_FILE", pair.file.display().to_string())
        .start()
        .await;
    let missing = farm.farmhand(&["notify", "test", "ops"]);
    let said = String::from_utf8_lossy(&missing.stdout).into_owned();
    assert_eq!(missing.status.code(), Some(1), "{said}");
    assert!(said.contains("ops.headers: No such file"), "{said}");
    std::fs::write(
        secrets.path().join("ops.headers"),
        "Authorization: Bearer xyzzy\n",
    )
    .unwrap();
    let tested = farm.ok(&["notify", "test", "ops"]);
    assert!(tested.contains("ops webhook: delivered by n1"), "{tested}");
    let all = calls(&farm, &hook, 1, SOON).await;
    let test = all.iter().find(|c| c.path == "/geheim").unwrap();
    assert_eq!(
        (test.event(), test.header("authorization")),
        ("test", "Bearer xyzzy")
    );
    let stored: String = farm
        .value("SELECT (SELECT string_agg(n::text, '') FROM farmhand.notification n) || (SELECT string_agg(t::text, '') FROM farmhand.notify_target t) || (SELECT coalesce(string_agg(e::text, ''), '') FROM farmhand.event e)")
        .await;
    assert!(
        !stored.contains("geheim") && !stored.contains("xyzzy"),
        "{stored}"
    );
    let mail = farm.farmhand(&["notify", "test", "mail"]);
    let said = String::from_utf8_lossy(&mail.stdout).into_owned();
    assert_eq!(mail.status.code(), Some(1), "{said}");
    assert!(
        said.contains("n1 could not: this agent sends no mail: its configuration has no [smtp]"),
        "{said}"
    );
    farm.event("mail_unconfigured").await;
    let unknown = farm.farmhand(&["notify", "test", "opps"]);
    assert_eq!(unknown.status.code(), Some(3));
}

#[tokio::test(flavor = "multi_thread")]
async fn mail_goes_out_after_starttls_to_a_server_that_is_who_it_says() {
    let dir = tempfile::tempdir().unwrap();
    let pair = Certificate::new(dir.path());
    let (mailbox, clear) = (Mailbox::start_tls(&pair).await, Mailbox::start().await);
    let farm = Farm::new()
        .agents(1)
        .jobs("[notify.ops]\nemail = 'ops@example.org'\n")
        .env("FARMHAND_SMTP_HOST", "localhost")
        .env("FARMHAND_SMTP_PORT", mailbox.port().to_string())
        .env("FARMHAND_SMTP_FROM", "farm@example.org")
        .env("SSL_CERT_FILE", pair.file.display().to_string());
    let mut farm = farm.start().await;
    farm.ok(&["notify", "test", "ops"]);
    assert_eq!(mailbox.mails().len(), 1);
    assert!(mailbox.mails()[0].text.contains("a test of the target ops"));
    // One that offers no TLS gets nothing.
    let agent = farm.agent("n1");
    agent.kill_with_wardens();
    agent
        .env
        .push(("FARMHAND_SMTP_PORT".to_owned(), clear.port().to_string()));
    agent.start().await;
    let refused = farm.farmhand(&["notify", "test", "ops"]);
    let said = String::from_utf8_lossy(&refused.stdout).into_owned();
    assert!(said.contains("it offers no STARTTLS"), "{said}");
    assert_eq!(clear.mails().len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_sign_of_life_is_sent_by_one_agent_at_a_time_while_the_farm_does_its_work() {
    let hook = Hook::start().await;
    let began = std::time::Instant::now();
    let farm = Farm::new()
        .agents(2)
        .env("FARMHAND_PING_URL", hook.url("/life"))
        .env("FARMHAND_PING_EVERY", "1s")
        .start()
        .await;
    let all = calls(&farm, &hook, 3, SOON).await;
    assert!(
        all.iter().all(|c| c.method == "GET" && c.path == "/life"),
        "{all:?}"
    );
    // Each agent for itself would have sent twice as many.
    let most = began.elapsed().as_secs() + 3;
    assert!(all.len() as u64 <= most, "{} in {:?}", all.len(), began.elapsed());
    for node in ["n1", "n2"] {
        farm.ok(&["node", "cordon", node]);
    }
    farm.event("ping_withheld").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_cannot_send_the_sign_of_life_leaves_it_to_another() {
    let (hook, gone) = (Hook::start().await, Hook::start().await);
    let nowhere = gone.url("/life");
    drop(gone);
    let mut farm = Farm::new()
        .agents(2)
        .ttl(CALM)
        .env("FARMHAND_PING_EVERY", "1s")
        .prepare()
        .await;
    for (agent, url) in farm.agents.iter_mut().zip([nowhere, hook.url("/life")]) {
        agent.env.push(("FARMHAND_PING_URL".to_owned(), url));
    }
    farm.agents[0].start().await;
    farm.eventually("it has tried twice", SOON, async || {
        let labels = ["channel=\"ping\"", "result=\"error\""];
        match farm.agents[0]
            .metric("farmhand_notifications_total", &labels)
            .await
        {
            2.0.. => Ok(()),
            tries => Err(tries.to_string()),
        }
    })
    .await;
    farm.agents[1].start().await;
    calls(&farm, &hook, 3, SOON).await;
}
