//! Names in somebody else's database, written into statements so that they mean what they say and nothing more.

use std::fmt;

/// A table as the configuration names it: `outbox`, `app.outbox`, `"My App"."Out.Box"`.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct TableName {
    /// Without one, the connection's search path finds the table.
    pub schema: Option<String>,
    pub name: String,
}

/// A text that names no table.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} does not name a table; write it like outbox or app.outbox")]
pub struct BadTableName(String);

impl TableName {
    pub fn parse(text: &str) -> Result<TableName, BadTableName> {
        let bad = || BadTableName(text.chars().take(64).collect());
        let parts = parts(text).ok_or_else(bad)?;
        if parts.iter().any(|part| part.is_empty() || part.contains('\0')) {
            return Err(bad());
        }
        match <[String; 2]>::try_from(parts) {
            Ok([schema, name]) => Ok(TableName { schema: Some(schema), name }),
            Err(mut parts) => match (parts.pop(), parts.is_empty()) {
                (Some(name), true) => Ok(TableName { schema: None, name }),
                _ => Err(bad()),
            },
        }
    }

    /// As it stands in a statement.
    pub(super) fn sql(&self) -> String {
        match &self.schema {
            Some(schema) => format!("{}.{}", quoted(schema), quoted(&self.name)),
            None => quoted(&self.name),
        }
    }
}

/// For people.
impl fmt::Display for TableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.schema {
            Some(schema) => write!(f, "{schema}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Splits at dots outside of quotes; a quote within quotes is written twice.
fn parts(text: &str) -> Option<Vec<String>> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut rest = text.trim().chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '"' if is_quoted && rest.peek() == Some(&'"') => {
                rest.next();
                parts.last_mut()?.push('"');
            }
            '"' => is_quoted = !is_quoted,
            '.' if !is_quoted => parts.push(String::new()),
            c => parts.last_mut()?.push(c),
        }
    }
    (!is_quoted).then_some(parts)
}

/// A name as SQL wants it, whatever is in it.
pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A text as SQL wants it. Sessions have `standard_conforming_strings` on, so that a backslash is one. For the status
/// words alone: the planner has to see them to use an index that was made for one of them; everything else is bound.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_named_with_or_without_schema() {
        for (text, sql) in [
            ("outbox", "\"outbox\""),
            (" app.outbox ", "\"app\".\"outbox\""),
            ("\"My.App\".\"Out\"\"Box\"", "\"My.App\".\"Out\"\"Box\""),
            ("x\"; drop table y; --\"", "\"x; drop table y; --\""),
        ] {
            assert_eq!(TableName::parse(text).unwrap().sql(), sql, "{text}");
        }
        for text in ["", ".", "a.", "a.b.c", "\"a", "a\0b"] {
            assert!(TableName::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn quotes_do_not_end_a_text() {
        assert_eq!(literal("it's \\'"), "'it''s \\'''");
        assert_eq!(quoted("a\"b"), "\"a\"\"b\"");
    }
}
