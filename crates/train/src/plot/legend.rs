//! Places the labels of a chart's lines: in rows above the chart, or beside the ends of the lines.

use super::font;
use super::style::LABEL;

/// Width of a key, the piece of line before a label, in pixels.
pub const KEY: f64 = 26.0;
/// Distance between a key and its label, in pixels.
pub const KEY_GAP: f64 = 8.0;
/// Height of a row of the legend, in pixels.
pub const ROW: f64 = 20.0;
/// Minimum vertical distance between two labels beside the chart, in pixels.
pub const BESIDE_ROW: f64 = 16.0;

/// A label of the legend and its position.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// Left end of the key, in pixels.
    pub x: f64,
    /// Middle of the row, in pixels.
    pub y: f64,
    /// The label, truncated with an ellipsis if it is too wide.
    pub label: String,
}

/// Returns the entries of a legend in as many rows as they need, from `left` to `right`. The first
/// row begins at height 0.
pub fn rows(labels: &[&str], left: f64, right: f64) -> Vec<Entry> {
    let (mut x, mut y) = (left, ROW / 2.0);
    let place = |label: &&str| {
        let label = font::fit(label, LABEL, right - left - KEY - KEY_GAP);
        let width = KEY + KEY_GAP + font::width(&label, LABEL);
        if x > left && x + width > right {
            (x, y) = (left, y + ROW);
        }
        let entry = Entry { x, y, label };
        x += width + 22.0;
        entry
    };
    labels.iter().map(place).collect()
}

/// Moves the vertical positions of labels apart so that they differ by at least [`BESIDE_ROW`] and
/// stay between `top` and `bottom`, in the same order. There must be room for all of them.
pub fn apart(heights: &[f64], top: f64, bottom: f64) -> Vec<f64> {
    let mut order: Vec<usize> = (0..heights.len()).collect();
    order.sort_by(|&a, &b| heights[a].total_cmp(&heights[b]));
    let mut apart = heights.to_vec();
    let mut least = top;
    for &i in &order {
        apart[i] = apart[i].max(least);
        least = apart[i] + BESIDE_ROW;
    }
    let mut most = bottom;
    for &i in order.iter().rev() {
        apart[i] = apart[i].min(most);
        most = apart[i] - BESIDE_ROW;
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_filled_before_the_next_begins() {
        let entries = rows(&["one", "two", "three"], 10.0, 150.0);
        let heights: Vec<f64> = entries.iter().map(|entry| entry.y).collect();
        assert_eq!(heights, [10.0, 10.0, 30.0]);
        assert_eq!((entries[0].x, entries[2].x), (10.0, 10.0));
        assert!(entries[1].x > 10.0 + KEY);
        let long = rows(&["a label that is too wide for a row"], 0.0, 100.0);
        assert!(long[0].label.ends_with('…'), "{long:?}");
    }

    #[test]
    fn labels_beside_a_chart_keep_their_order_and_do_not_overlap() {
        assert_eq!(apart(&[50.0, 100.0], 0.0, 200.0), [50.0, 100.0]);
        assert_eq!(apart(&[55.0, 50.0, 51.0], 0.0, 200.0), [82.0, 50.0, 66.0]);
        assert_eq!(
            apart(&[190.0, 199.0, 198.0], 0.0, 200.0),
            [168.0, 200.0, 184.0]
        );
    }
}
