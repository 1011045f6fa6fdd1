//! Tables: the columns of each are stated once, and a test compares them with both schemas.

/// A table and the columns of it that are read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    pub name: &'static str,
    pub columns: &'static [&'static str],
    /// The columns as a `select` lists them.
    pub list: &'static str,
}

/// States a table, the name it goes by in statements, and its columns.
macro_rules! table {
    ($name:literal: $first:literal $(, $column:literal)* $(,)?) => {
        $crate::seam::Table {
            name: $name,
            columns: &[$first $(, $column)*],
            list: concat!($first $(, ", ", $column)*),
        }
    };
    ($name:literal as $alias:literal: $first:literal $(, $column:literal)* $(,)?) => {
        $crate::seam::Table {
            name: $name,
            columns: &[$first $(, $column)*],
            list: concat!($alias, ".", $first $(, ", ", $alias, ".", $column)*),
        }
    };
}
pub(crate) use table;
