//! Pages by key: stable while rows are added, whatever is before them.

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use utoipa::openapi::schema::{ArrayBuilder, ObjectBuilder, SchemaType, Type};
use utoipa::openapi::{Ref, RefOr, Schema};
use utoipa::{PartialSchema, ToSchema};

use crate::error::StoreError;

/// Rows of a page, at most.
pub const MOST: i64 = 200;
const USUAL: i64 = 50;

/// Which page of a list.
#[derive(Clone, Debug, Default)]
pub struct Paging {
    /// What the page before said is next; None for the first.
    pub cursor: Option<String>,
    /// Rows wanted, 1 to [`MOST`]; None for 50.
    pub limit: Option<i64>,
}

/// One page of a list.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// The cursor of the page after it.
    pub next: Option<String>,
}

/// Each list has a page of its own name, whose items have theirs: clients make one type of them, wherever they occur.
impl<T: ToSchema> ToSchema for Page<T> {
    fn name() -> Cow<'static, str> {
        format!("Page_{}", T::name()).into()
    }

    fn schemas(schemas: &mut Vec<(String, RefOr<Schema>)>) {
        schemas.push((T::name().into_owned(), T::schema()));
        T::schemas(schemas);
    }
}

impl<T: ToSchema> PartialSchema for Page<T> {
    fn schema() -> RefOr<Schema> {
        let items = ArrayBuilder::new().items(Ref::from_schema_name(T::name()));
        let next = ObjectBuilder::new()
            .schema_type(SchemaType::from_iter([Type::String, Type::Null]))
            .description(Some(
                "The cursor of the page after it; null at the end. A page may hold fewer items than were asked for, even \
                 none, and have a next one all the same: a filter looks through a bounded stretch at a time.",
            ));
        let page = ObjectBuilder::new().description(Some("One page of a list."));
        let page = page.property("items", items.description(Some("What is on it.")));
        page.property("next", next)
            .required("items")
            .required("next")
            .into()
    }
}

impl Paging {
    /// A first page of so many rows.
    pub fn first(limit: i64) -> Self {
        Self {
            cursor: None,
            limit: Some(limit),
        }
    }

    pub(super) fn rows(&self) -> i64 {
        self.limit.unwrap_or(USUAL).clamp(1, MOST)
    }

    /// The place that a cursor of this list names; `list` tells the lists' cursors apart.
    pub(super) fn after<T: DeserializeOwned>(&self, list: &str) -> Result<Option<T>, StoreError> {
        let Some(cursor) = self.cursor.as_deref().filter(|c| !c.is_empty()) else {
            return Ok(None);
        };
        let place = hex::decode(cursor)
            .ok()
            .and_then(|bytes| serde_json::from_slice::<(String, T)>(&bytes).ok())
            .filter(|(of, _)| of == list)
            .map(|(_, place)| place);
        match place {
            Some(place) => Ok(Some(place)),
            None => Err(StoreError::Refused(format!(
                "the cursor is not one of this list ({list}): pass on what `next` of the page before said, or none"
            ))),
        }
    }
}

/// The cursor that names a place in a list.
pub(super) fn cursor<T: Serialize>(list: &str, place: &T) -> String {
    // Numbers and strings always have a text.
    let text = serde_json::to_vec(&(list, place)).unwrap_or_default();
    hex::encode(text)
}

/// All pages of a list, as one.
pub async fn every<T, F>(read: impl FnMut(Paging) -> F) -> Result<Page<T>, StoreError>
where
    F: Future<Output = Result<Page<T>, StoreError>>,
{
    upto(i64::MAX, usize::MAX, None, read).await
}

/// Up to `limit` items from `cursor` on, as one page; `pages` are read for them at most.
pub async fn upto<T, F>(
    limit: i64,
    pages: usize,
    cursor: Option<String>,
    mut read: impl FnMut(Paging) -> F,
) -> Result<Page<T>, StoreError>
where
    F: Future<Output = Result<Page<T>, StoreError>>,
{
    let (mut all, mut left) = (
        Page {
            items: Vec::new(),
            next: cursor,
        },
        limit,
    );
    for _ in 0..pages {
        if left < 1 {
            break;
        }
        let page = read(Paging {
            cursor: all.next.take(),
            limit: Some(left),
        });
        let page = page.await?;
        left -= i64::try_from(page.items.len()).unwrap_or(left);
        all.items.extend(page.items);
        all.next = page.next;
        if all.next.is_none() {
            break;
        }
    }
    Ok(all)
}

impl<T> Page<T> {
    /// A list that has one page only.
    pub fn whole(items: Vec<T>) -> Self {
        Self { items, next: None }
    }

    /// Of rows of which one more than `limit` was asked for: that one only says that there are more.
    pub(super) fn cut(mut items: Vec<T>, limit: i64, next: impl Fn(&T) -> String) -> Self {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        let more = items.len() > limit;
        items.truncate(limit);
        let next = items.last().filter(|_| more).map(next);
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paging(cursor: &str) -> Paging {
        Paging {
            cursor: Some(cursor.to_owned()),
            limit: None,
        }
    }

    #[test]
    fn a_cursor_names_the_place_it_was_made_of() {
        let text = cursor("runs", &42_i64);
        assert_eq!(paging(&text).after::<i64>("runs").unwrap(), Some(42));
    }

    #[test]
    fn a_cursor_of_another_list_or_of_nonsense_is_refused() {
        for text in [
            cursor("jobs", &"a"),
            "zz".to_owned(),
            "7".to_owned(),
            "ä".to_owned(),
            "00".to_owned(),
        ] {
            let error = paging(&text).after::<i64>("runs").unwrap_err();
            assert!(error.to_string().contains("cursor"), "{error}");
        }
    }

    #[test]
    fn no_page_is_larger_than_the_most() {
        assert_eq!(Paging::first(100_000).rows(), MOST);
        assert_eq!(Paging::first(-1).rows(), 1);
    }
}
