//! Rows into structs, by column name.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use super::error::StoreError;

pub(crate) fn rows<T: DeserializeOwned>(op: &'static str, rows: &[Row]) -> Result<Vec<T>, StoreError> {
    rows.iter().map(|row| one(op, row)).collect()
}

fn one<T: DeserializeOwned>(op: &'static str, row: &Row) -> Result<T, StoreError> {
    let mut object = Map::new();
    for (i, column) in row.columns().iter().enumerate() {
        let value = value(row, i, column.type_()).map_err(|message| StoreError::Decode {
            op,
            message: format!("column {}: {message}", column.name()),
        })?;
        object.insert(column.name().to_owned(), value);
    }
    serde_json::from_value(Value::Object(object)).map_err(|e| StoreError::Decode {
        op,
        message: e.to_string(),
    })
}

fn value(row: &Row, i: usize, kind: &Type) -> Result<Value, String> {
    fn get<'a, T: FromSql<'a>>(row: &'a Row, i: usize, into: impl Fn(T) -> Value) -> Result<Value, String> {
        row.try_get::<_, Option<T>>(i)
            .map(|v| v.map_or(Value::Null, into))
            .map_err(|e| super::error::chain(&e))
    }
    match *kind {
        Type::INT8 => get(row, i, |v: i64| v.into()),
        Type::INT4 => get(row, i, |v: i32| v.into()),
        Type::FLOAT8 => get(row, i, |v: f64| v.into()),
        Type::BOOL => get(row, i, |v: bool| v.into()),
        Type::TEXT | Type::VARCHAR | Type::NAME => get(row, i, |v: &str| v.into()),
        Type::TIMESTAMPTZ => get(row, i, |v: Timestamp| v.to_string().into()),
        Type::UUID => get(row, i, |v: uuid::Uuid| v.to_string().into()),
        Type::JSON | Type::JSONB => get(row, i, |v: Value| v),
        Type::INT8_ARRAY => get(row, i, |v: Vec<i64>| v.into()),
        Type::TEXT_ARRAY => get(row, i, |v: Vec<String>| v.into()),
        ref other => Err(format!("type {other} is not read here")),
    }
}
