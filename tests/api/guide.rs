//! What docs/guides/gitops.md does with the API.

use farmhand_tests::farm::SOON;
use farmhand_tests::guides::{blocks, shell};

use super::definitions::{job, jobs, with_login};

#[tokio::test(flavor = "multi_thread")]
async fn the_commands_of_the_guide_preview_and_apply() {
    let [preview, apply] = blocks("gitops.md").try_into().expect("two blocks");
    let f = with_login().await;
    let token = f.token("ci", "admin", "1h");
    let here = f.farm.dir().join("repository");
    std::fs::create_dir_all(here.join("jobs/more")).expect("directories");
    std::fs::write(here.join("jobs/a.toml"), job("a", "1")).expect("a file");
    std::fs::write(here.join("jobs/more/b b.toml"), job("b", "1")).expect("a file");
    let run = |script: &str| {
        let out = shell(script, &here)
            .env("FARMHAND_API", format!("http://127.0.0.1:{}", f.port))
            .env("FARMHAND_TOKEN", &token)
            .output()
            .expect("sh");
        let said = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
        (out.status.success(), said)
    };
    let (good, said) = run(&preview);
    assert!(good && said.contains("\"created\""), "{said}");
    assert!(jobs(&f).await.is_empty(), "{said}");
    let (good, said) = run(&(preview.clone() + &apply));
    assert!(good, "{said}");
    assert_eq!(jobs(&f).await, ["a", "b"]);
    let run_id = f.farm.submit("b").await;
    assert_eq!(f.farm.over(run_id, SOON).await.state, "succeeded");
    std::fs::write(here.join("jobs/a.toml"), "[job.a]\ncomand = 'x'\n").expect("a file");
    let (good, said) = run(&preview);
    assert!(!good && said.contains("unknown key `comand`"), "{said}");
}
