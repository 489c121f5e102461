//! Maps of attention weights: a cell for each pair of tokens, the darker the heavier.

use super::attention::AttentionMaps;
use super::drawing::{Anchor, Color, Drawing, Mark, Point};
use super::font;
use super::style::{self, INK, LABEL};

const TOKEN: f64 = 10.5;
const GAP: f64 = 16.0;
/// Beside the maps: what the colours mean.
const SCALE_WIDTH: f64 = 96.0;
const MASKED: Color = Color(0xe3, 0xe3, 0xe3);
const BORDER: Color = Color(0xb0, 0xb0, 0xb0);
/// Weights below are white.
const INVISIBLE: f32 = 0.004;

/// Sizes of one map, in pixels.
struct Panel {
    cell: f64,
    /// Tokens from one that is named to the next.
    every: usize,
    /// Room for the names of the rows, and of the columns.
    names: (f64, f64),
    are_columns_upwards: bool,
    width: f64,
    height: f64,
}

const PANEL_TITLE: f64 = 20.0;
const PANEL_TITLE_SIZE: f64 = TOKEN + 1.0;

/// Of the map of one head, both counted from 1.
fn panel_title(layer: usize, head: usize) -> String {
    format!("layer {layer}, head {head}")
}

impl Panel {
    fn new(maps: &AttentionMaps) -> Self {
        let (rows, columns) = (maps.rows.len(), maps.columns.len());
        let longest = rows.max(columns) as f64;
        // Every token has room for its name, up to 32 of them.
        let cell = if longest <= 32.0 {
            (240.0 / longest).clamp(12.0, 60.0).floor()
        } else {
            (384.0 / longest).max(2.0)
        };
        let every = (12.0 / cell).ceil() as usize;
        let widest = |names: &[String]| {
            let widths = names.iter().map(|name| font::width(name, TOKEN));
            widths.fold(0.0, f64::max)
        };
        let widest_column = widest(&maps.columns);
        let are_columns_upwards = widest_column + 2.0 > cell * every as f64;
        let below = if are_columns_upwards {
            widest_column
        } else {
            TOKEN
        } + 8.0;
        let beside = widest(&maps.rows) + 8.0;
        let heads = maps.weights.first().map_or(0, Vec::len);
        let title = font::width(&panel_title(maps.weights.len(), heads), PANEL_TITLE_SIZE);
        Self {
            cell,
            every,
            names: (beside, below),
            are_columns_upwards,
            width: beside + (cell * columns as f64).max(title),
            height: PANEL_TITLE + cell * rows as f64 + below,
        }
    }
}

impl AttentionMaps {
    /// Draws a row of maps for each layer and a column for each head.
    pub fn draw(&self) -> Drawing {
        let panel = Panel::new(self);
        let (layers, heads) = (self.weights.len(), self.weights[0].len());
        let grid = |count: usize, size: f64| count as f64 * (size + GAP) - GAP;
        let (across, down) = (grid(heads, panel.width), grid(layers, panel.height));
        let left = 36.0;
        let title = left + font::width(&self.title, style::TITLE) + 20.0;
        let width = (left + across + SCALE_WIDTH + 16.0).max(title);

        let mut drawing = Drawing::new(&self.title, width, 0.0);
        let top = style::head(&mut drawing, left, Some(&self.subtitle)) + 12.0;
        for (layer, heads) in self.weights.iter().enumerate() {
            for (head, weights) in heads.iter().enumerate() {
                let x = left + head as f64 * (panel.width + GAP);
                let y = top + layer as f64 * (panel.height + GAP);
                let title = panel_title(layer + 1, head + 1);
                let at = (x + panel.names.0, y + 13.0);
                drawing
                    .marks
                    .push(style::text(title, at, PANEL_TITLE_SIZE, INK, Anchor::Start));
                self.map(
                    &mut drawing,
                    &panel,
                    weights,
                    (x + panel.names.0, y + PANEL_TITLE),
                );
            }
        }
        let below = top + down;
        let at = (left + panel.names.0, below + 20.0);
        drawing.marks.push(style::text(
            self.column_label,
            at,
            LABEL,
            INK,
            Anchor::Start,
        ));
        let at = (22.0, top + down / 2.0);
        drawing
            .marks
            .push(style::upwards(self.row_label, at, LABEL, Anchor::Middle));
        let scale = (left + across + 28.0, top + PANEL_TITLE);
        drawing.height = self.scale(&mut drawing, scale).max(below + 20.0) + 16.0;
        drawing
    }

    fn map(&self, drawing: &mut Drawing, panel: &Panel, weights: &[f32], (left, top): (f64, f64)) {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        let cell = panel.cell;
        let (width, height) = (cell * columns as f64, cell * rows as f64);
        let gap = if cell >= 8.0 { 1.0 } else { 0.0 };
        let at = |row: usize, column: usize| (left + cell * column as f64, top + cell * row as f64);
        for (row, weights) in weights.chunks(columns).enumerate() {
            if self.is_causal && row + 1 < columns {
                drawing.marks.push(Mark::Rectangle {
                    corner: at(row, row + 1),
                    size: (cell * (columns - row - 1) as f64, cell),
                    color: MASKED,
                });
            }
            for (column, &weight) in weights.iter().enumerate() {
                if weight >= INVISIBLE {
                    drawing.marks.push(Mark::Rectangle {
                        corner: at(row, column),
                        size: (cell - gap, cell - gap),
                        color: ramp(weight),
                    });
                }
            }
        }
        let (right, bottom) = (left + width, top + height);
        drawing.marks.push(frame((left, top), (right, bottom)));
        let middle = |index: usize| cell * (index as f64 + 0.5);
        for (row, name) in self.rows.iter().enumerate().step_by(panel.every) {
            let at = (left - 4.0, top + middle(row) + 0.36 * TOKEN);
            drawing
                .marks
                .push(style::text(name, at, TOKEN, INK, Anchor::End));
        }
        for (column, name) in self.columns.iter().enumerate().step_by(panel.every) {
            let x = left + middle(column);
            drawing.marks.push(if panel.are_columns_upwards {
                let at = (x + 0.36 * TOKEN, bottom + 4.0);
                style::upwards(name, at, TOKEN, Anchor::End)
            } else {
                style::text(name, (x, bottom + TOKEN + 3.0), TOKEN, INK, Anchor::Middle)
            });
        }
    }

    /// What the colours mean. Returns how far down it reaches.
    fn scale(&self, drawing: &mut Drawing, (left, top): (f64, f64)) -> f64 {
        const STEPS: usize = 60;
        const HEIGHT: f64 = 160.0;
        const WIDTH: f64 = 14.0;
        let step = HEIGHT / STEPS as f64;
        for index in 0..STEPS {
            drawing.marks.push(Mark::Rectangle {
                corner: (left, top + HEIGHT - step * (index + 1) as f64),
                size: (WIDTH, step + 0.25),
                color: ramp((index as f32 + 0.5) / STEPS as f32),
            });
        }
        let (right, bottom) = (left + WIDTH, top + HEIGHT);
        drawing.marks.push(frame((left, top), (right, bottom)));
        for tick in [0.0, 0.25, 0.5, 0.75, 1.0] {
            let y = bottom - HEIGHT * tick;
            drawing.marks.push(Mark::Line {
                points: vec![(right, y), (right + 4.0, y)],
                color: INK,
                width: 1.0,
            });
            let at = (right + 8.0, y + 0.36 * TOKEN);
            drawing
                .marks
                .push(style::text(tick.to_string(), at, TOKEN, INK, Anchor::Start));
        }
        let at = (right + 50.0, top + HEIGHT / 2.0);
        drawing.marks.push(style::upwards(
            "weight (a row sums to 1)",
            at,
            TOKEN + 1.0,
            Anchor::Middle,
        ));
        if self.is_causal {
            drawing.marks.push(Mark::Rectangle {
                corner: (left, bottom + 18.0),
                size: (WIDTH, WIDTH),
                color: MASKED,
            });
            let at = (right + 8.0, bottom + 18.0 + 11.0);
            drawing
                .marks
                .push(style::text("masked", at, TOKEN, INK, Anchor::Start));
        }
        bottom + if self.is_causal { 18.0 + WIDTH } else { 0.0 }
    }
}

/// From white by blue to almost black, ever darker; faster at first, since the weights of a long
/// sequence are small.
fn ramp(weight: f32) -> Color {
    const STOPS: [[f32; 3]; 5] = [
        [255.0, 255.0, 255.0],
        [188.0, 214.0, 238.0],
        [95.0, 160.0, 210.0],
        [27.0, 99.0, 170.0],
        [6.0, 38.0, 92.0],
    ];
    let place = weight.clamp(0.0, 1.0).powf(0.6) * (STOPS.len() - 1) as f32;
    let below = (place as usize).min(STOPS.len() - 2);
    let part = place - below as f32;
    let mix =
        |i: usize| (STOPS[below][i] + part * (STOPS[below + 1][i] - STOPS[below][i])).round() as u8;
    Color(mix(0), mix(1), mix(2))
}

/// The border around a map or its scale.
fn frame((left, top): Point, (right, bottom): Point) -> Mark {
    Mark::Line {
        points: vec![
            (left, top),
            (right, top),
            (right, bottom),
            (left, bottom),
            (left, top),
        ],
        color: BORDER,
        width: 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heavier_weights_are_darker() {
        let sum = |Color(r, g, b): Color| u32::from(r) + u32::from(g) + u32::from(b);
        let sums: Vec<u32> = (0..=100).map(|i| sum(ramp(i as f32 / 100.0))).collect();
        assert!(sums.is_sorted_by(|a, b| a > b), "{sums:?}");
        assert_eq!(ramp(0.0), Color(255, 255, 255));
        assert_eq!(ramp(7.0), ramp(1.0));
    }

    #[test]
    fn marks_stay_inside_whatever_the_tokens() {
        let names = |count: usize, name: &str| vec![name.to_owned(); count];
        for (rows, columns, name) in [
            (1, 1, "7"),
            (18, 17, "<bos>"),
            (3, 40, "something"),
            (200, 200, "1"),
        ] {
            let maps = AttentionMaps {
                name: "attention-cross",
                title: "title".into(),
                subtitle: "words ".repeat(99),
                row_label: "rows",
                column_label: "columns",
                rows: names(rows, name),
                columns: names(columns, name),
                weights: vec![vec![vec![0.5; rows * columns]; 2]; 2],
                is_causal: true,
            };
            let drawing = maps.draw();
            let inside = |(x, y): (f64, f64)| {
                (0.0..=drawing.width).contains(&x) && (0.0..=drawing.height).contains(&y)
            };
            for mark in &drawing.marks {
                let is_inside = match mark {
                    Mark::Text { at, .. } => inside(*at),
                    Mark::Line { points, .. } => points.iter().all(|&p| inside(p)),
                    Mark::Rectangle { corner, size, .. } => {
                        inside((corner.0 + size.0, corner.1 + size.1))
                    }
                    _ => true,
                };
                assert!(is_inside, "{rows} x {columns}: {mark:?}");
            }
        }
    }
}
