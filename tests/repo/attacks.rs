//! The table of attacks in docs/guides/security.md: each names a test that is there.

#[test]
fn each_attack_of_the_table_names_the_test_that_makes_it() {
    let text = super::read("docs/guides/security.md");
    let table = text
        .split("<!-- attacks -->")
        .nth(1)
        .and_then(|rest| rest.split("<!-- /attacks -->").next())
        .expect("a table between two marks");
    let mut attacks = 0;
    let mut gone = Vec::new();
    for row in table.lines().filter(|line| line.starts_with("| ")).skip(2) {
        attacks += 1;
        let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
        assert_eq!(cells.len(), 3, "attack, record and test: {row}");
        let named = cells[2].split('`').nth(1).and_then(|test| test.split_once(' '));
        let (file, test) = named.unwrap_or_else(|| panic!("no test: {row}"));
        if !super::read(&format!("tests/{file}.rs")).contains(&format!("fn {test}()")) {
            gone.push(row);
        }
    }
    assert!(gone.is_empty(), "tests that are not there: {gone:#?}");
    assert!(attacks >= 30, "{attacks}");
}
