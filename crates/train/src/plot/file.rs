//! Writes plots as SVG files.

use std::fs;
use std::io;
use std::path::Path;

use anyhow::Result;
use plotters::backend::SVGBackend;
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use training::error::{UsageError, unwritable};
use training::files::replace_whole;

use super::style::units;
use crate::terminal::output::is_obeyed;

/// A drawing area of the crate `plotters`, which covers a plot or a part of it.
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The outcome of drawing.
pub type Drawn = Result<(), DrawingAreaErrorKind<io::Error>>;

/// Text near the beginning of every SVG file that this program writes.
pub const MARK: &str = " stroke-linejoin=\"round\">\n";

/// A plot that can be written as an SVG file.
pub trait Plot {
    /// Returns the title, which is also drawn in the plot.
    fn title(&self) -> &str;

    /// Returns width and height in pixels.
    fn size(&self) -> (f64, f64);

    /// Draws the plot on a white area.
    ///
    /// # Errors
    ///
    /// The errors of the backend.
    fn draw(&self, area: &Area) -> Drawn;

    /// Returns the plot as the text of an SVG file.
    fn svg(&self) -> String {
        let (width, height) = self.size();
        let (width, height) = (width.ceil(), height.ceil());
        let [wide, high] = [width, height].map(|pixels| units(pixels) as u32);
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (wide, high)).into_drawing_area();
            let drawn = self.draw(&area).and_then(|()| area.present());
            drawn.expect("a string can be written");
        }
        // The <svg> element of the backend is replaced, because it has another size and no title.
        let (_, body) = svg.split_once('\n').unwrap_or_default();
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {wide} {high}\"{MARK}<title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n{body}",
            self.title().replace('&', "&amp;").replace('<', "&lt;"),
        );
        // XML does not allow most control characters.
        svg.replace(|c: char| is_obeyed(c) && c != '\n', "\u{fffd}")
    }

    /// Writes the plot as an SVG file. The parent folder is created if it is missing. If the write
    /// fails, no partial file is left.
    ///
    /// # Errors
    ///
    /// The file cannot be written. If another folder would help, this is a usage error about
    /// `--output`.
    fn save(&self, folder: &Path, name: &str) -> Result<()> {
        let path = folder.join(name);
        let svg = self.svg();
        let written = fs::create_dir_all(folder);
        let written = written.and_then(|()| replace_whole(&path, svg.as_bytes()));
        written.map_err(|error| {
            let expected = format!("cannot be written ({error}); name a folder that can");
            let usage = UsageError::new("--output", folder.display(), expected);
            unwritable(&path, error, usage)
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use plotters::element::Rectangle;
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    use plotters::style::{Color, RGBColor};

    use super::*;
    use crate::plot::style::{SCALE, font};

    /// Returns the points, in pixels, of each line that has the given colour.
    pub fn lines(svg: &str, RGBColor(red, green, blue): RGBColor) -> Vec<Vec<(f64, f64)>> {
        let stroke = format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"");
        let polylines = svg.split("<polyline ").skip(1);
        let polylines = polylines.filter_map(|rest| {
            let (element, _) = rest.split_once("/>")?;
            let (_, points) = element.split_once("points=\"")?;
            let pixels = |number: &str| number.parse::<f64>().unwrap() / SCALE;
            let points = points.trim_end_matches('"').split_whitespace();
            let points = points.map(|point| point.split_once(',').unwrap());
            let points = points.map(|(x, y)| (pixels(x), pixels(y)));
            element.contains(&stroke).then(|| points.collect())
        });
        polylines.collect()
    }

    /// Returns whether the rectangles, lines, polygons and anchors of texts are inside the borders
    /// of an SVG file.
    pub fn is_inside(svg: &str) -> bool {
        let attribute = |element: &str, name: &str| {
            let (_, rest) = element.split_once(&format!(" {name}=\""))?;
            Some(rest.split_once('"')?.0.to_owned())
        };
        let number = |element: &str, name| attribute(element, name)?.parse::<f64>().ok();
        let (head, body) = svg.split_once('\n').unwrap();
        let scale = SCALE;
        let [width, height] = ["width", "height"].map(|name| number(head, name).unwrap() * scale);
        let inside = |x: f64, y: f64| (0.0..=width).contains(&x) && (0.0..=height).contains(&y);
        body.lines()
            .filter(|line| line.starts_with('<'))
            .all(|element| {
                let side = |name| number(element, name).unwrap_or(0.0);
                let points = attribute(element, "points").unwrap_or_default();
                points.split_whitespace().all(|point| {
                    let (x, y) = point.split_once(',').unwrap();
                    inside(x.parse().unwrap(), y.parse().unwrap())
                }) && number(element, "x").is_none_or(|x| {
                    let y = side("y");
                    inside(x, y) && inside(x + side("width"), y + side("height"))
                })
            })
    }

    const BLUE: RGBColor = RGBColor(0, 0, 255);

    /// A blue square and a text, on a white area.
    struct Square(&'static str);

    impl Plot for Square {
        fn title(&self) -> &str {
            "a <title> & more"
        }

        fn size(&self) -> (f64, f64) {
            (30.0, 20.0)
        }

        fn draw(&self, area: &Area) -> Drawn {
            let at = |x, y| (units(x), units(y));
            area.draw(&Rectangle::new(
                [at(10.0, 5.0), at(20.0, 15.0)],
                BLUE.filled(),
            ))?;
            let style = font(5.0, BLUE).pos(Pos::new(HPos::Left, VPos::Top));
            area.draw_text(self.0, &style, at(1.0, 9.0))
        }
    }

    #[test]
    fn an_svg_has_its_size_its_title_and_its_texts() {
        let svg = Square("\" <b>\u{1b}\u{202e}").svg();
        for part in [
            "width=\"30\" height=\"20\" viewBox=\"0 0 120 80\"",
            "<title>a &lt;title> &amp; more</title>",
            "&lt;b&gt;\u{fffd}\u{fffd}",
        ] {
            assert!(svg.contains(part), "{svg}");
        }
        assert!(
            svg.trim_end().ends_with("</svg>") && is_inside(&svg),
            "{svg}"
        );
    }

    #[test]
    fn files_that_cannot_be_written_are_errors_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let square = Square("");
        let inside = folder.path().join("new/pictures");
        square.save(&inside, "one.svg").unwrap();
        let written = fs::read_to_string(inside.join("one.svg")).unwrap();
        assert_eq!(written, square.svg());
        fs::create_dir(inside.join("two.svg")).unwrap();
        assert!(square.save(&inside, "two.svg").is_err());
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 2);
    }
}
