//! Values on their way into a statement. Only here and in `row` is it known how a database keeps ids, times and flags.

use std::borrow::Cow;
use std::rc::Rc;

use lazaret_core::id::{
    AlertId, AuditId, EventId, FileId, HoldId, IncidentId, JobId, LetterId, NotificationId, OperationId,
    RedriveId, SilenceId, TokenId,
};
use lazaret_core::time::Time;
use rusqlite::types::{ToSqlOutput, Value as Kept, ValueRef};

/// What is bound to a statement.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value<'a> {
    Null,
    Flag(bool),
    Number(i64),
    Real(f64),
    Text(Cow<'a, str>),
    Bytes(Cow<'a, [u8]>),
    Id([u8; 16]),
    Time(Time),
    Ids(Vec<[u8; 16]>),
    Numbers(Vec<i64>),
    Texts(Vec<Cow<'a, str>>),
}

/// The values of a statement, in the order of their numbers.
macro_rules! binds {
    ($($value:expr),* $(,)?) => {
        &[$($crate::seam::Value::from($value)),*]
    };
}
pub(crate) use binds;

impl<'a, T: Into<Value<'a>>> From<Option<T>> for Value<'a> {
    fn from(value: Option<T>) -> Value<'a> {
        value.map_or(Value::Null, Into::into)
    }
}

macro_rules! from {
    ($($of:ty: $value:ident => $made:expr),+ $(,)?) => {$(
        impl<'a> From<$of> for Value<'a> {
            fn from($value: $of) -> Value<'a> {
                $made
            }
        }
    )+};
}

/// What does not fit is later or more than anything that is stored.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

from! {
    bool: value => Value::Flag(value),
    i32: value => Value::Number(value.into()),
    i64: value => Value::Number(value),
    u32: value => Value::Number(value.into()),
    u64: value => Value::Number(number(value)),
    usize: value => Value::Number(number(value as u64)),
    f64: value => Value::Real(value),
    &'a str: value => Value::Text(value.into()),
    &'a String: value => Value::Text(value.into()),
    String: value => Value::Text(value.into()),
    Cow<'a, str>: value => Value::Text(value),
    &'a [u8]: value => Value::Bytes(value.into()),
    &'a Vec<u8>: value => Value::Bytes(value.into()),
    Vec<u8>: value => Value::Bytes(value.into()),
    [u8; 32]: value => Value::Bytes(value.to_vec().into()),
    &'a [u8; 32]: value => Value::Bytes(value.as_slice().into()),
    Time: value => Value::Time(value),
    Vec<i64>: value => Value::Numbers(value),
    Vec<String>: value => Value::Texts(value.into_iter().map(Cow::from).collect()),
    Vec<&'a str>: value => Value::Texts(value.into_iter().map(Cow::from).collect()),
    &'a [String]: value => Value::Texts(value.iter().map(Cow::from).collect()),
}

macro_rules! ids {
    ($($id:ty),+ $(,)?) => {$(
        from! {
            $id: value => Value::Id(*value.bytes()),
            &$id: value => Value::Id(*value.bytes()),
            Vec<$id>: value => Value::Ids(value.iter().map(|id| *id.bytes()).collect()),
            &[$id]: value => Value::Ids(value.iter().map(|id| *id.bytes()).collect()),
            &Vec<$id>: value => Value::Ids(value.iter().map(|id| *id.bytes()).collect()),
        }

        impl super::Cell for $id {
            fn read(raw: super::Raw<'_>) -> Result<$id, crate::StoreError> {
                Ok(<$id>::from_bytes(super::Cell::read(raw)?))
            }
        }
    )+};
}

ids!(
    AlertId,
    AuditId,
    EventId,
    FileId,
    HoldId,
    IncidentId,
    JobId,
    LetterId,
    NotificationId,
    OperationId,
    RedriveId,
    SilenceId,
    TokenId,
);

impl rusqlite::ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        let borrowed = |value| Ok(ToSqlOutput::Borrowed(value));
        match self {
            Value::Null => borrowed(ValueRef::Null),
            Value::Flag(flag) => borrowed(ValueRef::Integer((*flag).into())),
            Value::Number(number) => borrowed(ValueRef::Integer(*number)),
            Value::Real(real) => borrowed(ValueRef::Real(*real)),
            Value::Text(text) => borrowed(ValueRef::Text(text.as_bytes())),
            Value::Bytes(bytes) => borrowed(ValueRef::Blob(bytes)),
            Value::Id(id) => borrowed(ValueRef::Blob(id)),
            Value::Time(time) => borrowed(ValueRef::Integer(time.ms())),
            Value::Ids(ids) => array(ids.iter().map(|id| Kept::Blob(id.to_vec()))),
            Value::Numbers(numbers) => array(numbers.iter().map(|number| Kept::Integer(*number))),
            Value::Texts(texts) => array(texts.iter().map(|text| Kept::Text(text.to_string()))),
        }
    }
}

/// A list as the table-valued function `rarray` reads it.
fn array(values: impl Iterator<Item = Kept>) -> rusqlite::Result<ToSqlOutput<'static>> {
    Ok(ToSqlOutput::from_rc(Rc::new(values.collect::<Vec<_>>()), c"rarray"))
}
