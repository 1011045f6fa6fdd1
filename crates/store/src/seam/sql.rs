//! Statements, written once and made into the text of each database.
//!
//! `$1` is a value. `{sqlite …}` and `{postgres …}` stand in one of the two, `{any $1}` compares with a list, and `{}` is
//! replaced by the next list of columns. `sql!` does this while compiling.

use lazaret_core::pattern::Pattern;

use super::Value;
use crate::postgres::filter::like;
use crate::sqlite::filter::glob;

/// One statement in both dialects.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sql {
    pub sqlite: &'static str,
    pub postgres: &'static str,
}

impl Sql {
    /// Makes a statement of a text that is composed once, for a `static`: it is kept as long as the process lives.
    pub fn composed(text: String) -> Sql {
        let query = Query::new(text);
        Sql { sqlite: query.text(Dialect::Sqlite).leak(), postgres: query.text(Dialect::Postgres).leak() }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Dialect {
    Sqlite,
    Postgres,
}

/// Makes an `Sql` of a text and the lists of columns for its `{}`. For constants of modules.
macro_rules! sql {
    ($text:expr $(, $columns:expr)* $(,)?) => {{
        const TEXT: &str = $text;
        const COLUMNS: &[&str] = &[$($columns.list),*];
        // No text grows by more than half of itself, beside the columns put into it.
        const ROOM: usize = 2 * TEXT.len() $(+ $columns.list.len())*;
        const SQLITE: ([u8; ROOM], usize) =
            $crate::seam::sql::rendered(TEXT, COLUMNS, $crate::seam::sql::Dialect::Sqlite);
        const POSTGRES: ([u8; ROOM], usize) =
            $crate::seam::sql::rendered(TEXT, COLUMNS, $crate::seam::sql::Dialect::Postgres);
        const STATEMENT: $crate::seam::Sql = $crate::seam::Sql {
            sqlite: $crate::seam::sql::text(&SQLITE),
            postgres: $crate::seam::sql::text(&POSTGRES),
        };
        STATEMENT
    }};
}
pub(crate) use sql;

/// A rendered text and how many bytes of it are used.
pub(crate) const fn rendered<const ROOM: usize>(
    text: &str,
    columns: &[&str],
    dialect: Dialect,
) -> ([u8; ROOM], usize) {
    let mut out = [0; ROOM];
    let length = render(text.as_bytes(), columns, dialect, &mut out);
    (out, length)
}

pub(crate) const fn text<const ROOM: usize>(rendered: &'static ([u8; ROOM], usize)) -> &'static str {
    match str::from_utf8(rendered.0.split_at(rendered.1).0) {
        Ok(text) => text,
        Err(_) => unreachable!(),
    }
}

/// Writes a statement as one database reads it and returns its length.
const fn render(source: &[u8], columns: &[&str], dialect: Dialect, out: &mut [u8]) -> usize {
    let (mut from, mut to, mut column) = (0, 0, 0);
    // Inside of braces that stand in one dialect only.
    let (mut inside, mut silent) = (false, false);
    while from < source.len() {
        let byte = source[from];
        if byte == b'{' && begins(source, from, b"{}") {
            assert!(column < columns.len(), "a statement has more places than lists of columns");
            to = put(out, to, columns[column].as_bytes());
            column += 1;
            from += 2;
        } else if byte == b'{' && begins(source, from, b"{any ") {
            let end = close(source, from);
            let number = source.split_at(end).0.split_at(from + 6).1;
            if !silent {
                to = put(
                    out,
                    to,
                    if matches!(dialect, Dialect::Sqlite) { b"in rarray(?" } else { b"= any($" },
                );
                to = put(out, to, number);
                to = put(out, to, b")");
            }
            from = end + 1;
        } else if byte == b'{' {
            let sqlite = begins(source, from, b"{sqlite ");
            assert!(sqlite || begins(source, from, b"{postgres "), "braces name no database");
            assert!(!inside, "braces stand in braces");
            inside = true;
            silent = sqlite != matches!(dialect, Dialect::Sqlite);
            from += if sqlite { 8 } else { 10 };
        } else if byte == b'}' && inside {
            (inside, silent) = (false, false);
            from += 1;
        } else {
            if !silent {
                let mark = byte == b'$' && matches!(dialect, Dialect::Sqlite);
                to = put(out, to, &[if mark { b'?' } else { byte }]);
            }
            from += 1;
        }
    }
    assert!(!inside, "braces are not closed");
    assert!(column == columns.len(), "a list of columns has no place in its statement");
    to
}

const fn begins(source: &[u8], at: usize, word: &[u8]) -> bool {
    let mut n = 0;
    while n < word.len() {
        if at + n >= source.len() || source[at + n] != word[n] {
            return false;
        }
        n += 1;
    }
    true
}

/// Where the braces end that open at `from`.
const fn close(source: &[u8], from: usize) -> usize {
    let mut at = from;
    while source[at] != b'}' {
        at += 1;
    }
    at
}

const fn put(out: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    let mut n = 0;
    while n < bytes.len() {
        out[at + n] = bytes[n];
        n += 1;
    }
    at + n
}

/// A statement that is composed for one question, with its values. The text has the marks of `sql!`, without `{}`.
#[derive(Default, Debug)]
pub(crate) struct Query<'a> {
    text: String,
    pub binds: Vec<Value<'a>>,
}

impl<'a> Query<'a> {
    pub fn new(text: impl Into<String>) -> Query<'a> {
        Query { text: text.into(), binds: Vec::new() }
    }

    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
    }

    /// Adds a text with one value in it, marked `$` wherever it stands.
    pub fn bind(&mut self, text: &str, value: impl Into<Value<'a>>) {
        self.binds.push(value.into());
        self.text.push_str(&text.replace('$', &format!("${}", self.binds.len())));
    }

    /// Adds that a column matches a pattern, in which only the star is special.
    pub fn match_pattern(&mut self, dialect: Dialect, column: &str, pattern: &'a Pattern) {
        match (dialect, pattern.exact()) {
            (Dialect::Sqlite, _) => self.bind(&format!(" and {column} glob $"), glob(pattern.text())),
            (Dialect::Postgres, Some(value)) => self.bind(&format!(" and {column} = $"), value),
            (Dialect::Postgres, None) => self.bind(&format!(" and {column} like $"), like(pattern.text())),
        }
        self.never_if_unkept(dialect, pattern.text());
    }

    /// Adds that nothing is found by a text that no column can hold: PostgreSQL knows no NUL.
    pub fn never_if_unkept(&mut self, dialect: Dialect, text: &str) {
        match dialect {
            Dialect::Postgres if text.contains('\0') => self.text.push_str(" and false"),
            Dialect::Postgres | Dialect::Sqlite => {}
        }
    }

    pub fn text(&self, dialect: Dialect) -> String {
        let mut out = vec![0; 2 * self.text.len()];
        let length = render(self.text.as_bytes(), &[], dialect, &mut out);
        out.truncate(length);
        String::from_utf8_lossy(&out).into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    const CATS: super::super::Table = table!("cats" as "c": "name", "age");

    const OLD: Sql = sql!(
        "select {} from cats c{sqlite  indexed by cats_by_age} where c.age > $1 and c.name {any $12}{postgres  for update}",
        CATS
    );

    #[test]
    fn a_statement_is_rendered_for_each_database() {
        assert_eq!(
            OLD.sqlite,
            "select c.name, c.age from cats c indexed by cats_by_age where c.age > ?1 and c.name in rarray(?12)"
        );
        assert_eq!(
            OLD.postgres,
            "select c.name, c.age from cats c where c.age > $1 and c.name = any($12) for update"
        );
    }

    #[test]
    fn a_composed_statement_counts_its_values() {
        let mut query = Query::new("select name from cats where true");
        query.bind(" and age > $", 3_i64);
        query.bind(" and name {any $}", vec!["tom".to_owned()]);
        query.push(" limit 1");
        assert_eq!(
            query.text(Dialect::Sqlite),
            "select name from cats where true and age > ?1 and name in rarray(?2) limit 1"
        );
        assert_eq!(
            query.text(Dialect::Postgres),
            "select name from cats where true and age > $1 and name = any($2) limit 1"
        );
    }
}
