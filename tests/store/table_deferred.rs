//! Table jobs on tables whose constraints wait for the commit: what they refuse is the row's own affair.

use farmhand_core::definition::{JobSpec, OnLost};
use farmhand_store::protocol::{Finish, finish};
use farmhand_store::tables::dispatch;

use crate::fixture::{Farm, expire_now, success};
use crate::tables::{ORDERS, farm_with, job, look, orders, row, take, write};

#[tokio::test]
async fn a_constraint_that_waits_for_the_commit_holds_back_its_row_and_no_end() {
    let (farm, me) = farm_with(3, 10).await;
    farm.exec(
        "CREATE TABLE shop.codes (code integer PRIMARY KEY);
         INSERT INTO shop.codes VALUES (0);
         ALTER TABLE shop.orders ADD FOREIGN KEY (code) REFERENCES shop.codes DEFERRABLE INITIALLY DEFERRED",
    )
    .await;
    look(&farm).await;
    let mut ends: Vec<Finish> = take(&farm, &me).await.iter().map(|r| success(&me, r)).collect();
    ends[1].exit_code = Some(137);
    let refused = ends[1].run_id;
    finish(&farm.db, &ends).await.unwrap();
    let all = "SELECT count(*) FROM farmhand.run_history WHERE state = 'succeeded'";
    assert_eq!(farm.i64(all).await, 3, "no end is lost");
    write(&farm).await;
    let event = "SELECT detail->>'error' FROM farmhand.event WHERE kind = 'row_not_written'";
    assert!(farm.text(event).await.unwrap().contains("foreign key"));
    farm.is(
        "SELECT run_id FROM farmhand.row_result WHERE error IS NOT NULL",
        refused,
    )
    .await;
    farm.exec("INSERT INTO shop.codes VALUES (137)").await;
    look(&farm).await;
    for id in 1..=3 {
        assert!(row(&farm, id).await.2, "row {id} is written in the end");
    }
}

/// A trigger that refuses every change, at the commit.
const REFUSES: &str = "CREATE FUNCTION shop.refuse() RETURNS trigger LANGUAGE plpgsql AS
        $$ BEGIN RAISE EXCEPTION 'not on my table'; END $$;
    CREATE CONSTRAINT TRIGGER refuse AFTER UPDATE ON shop.orders DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION shop.refuse()";

#[tokio::test]
async fn a_trigger_that_waits_for_the_commit_keeps_no_dead_node_from_being_ended() {
    let farm = Farm::new().await;
    farm.exec(ORDERS).await;
    farm.exec("INSERT INTO shop.orders VALUES (1)").await;
    let fails = JobSpec {
        on_lost: OnLost::Fail,
        ..job(orders(5))
    };
    farm.job("orders", fails, None).await;
    let me = farm.node("a").await;
    look(&farm).await;
    let run = take(&farm, &me).await.remove(0);
    farm.exec(REFUSES).await;
    expire_now(&farm, &me).await;
    assert_eq!(farm.state(run.run_id).await.0, "lost");
    write(&farm).await;
    farm.is(
        "SELECT count(*) FROM farmhand.event WHERE kind = 'row_not_written'",
        1,
    )
    .await;
}

#[tokio::test]
async fn a_table_that_refuses_its_dispatch_at_the_commit_says_so() {
    let (farm, _) = farm_with(1, 5).await;
    farm.exec(REFUSES).await;
    let answer = dispatch(&farm.db, "orders").await.unwrap();
    assert_eq!(
        (answer.made, answer.problem.as_deref()),
        (0, Some("not on my table"))
    );
}

#[tokio::test]
async fn a_row_that_a_trigger_keeps_unmarked_is_not_run_again_and_again() {
    for kept in ["OLD", "NULL"] {
        let (farm, me) = farm_with(3, 5).await;
        let keeps = format!(
            "CREATE FUNCTION shop.keep() RETURNS trigger LANGUAGE plpgsql AS
                 $$ BEGIN IF OLD.id = 2 THEN RETURN {kept}; END IF; RETURN NEW; END $$;
             CREATE TRIGGER keep BEFORE UPDATE ON shop.orders FOR EACH ROW EXECUTE FUNCTION shop.keep()"
        );
        farm.exec(&keeps).await;
        let answer = dispatch(&farm.db, "orders").await.unwrap();
        let problem = answer.problem.unwrap();
        assert_eq!(answer.made, 0, "{kept}");
        assert!(problem.contains("the row 2 of shop.orders"), "{problem}");
        assert_eq!(take(&farm, &me).await.len(), 0, "{kept}");
        farm.exec("DROP TRIGGER keep ON shop.orders").await;
        assert_eq!(look(&farm).await.made, 3, "{kept}");
    }
}

/// After a failover a pooler may lead to the former primary: whoever asks goes to another server.
#[tokio::test]
async fn that_a_server_takes_no_writes_is_no_problem_of_the_table() {
    let (farm, _) = farm_with(1, 5).await;
    let readonly = "SET default_transaction_read_only = on";
    farm.exec(readonly).await;
    let looks = "SELECT * FROM farmhand.dispatch_rows('orders')";
    let error = farm.sql.batch_execute(looks).await.unwrap_err();
    let code = error.as_db_error().map(|e| e.code().code());
    assert_eq!(code, Some("25006"), "{error}");
}
