//! Colours and fonts of all plots. The font is embedded in the program, because some machines have
//! no fonts.

use std::sync::Once;

use plotters::style::{
    Color as _, FontDesc, FontFamily, FontStyle, RGBColor, ShapeStyle, TextStyle, register_font,
};
use ratatui::style::Color;

/// Colour of texts and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Colour of less important texts.
pub const FAINT: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Colour of grid lines.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Colour of a shaded area.
pub const SHADE: RGBColor = RGBColor(0xee, 0xf1, 0xf5);

/// Colours of lines that colour-blind readers can tell apart (Okabe and Ito, "Color Universal
/// Design", 2008), without the yellow of this palette, and with [`INK`] in place of its black. Each
/// has a colour for terminals beside it.
pub const SERIES: [(RGBColor, Color); 7] = [
    (RGBColor(0x00, 0x72, 0xb2), Color::Cyan),
    (RGBColor(0xd5, 0x5e, 0x00), Color::Yellow),
    (RGBColor(0x00, 0x9e, 0x73), Color::Green),
    (RGBColor(0xcc, 0x79, 0xa7), Color::Magenta),
    (RGBColor(0xe6, 0x9f, 0x00), Color::Red),
    (RGBColor(0x56, 0xb4, 0xe9), Color::Blue),
    (INK, Color::Reset),
];

/// Units of an SVG file per pixel. plotters rounds coordinates to whole units, so more units make
/// the drawing more precise.
pub const SCALE: f64 = 4.0;

/// Returns a length in units.
pub fn units(pixels: f64) -> i32 {
    (pixels * SCALE).round() as i32
}

/// Returns the style of a line that is `pixels` wide.
pub fn stroke(color: RGBColor, pixels: f64) -> ShapeStyle {
    color.stroke_width(units(pixels) as u32)
}

/// Font size of a title, in pixels.
pub const TITLE: f64 = 17.0;
/// Font size of axes and legends, in pixels.
pub const LABEL: f64 = 13.0;

/// Name of the font in SVG files, followed by alternatives for viewers that do not have it.
const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Font size in plotters that gives an em of one pixel. The SVG backend divides font sizes by this
/// number.
const EM: f64 = 1.24;

/// Returns a text style with an em of `size` pixels.
pub fn font(size: f64, color: RGBColor) -> TextStyle<'static> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular()).is_err() {
            unreachable!("the embedded font is valid");
        }
    });
    let size = size * SCALE * EM;
    FontDesc::new(FontFamily::Name(FAMILY), size, FontStyle::Normal).color(&color)
}

/// Returns the width of a text in pixels, with an em of `size` pixels. It is 7 % more than in most
/// viewers, which leaves room for other fonts.
pub fn width(text: &str, size: f64) -> f64 {
    // plotters rounds widths to whole pixels, so the text is measured with a larger font.
    let font = font(100.0, INK).font;
    let (width, _) = font.box_size(text).expect("the font is registered");
    f64::from(width) / SCALE * size / 100.0
}

/// Returns the text, truncated with an ellipsis if it is wider than `max_width` pixels. An em has
/// `size` pixels.
pub fn fit(text: &str, size: f64, max_width: f64) -> String {
    let mut fitting = text.to_owned();
    let mut kept: Vec<char> = text.chars().collect();
    while width(&fitting, size) > max_width && kept.pop().is_some() {
        fitting = kept.iter().collect::<String>().trim_end().to_owned() + "…";
    }
    fitting
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_measured_and_cut() {
        // Advances of DejaVu Sans: 0.636 em for a digit, 0.318 em for a space.
        let wider = 1.24 / 1.164;
        assert!((width("0123", 10.0) / wider - 4.0 * 6.36).abs() < 0.1);
        assert!((width("0 1", 10.0) / wider - 15.9).abs() < 0.1);
        assert_eq!(fit("12 34 56", 10.0, 100.0), "12 34 56");
        assert_eq!(fit("12 34 56", 10.0, 43.0), "12 34…");
        assert_eq!(fit("12 34 56", 10.0, 1.0), "…");
    }
}
