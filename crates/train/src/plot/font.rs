//! The one font of all pictures. It is inside the program, for machines that have none.

use std::sync::Once;

use plotters::style::{
    Color, FontDesc, FontFamily, FontStyle, IntoTextStyle, RGBColor, TextStyle, register_font,
};

/// As SVG files call it, with what a viewer may take where it is missing.
pub const FAMILY: &str = "DejaVu Sans, Verdana, sans-serif";

/// Height of a line, where the font's size is 1.
pub const LINE: f64 = 1.164;

/// Makes the font known to plotters.
pub fn register() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular()).is_err() {
            unreachable!("the font is a font");
        }
    });
}

/// A style of the font, by plotters' size.
pub fn style(size: f64, color: RGBColor) -> TextStyle<'static> {
    let font = FontDesc::new(FontFamily::Name(FAMILY), size, FontStyle::Normal);
    let mut style = font.into_text_style(&(0, 0));
    style.color = color.to_backend_color();
    style
}

/// Width of a text in pixels.
pub fn width(text: &str, size: f64) -> f64 {
    const FINE: f64 = 100.0;
    register();
    let font = FontDesc::new(FontFamily::Name(FAMILY), FINE * LINE, FontStyle::Normal);
    let (width, _) = font.box_size(text).expect("the font is registered");
    f64::from(width) * size / FINE
}

/// A text, shortened where it is wider than this.
pub fn fit(text: &str, size: f64, widest: f64) -> String {
    if width(text, size) <= widest {
        return text.into();
    }
    let mut kept: Vec<char> = text.chars().collect();
    loop {
        kept.pop();
        let shorter: String = kept.iter().collect::<String>().trim_end().to_owned() + "…";
        if kept.is_empty() || width(&shorter, size) <= widest {
            return shorter;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_are_the_fonts() {
        // Advances of DejaVu Sans: 0.636 for a digit, 0.318 for a space.
        assert!((width("0123", 10.0) - 4.0 * 6.36).abs() < 0.1);
        assert!((width("0 1", 10.0) - 15.9).abs() < 0.1);
        assert_eq!(width("", 10.0), 0.0);
    }

    #[test]
    fn long_texts_are_cut() {
        assert_eq!(fit("12 34 56", 10.0, 100.0), "12 34 56");
        assert_eq!(fit("12 34 56", 10.0, 40.0), "12 34…");
        assert_eq!(fit("12 34 56", 10.0, 1.0), "…");
    }
}
