//! Colours and sizes that all pictures share.

use super::drawing::{Anchor, Color, Drawing, Mark, Point};
use super::font;

/// Letters and axes.
pub const INK: Color = Color(0x22, 0x22, 0x22);
/// What is less important.
pub const FAINT: Color = Color(0x66, 0x66, 0x66);
/// Lines of the grid.
pub const GRID: Color = Color(0xe4, 0xe4, 0xe4);
/// An area that is marked.
pub const SHADE: Color = Color(0xee, 0xf1, 0xf5);

/// Colours that stay apart for eyes that see fewer of them (Okabe and Ito, "Color Universal
/// Design", 2008), without the light ones.
pub const SERIES: [Color; 7] = [
    Color(0x00, 0x72, 0xb2),
    Color(0xd5, 0x5e, 0x00),
    Color(0x00, 0x9e, 0x73),
    Color(0xcc, 0x79, 0xa7),
    Color(0xe6, 0x9f, 0x00),
    Color(0x56, 0xb4, 0xe9),
    Color(0x22, 0x22, 0x22),
];

/// Font size of a title.
pub const TITLE: f64 = 17.0;
/// Font size of everything else.
pub const LABEL: f64 = 13.0;

/// The color that so many series before it leave.
pub fn series_color(index: usize) -> Color {
    SERIES[index % SERIES.len()]
}

/// A colour with so much white in it.
pub fn lighter(Color(red, green, blue): Color, white: f64) -> Color {
    let mix = |x: u8| (f64::from(x) + (255.0 - f64::from(x)) * white).round() as u8;
    Color(mix(red), mix(green), mix(blue))
}

/// A line of text that reads from left to right.
pub fn text(text: impl Into<String>, at: Point, size: f64, color: Color, anchor: Anchor) -> Mark {
    Mark::Text {
        text: text.into(),
        at,
        size,
        color,
        anchor,
        upwards: false,
    }
}

/// A line of text that reads from below to above.
pub fn upwards(words: impl Into<String>, at: Point, size: f64, anchor: Anchor) -> Mark {
    Mark::Text {
        text: words.into(),
        at,
        size,
        color: INK,
        anchor,
        upwards: true,
    }
}

/// Begins a picture: its title, and a line below it if it has something to say. Returns how far
/// down they reach.
pub fn head(drawing: &mut Drawing, left: f64, subtitle: Option<&str>) -> f64 {
    let widest = drawing.width - left - 12.0;
    let title = font::fit(&drawing.title, TITLE, widest);
    drawing
        .marks
        .push(text(title, (left, 29.0), TITLE, INK, Anchor::Start));
    let Some(subtitle) = subtitle else {
        return 38.0;
    };
    let subtitle = font::fit(subtitle, LABEL, widest);
    drawing
        .marks
        .push(text(subtitle, (left, 49.0), LABEL, FAINT, Anchor::Start));
    58.0
}
