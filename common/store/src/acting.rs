//! What a person does. Each transaction of it holds the token that was shown, and the first that is committed writes the
//! action into the audit: without the entry nothing is done, and what is not done has none.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio_postgres::types::Type;

use super::conn::Param;
use super::db::{Db, Stmt, Transaction, stmt};
use super::error::StoreError;

/// An action, as the audit has it.
#[derive(Clone, Debug)]
pub struct Deed {
    /// Who: a token's name and the address that it was shown from, or the user of a command.
    pub actor: String,
    /// The token; None for a login of the database.
    pub token_id: Option<i64>,
    /// In a word: `pause`, `cancel`, `apply`, …
    pub action: &'static str,
    /// The job that it is done to, if it is one.
    pub job_id: Option<String>,
    /// The run that it is done to, if it is one.
    pub run_id: Option<i64>,
    /// The node that it is done to, if it is one.
    pub address: Option<String>,
    /// The command that does the same.
    pub what: String,
    /// What else is to be known of it.
    pub detail: Value,
}

impl Deed {
    /// Of somebody, with nothing else said about it yet.
    pub fn of(actor: &str, action: &'static str, what: impl Into<String>) -> Self {
        Self {
            actor: actor.to_owned(),
            token_id: None,
            action,
            job_id: None,
            run_id: None,
            address: None,
            what: what.into(),
            detail: json!({}),
        }
    }
}

/// The deed of a handle, and whether it is in the audit.
pub(crate) struct Doing {
    deed: Deed,
    written: AtomicBool,
}

impl Doing {
    /// Keeps the token good until the transaction ends.
    pub(crate) async fn hold(&self, tx: &mut Transaction) -> Result<(), StoreError> {
        let Some(token) = self.deed.token_id else {
            return Ok(());
        };
        let held: Vec<(i64,)> = tx.rows(stmt!("hold_token"), &[(&token, Type::INT8)]).await?;
        held.first().map(drop).ok_or(StoreError::TokenOver)
    }

    pub(crate) async fn write(&self, tx: &mut Transaction) -> Result<(), StoreError> {
        if self.written.load(Ordering::Acquire) {
            return Ok(());
        }
        let deed = &self.deed;
        let _: Vec<Value> = tx
            .rows(
                stmt!("audit_write"),
                &[
                    (&deed.actor, Type::TEXT),
                    (&deed.token_id, Type::INT8),
                    (&deed.action, Type::TEXT),
                    (&deed.job_id, Type::TEXT),
                    (&deed.run_id, Type::INT8),
                    (&deed.address, Type::TEXT),
                    (&deed.what, Type::TEXT),
                    (&deed.detail, Type::JSONB),
                ],
            )
            .await?;
        Ok(())
    }

    pub(crate) fn committed(&self) {
        self.written.store(true, Ordering::Release);
    }
}

/// A handle for one action of a person: statements that change things for people take it.
#[derive(Clone)]
pub struct Acting {
    db: Db,
    acting: Db,
}

impl Acting {
    /// Nothing is asked of the database yet.
    pub fn begin(db: &Db, deed: Deed) -> Self {
        let doing = Doing {
            deed,
            written: AtomicBool::new(false),
        };
        Self {
            db: db.clone(),
            acting: db.doing(Arc::new(doing)),
        }
    }

    /// For what only looks, and for what agents do by themselves, too.
    pub fn db(&self) -> &Db {
        &self.db
    }

    pub(crate) async fn transaction(&self, op: &'static str) -> Result<Transaction, StoreError> {
        self.acting.transaction(op).await
    }

    pub(crate) async fn transaction_within(
        &self,
        op: &'static str,
        limit: Duration,
    ) -> Result<Transaction, StoreError> {
        self.acting.transaction_within(op, limit).await
    }

    /// A statement in a transaction of its own. Without a row nothing was done.
    pub(crate) async fn rows<T: DeserializeOwned>(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Vec<T>, StoreError> {
        let mut tx = self.transaction(stmt.op).await?;
        let rows: Vec<T> = tx.rows(stmt, params).await?;
        match rows.is_empty() {
            true => tx.rollback().await?,
            false => tx.commit().await?,
        }
        Ok(rows)
    }

    /// As [`Acting::rows`], of one row.
    pub(crate) async fn row<T: DeserializeOwned>(
        &self,
        stmt: Stmt,
        params: &[Param<'_>],
    ) -> Result<Option<T>, StoreError> {
        Ok(self.rows(stmt, params).await?.into_iter().next())
    }
}
