//! The bill of materials that the package carries.

use std::process::Command;

use serde_json::Value;

use crate::root;

fn written() -> Vec<u8> {
    let out = Command::new(root().join("deploy/sbom"))
        .output()
        .expect("deploy/sbom needs python3: apt-get install python3");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    out.stdout
}

#[test]
fn the_bill_of_materials_names_what_is_linked_in_and_is_the_same_each_time() {
    let first = written();
    assert_eq!(first, written());
    let bom: Value = serde_json::from_slice(&first).expect("JSON");
    assert_eq!(
        (&bom["bomFormat"], &bom["specVersion"]),
        (&"CycloneDX".into(), &"1.5".into())
    );
    assert_eq!(bom["metadata"]["component"]["name"], "farmhand");
    let components = bom["components"].as_array().expect("components");
    let has = |name: &str| components.iter().any(|c| c["name"] == name);
    assert!(has("tokio-postgres") && has("rustls") && has("farmhand-core"));
    assert!(!has("proptest") && !has("stateright"), "of tests alone");
    for component in components {
        assert!(component["licenses"][0]["expression"].is_string(), "{component}");
        assert!(
            component["hashes"][0]["content"].is_string()
                || component["name"]
                    .as_str()
                    .is_some_and(|n| n.starts_with("farmhand-")),
            "{component}"
        );
    }
}
