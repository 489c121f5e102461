//! A wrapper of plotters' bitmap backend that draws lines and text as the SVG backend does.

use plotters::backend::{BitMapBackend, DrawingBackend};
use plotters::style::RGBColor;
use plotters::style::text_anchor::{Pos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingErrorKind,
};

use super::font;

type Outcome = Result<(), DrawingErrorKind<<BitMapBackend<'static> as DrawingBackend>::ErrorType>>;

/// An RGB image in memory. plotters' bitmap backend draws thick lines with gaps and spikes at their
/// bends, and draws text larger and higher than in SVG. This backend corrects both.
pub struct Bitmap<'a>(pub BitMapBackend<'a>);

impl DrawingBackend for Bitmap<'_> {
    type ErrorType = <BitMapBackend<'static> as DrawingBackend>::ErrorType;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Outcome {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Outcome {
        self.0.present()
    }

    fn draw_pixel(&mut self, point: BackendCoord, color: BackendColor) -> Outcome {
        self.0.draw_pixel(point, color)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        lower_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Outcome {
        self.0.draw_rect(upper_left, lower_right, style, fill)
    }

    fn draw_path<S: BackendStyle, I: IntoIterator<Item = BackendCoord>>(
        &mut self,
        path: I,
        style: &S,
    ) -> Outcome {
        let points: Vec<BackendCoord> = path.into_iter().collect();
        for pair in points.windows(2) {
            self.0.draw_path([pair[0], pair[1]], style)?;
        }
        // A circle rounds the joint between two segments.
        if style.stroke_width() > 2 {
            for &joint in points.iter().skip(1).rev().skip(1) {
                self.draw_circle(joint, style.stroke_width() / 2, style, true)?;
            }
        }
        Ok(())
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        (x, y): BackendCoord,
    ) -> Outcome {
        let BackendColor { rgb: (r, g, b), .. } = style.color();
        let em = style.size() / font::EM;
        let anchor = style.anchor();
        // Distance in ems from the anchor down to the baseline at which the SVG backend draws the
        // letters. The x-height (ex) of the font is 0.547 em. The bitmap backend puts the baseline
        // half a line below the anchor, so the text is moved by the difference.
        let baseline = match anchor.v_pos {
            VPos::Top => 0.76,
            VPos::Center => 0.5 * 0.547,
            VPos::Bottom => -0.5 * 0.547,
        };
        let down = (em * (baseline - font::LINE / 2.0)).round() as i32;
        let (dx, dy) = style.transform().transform(0, down);
        let style = font::style(em * font::LINE / font::EM, RGBColor(r, g, b))
            .transform(style.transform())
            .pos(Pos::new(anchor.h_pos, VPos::Top));
        self.0.draw_text(text, &style, (x + dx, y + dy))
    }
}
