//! The whole way of a farm on databases as services set them up: nobody is a superuser, and nothing is granted that a customer
//! could not grant.

use farmhand_store::jobs::{JobChange, apply};
use farmhand_store::protocol::{FinishResult, claim, finish};
use farmhand_store::{Db, migrate, survey};
use farmhand_tests::acting::anna;
use farmhand_tests::pg::services::{Rented, SERVICES};
use farmhand_tests::pg::{config, connect};

use crate::fixture::{Farm, past, spec, success};

/// Migrated by the customer, with an agent and an operator whose roles the migration has made.
async fn farm(rented: Rented) -> (Farm, Db) {
    let prefix = rented.admin.clone();
    let (_, made) = migrate::migrate_roles(&rented.config(), Some(&prefix))
        .await
        .unwrap_or_else(|e| panic!("{prefix}: {e}"));
    assert_eq!(made.missing, Vec::<String>::new(), "{prefix}");
    // As with every release.
    migrate::migrate_roles(&rented.config(), None).await.unwrap();
    let mut logins = Vec::new();
    for kind in ["agent", "operator"] {
        let login = rented.login(kind, &format!("{prefix}_{kind}")).await;
        let db = Db::connect(&config(&rented.test.url_as(&login))).await;
        logins.push(db.unwrap_or_else(|e| panic!("{login}: {e}")));
    }
    let operator = logins.pop().unwrap();
    let farm = Farm {
        db: logins.pop().unwrap(),
        owner: Db::connect(&rented.config()).await.unwrap(),
        sql: connect(&rented.url()).await,
        test: rented.test,
    };
    (farm, operator)
}

#[tokio::test]
async fn a_customer_of_each_service_migrates_and_agents_fire_claim_and_finish() {
    for (name, sql) in SERVICES {
        let rented = Rented::new(name, sql).await;
        let admin = rented.admin.clone();
        let (farm, operator) = farm(rented).await;
        let me = farm.node("a").await;
        let (at, change) = (past(60), |next_run| JobChange {
            job_id: "tick".to_owned(),
            spec: spec(),
            next_run,
            source: "test.toml".to_owned(),
        });
        apply(&anna(&operator), &[change(Some(at))], false, "tester")
            .await
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        let fired = farm.fire_at("tick", at, &[at]).await;
        assert_eq!(fired.len(), 1, "{name}");
        let run = claim(&farm.db, &me, 9, None).await.unwrap().remove(0);
        let done = finish(&farm.db, &[success(&me, &run)]).await.unwrap();
        assert_eq!(done[0].1, FinishResult::Done, "{name}");
        assert_eq!(farm.state(run.run_id).await.0, "succeeded", "{name}");
        // What doctor and the metrics ask, as an agent's login and as an operator's.
        for db in [&farm.db, &operator] {
            survey::server(db).await.unwrap();
            survey::farm(db).await.unwrap();
            let rights = survey::rights(db).await.unwrap();
            assert_eq!(
                (rights.owner.as_str(), rights.owner_is_superuser),
                (admin.as_str(), false)
            );
            assert_eq!(rights.missing, Vec::<String>::new(), "{name}");
            assert!(rights.open_to_all.is_empty(), "{name}: {:?}", rights.open_to_all);
        }
        assert_eq!(rights_beyond(&farm, &admin).await, 0, "{name}");
    }
}

/// Predefined roles and other rights of the cluster that the farm's own roles have.
async fn rights_beyond(farm: &Farm, prefix: &str) -> i64 {
    farm.i64(&format!(
        "SELECT count(*) FROM pg_roles a, pg_roles p WHERE a.rolname = '{prefix}_agent'
         AND (a.rolsuper OR a.rolcreaterole OR p.rolname LIKE 'pg\\_%' AND pg_has_role(a.oid, p.oid, 'MEMBER'))"
    ))
    .await
}
