//! Targets of messages, and messages to them.

use farmhand_store::Db;
use farmhand_store::notify::{NotificationRow, TargetRow, notifications, targets};
use farmhand_store::reading::Page;
use serde::Deserialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::Question;
use super::parts::words;
use crate::Refusal;

/// Targets of messages, who names them, and what became of their messages
#[derive(Deserialize, ToSchema)]
pub struct Targets {}

impl Question for Targets {
    const PATH: &'static str = "/api/v1/targets";
    type Answer = Page<TargetRow>;

    async fn answer(&self, db: &Db) -> Result<Page<TargetRow>, Refusal> {
        Ok(Page::whole(targets(db).await?))
    }
}

/// What became of messages, such as those of a test
#[derive(Deserialize, ToSchema)]
pub struct Notifications {
    /// With commas between them.
    #[serde(deserialize_with = "words")]
    pub ids: Vec<Uuid>,
}

impl Question for Notifications {
    const PATH: &'static str = "/api/v1/notifications";
    type Answer = Page<NotificationRow>;

    async fn answer(&self, db: &Db) -> Result<Page<NotificationRow>, Refusal> {
        Ok(Page::whole(notifications(db, &self.ids).await?))
    }
}
