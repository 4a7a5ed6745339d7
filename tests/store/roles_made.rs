//! How roles are made: by whoever may, once in a cluster, or by hand.

use farmhand_store::migrate::{migrate, migrate_roles};
use farmhand_store::{Db, roles, survey};
use farmhand_tests::pg::{TestDb, config};

#[tokio::test]
async fn databases_migrated_at_once_make_the_clusters_roles_once() {
    let prefix = format!("fh_{}", std::process::id());
    let mut tests = Vec::new();
    for _ in 0..4 {
        tests.push(TestDb::empty().await);
    }
    let tries = tests.iter().map(|test| {
        let (config, prefix) = (test.config(), prefix.clone());
        tokio::spawn(async move { migrate_roles(&config, Some(&prefix)).await.unwrap().1 })
    });
    for made in tries.collect::<Vec<_>>() {
        assert!(made.await.unwrap().missing.is_empty());
    }
    let admin = tests[0].admin().await;
    // The next time the name is known, and the other farm's members are not ours.
    migrate(&tests[0].config()).await.unwrap();
    let rights = admin
        .query_one(
            "SELECT has_schema_privilege($1 || '_viewer', 'farmhand', 'USAGE'),
                has_table_privilege($1 || '_agent', 'farmhand.run_live', 'DELETE'),
                has_schema_privilege('farmhand_viewer', 'farmhand', 'USAGE'),
                has_schema_privilege('farmhand_submitter', 'farmhand', 'USAGE')",
            &[&prefix],
        )
        .await
        .unwrap();
    let rights: Vec<bool> = (0..4).map(|n| rights.get(n)).collect();
    assert_eq!(rights, [true, true, false, false]);
    drop(tests);
    for kind in roles::KINDS {
        let other = TestDb::empty().await.admin().await;
        let _ = other.batch_execute(&format!("DROP ROLE {prefix}_{kind}")).await;
    }
}

#[tokio::test]
async fn who_may_make_no_role_is_told_what_to_have_done_and_it_works_then() {
    let test = TestDb::empty().await;
    let admin = test.admin().await;
    let (login, prefix) = (
        format!("fh_poor_{}", std::process::id()),
        format!("fhp_{}", std::process::id()),
    );
    admin
        .exec(&format!(
            "CREATE ROLE {login} LOGIN; GRANT CREATE ON DATABASE {} TO {login}",
            test.name()
        ))
        .await;
    let poor = config(&test.url_as(&login));
    let (_, made) = migrate_roles(&poor, Some(&prefix)).await.unwrap();
    assert_eq!(made.missing.len(), 6);
    Db::connect(&poor).await.unwrap();
    admin.exec(&made.by_hand().unwrap()).await;
    let (_, made) = migrate_roles(&poor, None).await.unwrap();
    assert!(made.missing.is_empty());
    let reads: bool = admin
        .value(&format!(
            "SELECT has_table_privilege('{prefix}_viewer', 'farmhand.run', 'SELECT')"
        ))
        .await;
    assert!(reads);
    let mut drop = format!("DROP OWNED BY {login} CASCADE; DROP ROLE {login}");
    for kind in roles::KINDS {
        drop.push_str(&format!(
            "; DROP OWNED BY {prefix}_{kind}; DROP ROLE {prefix}_{kind}"
        ));
    }
    admin.exec(&drop).await;
}

#[tokio::test]
async fn a_member_of_the_owner_migrates_and_owns_nothing_himself() {
    let test = TestDb::empty().await;
    let admin = test.admin().await;
    admin
        .exec(&format!("ALTER DATABASE {} OWNER TO farmhand_owner", test.name()))
        .await;
    let member = config(&test.url_as("farm_owner"));
    migrate(&member).await.unwrap();
    migrate(&member).await.unwrap();
    let owners: String = admin
        .value(
            "SELECT string_agg(DISTINCT o.rolname, ',') FROM pg_class c JOIN pg_roles o ON o.oid = c.relowner
             WHERE c.relnamespace = 'farmhand'::regnamespace",
        )
        .await;
    assert_eq!(owners, "farmhand_owner");
    Db::connect(&config(&test.agent_url())).await.unwrap();
}

#[tokio::test]
async fn who_may_not_act_as_the_owner_is_told_the_grant_and_it_works_then() {
    let test = TestDb::empty().await;
    let admin = test.admin().await;
    let login = format!("fh_deploy_{}", std::process::id());
    let prepared = format!(
        "ALTER DATABASE {} OWNER TO farmhand_owner; CREATE ROLE {login} LOGIN",
        test.name()
    );
    admin.exec(&prepared).await;
    let deploy = config(&test.url_as(&login));
    let told = migrate(&deploy).await.unwrap_err().to_string();
    let grant = told.split("run: ").nth(1).unwrap_or_else(|| panic!("{told}"));
    assert!(
        grant.starts_with(&format!("GRANT farmhand_owner TO {login}")),
        "{grant}"
    );
    admin.exec(grant).await;
    migrate(&deploy).await.unwrap();
    admin.exec(&format!("DROP ROLE {login}")).await;
}

#[tokio::test]
async fn an_agents_or_a_readers_login_is_never_to_become_the_owner() {
    let migrated = TestDb::new().await;
    let prepared = TestDb::empty().await;
    let owned = format!("ALTER DATABASE {} OWNER TO farmhand_owner", prepared.name());
    prepared.admin().await.exec(&owned).await;
    for login in ["farm_agent", "farm_rows", "farm_viewer", "farm_submitter"] {
        for (test, advice) in [
            (&migrated, "migrate with the login farm"),
            (&prepared, "migrate with a login that may act as farmhand_owner"),
        ] {
            let refused = migrate(&config(&test.url_as(login))).await.unwrap_err();
            let told = refused.to_string();
            assert!(
                told.contains(advice) && !told.contains("GRANT"),
                "{login}: {told}"
            );
        }
    }
}

#[tokio::test]
async fn a_database_that_does_not_exist_is_not_reported_as_a_wrong_password() {
    let test = TestDb::empty().await;
    let url = test.url().replace(test.name(), "not_there");
    let Err(told) = Db::connect(&config(&url)).await else {
        panic!("it is there");
    };
    assert_eq!(told.class(), "schema", "{told}");
    let text = told.to_string();
    assert!(text.contains("CREATE DATABASE \"not_there\" OWNER"), "{text}");
}

/// Doctor asks for the roles that migrate makes, under the farm's own prefix.
#[tokio::test]
async fn doctor_and_migrate_agree_on_the_roles() {
    let test = TestDb::empty().await;
    let admin = test.admin().await;
    let prefix = format!("fhd_{}", std::process::id());
    migrate_roles(&test.config(), Some(&prefix)).await.unwrap();
    let db = test.db().await;
    let found = survey::rights(&db).await.unwrap();
    assert_eq!((found.missing.len(), found.prefix.as_str()), (0, prefix.as_str()));
    let submits = format!("REVOKE USAGE ON SCHEMA farmhand FROM {prefix}_submitter");
    test.client().await.exec(&submits).await;
    let found = survey::rights(&db).await.unwrap();
    assert!(!found.submitter);
    for kind in roles::KINDS {
        let role = format!("{prefix}_{kind}");
        admin
            .exec(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
            .await;
    }
    let missing = survey::rights(&db).await.unwrap().missing;
    assert_eq!(missing, roles::KINDS.map(|kind| format!("{prefix}_{kind}")));
}

#[tokio::test]
async fn roles_of_another_prefix_than_now_have_no_rights() {
    let test = TestDb::empty().await;
    let [before, after] = ["fho", "fhn"].map(|p| format!("{p}_{}", std::process::id()));
    migrate_roles(&test.config(), Some(&before)).await.unwrap();
    migrate_roles(&test.config(), Some(&after)).await.unwrap();
    let admin = test.admin().await;
    let row = admin
        .query_one(
            "SELECT has_schema_privilege($1 || '_operator', 'farmhand', 'USAGE'),
                has_table_privilege($1 || '_operator', 'farmhand.job', 'INSERT'),
                has_table_privilege($2 || '_operator', 'farmhand.job', 'INSERT')",
            &[&before, &after],
        )
        .await
        .unwrap();
    let rights: Vec<bool> = (0..3).map(|n| row.get(n)).collect();
    assert_eq!(rights, [false, false, true]);
    drop(test);
    let other = TestDb::empty().await.admin().await;
    for kind in roles::KINDS {
        for prefix in [&before, &after] {
            let _ = other.batch_execute(&format!("DROP ROLE {prefix}_{kind}")).await;
        }
    }
}
