//! Maps of attention weights: a cell for each pair of tokens, darker where the weight is larger.

use plotters::element::Rectangle;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{Color, FontTransform, RGBColor};

use serde::{Serialize, Serializer};

use super::axis::Axis;
use super::file::{Area, Drawn, Plot};
use super::style::{FAINT, INK, LABEL, SCALE, TITLE, fit, font, stroke, units, width};

/// The attention weights of one kind of attention, such as cross-attention, for one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AttentionMaps {
    /// Kind of attention: `encoder`, `decoder` or `cross`.
    pub kind: &'static str,
    /// Title above all maps.
    #[serde(skip)]
    pub title: String,
    /// Source and, in maps of the decoder, target. It is below the title.
    #[serde(skip)]
    pub subtitle: String,
    /// Label of the rows, which are queries.
    pub row_label: &'static str,
    /// Label of the columns, which are keys.
    pub column_label: &'static str,
    /// A token for each row.
    pub rows: Vec<String>,
    /// A token for each column.
    pub columns: Vec<String>,
    /// Weights of each layer and each head, in row-major order.
    #[serde(rename = "weights", serialize_with = "encoded")]
    pub layers: Vec<Vec<Vec<f32>>>,
    /// Whether a query cannot attend to keys after its own position.
    pub is_causal: bool,
}

/// Font size of tokens, in pixels.
const TOKEN: f64 = 10.5;

/// Space to the left of all maps, in pixels.
const LEFT: f64 = 36.0;
/// Space above all maps, in pixels.
const HEAD: f64 = 70.0;
/// Gap between maps, in pixels.
const GAP: f64 = 16.0;
/// Height of the title of a map, in pixels.
const PANEL_TITLE: f64 = 20.0;
/// Width and height of the bar of the colour scale, in pixels.
const BAR: (f64, f64) = (14.0, 160.0);
/// Width of the colour scale with its labels, in pixels.
const SCALE_WIDTH: f64 = 68.0;

/// Maximum number of tokens for which a map labels every token.
pub const EASILY_READ: usize = 32;

const MASKED: RGBColor = RGBColor(0xe3, 0xe3, 0xe3);
const BORDER: RGBColor = RGBColor(0xb0, 0xb0, 0xb0);
/// Weights below this fraction of the colour scale's largest weight are not drawn, because their
/// colour is almost the white of the background.
const MIN_WEIGHT: f32 = 0.004;
/// Maximum width of a token in pixels. Longer tokens are truncated.
const TOKEN_WIDTH: f64 = 110.0;

/// The layout of one map, in pixels.
struct Panel {
    /// Width and height of a cell.
    cell: f64,
    /// Number of tokens from one label to the next; 1 if every token is labelled.
    stride: usize,
    /// Width of the labels of the rows, and height of the labels of the columns.
    tokens: (f64, f64),
    /// Whether the labels of the columns run upwards, because they are too wide to be horizontal.
    is_upward: bool,
    /// Width and height of the map, including labels, title and the gap to the next map.
    size: (f64, f64),
}

impl AttentionMaps {
    /// Returns the name of the file.
    pub fn file_name(&self) -> String {
        format!("attention-{}.svg", self.kind)
    }

    /// Returns the weight with the darkest colour: 1 or, if no weight is above 0.5, as in long
    /// sequences, a round number that no weight exceeds.
    fn largest(&self) -> f32 {
        let weights = self.layers.iter().flatten().flatten();
        let largest = weights.copied().fold(0.0, f32::max);
        if largest > 0.5 {
            1.0
        } else {
            Axis::around("", 0.0, largest.into(), 5).range.end as f32
        }
    }

    fn panel(&self) -> Panel {
        let (rows, columns) = (self.rows.len() as f64, self.columns.len() as f64);
        let cell = match rows.max(columns) {
            longest if longest <= EASILY_READ as f64 => (240.0 / longest).clamp(12.0, 60.0).floor(),
            longest => (384.0 / longest).max(2.0),
        };
        let stride = (12.0 / cell).ceil() as usize;
        let widest = |tokens: &[String]| {
            let widths = tokens.iter().map(|token| width(token, TOKEN));
            widths.fold(0.0, f64::max).min(TOKEN_WIDTH)
        };
        let column = widest(&self.columns);
        let is_upward = column + 2.0 > cell * stride as f64;
        let below = if is_upward { column } else { TOKEN } + 8.0;
        let beside = widest(&self.rows) + 8.0;
        let across = (cell * columns).max(width("layer 10, head 10", TOKEN));
        let width = beside + across + GAP;
        let height = PANEL_TITLE + cell * rows + below + GAP;
        Panel {
            cell,
            stride,
            tokens: (beside, below),
            is_upward,
            size: (width.ceil(), height.ceil()),
        }
    }

    /// Returns the right edge and the lower edge of the area that all maps take, in pixels.
    fn end(&self, panel: &Panel) -> (f64, f64) {
        let (width, height) = panel.size;
        let (layers, heads) = (self.layers.len() as f64, self.layers[0].len() as f64);
        (LEFT + width * heads, HEAD + height * layers)
    }

    /// Draws one map and its labels. `largest` is the weight with the darkest colour.
    ///
    /// The labels are drawn here, because plotters would centre rotated labels on their axis, where
    /// they would cover the map.
    fn draw_map(&self, area: &Area, panel: &Panel, weights: &[f32], largest: f32) -> Drawn {
        let (rows, columns) = (self.rows.len(), self.columns.len());
        // Returns the upper left corner of a cell, in units of the area. An index plus 0.5 gives
        // the middle of a cell.
        let at = |column: f64, row: f64| {
            let x = panel.tokens.0 + panel.cell * column;
            (units(x), units(PANEL_TITLE + panel.cell * row))
        };
        let gap = if panel.cell >= 8.0 { SCALE as u32 } else { 0 };
        for (row, weights) in weights.chunks(columns).enumerate() {
            let y = row as f64;
            if self.is_causal && row + 1 < columns {
                let corners = [at(y + 1.0, y), at(columns as f64, y + 1.0)];
                area.draw(&Rectangle::new(corners, MASKED.filled()))?;
            }
            let cells = weights.iter().enumerate();
            for (column, &weight) in cells.filter(|(_, weight)| **weight >= MIN_WEIGHT * largest) {
                let corners = [at(column as f64, y), at(column as f64 + 1.0, y + 1.0)];
                let mut cell = Rectangle::new(corners, ramp(weight / largest).filled());
                cell.set_margin(0, gap, 0, gap);
                area.draw(&cell)?;
            }
        }
        let corners = [at(0.0, 0.0), at(columns as f64, rows as f64)];
        area.draw(&Rectangle::new(corners, stroke(BORDER, 1.0)))?;

        let token = font(TOKEN, INK);
        let right = token.pos(Pos::new(HPos::Right, VPos::Center));
        for (row, text) in self.rows.iter().enumerate().step_by(panel.stride) {
            let (x, y) = at(0.0, row as f64 + 0.5);
            let text = fit(text, TOKEN, TOKEN_WIDTH);
            area.draw_text(&text, &right, (x - units(4.0), y + units(1.0)))?;
        }
        let upward = right.transform(FontTransform::Rotate270);
        let centered = token.pos(Pos::new(HPos::Center, VPos::Top));
        for (column, text) in self.columns.iter().enumerate().step_by(panel.stride) {
            let (x, y) = at(column as f64 + 0.5, rows as f64);
            let (y, text) = (y + units(4.0), fit(text, TOKEN, TOKEN_WIDTH));
            if panel.is_upward {
                area.draw_text(&text, &upward, (x + units(1.0), y))?
            } else {
                area.draw_text(&text, &centered, (x, y))?
            }
        }
        Ok(())
    }
}

impl Plot for AttentionMaps {
    fn title(&self) -> &str {
        &self.title
    }

    fn size(&self) -> (f64, f64) {
        let (right, lower) = self.end(&self.panel());
        let title = LEFT + width(&self.title, TITLE) + 20.0;
        let scale = HEAD + PANEL_TITLE + BAR.1 + GAP + BAR.0;
        let width = (right + SCALE_WIDTH + 2.0 * GAP).max(title);
        (width, (lower + LABEL).max(scale) + GAP)
    }

    /// Draws a row of maps for each layer, with a column for each head.
    fn draw(&self, area: &Area) -> Drawn {
        let at = |x, y| (units(x), units(y));
        let widest = self.size().0 - LEFT - 12.0;
        let title = fit(&self.title, TITLE, widest);
        area.draw_text(&title, &font(TITLE, INK), at(LEFT, 16.0))?;
        let subtitle = fit(&self.subtitle, LABEL, widest);
        area.draw_text(&subtitle, &font(LABEL, FAINT), at(LEFT, 39.0))?;

        let (panel, largest) = (self.panel(), self.largest());
        let (layers, heads) = (self.layers.len(), self.layers[0].len());
        let (right, lower) = self.end(&panel);
        let (corner, size) = (at(LEFT, HEAD), at(right - LEFT, lower - HEAD));
        let maps = area.clone().shrink(corner, size);
        let areas = maps.split_evenly((layers, heads));
        let token = font(TOKEN, INK);
        for (index, (area, weights)) in areas.iter().zip(self.layers.iter().flatten()).enumerate() {
            let title = format!("layer {}, head {}", index / heads + 1, index % heads + 1);
            let style = font(TOKEN + 1.0, INK);
            area.draw_text(&title, &style, at(panel.tokens.0, 3.0))?;
            self.draw_map(area, &panel, weights, largest)?;
        }
        let label = font(LABEL, INK);
        let below = at(LEFT + panel.tokens.0, lower - GAP + 8.0);
        area.draw_text(self.column_label, &label, below)?;
        let middle = Pos::new(HPos::Center, VPos::Center);
        let upward = label.transform(FontTransform::Rotate270).pos(middle);
        area.draw_text(self.row_label, &upward, at(18.0, (HEAD + lower) / 2.0))?;

        const STEPS: u32 = 60;
        let (x, y) = (right + 12.0, HEAD + PANEL_TITLE);
        for step in 0..STEPS {
            let part = |step| f64::from(step) / f64::from(STEPS);
            let color = ramp(1.0 - part(step) as f32);
            let corners = [(x, part(step)), (x + BAR.0, part(step + 1))];
            let corners = corners.map(|(x, part)| at(x, y + BAR.1 * part));
            area.draw(&Rectangle::new(corners, color.filled()))?;
        }
        let corners = [at(x, y), at(x + BAR.0, y + BAR.1)];
        area.draw(&Rectangle::new(corners, stroke(BORDER, 1.0)))?;
        let beside = x + BAR.0 + 8.0;
        area.draw_text(&largest.to_string(), &token, at(beside, y))?;
        area.draw_text("weight", &token, at(beside, y + BAR.1 / 2.0))?;
        area.draw_text("0", &token, at(beside, y + BAR.1 - TOKEN))?;
        if self.is_causal {
            let y = y + BAR.1 + GAP;
            let corners = [at(x, y), at(x + BAR.0, y + BAR.0)];
            area.draw(&Rectangle::new(corners, MASKED.filled()))?;
            area.draw_text("masked", &token, at(beside, y + 3.0))?;
        }
        Ok(())
    }
}

/// Returns the colour for a weight, given as a fraction of the colour scale's largest weight.
///
/// The colours go from white to dark blue. They change faster at small fractions, because most
/// weights are small.
fn ramp(fraction: f32) -> RGBColor {
    const STOPS: [[f32; 3]; 5] = [
        [255.0, 255.0, 255.0],
        [188.0, 214.0, 238.0],
        [95.0, 160.0, 210.0],
        [27.0, 99.0, 170.0],
        [6.0, 38.0, 92.0],
    ];
    let place = fraction.clamp(0.0, 1.0).powf(0.6) * (STOPS.len() - 1) as f32;
    let below = (place as usize).min(STOPS.len() - 2);
    let part = place - below as f32;
    let (from, to) = (STOPS[below], STOPS[below + 1]);
    let mix = |i: usize| (from[i] + part * (to[i] - from[i])).round() as u8;
    RGBColor(mix(0), mix(1), mix(2))
}

fn encoded<S: Serializer>(layers: &[Vec<Vec<f32>>], serializer: S) -> Result<S::Ok, S::Error> {
    let heads = |layer: &Vec<Vec<f32>>| layer.iter().map(|head| encode(head)).collect();
    serializer.collect_seq(layers.iter().map(heads).collect::<Vec<Vec<String>>>())
}

/// Encodes weights from 0 to 1 as thousandths. Each weight becomes two digits in base 36.
fn encode(weights: &[f32]) -> String {
    let digit = |value: u32| char::from_digit(value, 36).expect("it is below 36");
    let digits = weights.iter().flat_map(|weight| {
        let thousandths = (weight.clamp(0.0, 1.0) * 1000.0).round() as u32;
        [digit(thousandths / 36), digit(thousandths % 36)]
    });
    digits.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::file::tests::is_inside;

    #[test]
    fn heavier_weights_are_darker() {
        let sum = |RGBColor(r, g, b): RGBColor| u32::from(r) + u32::from(g) + u32::from(b);
        let sums: Vec<u32> = (0..=100).map(|i| sum(ramp(i as f32 / 100.0))).collect();
        assert!(sums.is_sorted_by(|a, b| a > b), "{sums:?}");
        assert_eq!(ramp(0.0), RGBColor(255, 255, 255));
        assert_eq!(ramp(7.0), ramp(1.0));
    }

    #[test]
    fn marks_stay_inside_whatever_the_tokens() {
        let tokens = |count: usize, token: &str| vec![token.to_owned(); count];
        for (rows, columns, token) in [
            (1, 1, "7"),
            (18, 17, "<bos>"),
            (3, 40, "something"),
            (
                40,
                3,
                "a token with many more letters than a map has room for",
            ),
            (200, 200, "1"),
        ] {
            let maps = AttentionMaps {
                kind: "cross",
                title: "title".into(),
                subtitle: "words ".repeat(99),
                row_label: "rows",
                column_label: "columns",
                rows: tokens(rows, token),
                columns: tokens(columns, token),
                layers: vec![vec![vec![0.01; rows * columns]; 2]; 2],
                is_causal: true,
            };
            let svg = maps.svg();
            assert!(is_inside(&svg), "{rows} x {columns}");
            // The scale ends at the largest weight, not at 1.
            assert!(svg.contains("\n0.01\n"), "{svg}");
        }
    }

    #[test]
    fn weights_take_two_characters() {
        assert_eq!(encode(&[0.0, 0.001, 0.0356, 0.5, 1.0]), "000110dwrs");
        let read = |text: &str| u32::from_str_radix(text, 36).unwrap();
        assert_eq!((read("10"), read("dw"), read("rs")), (36, 500, 1000));
        assert_eq!(encode(&[f32::NAN, 2.0]), "00rs");
    }
}
