//! Signs at the points of a line.

use super::drawing::{Color, Mark, Point};

/// What marks the points of a line, for those who cannot tell its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// Nothing.
    None,
    /// A circle.
    Circle,
    /// A square.
    Square,
    /// A triangle.
    Triangle,
    /// A square on its corner.
    Diamond,
}

impl Marker {
    /// The marker that so many series before it leave.
    pub fn of(index: usize) -> Self {
        [Self::Circle, Self::Square, Self::Triangle, Self::Diamond][index % 4]
    }

    /// The sign itself, somewhat wider than the line that it stands on.
    pub(super) fn mark(self, (x, y): Point, line_width: f64, color: Color) -> Option<Mark> {
        let radius = 3.0 + line_width / 2.0;
        let polygon = |points: &[Point]| {
            let points = points
                .iter()
                .map(|(dx, dy)| (x + radius * dx, y + radius * dy));
            Some(Mark::Polygon {
                points: points.collect(),
                color,
            })
        };
        match self {
            Self::None => None,
            Self::Circle => Some(Mark::Dot {
                center: (x, y),
                radius,
                color,
            }),
            Self::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Self::Triangle => polygon(&[(0.0, -1.3), (1.2, 0.9), (-1.2, 0.9)]),
            Self::Diamond => polygon(&[(0.0, -1.35), (1.35, 0.0), (0.0, 1.35), (-1.35, 0.0)]),
        }
    }
}
