//! Values of charts for a script that shows those under the pointer.

use serde_json::{Value, json};

use super::line_chart::{Line, LineChart, RIGHT, WIDTH};
use super::style::SERIES;
use crate::metric;

/// Maximum number of points of a line whose values a script can show.
const HOVERED: usize = 200;

impl LineChart {
    /// Returns the values that a script shows: left and right edge of the plot area as shares of the
    /// width, first and last value and label of the x axis, and label, colour and some values of
    /// each line.
    pub fn hover(&self) -> Value {
        let line = |line: &Line| {
            let every = line.points.len().div_ceil(HOVERED).max(1);
            let points = line.points.iter().step_by(every);
            let points = points.map(|(x, y)| (*x, metric::text(line.field, *y)));
            let (x, y): (Vec<f64>, Vec<String>) = points.unzip();
            // What follows the name says how the line is drawn.
            let label = line.label.split(", ").next();
            let color = line.color.map(|color| color % SERIES.len());
            json!({ "label": label, "color": color, "x": x, "y": y })
        };
        let named = self.lines.iter().filter(|line| !line.label.is_empty());
        json!({
            "edges": [self.left() / WIDTH, 1.0 - RIGHT / WIDTH],
            "range": [self.x.range.start, self.x.range.end],
            "x_label": self.x.label,
            "lines": named.map(line).collect::<Value>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::line_chart::tests::{chart, line};

    #[test]
    fn a_script_gets_few_values() {
        let points = (0..100_000).map(|i| (f64::from(i), 0.25)).collect();
        let hover = chart(vec![line(9, points)]).hover();
        let line = &hover["lines"][0];
        assert_eq!(
            (&line["color"], &line["y"][7]),
            (&2.into(), &"0.2500".into())
        );
        assert_eq!(line["x"].as_array().unwrap().len(), HOVERED);
        assert_eq!(hover["range"], json!([0.0, 10.0]));
        let edges: [f64; 2] = serde_json::from_value(hover["edges"].clone()).unwrap();
        assert!(0.0 < edges[0] && edges[0] < edges[1] && edges[1] < 1.0);
    }
}
