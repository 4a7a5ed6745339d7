//! Rows into structs, by column name, and into tuples, which have a part for each column.

use jiff::Timestamp;
use serde::de::value::{BorrowedStrDeserializer, SeqDeserializer, StringDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, DeserializeSeed, Deserializer, Error as _, IntoDeserializer, MapAccess,
    SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::Error;
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type, WasNull};

use super::error::StoreError;

pub(crate) fn rows<T: DeserializeOwned>(op: &'static str, rows: &[Row]) -> Result<Vec<T>, StoreError> {
    rows.iter().map(|row| one(op, row)).collect()
}

/// Of a statement that has one row at the most.
pub(crate) fn row<T: DeserializeOwned>(op: &'static str, found: &[Row]) -> Result<Option<T>, StoreError> {
    match found {
        [] => Ok(None),
        [row] => one(op, row).map(Some),
        more => Err(StoreError::Decode {
            op,
            message: format!("{} rows where at most one can be", more.len()),
        }),
    }
}

fn one<T: DeserializeOwned>(op: &'static str, row: &Row) -> Result<T, StoreError> {
    let mut at = 0;
    let columns = Columns { row, at: &mut at };
    T::deserialize(columns).map_err(|e| {
        let column = at.checked_sub(1).and_then(|i| row.columns().get(i));
        StoreError::Decode {
            op,
            message: format!("column {}: {e}", column.map_or("?", |c| c.name())),
        }
    })
}

/// Microseconds since 1970; PostgreSQL counts from 2000.
const YEAR_1900: i64 = -2_208_988_800_000_000;
const YEAR_2000: i64 = 946_684_800_000_000;
const YEAR_9999: i64 = 253_370_764_800_000_000;

/// A time within JSON: read as one that has a column of its own.
pub(crate) fn instant<'de, D: Deserializer<'de>>(json: D) -> Result<Timestamp, D::Error> {
    String::deserialize(json).map(|text| within_years(&text))
}

/// The same, where there may be none.
pub(crate) fn instant_or_none<'de, D: Deserializer<'de>>(json: D) -> Result<Option<Timestamp>, D::Error> {
    let text = Option::<String>::deserialize(json)?;
    Ok(text.map(|text| within_years(&text)))
}

/// As PostgreSQL writes it.
fn within_years(text: &str) -> Timestamp {
    let micros = match text.parse::<Timestamp>() {
        Ok(at) => at.as_microsecond().clamp(YEAR_1900, YEAR_9999),
        Err(_) if text == "-infinity" || text.ends_with("BC") => YEAR_1900,
        Err(_) => YEAR_9999,
    };
    Timestamp::from_microsecond(micros).unwrap_or_default()
}

/// A row as a map from names to values, or as its values alone.
struct Columns<'a, 'n> {
    row: &'a Row,
    /// The column to be read next.
    at: &'n mut usize,
}

impl<'de> Deserializer<'de> for Columns<'de, '_> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_map(self)
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, parts: usize, visitor: V) -> Result<V::Value, Error> {
        match self.row.columns().len() {
            columns if columns == parts => visitor.visit_seq(self),
            columns => Err(Error::custom(format_args!(
                "{columns} columns where {parts} can be"
            ))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option unit unit_struct
        newtype_struct seq tuple_struct map struct enum identifier ignored_any
    }
}

impl<'de> SeqAccess<'de> for Columns<'de, '_> {
    type Error = Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, Error> {
        *self.at += 1;
        self.next_value_seed(seed).map(Some)
    }
}

impl<'de> MapAccess<'de> for Columns<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some(column) = self.row.columns().get(*self.at) else {
            return Ok(None);
        };
        *self.at += 1;
        seed.deserialize(BorrowedStrDeserializer::new(column.name()))
            .map(Some)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Error> {
        seed.deserialize(Column {
            row: self.row,
            number: *self.at - 1,
        })
    }
}

#[derive(Clone, Copy)]
struct Column<'a> {
    row: &'a Row,
    number: usize,
}

impl<'a> Column<'a> {
    fn get<T: FromSql<'a>>(self) -> Result<T, Error> {
        let value = self.row.try_get::<_, T>(self.number);
        value.map_err(|e| Error::custom(super::error::chain(&e)))
    }

    fn kind(self) -> &'a Type {
        self.row.columns()[self.number].type_()
    }

    fn is_null(self) -> bool {
        let refused = self.row.try_get::<_, Anything>(self.number).err();
        refused.is_some_and(|e| std::error::Error::source(&e).is_some_and(|why| why.is::<WasNull>()))
    }

    /// A time, in the years 1900 to 9999: what lies beyond could be stored by others, as `infinity` can, and one row must not
    /// make all others unreadable.
    fn instant(self) -> Result<Timestamp, Error> {
        let Anything(bytes) = self.get()?;
        let micros = bytes.try_into().map(i64::from_be_bytes).map_err(Error::custom)?;
        let clamped = micros.saturating_add(YEAR_2000).clamp(YEAR_1900, YEAR_9999);
        Timestamp::from_microsecond(clamped).map_err(Error::custom)
    }

    fn json(self) -> Result<serde_json::Deserializer<serde_json::de::SliceRead<'a>>, Error> {
        let Anything(bytes) = self.get()?;
        // jsonb comes with a version before it.
        let text = match (self.kind(), bytes.split_first()) {
            (&Type::JSONB, Some((1, text))) => text,
            (&Type::JSONB, _) => return Err(Error::custom("jsonb of an unknown version")),
            _ => bytes,
        };
        Ok(serde_json::Deserializer::from_slice(text))
    }
}

impl<'de> Deserializer<'de> for Column<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() {
            return visitor.visit_unit();
        }
        match *self.kind() {
            Type::INT8 => visitor.visit_i64(self.get()?),
            Type::INT4 => visitor.visit_i32(self.get()?),
            Type::FLOAT8 => visitor.visit_f64(self.get()?),
            Type::BOOL => visitor.visit_bool(self.get()?),
            Type::TEXT | Type::VARCHAR | Type::NAME => visitor.visit_borrowed_str(self.get()?),
            Type::TIMESTAMPTZ => visitor.visit_string(self.instant()?.to_string()),
            Type::UUID => visitor.visit_string(self.get::<uuid::Uuid>()?.to_string()),
            Type::JSON | Type::JSONB => self.json()?.deserialize_any(visitor),
            Type::INT8_ARRAY => visitor.visit_seq(SeqDeserializer::new(self.get::<Vec<i64>>()?.into_iter())),
            Type::TEXT_ARRAY => visitor.visit_seq(SeqDeserializer::new(self.get::<Vec<&str>>()?.into_iter())),
            ref other => Err(Error::custom(format_args!("type {other} is not read here"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.is_null() {
            return visitor.visit_none();
        }
        match *self.kind() {
            // JSON has a null of its own.
            Type::JSON | Type::JSONB => self.json()?.deserialize_option(visitor),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match *self.kind() {
            Type::JSON | Type::JSONB => self.json()?.deserialize_enum(name, variants, visitor),
            _ => {
                let word: StringDeserializer<Error> = self.get::<String>()?.into_deserializer();
                word.deserialize_enum(name, variants, visitor)
            }
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct
        seq tuple tuple_struct map struct identifier ignored_any
    }
}

/// A value of any type, as it came.
struct Anything<'a>(&'a [u8]);

impl<'a> FromSql<'a> for Anything<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(raw))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}
