//! Colours and font sizes of all plots.

use plotters::style::RGBColor;

/// Colour of texts and axes.
pub const INK: RGBColor = RGBColor(0x22, 0x22, 0x22);
/// Colour of less important texts.
pub const FAINT: RGBColor = RGBColor(0x66, 0x66, 0x66);
/// Colour of grid lines.
pub const GRID: RGBColor = RGBColor(0xe4, 0xe4, 0xe4);
/// Colour of the dotted lines between the ends of curves and their labels.
pub const LEADER: RGBColor = RGBColor(0xaa, 0xaa, 0xaa);
/// Colour of a shaded area.
pub const SHADE: RGBColor = RGBColor(0xee, 0xf1, 0xf5);

/// Colours of lines that colour-blind readers can tell apart (Okabe and Ito, "Color Universal
/// Design", 2008), without the yellow of this palette, and with [`INK`] in place of its black.
const SERIES: [RGBColor; 7] = [
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
    INK,
];

/// Font size of a title, in pixels.
pub const TITLE: f64 = 17.0;
/// Font size of axes and legends, in pixels.
pub const LABEL: f64 = 13.0;

/// Pixels by which texts are moved down. plotters centres lower-case letters vertically, so that
/// digits and capitals would be too high.
pub const DOWN: f64 = 1.0;

/// Returns the colour of series `index`. The colours repeat after the last one.
pub fn series_color(index: usize) -> RGBColor {
    SERIES[index % SERIES.len()]
}

/// Mixes a colour with white. `white` is the share of white, from 0 to 1.
pub fn lighter(RGBColor(red, green, blue): RGBColor, white: f64) -> RGBColor {
    let mix = |x: u8| (f64::from(x) + (255.0 - f64::from(x)) * white).round() as u8;
    RGBColor(mix(red), mix(green), mix(blue))
}
