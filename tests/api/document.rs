//! The OpenAPI document: it is valid, it names things once, and a client generated from it works.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value};

use super::fixture::{Fixture, tool};

/// Uses the generated client as a stranger would.
const SCRIPT: &str = r#"
import sys, time
from farmhand_client import AuthenticatedClient
from farmhand_client.api.jobs import get_jobs, post_jobs_job_runs
from farmhand_client.api.runs import get_runs_run
client = AuthenticatedClient(base_url=sys.argv[1], token=sys.argv[2], raise_on_unexpected_status=True)
jobs = get_jobs.sync(client=client)
print("jobs", *sorted(job.job_id for job in jobs.items))
run = post_jobs_job_runs.sync("done", client=client).runs[0]
for _ in range(200):
    shown = get_runs_run.sync(run, client=client)
    if shown.run.state.value == "succeeded":
        break
    time.sleep(0.1)
print("attempts", *[f"{a.attempt}:{a.outcome.value}" for a in shown.attempts])
"#;

/// The same in TypeScript. What is wrong with the types is an error of the compiler.
const TYPED: &str = r#"
import createClient from "openapi-fetch";
import type { components, paths } from "./farmhand.js";
declare const process: { argv: string[] };
const [, , url, token] = process.argv;
const client = createClient<paths>({ baseUrl: url!, headers: { authorization: `Bearer ${token}` } });
const jobs = await client.GET("/api/v1/jobs");
console.log("jobs", ...jobs.data!.items.map((job) => job.job_id).sort());
const made = await client.POST("/api/v1/jobs/{job}/runs", { params: { path: { job: "done" } } });
const run: number = made.data!.runs[0]!;
const ended: components["schemas"]["RunState"] = "succeeded";
for (let tries = 0; tries < 200; tries++) {
    const shown = (await client.GET("/api/v1/runs/{run}", { params: { path: { run } } })).data!;
    if (shown.run.state === ended) {
        console.log("attempts", ...shown.attempts.map((a) => `${a.attempt}:${a.outcome}`));
        break;
    }
    await new Promise((later) => setTimeout(later, 100));
}
const missing = await client.GET("/api/v1/jobs/{job}", { params: { path: { job: "no-such-job" } } });
console.log("refused", missing.error!.status);
"#;

async fn document(f: &Fixture, token: &str) -> (Value, PathBuf) {
    let document = f.get(token, "/api/v1/openapi.json").await.json();
    let path = f.farm.dir().join("openapi.json");
    std::fs::write(&path, document.to_string()).expect("the document");
    (document, path)
}

fn ran(command: &mut Command) -> String {
    let out = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {said}");
    said
}

fn object(value: &Value) -> &Map<String, Value> {
    value.as_object().expect("an object")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_document_is_valid_and_names_each_thing_once() {
    let f = Fixture::new().await;
    let token = f.token("reader", "viewer", "1h");
    let (document, path) = document(&f, &token).await;
    ran(Command::new(tool("openapi-spec-validator")).arg(&path));
    let mut faults = Vec::new();
    for (path, item) in object(&document["paths"]) {
        for name in path.split(['{', '}']).skip(1).step_by(2) {
            if !["job", "run", "node", "pool", "target", "cause"].contains(&name) {
                faults.push(format!("{path}: {{{name}}}"));
            }
        }
        for (method, operation) in object(item) {
            for (status, response) in object(&operation["responses"]) {
                if response["description"].as_str().is_none_or(str::is_empty) {
                    faults.push(format!("{method} {path}: {status} has no description"));
                }
            }
        }
    }
    for (name, schema) in object(&document["components"]["schemas"]) {
        let items = &schema["properties"]["items"]["items"];
        if name.starts_with("Page_") && items["$ref"].as_str().is_none() {
            faults.push(format!("{name}: its items have no name"));
        }
    }
    assert!(faults.is_empty(), "{faults:#?}");
    let submission = &document["paths"]["/api/v1/jobs/{job}/runs"]["post"]["requestBody"];
    assert_eq!(submission["required"], false, "{submission}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_python_client_submits_a_run_and_reads_its_attempts() {
    let f = Fixture::new().await;
    let token = f.token("script", "submitter", "1h");
    let (_, path) = document(&f, &token).await;
    let generator = tool("openapi-python-client");
    let bin = generator.parent().expect("its directory").to_owned();
    let paths = std::env::var("PATH").unwrap_or_default();
    let here = f.farm.dir().to_owned();
    let config = here.join("client.yaml");
    std::fs::write(
        &config,
        "package_name_override: farmhand_client\npost_hooks: []\n",
    )
    .expect("its configuration");
    let said = ran(Command::new(&generator)
        .current_dir(&here)
        .env("PATH", format!("{}:{paths}", bin.display()))
        .args(["generate", "--meta", "none", "--path"])
        .arg(&path)
        .arg("--config")
        .arg(&config));
    assert!(
        !said.to_lowercase().contains("warning"),
        "nothing is left out: {said}"
    );
    let script = here.join("use.py");
    std::fs::write(&script, SCRIPT).expect("the script");
    let url = format!("http://127.0.0.1:{}", f.port);
    let said = python(&bin, &here, &script, &[&url, &token]);
    assert!(said.contains("jobs daily done long"), "{said}");
    assert!(said.contains("attempts 1:succeeded"), "{said}");
}

fn python(bin: &Path, packages: &Path, script: &Path, args: &[&str]) -> String {
    ran(Command::new(bin.join("python3"))
        .env("PYTHONPATH", packages)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .arg(script)
        .args(args))
}

/// The Node packages of these tests.
fn node_modules() -> PathBuf {
    let tools = std::path::absolute(tool("").join("../../api-client/node_modules")).expect("a path");
    assert!(
        tools.join("openapi-typescript").exists(),
        "{} is missing: `./test` makes it with npm ci from tests/api/package-lock.json; it needs Debian's packages nodejs and npm",
        tools.display()
    );
    tools
}

#[tokio::test(flavor = "multi_thread")]
async fn a_generated_typescript_client_submits_a_run_and_reads_its_attempts() {
    let f = Fixture::new().await;
    let token = f.token("script", "submitter", "1h");
    let (_, path) = document(&f, &token).await;
    let here = f.farm.dir().join("typescript");
    std::fs::create_dir(&here).expect("a directory");
    let packages = here.join("node_modules");
    std::os::unix::fs::symlink(node_modules(), &packages).expect("a link");
    std::fs::write(here.join("package.json"), r#"{ "type": "module" }"#).expect("the package");
    std::fs::write(here.join("use.ts"), TYPED).expect("the script");
    let node = |program: &str| {
        let mut command = Command::new("node");
        command.current_dir(&here).arg(packages.join(program));
        command
    };
    ran(node("openapi-typescript/bin/cli.js")
        .arg(&path)
        .args(["--output", "farmhand.d.ts"]));
    ran(node("typescript/bin/tsc").args(
        "--strict --noUncheckedIndexedAccess --module nodenext --target es2022 --lib es2022,dom --skipLibCheck use.ts"
            .split(' '),
    ));
    let said = ran(Command::new("node").current_dir(&here).args([
        "use.js",
        &format!("http://127.0.0.1:{}", f.port),
        &token,
    ]));
    assert!(said.contains("jobs daily done long"), "{said}");
    assert!(said.contains("attempts 1:succeeded"), "{said}");
    assert!(said.contains("refused 404"), "{said}");
}
