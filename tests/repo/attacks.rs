//! The table of attacks in docs/guides/security.md: each names its position and a test that is there.

#[test]
fn each_attack_of_the_table_names_the_test_that_makes_it() {
    let text = super::read("docs/guides/security.md");
    let table = text
        .split("<!-- attacks -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- /attacks -->").next())
        .expect("a table between two marks");
    let mut attacks = Vec::new();
    let mut gone = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(2) {
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 4, "position, goal, what stops it, and test: {row}");
        attacks.push((cells[0].trim(), cells[1].trim()));
        let named = cells[3].split('`').nth(1).and_then(|test| test.split_once(' '));
        let (file, test) = named.unwrap_or_else(|| panic!("no test: {row}"));
        if !super::read(&format!("tests/{file}.rs")).contains(&format!("fn {test}()")) {
            gone.push(row);
        }
    }
    assert!(gone.is_empty(), "tests that are not there: {gone:#?}");
    assert!(attacks.len() >= 70, "{}", attacks.len());
    // What is tried by SQL is there by position and goal.
    let list = super::read("tests/attacks/positions.rs");
    let mut tried = 0;
    for line in list.lines().filter(|line| line.starts_with("    (\"")) {
        let words: Vec<&str> = line.split('"').collect();
        assert!(
            attacks.contains(&(words[1], words[3])),
            "not in the table: {line}"
        );
        tried += 1;
    }
    assert!(tried >= 60, "{tried}");
}
