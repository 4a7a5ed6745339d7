//! The login with which the API changes definitions, where the agent has one.

use std::path::PathBuf;

use farmhand_control::Refusal;
use farmhand_policy::trust::Trust;
use farmhand_store::logins::{self, Login};
use farmhand_store::{Db, DbConfig, StoreError};
use farmhand_telemetry::events::Events;
use tokio::sync::OnceCell;

/// An operator's login, and what this agent asks of what is applied with it.
pub struct Definitions {
    db: Db,
    trusted_keys: Option<PathBuf>,
    checked: OnceCell<()>,
}

impl Definitions {
    /// Connects to `database` when first used. With trusted keys it takes only what they signed.
    pub fn new(database: DbConfig, trusted_keys: Option<PathBuf>, events: &Events) -> Self {
        let config = database.with_max_pool(1).with_listen(false);
        Self {
            db: Db::new(&config).observed_by(events.statement_observer()),
            trusted_keys,
            checked: OnceCell::new(),
        }
    }

    pub(crate) fn trust(&self) -> Trust {
        Trust::now(self.trusted_keys.as_deref())
    }

    async fn check(&self, farm: &Db) -> Result<(), StoreError> {
        let check = || logins::check(farm, &self.db, Login::Definitions);
        self.checked.get_or_try_init(check).await.copied()
    }

    /// Says in the log what its requests would be refused for.
    pub(crate) async fn warn(&self, farm: &Db) {
        if let Err(error) = self.check(farm).await {
            tracing::warn!("no definitions can be changed over the API now: {error}");
        }
    }

    /// Its connections, once it is found to be the login that it should be; `farm` has the agent's own.
    pub(crate) async fn db(&self, farm: &Db) -> Result<&Db, Refusal> {
        match self.check(farm).await {
            Ok(()) => Ok(&self.db),
            Err(StoreError::NotReady { why, fix }) => {
                Err(Refusal::refused("this agent cannot change definitions")
                    .why(why)
                    .next(fix))
            }
            Err(error) => Err(error.into()),
        }
    }
}

pub(crate) fn missing() -> Refusal {
    let setting = Login::Definitions.setting();
    Refusal::refused("this agent changes no definitions")
        .why("it was started without a database login for them")
        .next(format!(
            "start it with {setting}, an operator's login; or use `farmhand job apply` with such a login"
        ))
}
