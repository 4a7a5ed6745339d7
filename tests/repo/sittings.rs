//! The table of the sittings under faults, and the page that is written from it.

use farmhand_tests::chaos::sittings::{self, PAGE, Sitting, TABLE};

use super::read;

#[test]
fn the_page_of_sittings_is_the_tables() {
    let sittings = sittings::parse(&read(TABLE)).unwrap_or_else(|e| panic!("{e}"));
    let there = read(PAGE);
    let page = sittings::page(&there, &sittings).unwrap_or_else(|e| panic!("{e}"));
    if std::env::var_os("FARMHAND_BLESS").is_some() {
        std::fs::write(super::root().join(PAGE), &page).expect("a page of the repository");
    }
    assert!(
        read(PAGE) == page,
        "{PAGE} is not what {TABLE} says: run this test once with FARMHAND_BLESS=1 and commit the page"
    );
}

fn of(seed: u64) -> Sitting {
    Sitting {
        kind: "plan".to_owned(),
        seed: Some(seed),
        faults: Some(1_000),
        violations: Some(2),
        ..Sitting::default()
    }
}

#[test]
fn a_sitting_that_was_cut_short_is_in_the_table_and_does_not_count() {
    let cut = Sitting {
        uncounted: Some("cut short".to_owned()),
        ..of(8)
    };
    let text = sittings::with(&sittings::with("# The table.\n", &of(7)), &cut);
    let rows = sittings::parse(&text).expect("a table");
    assert_eq!(
        (&rows, sittings::next_seed(&rows)),
        (&vec![of(7), cut.clone()], 9)
    );
    let counts = |text: &str| {
        let rows = sittings::parse(text).expect("a table");
        sittings::page(&read(PAGE), &rows).expect("a page")
    };
    assert!(counts(&text).contains("\n1,000 of 100,000 faults, 2 violations, in 1 sittings.\n"));
    // Judged after all, and beside another that was begun meanwhile.
    let judged = sittings::replaced(&sittings::with(&text, &of(9)), &cut, &of(8)).expect("its row");
    assert_eq!(sittings::parse(&judged).expect("a table"), [of(7), of(8), of(9)]);
    assert!(counts(&judged).contains("\n3,000 of 100,000 faults, 6 violations, in 3 sittings.\n"));
    assert!(sittings::replaced(&judged, &cut, &of(8)).is_err());
}
