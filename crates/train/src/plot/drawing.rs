//! A picture as a list of marks, which plotters draws.

use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind};
use plotters::element::{Circle, PathElement, Polygon, Rectangle, Text};
use plotters::prelude::DrawingBackend;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontTransform, RGBColor, ShapeStyle};

use super::font;

/// A place in a picture: right of and below its upper left corner, in pixels.
pub type Point = (f64, f64);

/// Red, green and blue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Color(pub u8, pub u8, pub u8);

/// Which end of a text stands at its point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its beginning.
    Start,
    /// Its middle.
    Middle,
    /// Its end.
    End,
}

/// The smallest thing that is drawn.
#[derive(Clone, Debug, PartialEq)]
pub enum Mark {
    /// Points, joined.
    Line {
        /// In their order.
        points: Vec<Point>,
        /// Of the stroke.
        color: Color,
        /// Of the stroke.
        width: f64,
    },
    /// A filled rectangle.
    Rectangle {
        /// The upper left one.
        corner: Point,
        /// Width and height.
        size: Point,
        /// Of the inside.
        color: Color,
    },
    /// A filled polygon.
    Polygon {
        /// Its corners.
        points: Vec<Point>,
        /// Of the inside.
        color: Color,
    },
    /// A filled circle.
    Dot {
        /// Its centre.
        center: Point,
        /// Half its width.
        radius: f64,
        /// Of the inside.
        color: Color,
    },
    /// A line of text.
    Text {
        /// What it says.
        text: String,
        /// A point of the line that its letters stand on.
        at: Point,
        /// Of the font.
        size: f64,
        /// Of the letters.
        color: Color,
        /// Which end stands at the point.
        anchor: Anchor,
        /// Whether it is read from below to above.
        upwards: bool,
    },
}

/// A picture.
#[derive(Clone, Debug, PartialEq)]
pub struct Drawing {
    /// What it shows; stands in the picture as well.
    pub title: String,
    /// In pixels.
    pub width: f64,
    /// In pixels.
    pub height: f64,
    /// What is drawn, later ones over earlier ones.
    pub marks: Vec<Mark>,
}

impl Drawing {
    /// An empty white picture.
    pub fn new(title: impl Into<String>, width: f64, height: f64) -> Self {
        Self {
            title: title.into(),
            width,
            height,
            marks: Vec::new(),
        }
    }

    /// Draws it so many times as large.
    pub(super) fn draw<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
        scale: f64,
        medium: Medium,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        font::register();
        let point = |(x, y): Point| ((x * scale).round() as i32, (y * scale).round() as i32);
        area.fill(&RGBColor(255, 255, 255))?;
        for mark in &self.marks {
            match mark {
                Mark::Line {
                    points,
                    color,
                    width,
                } => {
                    let width = (width * scale).round().max(1.0) as u32;
                    let style = fill(*color).stroke_width(width);
                    let mut points: Vec<(i32, i32)> = points.iter().map(|&p| point(p)).collect();
                    points.dedup();
                    if medium == Medium::Svg {
                        area.draw(&PathElement::new(points, style))?;
                        continue;
                    }
                    // plotters joins the segments of a bitmap's thick line with gaps and spikes.
                    for pair in points.windows(2) {
                        area.draw(&PathElement::new(pair.to_vec(), style))?;
                    }
                    if width > 2 {
                        for &joint in points.iter().skip(1).rev().skip(1) {
                            area.draw(&Circle::new(joint, width / 2, fill(*color)))?;
                        }
                    }
                }
                Mark::Rectangle {
                    corner,
                    size,
                    color,
                } => {
                    let end = (corner.0 + size.0, corner.1 + size.1);
                    let corners = [point(*corner), point(end)];
                    area.draw(&Rectangle::new(corners, fill(*color)))?;
                }
                Mark::Polygon { points, color } => {
                    let points: Vec<_> = points.iter().map(|&p| point(p)).collect();
                    area.draw(&Polygon::new(points, fill(*color)))?;
                }
                Mark::Dot {
                    center,
                    radius,
                    color,
                } => {
                    let radius = (radius * scale).round() as u32;
                    area.draw(&Circle::new(point(*center), radius, fill(*color)))?;
                }
                Mark::Text {
                    text,
                    at,
                    size,
                    color,
                    anchor,
                    upwards,
                } => {
                    let size = size * scale;
                    let (size, v_pos, rise) = match medium {
                        // plotters turns its own size of a font into CSS's by this factor.
                        Medium::Svg => (size * 1.24, VPos::Bottom, 0.0),
                        // In a bitmap, the letters stand half a line below the upper edge.
                        Medium::Bitmap => {
                            let line = size * font::LINE;
                            (line, VPos::Top, line / 2.0)
                        }
                    };
                    let h_pos = match anchor {
                        Anchor::Start => HPos::Left,
                        Anchor::Middle => HPos::Center,
                        Anchor::End => HPos::Right,
                    };
                    let (x, y) = (at.0 * scale, at.1 * scale);
                    let (transform, x, y) = match upwards {
                        true => (FontTransform::Rotate270, x - rise, y),
                        false => (FontTransform::None, x, y - rise),
                    };
                    let style = font::style(size, RGBColor(color.0, color.1, color.2))
                        .transform(transform)
                        .pos(Pos::new(h_pos, v_pos));
                    let at = (x.round() as i32, y.round() as i32);
                    area.draw(&Text::new(clean(text), at, style))?;
                }
            }
        }
        Ok(())
    }
}

/// What the two backends of plotters do differently.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Medium {
    /// SVG files.
    Svg,
    /// Pixels.
    Bitmap,
}

fn fill(Color(red, green, blue): Color) -> ShapeStyle {
    ShapeStyle::from(RGBColor(red, green, blue)).filled()
}

/// Without characters that XML cannot have.
pub fn clean(text: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().map(visible).collect()
}
