//! The columns of a file of the archive: how values are put into them and taken out again.
//!
//! `docs/reference/archive.md` tells of the columns to those who read files with other tools. Whoever changes one changes
//! `VERSION` as well, and keeps reading what was written before.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, BinaryArray, BooleanArray, Int64Array, ListArray, StringArray, StructArray,
    TimestampMillisecondArray, UInt32Array, UInt64Array,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields};
use lazaret_core::time::Time;

/// The version of the columns, in the metadata of a file.
pub(super) const VERSION: &str = "2";

/// The version of files whose lives have no `origin` and no `body_missing`.
pub(super) const VERSION_WITHOUT_ORIGINS: &str = "1";

pub(super) const VERSION_KEY: &str = "lazaret.archive.version";

/// The id of the file, in its metadata.
pub(super) const FILE_KEY: &str = "lazaret.archive.file";

const UTC: &str = "UTC";

/// What a list holds, by the name that the format's description gives it.
const ELEMENT: &str = "element";

/// A column under its name.
#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    array: ArrayRef,
    nullable: bool,
}

impl Column {
    pub(super) fn field(&self) -> FieldRef {
        Arc::new(Field::new(self.name, self.array.data_type().clone(), self.nullable))
    }

    pub(super) fn into_array(self) -> ArrayRef {
        self.array
    }
}

pub(super) fn text<T: AsRef<str>>(name: &'static str, values: impl Iterator<Item = T>) -> Column {
    column(name, StringArray::from_iter_values(values))
}

pub(super) fn text_or_null<T: AsRef<str>>(
    name: &'static str,
    values: impl Iterator<Item = Option<T>>,
) -> Column {
    nullable(name, StringArray::from_iter(values))
}

pub(super) fn bytes<'a>(name: &'static str, values: impl Iterator<Item = &'a [u8]>) -> Column {
    column(name, BinaryArray::from_iter_values(values))
}

pub(super) fn time(name: &'static str, values: impl Iterator<Item = Time>) -> Column {
    column(name, TimestampMillisecondArray::from_iter_values(values.map(Time::ms)).with_timezone(UTC))
}

pub(super) fn time_or_null(name: &'static str, values: impl Iterator<Item = Option<Time>>) -> Column {
    let values = values.map(|value| value.map(Time::ms));
    nullable(name, TimestampMillisecondArray::from_iter(values).with_timezone(UTC))
}

pub(super) fn entry(name: &'static str, values: impl Iterator<Item = i64>) -> Column {
    column(name, Int64Array::from_iter_values(values))
}

pub(super) fn number(name: &'static str, values: impl Iterator<Item = u32>) -> Column {
    column(name, UInt32Array::from_iter_values(values))
}

pub(super) fn number_or_null(name: &'static str, values: impl Iterator<Item = Option<u32>>) -> Column {
    nullable(name, UInt32Array::from_iter(values))
}

pub(super) fn long(name: &'static str, values: impl Iterator<Item = u64>) -> Column {
    column(name, UInt64Array::from_iter_values(values))
}

pub(super) fn long_or_null(name: &'static str, values: impl Iterator<Item = Option<u64>>) -> Column {
    nullable(name, UInt64Array::from_iter(values))
}

pub(super) fn flag(name: &'static str, values: impl Iterator<Item = bool>) -> Column {
    column(name, BooleanArray::from_iter(values.map(Some)))
}

/// A list of structs in each row; `lengths` says how many elements belong to each.
pub(super) fn list(
    name: &'static str,
    columns: Vec<Column>,
    lengths: impl Iterator<Item = usize>,
) -> Result<Column, ArrowError> {
    let fields: Fields = columns.iter().map(Column::field).collect();
    let arrays = columns.into_iter().map(Column::into_array).collect();
    let elements = StructArray::try_new(fields.clone(), arrays, None)?;
    let element = Arc::new(Field::new(ELEMENT, DataType::Struct(fields), false));
    let lists = ListArray::try_new(element, OffsetBuffer::from_lengths(lengths), Arc::new(elements), None)?;
    Ok(column(name, lists))
}

fn column(name: &'static str, array: impl Array + 'static) -> Column {
    Column { name, array: Arc::new(array), nullable: false }
}

fn nullable(name: &'static str, array: impl Array + 'static) -> Column {
    Column { name, array: Arc::new(array), nullable: true }
}

/// One row of a table, or one element of a list. What is not as it should be is told by its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a> {
    pub(super) table: &'a StructArray,
    pub(super) at: usize,
}

impl<'a> Record<'a> {
    pub(super) fn text(self, name: &str) -> Result<String, String> {
        self.text_or_null(name)?.ok_or_else(|| empty(name))
    }

    pub(super) fn text_or_null(self, name: &str) -> Result<Option<String>, String> {
        let column: &StringArray = self.column(name)?;
        Ok((!column.is_null(self.at)).then(|| column.value(self.at).to_owned()))
    }

    /// A text of a column that files of an earlier version do not have.
    pub(super) fn later_text(self, name: &str) -> Result<Option<String>, String> {
        if self.table.column_by_name(name).is_none() { Ok(None) } else { self.text_or_null(name) }
    }

    pub(super) fn bytes(self, name: &str) -> Result<Vec<u8>, String> {
        let column: &BinaryArray = self.column(name)?;
        if column.is_null(self.at) { Err(empty(name)) } else { Ok(column.value(self.at).to_vec()) }
    }

    pub(super) fn time(self, name: &str) -> Result<Time, String> {
        self.time_or_null(name)?.ok_or_else(|| empty(name))
    }

    pub(super) fn time_or_null(self, name: &str) -> Result<Option<Time>, String> {
        let column: &TimestampMillisecondArray = self.column(name)?;
        Ok((!column.is_null(self.at)).then(|| Time::from_ms(column.value(self.at))))
    }

    pub(super) fn entry(self, name: &str) -> Result<i64, String> {
        let column: &Int64Array = self.column(name)?;
        if column.is_null(self.at) { Err(empty(name)) } else { Ok(column.value(self.at)) }
    }

    pub(super) fn number(self, name: &str) -> Result<u32, String> {
        self.number_or_null(name)?.ok_or_else(|| empty(name))
    }

    pub(super) fn number_or_null(self, name: &str) -> Result<Option<u32>, String> {
        let column: &UInt32Array = self.column(name)?;
        Ok((!column.is_null(self.at)).then(|| column.value(self.at)))
    }

    pub(super) fn long_or_null(self, name: &str) -> Result<Option<u64>, String> {
        let column: &UInt64Array = self.column(name)?;
        Ok((!column.is_null(self.at)).then(|| column.value(self.at)))
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, String> {
        let column: &BooleanArray = self.column(name)?;
        if column.is_null(self.at) { Err(empty(name)) } else { Ok(column.value(self.at)) }
    }

    /// A name that stands for one of ours.
    pub(super) fn one_of<T>(self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Result<T, String> {
        let text = self.text(name)?;
        parse(&text).ok_or_else(|| format!("column {name} holds `{}`", shown(&text)))
    }

    pub(super) fn one_of_or_null<T>(
        self,
        name: &str,
        parse: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        let Some(text) = self.text_or_null(name)? else { return Ok(None) };
        parse(&text).map(Some).ok_or_else(|| format!("column {name} holds `{}`", shown(&text)))
    }

    /// 32 bytes in hex.
    pub(super) fn digest(self, name: &str) -> Result<[u8; 32], String> {
        self.one_of(name, unhex)
    }

    /// The elements of a list, in order.
    pub(super) fn list<T>(
        self,
        name: &str,
        read: impl Fn(Record<'_>) -> Result<T, String>,
    ) -> Result<Vec<T>, String> {
        let column: &ListArray = self.column(name)?;
        let elements = column.value(self.at);
        let table: &StructArray = elements.as_any().downcast_ref().ok_or_else(|| foreign(name))?;
        (0..table.len())
            .map(|at| read(Record { table, at }).map_err(|problem| format!("in {name}: {problem}")))
            .collect()
    }

    fn column<T: Array + 'static>(self, name: &str) -> Result<&'a T, String> {
        let column = self.table.column_by_name(name).ok_or_else(|| format!("column {name} is missing"))?;
        column.as_any().downcast_ref().ok_or_else(|| foreign(name))
    }
}

fn empty(name: &str) -> String {
    format!("column {name} holds nothing")
}

fn foreign(name: &str) -> String {
    format!("column {name} holds values of another type")
}

fn shown(text: &str) -> String {
    text.chars().take(64).collect()
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 {
        return None;
    }
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| char::from(pair[at]).to_digit(16);
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(bytes)
}
