//! The key of a row: the columns of the unique index that identifies it, as one text.
//!
//! A key of one column is that column's text. A key of several is a JSON array of their texts, the configured id first:
//! an id alone may belong to several rows there.

use serde_json::Value;

use super::catalogue::{Catalogue, Column};
use super::name::quoted;

/// What rows are told apart by.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct RowKey {
    /// The id, and what else its unique index holds.
    columns: Vec<KeyColumn>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct KeyColumn {
    /// The name as it stands in a statement.
    sql: String,
    kind: KeyKind,
    /// The type as it is written in a cast.
    cast: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum KeyKind {
    Uuid,
    Number {
        bits: u32,
    },
    Text,
    /// Only the database can tell whether a text is one.
    Other,
}

impl RowKey {
    /// Finds the smallest unique index that holds the id; says why there is none that can be used.
    pub fn find(catalogue: &Catalogue, id: &Column) -> Result<RowKey, String> {
        let usable = catalogue
            .indexes
            .iter()
            .filter(|index| index.unique && index.condition.is_none() && index.columns.contains(&id.number));
        let mut indexes: Vec<&[i16]> = usable.map(|index| index.columns.as_slice()).collect();
        indexes.sort_by_key(|columns| columns.len());
        if indexes.is_empty() {
            return Err(format!(
                "column {:?} is not unique: a redrive could reset more than one row",
                id.name
            ));
        }
        let keys = indexes.into_iter().filter_map(|numbers| {
            let others = numbers.iter().filter(|number| **number != id.number);
            let others: Option<Vec<&Column>> = others.map(|number| catalogue.by_number(*number)).collect();
            let columns: Vec<&Column> = std::iter::once(id).chain(others?).collect();
            // Rows with a null are never equal: such an index does not identify them.
            let identifies = columns.len() == 1 || columns.iter().all(|column| column.not_null);
            identifies.then(|| RowKey { columns: columns.into_iter().map(KeyColumn::of).collect() })
        });
        keys.into_iter().next().ok_or_else(|| {
            format!(
                "column {:?} is unique only together with expressions or columns that may be null: a redrive could \
                 reset more than one row",
                id.name
            )
        })
    }

    /// The key of a row as text; `prefix` is the row's alias with its dot.
    pub fn text(&self, prefix: &str) -> String {
        match &self.columns[..] {
            [id] => format!("{prefix}{}::text", id.sql),
            columns => {
                let texts: Vec<String> =
                    columns.iter().map(|column| format!("{prefix}{}::text", column.sql)).collect();
                format!("pg_catalog.json_build_array({})::text", texts.join(", "))
            }
        }
    }

    /// A condition: the row has the key that `text` is.
    pub fn is(&self, prefix: &str, text: &str) -> String {
        let values = self.values(text);
        let pairs = self.columns.iter().zip(values);
        let equal: Vec<String> =
            pairs.map(|(column, value)| format!("{prefix}{} = {value}", column.sql)).collect();
        equal.join(" and ")
    }

    /// A condition: the row's key comes behind the one that `text` is, in the order of `list`.
    pub fn is_behind(&self, prefix: &str, text: &str) -> String {
        format!("({}) > ({})", self.list(prefix), self.values(text).join(", "))
    }

    /// The columns in order, for `order by` and indexes.
    pub fn list(&self, prefix: &str) -> String {
        let names: Vec<String> =
            self.columns.iter().map(|column| format!("{prefix}{}", column.sql)).collect();
        names.join(", ")
    }

    /// Each column's name as it stands in a statement, and its value out of the text of a key.
    pub fn assigned(&self, text: &str) -> Vec<(String, String)> {
        self.columns.iter().map(|column| column.sql.clone()).zip(self.values(text)).collect()
    }

    fn values(&self, text: &str) -> Vec<String> {
        match &self.columns[..] {
            [id] => vec![format!("({text})::{}", id.cast)],
            columns => {
                let value =
                    |(at, column): (usize, &KeyColumn)| format!("(({text})::json ->> {at})::{}", column.cast);
                columns.iter().enumerate().map(value).collect()
            }
        }
    }

    /// Whether a text can be a key: one that cannot names no row.
    pub fn fits(&self, text: &str) -> bool {
        match &self.columns[..] {
            [id] => id.kind.fits(text),
            columns => {
                let Ok(Value::Array(texts)) = serde_json::from_str(text) else { return false };
                let fits = |(column, text): (&KeyColumn, &Value)| {
                    text.as_str().is_some_and(|text| column.kind.fits(text))
                };
                texts.len() == columns.len() && columns.iter().zip(&texts).all(fits)
            }
        }
    }
}

impl KeyColumn {
    fn of(column: &Column) -> KeyColumn {
        KeyColumn { sql: quoted(&column.name), kind: KeyKind::of(column), cast: column.cast.clone() }
    }
}

impl KeyKind {
    fn of(column: &Column) -> KeyKind {
        match column.base.as_str() {
            "uuid" => KeyKind::Uuid,
            "int2" => KeyKind::Number { bits: 16 },
            "int4" => KeyKind::Number { bits: 32 },
            "int8" => KeyKind::Number { bits: 64 },
            "text" | "varchar" => KeyKind::Text,
            _ => KeyKind::Other,
        }
    }

    fn fits(self, text: &str) -> bool {
        match self {
            KeyKind::Uuid => is_uuid(text),
            KeyKind::Number { bits: 16 } => text.parse::<i16>().is_ok(),
            KeyKind::Number { bits: 32 } => text.parse::<i32>().is_ok(),
            KeyKind::Number { .. } => text.parse::<i64>().is_ok(),
            KeyKind::Text | KeyKind::Other => !text.contains('\0'),
        }
    }
}

/// Whether a column can be the configured id.
pub(super) fn can_be_id(column: &Column) -> bool {
    KeyKind::of(column) != KeyKind::Other
}

fn is_uuid(text: &str) -> bool {
    let dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text.bytes().enumerate().all(|(at, byte)| match dash(at) {
            true => byte == b'-',
            false => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outbox::catalogue::Index;

    fn column(number: i16, name: &str, base: &str, not_null: bool) -> Column {
        Column {
            number,
            name: name.to_owned(),
            base: base.to_owned(),
            cast: base.to_owned(),
            chars_max: None,
            not_null,
            generated: false,
            identity_always: false,
        }
    }

    fn find(indexes: &[&[i16]]) -> Result<RowKey, String> {
        let catalogue = Catalogue {
            oid: 1,
            schema: "public".to_owned(),
            name: "outbox".to_owned(),
            kind: "r".to_owned(),
            row_security: false,
            columns: vec![
                column(1, "id", "int8", true),
                column(2, "tenant", "text", true),
                column(3, "region", "text", false),
            ],
            indexes: indexes
                .iter()
                .map(|columns| Index { unique: true, columns: columns.to_vec(), condition: None })
                .collect(),
        };
        RowKey::find(&catalogue, catalogue.by_number(1).unwrap())
    }

    #[test]
    fn the_smallest_unique_index_with_the_id_is_the_key() {
        assert_eq!(find(&[&[2, 1], &[1]]).unwrap().list("o."), "o.\"id\"");
        assert_eq!(find(&[&[2, 1]]).unwrap().list("o."), "o.\"id\", o.\"tenant\"");
        for indexes in [&[][..], &[&[2][..]], &[&[1, 3]], &[&[1, 0]]] {
            assert!(find(indexes).is_err(), "{indexes:?}");
        }
    }

    #[test]
    fn a_key_of_several_columns_is_an_array() {
        let key = find(&[&[2, 1]]).unwrap();
        for (text, fits) in
            [(r#"["7", "acme"]"#, true), (r#"["x", "acme"]"#, false), (r#"["7"]"#, false), ("7", false)]
        {
            assert_eq!(key.fits(text), fits, "{text}");
        }
        assert_eq!(
            key.is("o.", "$1::text"),
            "o.\"id\" = (($1::text)::json ->> 0)::int8 and o.\"tenant\" = (($1::text)::json ->> 1)::text"
        );
    }

    #[test]
    fn a_text_fits_the_type_of_its_column() {
        let cases = [
            (KeyKind::Uuid, "019a8b1c-7e00-7000-8000-000000000000", true),
            (KeyKind::Uuid, "019a8b1c7e0070008000000000000000", false),
            (KeyKind::Uuid, "7", false),
            (KeyKind::Number { bits: 64 }, "9223372036854775807", true),
            (KeyKind::Number { bits: 64 }, "9223372036854775808", false),
            (KeyKind::Number { bits: 32 }, "2147483648", false),
            (KeyKind::Number { bits: 16 }, "40000", false),
            (KeyKind::Text, "anything", true),
            (KeyKind::Text, "a\0", false),
        ];
        for (kind, text, fits) in cases {
            assert_eq!(kind.fits(text), fits, "{kind:?} {text}");
        }
    }
}
