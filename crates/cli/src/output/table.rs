//! Tables that fit: on a terminal columns are cut or left out, elsewhere everything is there, aligned and plain.

use comfy_table::{
    Attribute, CellAlignment, Color, ColumnConstraint, ContentArrangement, Row, Table as Grid, presets,
};

use super::{Colour, Paint, escape};

/// What is left of a column that may be cut, unless it says otherwise.
const CUT_WIDTH_MIN: u16 = 12;
const GAP: u16 = 2;

/// What happens to a column when there is not enough room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fit {
    /// It keeps its width: ids are copied, numbers are read.
    Whole,
    /// It is cut, but not below this; an optional column is dropped first.
    Cut(u16),
}

#[derive(Clone, Debug)]
pub struct Column {
    title: &'static str,
    fit: Fit,
    /// Columns with the lowest rank are left out first; without a rank never.
    rank: Option<u8>,
    alignment: CellAlignment,
}

impl Column {
    pub fn whole(title: &'static str) -> Column {
        Column { title, fit: Fit::Whole, rank: None, alignment: CellAlignment::Left }
    }

    pub fn cut(title: &'static str) -> Column {
        Column { fit: Fit::Cut(CUT_WIDTH_MIN), ..Column::whole(title) }
    }

    /// A column of which at least so much has to be read.
    pub fn cut_to(title: &'static str, width_min: u16) -> Column {
        Column { fit: Fit::Cut(width_min), ..Column::whole(title) }
    }

    pub fn number(title: &'static str) -> Column {
        Column { alignment: CellAlignment::Right, ..Column::whole(title) }
    }

    /// Optional: dropped when there is no room, the lowest rank first.
    pub fn left_out(self, rank: u8) -> Column {
        Column { rank: Some(rank), ..self }
    }
}

/// One cell; its text is made harmless when it is taken.
#[derive(Clone, Debug)]
pub struct Cell {
    text: String,
    paint: Option<Paint>,
}

impl Cell {
    pub fn painted(text: &str, paint: Option<Paint>) -> Cell {
        Cell { text: escape::line(text), paint }
    }
}

impl From<&str> for Cell {
    fn from(text: &str) -> Cell {
        Cell::painted(text, None)
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Cell {
        Cell::painted(&text, None)
    }
}

impl From<&Option<String>> for Cell {
    fn from(text: &Option<String>) -> Cell {
        Cell::painted(text.as_deref().unwrap_or(""), None)
    }
}

#[derive(Debug)]
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
    titles: Titles,
}

/// Whether the names of the columns stand above them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Titles {
    Shown,
    Hidden,
}

impl Table {
    pub fn new(columns: Vec<Column>) -> Table {
        Table { columns, rows: Vec::new(), titles: Titles::Shown }
    }

    pub fn with_titles(self, titles: Titles) -> Table {
        Table { titles, ..self }
    }

    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether all rows say the same in this column, so that leaving it out costs little.
    pub fn is_uniform(&self, column: usize) -> bool {
        let mut texts = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| &cell.text);
        let first = texts.next();
        texts.all(|text| Some(text) == first)
    }

    /// Changes when a column is left out, once the rows are known.
    pub fn rank(&mut self, column: usize, rank: u8) {
        if let Some(column) = self.columns.get_mut(column) {
            column.rank = Some(rank);
        }
    }

    /// The table as lines. Without a width nothing is cut.
    pub fn render(&self, width: Option<u16>, colour: Colour) -> String {
        let mut grid = self.grid(width);
        if colour == Colour::On {
            grid.enforce_styling();
        }
        if let Some(width) = width {
            grid.set_width(width).set_content_arrangement(ContentArrangement::Dynamic);
            let left_out = self.left_out(&grid.column_max_content_widths(), width);
            for (at, column) in self.columns.iter().enumerate() {
                let Some(drawn) = grid.column_mut(at) else { continue };
                if left_out.contains(&at) {
                    drawn.set_constraint(ColumnConstraint::Hidden);
                } else if column.fit == Fit::Whole {
                    drawn.set_constraint(ColumnConstraint::ContentWidth);
                }
            }
        }
        let mut text = grid.trim_fmt();
        text.push('\n');
        text
    }

    fn grid(&self, width: Option<u16>) -> Grid {
        let mut grid = Grid::new();
        grid.load_style(presets::NOTHING).force_no_tty();
        grid.set_content_arrangement(ContentArrangement::Disabled);
        // Cells are cut wherever the room ends and not at words; this character is in none of them.
        grid.set_delimiter('\0');
        if self.titles == Titles::Shown {
            let title = |column: &Column| comfy_table::Cell::new(column.title).add_attribute(Attribute::Bold);
            let mut titles = Row::from(self.columns.iter().map(title).collect::<Vec<_>>());
            titles.max_height(1);
            grid.set_header(titles);
        }
        for cells in &self.rows {
            let mut row = Row::from(cells.iter().map(drawn).collect::<Vec<_>>());
            if width.is_some() {
                row.max_height(1);
            }
            grid.add_row(row);
        }
        grid.discover_columns();
        for (at, column) in self.columns.iter().enumerate() {
            if let Some(drawn) = grid.column_mut(at) {
                drawn.set_padding((0, GAP));
                drawn.set_cell_alignment(column.alignment);
            }
        }
        grid
    }

    /// Which columns go so that the others fit.
    fn left_out(&self, content: &[u16], width: u16) -> Vec<usize> {
        let needed = |at: usize| match self.columns[at].fit {
            Fit::Whole => content[at] + GAP,
            Fit::Cut(min) => content[at].min(min) + GAP,
        };
        let mut shown: Vec<usize> = (0..self.columns.len().min(content.len())).collect();
        let mut left_out = Vec::new();
        while shown.iter().map(|at| u32::from(needed(*at))).sum::<u32>() > u32::from(width) {
            let next = shown
                .iter()
                .copied()
                .filter(|at| self.columns[*at].rank.is_some())
                .min_by_key(|at| self.columns[*at].rank);
            let Some(next) = next else { break };
            shown.retain(|at| *at != next);
            left_out.push(next);
        }
        left_out
    }
}

fn drawn(cell: &Cell) -> comfy_table::Cell {
    let drawn = comfy_table::Cell::new(&cell.text);
    match cell.paint {
        None => drawn,
        Some(Paint::Bold) => drawn.add_attribute(Attribute::Bold),
        Some(Paint::Dim) => drawn.add_attribute(Attribute::Dim),
        Some(Paint::Red) => drawn.fg(Color::DarkRed),
        Some(Paint::Green) => drawn.fg(Color::DarkGreen),
        Some(Paint::Yellow) => drawn.fg(Color::DarkYellow),
        Some(Paint::Cyan) => drawn.fg(Color::DarkCyan),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letters() -> Table {
        let mut table = Table::new(vec![
            Column::whole("ID"),
            Column::whole("STATUS").left_out(1),
            Column::cut("TYPE"),
            Column::cut("MESSAGE").left_out(2),
        ]);
        let id = "019a8b1c-7e00-7000-8000-000000000000";
        let status = || Cell::painted("pending", Paint::of_status("pending"));
        table.row(vec![
            id.into(),
            status(),
            "invoice.created".into(),
            "connection refused by 10.0.0.7".into(),
        ]);
        table.row(vec![id.into(), status(), "größe.geändert".into(), "two\nlines \u{1b}[2J".into()]);
        table
    }

    #[test]
    fn without_a_width_everything_is_there() {
        insta::assert_snapshot!(letters().render(None, Colour::Off));
    }

    #[test]
    fn on_80_columns_cells_are_cut_and_the_id_is_whole() {
        let text = letters().render(Some(80), Colour::Off);
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        insta::assert_snapshot!(text);
    }

    #[test]
    fn on_60_columns_what_matters_least_is_left_out() {
        insta::assert_snapshot!(letters().render(Some(60), Colour::Off));
    }

    #[test]
    fn colour_stands_only_where_it_was_asked_for() {
        assert!(letters().render(Some(80), Colour::On).contains("\u{1b}["));
        assert!(!letters().render(Some(80), Colour::Off).contains('\u{1b}'));
    }

    #[test]
    fn a_column_that_says_the_same_everywhere_is_known() {
        assert!(letters().is_uniform(1));
        assert!(!letters().is_uniform(2));
    }
}
