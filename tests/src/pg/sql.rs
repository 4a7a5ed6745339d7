//! A plain connection: what a test sends itself. A statement that fails ends the test and is named.

use std::ops::{Deref, DerefMut};

use tokio_postgres::types::{FromSqlOwned, ToSql};

pub struct Client(pub(super) tokio_postgres::Client);

impl Client {
    /// Statements without a result.
    pub async fn exec(&self, sql: &str) {
        let done = self.0.batch_execute(sql).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    /// One statement with parameters: how many rows it wrote.
    pub async fn exec_with(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> u64 {
        let done = self.0.execute(sql, params).await;
        done.unwrap_or_else(|e| panic!("{sql}: {e:?}"))
    }

    /// The one value of a query.
    pub async fn value<T: FromSqlOwned>(&self, sql: &str) -> T {
        let row = self.0.query_one(sql, &[]).await;
        row.unwrap_or_else(|e| panic!("{sql}: {e:?}")).get(0)
    }

    /// The first column of each row.
    pub async fn values<T: FromSqlOwned>(&self, sql: &str) -> Vec<T> {
        let rows = self.0.query(sql, &[]).await;
        let rows = rows.unwrap_or_else(|e| panic!("{sql}: {e:?}"));
        rows.iter().map(|row| row.get(0)).collect()
    }
}

impl Deref for Client {
    type Target = tokio_postgres::Client;

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl DerefMut for Client {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.0
    }
}
