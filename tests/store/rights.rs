//! Who may do what: every role at every table, view, sequence and function, as docs/reference/roles.md has it.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use farmhand_store::survey;
use farmhand_tests::pg::Client;
use farmhand_tests::pg::TestDb;
use tokio_postgres::error::SqlState;

const ROLES: [&str; 5] = ["agent", "submitter", "operator", "viewer", "rows"];

/// Whether the role that is set may do it: EXPLAIN asks for every right and does nothing.
async fn may(client: &Client, statement: &str) -> bool {
    match client.batch_execute(&format!("EXPLAIN {statement}")).await {
        Ok(()) => true,
        Err(e) => {
            let code = e.code().unwrap_or_else(|| panic!("{statement}: {e:?}"));
            *code != SqlState::INSUFFICIENT_PRIVILEGE
        }
    }
}

async fn names(client: &Client, sql: &str) -> Vec<String> {
    let rows = client.query(sql, &[]).await.unwrap();
    rows.iter().map(|r| r.get(0)).collect()
}

/// What the role that is set may do to a table, in letters.
async fn letters(client: &Client, table: &str, columns: &[String]) -> String {
    let mut found = String::new();
    for (letter, statement) in [
        ('r', format!("SELECT FROM farmhand.{table}")),
        ('a', format!("INSERT INTO farmhand.{table} DEFAULT VALUES")),
    ] {
        // Of a table, not of a column: SELECT of no column asks for any.
        if may(client, &statement).await {
            found.push(letter);
        }
    }
    let mut open = Vec::new();
    for column in columns {
        if may(client, &format!("UPDATE farmhand.{table} SET {column} = DEFAULT")).await {
            open.push(column.as_str());
        }
    }
    match open.len() {
        0 => {}
        n if n == columns.len() => found.push('w'),
        _ => {
            open.sort_unstable();
            let _ = write!(found, "w({})", open.join(", "));
        }
    }
    if may(client, &format!("DELETE FROM farmhand.{table}")).await {
        found.push('d');
    }
    found
}

/// Object → what each role may do with it, by trying.
async fn tried(client: &Client) -> BTreeMap<String, [String; 5]> {
    let of_kind = |kinds: &str| {
        format!(
            "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
             AND c.relkind IN ({kinds}) AND c.relname !~ '_[0-9]{{8}}$' AND NOT EXISTS (
                 SELECT FROM pg_depend d WHERE d.objid = c.oid AND d.deptype = 'i' AND c.relkind = 'S') ORDER BY 1"
        )
    };
    let tables = names(client, &of_kind("'r', 'p'")).await;
    let views = names(client, &of_kind("'v', 'm'")).await;
    let sequences = names(client, &of_kind("'S'")).await;
    let functions = client
        .query(
            "SELECT p.proname::text, 'farmhand.' || p.proname || '(' || coalesce((SELECT string_agg('NULL::' ||
                 format_type(a.t, NULL), ', ' ORDER BY a.n) FROM unnest(p.proargtypes) WITH ORDINALITY AS a(t, n)), '')
                 || ')' FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace ORDER BY 1, 2",
            &[],
        )
        .await
        .unwrap();
    let mut columns = BTreeMap::new();
    for table in &tables {
        let sql = format!(
            "SELECT quote_ident(attname) FROM pg_attribute WHERE attrelid = 'farmhand.{table}'::regclass
             AND attnum > 0 AND NOT attisdropped"
        );
        columns.insert(table.clone(), names(client, &sql).await);
    }
    let mut found: BTreeMap<String, [String; 5]> = BTreeMap::new();
    for (nth, role) in ROLES.iter().enumerate() {
        client.exec(&format!("SET ROLE farmhand_{role}")).await;
        for table in &tables {
            found.entry(format!("table {table}")).or_default()[nth] =
                letters(client, table, &columns[table]).await;
        }
        for view in &views {
            let may_read = may(client, &format!("SELECT FROM farmhand.{view}")).await;
            found.entry(format!("view {view}")).or_default()[nth] =
                if may_read { "r" } else { "" }.to_owned();
        }
        for sequence in &sequences {
            let may_use = may(client, &format!("SELECT nextval('farmhand.{sequence}')")).await
                && client
                    .batch_execute(&format!("SELECT nextval('farmhand.{sequence}')"))
                    .await
                    .is_ok();
            found.entry(format!("sequence {sequence}")).or_default()[nth] =
                if may_use { "x" } else { "" }.to_owned();
        }
        for function in &functions {
            let (name, call): (String, String) = (function.get(0), function.get(1));
            let may_call = may(client, &format!("SELECT {call}")).await;
            let cell = &mut found.entry(format!("function {name}")).or_default()[nth];
            *cell = if may_call { "x" } else { "" }.to_owned();
        }
        client.exec("RESET ROLE").await;
    }
    found
}

/// The rows of the document's table.
fn documented(text: &str) -> BTreeMap<String, [String; 5]> {
    let begin = text.find("<!-- rights -->").expect("a table of rights");
    let end = text.find("<!-- /rights -->").expect("its end");
    text[begin..end]
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| {
            let cells: Vec<String> = line
                .trim_matches('|')
                .split('|')
                .map(|c| c.trim().trim_matches('`').to_owned())
                .collect();
            let [object, rights @ ..] = cells.as_slice() else {
                panic!("{line}")
            };
            let rights: [String; 5] = rights.to_vec().try_into().expect("five roles");
            (object.clone(), rights)
        })
        .collect()
}

#[tokio::test]
async fn every_role_may_do_at_every_object_what_is_documented_and_nothing_else() {
    let test = TestDb::new().await;
    let found = tried(&test.admin().await).await;
    let text =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/reference/roles.md")).unwrap();
    let documented = documented(&text);
    let mut wrong = String::new();
    for (object, rights) in &found {
        if documented.get(object) != Some(rights) {
            let cells: Vec<String> = rights
                .iter()
                .map(|r| {
                    if r.is_empty() {
                        String::new()
                    } else {
                        format!("`{r}`")
                    }
                })
                .collect();
            let _ = writeln!(wrong, "| `{object}` | {} |", cells.join(" | "));
        }
    }
    for object in documented.keys().filter(|o| !found.contains_key(*o)) {
        let _ = writeln!(wrong, "{object} is documented and not there");
    }
    assert!(
        wrong.is_empty(),
        "docs/reference/roles.md and store/sql/roles_grant.sql differ; the database has:\n{wrong}"
    );
}

#[tokio::test]
async fn who_is_a_member_of_no_role_has_no_right_at_all() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    admin.exec(
        "DO $$ BEGIN CREATE ROLE fh_nobody; EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
    ).await;
    let open: i64 = admin
        .value(
            "SELECT (SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
                     AND c.relkind IN ('r', 'p', 'v', 'm') AND (has_table_privilege('fh_nobody', c.oid,
                         'SELECT, INSERT, UPDATE, DELETE, TRUNCATE, REFERENCES, TRIGGER')
                         OR has_any_column_privilege('fh_nobody', c.oid, 'SELECT, INSERT, UPDATE, REFERENCES')))
                 + (SELECT count(*) FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
                     AND CASE c.relkind WHEN 'S' THEN
                         has_sequence_privilege('fh_nobody', c.oid, 'USAGE, SELECT, UPDATE') END)
                 + (SELECT count(*) FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace
                     AND has_function_privilege('fh_nobody', p.oid, 'EXECUTE'))
                 + has_schema_privilege('fh_nobody', 'farmhand', 'USAGE, CREATE')::int").await;
    assert_eq!(open, 0);
}

#[tokio::test]
async fn no_role_but_the_owner_may_define_anything() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    for role in ROLES {
        let rows = admin
            .query(
                "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'farmhand'::regnamespace
                 AND c.relkind IN ('r', 'p', 'v', 'm') AND has_table_privilege($1, c.oid, 'TRUNCATE, REFERENCES, TRIGGER')",
                &[&format!("farmhand_{role}")],
            )
            .await
            .unwrap();
        assert!(rows.is_empty(), "{role}: {rows:?}");
        let creates: bool = admin
            .query_one(
                "SELECT has_schema_privilege($1, 'farmhand', 'CREATE')",
                &[&format!("farmhand_{role}")],
            )
            .await
            .unwrap()
            .get(0);
        assert!(!creates, "{role}");
    }
}

#[tokio::test]
async fn every_function_says_where_it_looks_for_names() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    let loose = survey::rights(&test.db().await).await.unwrap().loose_functions;
    assert!(
        loose.is_empty(),
        "SET search_path = pg_catalog, pg_temp is missing: {loose:?}"
    );
    let definers = names(
        &admin,
        "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'farmhand'::regnamespace AND p.prosecdef
         ORDER BY 1",
    )
    .await;
    let known = "allow allowed be_alone begin_session count_epoch count_one drop_partitions \
        end_rows end_session ensure_partitions forget_audit free_lease keep_audit keep_places \
        known_credential make_row_runs may note_action note_change note_rows note_runs \
        raise_sequences refuse_beyond release renew row_room row_writes submit submit_run trim_history \
        try_acquire waits_for";
    assert_eq!(definers.join(" "), known);
}

/// Tables of jobs and runs whose rows nobody writes who can be restricted, nor an agent for somebody who is.
const NOT_RESTRICTED: &[(&str, &str)] = &[
    ("audit", "triggers write it"),
    ("progress", "agents report it of what they run"),
    ("rate_start", "claims write it"),
    (
        "row_result",
        "triggers and agents write it, the login for rows takes it",
    ),
    ("run_log", "agents write it of what they run"),
    ("slow_run", "agents find it"),
    (
        "submission",
        "submit writes it, together with the run in run_live, which is restricted",
    ),
];

/// A restriction holds for what is in the list of restriction.sql.
#[tokio::test]
async fn every_table_with_rows_of_jobs_is_restricted_or_says_why_not() {
    let test = TestDb::new().await;
    let admin = test.admin().await;
    // What names a job or a run, by the columns' names and by references; and the events of which refuse_beyond is told.
    let rows = admin
        .query(
            "SELECT c.relname::text, coalesce(bit_or(g.tgtype) & 28, 0) = 28,
                 has_any_column_privilege('farmhand_operator', c.oid, 'INSERT, UPDATE')
                     OR has_table_privilege('farmhand_operator', c.oid, 'DELETE')
                     OR has_any_column_privilege('farmhand_submitter', c.oid, 'INSERT, UPDATE')
                     OR has_table_privilege('farmhand_submitter', c.oid, 'DELETE')
             FROM pg_class c LEFT JOIN pg_trigger g ON g.tgrelid = c.oid AND g.tgenabled = 'O'
                 AND g.tgfoid = 'farmhand.refuse_beyond'::regproc
             WHERE c.relnamespace = 'farmhand'::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                 AND (EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = c.oid AND NOT a.attisdropped AND a.attname IN
                         ('job_id', 'run_id', 'job', 'run', 'parent', 'child', 'of_run', 'firing', 'parent_run', 'fold_run'))
                     OR EXISTS (SELECT FROM pg_constraint o WHERE o.conrelid = c.oid AND o.confrelid IN
                         ('farmhand.job'::regclass, 'farmhand.job_revision'::regclass, 'farmhand.run_live'::regclass)))
             GROUP BY c.oid, c.relname ORDER BY 1",
            &[],
        )
        .await
        .unwrap();
    let mut wrong = Vec::new();
    let mut known = Vec::new();
    for row in &rows {
        let (table, restricted, writable): (String, bool, bool) = (row.get(0), row.get(1), row.get(2));
        let reason = NOT_RESTRICTED.iter().find(|(name, _)| *name == table);
        match (restricted, reason) {
            (true, None) => {}
            (true, Some(_)) => wrong.push(format!("{table} is restricted: it needs no reason here")),
            (false, None) => wrong.push(format!("{table} is not in the list of restriction.sql")),
            (false, Some(_)) if writable => {
                wrong.push(format!(
                    "operators or submitters write {table}: it has to be in the list"
                ));
            }
            (false, Some(_)) => {}
        }
        known.push(table);
    }
    for (name, _) in NOT_RESTRICTED {
        if !known.iter().any(|table| table == name) {
            wrong.push(format!("{name} has no rows of jobs"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(known.len() >= 20, "{known:?}");
}
