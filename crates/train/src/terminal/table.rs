//! Tables that fit the terminal's width.

use console::{Term, measure_text_width, truncate_str};

use super::output::visible;

/// Spaces between two columns.
const GAP: usize = 2;

/// Minimum width of the table column that is truncated first, in terminal columns. With less room,
/// it is not shown.
const NARROWEST: usize = 8;

/// Alignment of a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text begins at the left.
    Left,
    /// Numbers end at the right.
    Right,
}

/// A table with a line of headings.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    /// Cells of each row.
    rows: Vec<Vec<String>>,
    /// Index of the column that is truncated first if the table is too wide; `None` if there is
    /// no such column.
    flexible: Option<usize>,
}

impl Table {
    /// Returns a table without rows.
    pub fn new(columns: impl IntoIterator<Item = (String, Align)>) -> Self {
        Self {
            columns: columns
                .into_iter()
                .map(|(name, align)| (visible(&name), align))
                .collect(),
            rows: Vec::new(),
            flexible: None,
        }
    }

    /// Makes column `index` the one that is truncated first if the table is too wide.
    pub fn cutting(mut self, index: usize) -> Self {
        self.flexible = Some(index);
        self
    }

    /// Removes the column with this heading.
    pub fn without(mut self, name: &str) -> Self {
        if let Some(index) = self.columns.iter().position(|(known, _)| known == name) {
            self.columns.remove(index);
            self.rows.iter_mut().for_each(|row| drop(row.remove(index)));
            self.flexible = self.flexible.map(|at| at - usize::from(at > index));
        }
        self
    }

    /// Adds a row, with as many cells as there are columns.
    ///
    /// # Panics
    ///
    /// If the row has more or fewer cells.
    pub fn push(&mut self, row: Vec<String>) {
        assert_eq!(row.len(), self.columns.len(), "{row:?}");
        self.rows
            .push(row.iter().map(|cell| visible(cell)).collect());
    }

    /// Returns the width of the table in terminal columns if the column that is truncated first is at
    /// most `flexible` wide.
    pub fn width_with(&self, flexible: usize) -> usize {
        let mut widths = self.widths();
        if let Some(index) = self.flexible {
            widths[index] = widths[index].min(flexible);
        }
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    fn widths(&self) -> Vec<usize> {
        let headings = self.columns.iter();
        let mut widths: Vec<usize> = headings.map(|(name, _)| measure_text_width(name)).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(measure_text_width(cell));
            }
        }
        widths
    }

    /// Returns the lines of the table, at most `width` terminal columns wide; `None` sets no limit.
    /// Text that does not fit is truncated and ends with `…`.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let width = width.unwrap_or(usize::MAX);
        let mut widths = self.widths();
        if let Some(flexible) = self.flexible {
            let excess = self.width_with(usize::MAX).saturating_sub(width);
            let left = widths[flexible].saturating_sub(excess);
            widths[flexible] = match left {
                _ if excess == 0 => widths[flexible],
                0..NARROWEST => 0,
                left => left,
            };
        }
        let headings: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let rows = self
            .rows
            .iter()
            .map(|row| row.iter().map(String::as_str).collect());
        let lines = std::iter::once(headings).chain(rows);
        lines.map(|row| self.line(&row, &widths, width)).collect()
    }

    fn line(&self, row: &[&str], widths: &[usize], width: usize) -> String {
        let mut line = String::new();
        let cells = row.iter().zip(widths).zip(&self.columns);
        for ((cell, &width), (_, align)) in cells.filter(|((_, width), _)| **width > 0) {
            let cell = truncate_str(cell, width, "…");
            let padding = " ".repeat(width - measure_text_width(&cell));
            let gap = if line.is_empty() { 0 } else { GAP };
            line += &" ".repeat(gap);
            line += &match align {
                Align::Left => format!("{cell}{padding}"),
                Align::Right => format!("{padding}{cell}"),
            };
        }
        truncate_str(line.trim_end(), width, "…").into_owned()
    }
}

/// Returns the width of the terminal on stdout, in columns; `None` if stdout is not a terminal.
pub fn stdout_width() -> Option<usize> {
    let stdout = Term::stdout();
    let (_, columns) = stdout.is_term().then(|| stdout.size_checked()).flatten()?;
    Some(columns.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let columns = [
            ("name", Align::Left),
            ("settings", Align::Left),
            ("steps", Align::Right),
        ];
        let columns = columns.map(|(name, align)| (name.to_owned(), align));
        let mut table = Table::new(columns).cutting(1);
        table.push(
            ["a", "--d-model 16 --heads 2", "12"]
                .map(String::from)
                .into(),
        );
        table.push(vec![String::new(); 3]);
        table.push(["日本", "", "1000"].map(String::from).into());
        table
    }

    #[test]
    fn columns_are_as_wide_as_their_cells() {
        let expected = [
            "name  settings                steps",
            "a     --d-model 16 --heads 2     12",
            "",
            "日本                           1000",
        ];
        assert_eq!(table().lines(None), expected);
        assert_eq!(
            (table().width_with(usize::MAX), table().width_with(9)),
            (35, 22)
        );
        assert_eq!(table().lines(Some(35)), expected);
    }

    #[test]
    fn a_table_that_is_too_wide_is_cut() {
        let expected = [
            "name  settings    steps",
            "a     --d-model…     12",
            "",
            "日本               1000",
        ];
        assert_eq!(table().lines(Some(23)), expected);
        // A column that would be too narrow to show anything useful disappears.
        let expected = ["name  steps", "a        12", "", "日本   1000"];
        assert_eq!(table().lines(Some(18)), expected);
        for width in 1..40 {
            for line in table().lines(Some(width)) {
                assert!(measure_text_width(&line) <= width, "{width}: {line:?}");
            }
        }
    }
}
