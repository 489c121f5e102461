//! Tables that fit the terminal's width.

use console::{Alignment, measure_text_width, pad_str, truncate_str};

use super::output::visible;

/// Spaces between two columns.
const GAP: usize = 2;

/// Minimum width of the table column that is truncated first, in terminal columns. With less room,
/// it is not shown.
const NARROWEST: usize = 8;

/// A table with a line of headings.
#[derive(Clone, Debug)]
pub struct Table {
    /// Alignment of each column.
    alignments: Vec<Alignment>,
    /// Cells of each row. The first row has the headings.
    rows: Vec<Vec<String>>,
    /// Index of the column that is truncated first if the table is too wide; `None` if there is
    /// no such column.
    flexible: Option<usize>,
}

impl Table {
    /// Returns a table of these headings. Its texts begin at the left.
    pub fn new<S: AsRef<str>>(headings: impl IntoIterator<Item = S>) -> Self {
        let headings = Vec::from_iter(headings.into_iter().map(|name| visible(name.as_ref())));
        Self {
            alignments: vec![Alignment::Left; headings.len()],
            rows: vec![headings],
            flexible: None,
        }
    }

    /// Makes the texts of these columns, such as numbers, end at the right.
    pub fn right(mut self, columns: impl IntoIterator<Item = usize>) -> Self {
        for column in columns {
            self.alignments[column] = Alignment::Right;
        }
        self
    }

    /// Makes column `index` the one that is truncated first if the table is too wide.
    pub fn cutting(mut self, index: usize) -> Self {
        self.flexible = Some(index);
        self
    }

    /// Removes the column with this heading.
    pub fn without(mut self, name: &str) -> Self {
        if let Some(index) = self.rows[0].iter().position(|known| known == name) {
            self.alignments.remove(index);
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
        assert_eq!(row.len(), self.alignments.len(), "{row:?}");
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
        let width = |column: usize| {
            let cells = self.rows.iter().map(|row| measure_text_width(&row[column]));
            cells.max().unwrap_or(0)
        };
        (0..self.alignments.len()).map(width).collect()
    }

    /// Returns the lines of the table, at most `width` terminal columns wide; `None` sets no limit.
    /// Text that does not fit is truncated and ends with `…`.
    pub fn lines(&self, width: Option<usize>) -> Vec<String> {
        let width = width.unwrap_or(usize::MAX);
        let mut widths = self.widths();
        let excess = self.width_with(usize::MAX).saturating_sub(width);
        if let Some(flexible) = self.flexible.filter(|_| excess > 0) {
            let left = widths[flexible].saturating_sub(excess);
            widths[flexible] = if left < NARROWEST { 0 } else { left };
        }
        let line = |row: &Vec<String>| {
            let cells = row.iter().zip(&widths).zip(&self.alignments);
            let cells = cells.filter(|((_, width), _)| **width > 0);
            let cells = cells.map(|((cell, &width), &alignment)| {
                let cell = truncate_str(cell, width, "…");
                pad_str(&cell, width, alignment, None).into_owned()
            });
            let line = cells.collect::<Vec<_>>().join(&" ".repeat(GAP));
            truncate_str(line.trim_end(), width, "…").into_owned()
        };
        self.rows.iter().map(line).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new(["name", "settings", "steps"]);
        table = table.right([2]).cutting(1);
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
