//! The columns of a file of the archive: how values are put into them and taken out again.
//!
//! `docs/reference/archive.md` tells of the columns to those who read files with other tools. Whoever changes one changes
//! `VERSION` as well, and keeps reading what was written before.

use std::sync::Arc;

use bytes::Bytes;
use lazaret_core::time::Time;
use parquet::basic::{LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, Int32Type, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::writer::{SerializedColumnWriter, SerializedRowGroupWriter};
use parquet::record::{Field, Row};
use parquet::schema::types::{Type, TypePtr};

/// The version of the columns, in the metadata of a file.
pub(super) const VERSION: &str = "2";

/// The version of files whose lives have no `origin` and no `body_missing`.
pub(super) const VERSION_WITHOUT_ORIGINS: &str = "1";

pub(super) const VERSION_KEY: &str = "lazaret.archive.version";

/// The id of the file, in its metadata.
pub(super) const FILE_KEY: &str = "lazaret.archive.file";

/// The path of the originals in a file. They are too long and too different for a dictionary.
pub(super) const BODY_PATH: [&str; 4] = ["lives", LIST, ELEMENT, "body"];

/// The groups of a list, by the names that the format's description gives them.
const LIST: &str = "list";
const ELEMENT: &str = "element";

/// The values of a column, under its name. Values that are null are left out.
#[derive(Debug)]
pub(super) struct Column {
    name: &'static str,
    kind: Kind,
    values: Values,
    /// For a column that may be null: which of its rows have a value.
    present: Option<Vec<bool>>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Text,
    Bytes,
    Time,
    Entry,
    Number,
    Long,
    Flag,
    List,
}

#[derive(Debug)]
enum Values {
    Bytes(Vec<ByteArray>),
    Int64(Vec<i64>),
    Int32(Vec<i32>),
    Bool(Vec<bool>),
    List { columns: Vec<Column>, lengths: Vec<usize> },
}

pub(super) fn text<T: AsRef<str>>(name: &'static str, values: impl Iterator<Item = T>) -> Column {
    required(name, Kind::Text, Values::Bytes(values.map(|text| ByteArray::from(text.as_ref())).collect()))
}

pub(super) fn text_or_null<T: AsRef<str>>(
    name: &'static str,
    values: impl Iterator<Item = Option<T>>,
) -> Column {
    let values = values.map(|text| text.map(|text| ByteArray::from(text.as_ref())));
    optional(name, Kind::Text, values, Values::Bytes)
}

pub(super) fn bytes<'a>(name: &'static str, values: impl Iterator<Item = &'a Bytes>) -> Column {
    required(name, Kind::Bytes, Values::Bytes(values.map(|body| ByteArray::from(body.clone())).collect()))
}

pub(super) fn time(name: &'static str, values: impl Iterator<Item = Time>) -> Column {
    required(name, Kind::Time, Values::Int64(values.map(Time::ms).collect()))
}

pub(super) fn time_or_null(name: &'static str, values: impl Iterator<Item = Option<Time>>) -> Column {
    optional(name, Kind::Time, values.map(|value| value.map(Time::ms)), Values::Int64)
}

pub(super) fn entry(name: &'static str, values: impl Iterator<Item = i64>) -> Column {
    required(name, Kind::Entry, Values::Int64(values.collect()))
}

pub(super) fn number(name: &'static str, values: impl Iterator<Item = u32>) -> Column {
    required(name, Kind::Number, Values::Int32(values.map(u32::cast_signed).collect()))
}

pub(super) fn number_or_null(name: &'static str, values: impl Iterator<Item = Option<u32>>) -> Column {
    optional(name, Kind::Number, values.map(|value| value.map(u32::cast_signed)), Values::Int32)
}

pub(super) fn long(name: &'static str, values: impl Iterator<Item = u64>) -> Column {
    required(name, Kind::Long, Values::Int64(values.map(u64::cast_signed).collect()))
}

pub(super) fn long_or_null(name: &'static str, values: impl Iterator<Item = Option<u64>>) -> Column {
    optional(name, Kind::Long, values.map(|value| value.map(u64::cast_signed)), Values::Int64)
}

pub(super) fn flag(name: &'static str, values: impl Iterator<Item = bool>) -> Column {
    required(name, Kind::Flag, Values::Bool(values.collect()))
}

/// A list of structs in each row; `lengths` says how many elements belong to each.
pub(super) fn list(name: &'static str, columns: Vec<Column>, lengths: impl Iterator<Item = usize>) -> Column {
    required(name, Kind::List, Values::List { columns, lengths: lengths.collect() })
}

fn required(name: &'static str, kind: Kind, values: Values) -> Column {
    Column { name, kind, values, present: None }
}

fn optional<T>(
    name: &'static str,
    kind: Kind,
    values: impl Iterator<Item = Option<T>>,
    collect: fn(Vec<T>) -> Values,
) -> Column {
    let mut kept = Vec::new();
    let present = values
        .map(|value| {
            let is_present = value.is_some();
            kept.extend(value);
            is_present
        })
        .collect();
    Column { name, kind, values: collect(kept), present: Some(present) }
}

/// The schema of a file with these columns.
pub(super) fn message(columns: &[Column]) -> Result<TypePtr, ParquetError> {
    group("letter", None, None, fields(columns)?)
}

fn fields(columns: &[Column]) -> Result<Vec<TypePtr>, ParquetError> {
    columns.iter().map(Column::field).collect()
}

fn group(
    name: &str,
    repetition: Option<Repetition>,
    logical: Option<LogicalType>,
    fields: Vec<TypePtr>,
) -> Result<TypePtr, ParquetError> {
    let builder = Type::group_type_builder(name).with_logical_type(logical).with_fields(fields);
    let builder = match repetition {
        Some(repetition) => builder.with_repetition(repetition),
        None => builder,
    };
    Ok(Arc::new(builder.build()?))
}

/// The levels of a column's values: what is null, and where a list begins.
#[derive(Default)]
struct Levels {
    definition: Option<Vec<i16>>,
    repetition: Option<Vec<i16>>,
}

impl Column {
    fn field(&self) -> Result<TypePtr, ParquetError> {
        let (physical, logical) = match self.kind {
            Kind::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
            Kind::Bytes => (Physical::BYTE_ARRAY, None),
            Kind::Time => (Physical::INT64, Some(LogicalType::timestamp(true, TimeUnit::MILLIS))),
            Kind::Entry => (Physical::INT64, None),
            Kind::Number => (Physical::INT32, Some(LogicalType::integer(32, false))),
            Kind::Long => (Physical::INT64, Some(LogicalType::integer(64, false))),
            Kind::Flag => (Physical::BOOLEAN, None),
            Kind::List => return self.list_field(),
        };
        let repetition = if self.present.is_some() { Repetition::OPTIONAL } else { Repetition::REQUIRED };
        let builder = Type::primitive_type_builder(self.name, physical).with_repetition(repetition);
        Ok(Arc::new(builder.with_logical_type(logical).build()?))
    }

    fn list_field(&self) -> Result<TypePtr, ParquetError> {
        let columns: &[Column] = if let Values::List { columns, .. } = &self.values { columns } else { &[] };
        let element = group(ELEMENT, Some(Repetition::REQUIRED), None, fields(columns)?)?;
        let list = group(LIST, Some(Repetition::REPEATED), None, vec![element])?;
        group(self.name, Some(Repetition::REQUIRED), Some(LogicalType::List), vec![list])
    }

    /// Writes the column into a row group, whose columns are written in the order of the schema.
    pub(super) fn write<W: std::io::Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
    ) -> Result<(), ParquetError> {
        match &self.values {
            Values::List { columns, lengths } => {
                columns.iter().try_for_each(|column| column.write_leaf(group, &column.list_levels(lengths)))
            }
            _ => self.write_leaf(group, &self.levels()),
        }
    }

    fn levels(&self) -> Levels {
        let definition = self.present.as_ref().map(|it| it.iter().map(|&there| i16::from(there)).collect());
        Levels { definition, repetition: None }
    }

    /// The levels of a column inside of a list: 0 is an empty list, 1 an element that has no value here or cannot be null.
    fn list_levels(&self, lengths: &[usize]) -> Levels {
        let (mut definition, mut repetition) = (Vec::new(), Vec::new());
        let mut present = self.present.iter().flatten();
        for &length in lengths {
            if length == 0 {
                definition.push(0);
                repetition.push(0);
            }
            for at in 0..length {
                definition.push(1 + i16::from(present.next().copied().unwrap_or(false)));
                repetition.push(i16::from(at > 0));
            }
        }
        Levels { definition: Some(definition), repetition: Some(repetition) }
    }

    fn write_leaf<W: std::io::Write + Send>(
        &self,
        group: &mut SerializedRowGroupWriter<'_, W>,
        levels: &Levels,
    ) -> Result<(), ParquetError> {
        let missing = || ParquetError::General(format!("the schema has no column {}", self.name));
        let mut writer = group.next_column()?.ok_or_else(missing)?;
        match &self.values {
            Values::Bytes(values) => write_values::<ByteArrayType>(&mut writer, values, levels)?,
            Values::Int64(values) => write_values::<Int64Type>(&mut writer, values, levels)?,
            Values::Int32(values) => write_values::<Int32Type>(&mut writer, values, levels)?,
            Values::Bool(values) => write_values::<BoolType>(&mut writer, values, levels)?,
            Values::List { .. } => return Err(ParquetError::NYI("lists in lists".to_owned())),
        }
        writer.close()
    }
}

fn write_values<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    values: &[T::T],
    levels: &Levels,
) -> Result<(), ParquetError> {
    let (definition, repetition) = (levels.definition.as_deref(), levels.repetition.as_deref());
    writer.typed::<T>().write_batch(values, definition, repetition)?;
    Ok(())
}

/// One row of a file, or one element of a list. What is not as it should be is told by its column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record<'a>(pub(super) &'a Row);

impl<'a> Record<'a> {
    pub(super) fn text(self, name: &str) -> Result<String, String> {
        self.text_or_null(name)?.ok_or_else(|| empty(name))
    }

    pub(super) fn text_or_null(self, name: &str) -> Result<Option<String>, String> {
        self.value(name, |field| if let Field::Str(text) = field { Some(text.clone()) } else { None })
    }

    /// A text of a column that files of an earlier version do not have.
    pub(super) fn later_text(self, name: &str) -> Result<Option<String>, String> {
        if self.field(name).is_none() { Ok(None) } else { self.text_or_null(name) }
    }

    pub(super) fn bytes(self, name: &str) -> Result<Vec<u8>, String> {
        let bytes = self.value(name, |field| {
            if let Field::Bytes(bytes) = field { Some(bytes.data().to_vec()) } else { None }
        });
        bytes?.ok_or_else(|| empty(name))
    }

    pub(super) fn time(self, name: &str) -> Result<Time, String> {
        self.time_or_null(name)?.ok_or_else(|| empty(name))
    }

    pub(super) fn time_or_null(self, name: &str) -> Result<Option<Time>, String> {
        self.value(name, |field| match field {
            Field::TimestampMillis(ms) => Some(Time::from_ms(*ms)),
            _ => None,
        })
    }

    pub(super) fn entry(self, name: &str) -> Result<i64, String> {
        let entry =
            self.value(name, |field| if let Field::Long(entry) = field { Some(*entry) } else { None });
        entry?.ok_or_else(|| empty(name))
    }

    pub(super) fn number(self, name: &str) -> Result<u32, String> {
        self.number_or_null(name)?.ok_or_else(|| empty(name))
    }

    pub(super) fn number_or_null(self, name: &str) -> Result<Option<u32>, String> {
        self.value(name, |field| if let Field::UInt(number) = field { Some(*number) } else { None })
    }

    pub(super) fn long_or_null(self, name: &str) -> Result<Option<u64>, String> {
        self.value(name, |field| if let Field::ULong(long) = field { Some(*long) } else { None })
    }

    pub(super) fn flag(self, name: &str) -> Result<bool, String> {
        let flag = self.value(name, |field| if let Field::Bool(flag) = field { Some(*flag) } else { None });
        flag?.ok_or_else(|| empty(name))
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
        let Field::ListInternal(list) = self.column(name)? else { return Err(foreign(name)) };
        let read_element = |field: &Field| {
            let Field::Group(row) = field else { return Err(foreign(name)) };
            read(Record(row)).map_err(|problem| format!("in {name}: {problem}"))
        };
        list.elements().iter().map(read_element).collect()
    }

    /// A value that may be null; `get` says whether it is of the right type.
    fn value<T>(self, name: &str, get: impl Fn(&Field) -> Option<T>) -> Result<Option<T>, String> {
        match self.column(name)? {
            Field::Null => Ok(None),
            field => get(field).map(Some).ok_or_else(|| foreign(name)),
        }
    }

    fn column(self, name: &str) -> Result<&'a Field, String> {
        self.field(name).ok_or_else(|| format!("column {name} is missing"))
    }

    fn field(self, name: &str) -> Option<&'a Field> {
        self.0.get_column_iter().find(|(column, _)| *column == name).map(|(_, field)| field)
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
