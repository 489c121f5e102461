//! The font of all plots. It is embedded in the program, because some machines have no fonts.

use std::sync::Once;

use plotters::style::{FontDesc, FontFamily, FontStyle, RGBColor, TextStyle, register_font};

/// Name of the font in SVG files, followed by alternatives for viewers that do not have it.
pub const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Height of a line in ems.
pub const LINE: f64 = 1.164;

/// Font size in plotters that gives an em of one pixel. The SVG backend divides font sizes by this
/// number.
pub const EM: f64 = 1.24;

/// Returns a text style with an em of `size` pixels.
pub fn style(size: f64, color: RGBColor) -> TextStyle<'static> {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular()).is_err() {
            unreachable!("the embedded font is valid");
        }
    });
    FontDesc::new(FontFamily::Name(FAMILY), size * EM, FontStyle::Normal).color(&color)
}

/// Returns the width of a text in pixels, with an em of `size` pixels.
pub fn width(text: &str, size: f64) -> f64 {
    // plotters rounds widths to whole pixels, so the text is measured with a larger font.
    const FINE: f64 = 100.0;
    let font = style(FINE * LINE / EM, RGBColor(0, 0, 0)).font;
    let (width, _) = font.box_size(text).expect("the font is registered");
    f64::from(width) * size / FINE
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
    fn text_widths_follow_the_font() {
        // Advances of DejaVu Sans: 0.636 em for a digit, 0.318 em for a space.
        assert!((width("0123", 10.0) - 4.0 * 6.36).abs() < 0.1);
        assert!((width("0 1", 10.0) - 15.9).abs() < 0.1);
        assert_eq!(width("", 10.0), 0.0);
    }

    #[test]
    fn long_texts_are_shortened() {
        assert_eq!(fit("12 34 56", 10.0, 100.0), "12 34 56");
        assert_eq!(fit("12 34 56", 10.0, 40.0), "12 34…");
        assert_eq!(fit("12 34 56", 10.0, 1.0), "…");
    }
}
