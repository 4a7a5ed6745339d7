//! The table of positions in docs/guides/security.md: each position from which tests attack by SQL is in it.

#[test]
fn each_position_that_tests_attack_from_is_in_the_table() {
    let text = super::read("docs/guides/security.md");
    let table = text
        .split("<!-- attacks -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- /attacks -->").next())
        .expect("a table between two marks");
    let positions: Vec<&str> = (table.lines().filter(|line| line.starts_with("| ")))
        .filter_map(|row| row.trim_matches('|').split(" | ").next())
        .map(str::trim)
        .collect();
    assert!(positions.len() >= 20, "{positions:?}");
    let list = super::read("tests/attacks/positions.rs");
    let mut tried = 0;
    for line in list.lines().filter(|line| line.starts_with("    (\"")) {
        let position = line.split('"').nth(1).unwrap_or_default();
        assert!(positions.contains(&position), "not in the table: {line}");
        tried += 1;
    }
    assert!(tried >= 60, "{tried}");
}
