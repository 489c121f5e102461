//! Writes plots as SVG and PNG files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};
use training::files::replace_whole;

/// A drawing area of the crate `plotters`, which covers a plot or a part of it. The crate rounds
/// all coordinates to whole units.
pub type Area<B> = DrawingArea<B, Shift>;

/// The outcome of drawing on a backend.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Units of an SVG file per pixel. plotters rounds coordinates to whole units, so more units make
/// the drawing more precise.
const SVG_SCALE: u32 = 4;

/// Pixels of a PNG file per pixel of the plot, and how many times finer the plot is drawn before
/// pixels are averaged, because plotters draws thick lines with hard edges. Plots larger than
/// [`PNG_PIXELS`] are drawn with one pixel for each.
const PNG_SCALE: (u32, u32) = (2, 2);
const PNG_PIXELS: f64 = 5e6;

/// A plot that can be drawn on any backend of plotters.
pub trait Plot {
    /// Returns the title, which is also drawn in the plot.
    fn title(&self) -> &str;

    /// Returns width and height in pixels.
    fn size(&self) -> (f64, f64);

    /// Draws the plot on a white area with `scale` units per pixel.
    ///
    /// # Errors
    ///
    /// The errors of the backend.
    fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: f64) -> Drawn<B>;

    /// Returns the plot as the text of an SVG file.
    ///
    /// # Errors
    ///
    /// The plot cannot be drawn.
    fn svg(&self) -> Result<String> {
        let (width, height) = pixels(self.size(), SVG_SCALE);
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            self.draw(&area, SVG_SCALE.into())?;
            area.present()?;
        }
        // The <svg> element of the backend is replaced, because it has another size and no title.
        let (_, body) = svg.split_once('\n').unwrap_or_default();
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\" stroke-linejoin=\"round\">\n\
             <title>{}</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#FFFFFF\"/>\n{body}",
            width / SVG_SCALE,
            height / SVG_SCALE,
            self.title().replace('&', "&amp;").replace('<', "&lt;"),
        );
        // XML does not allow most control characters.
        Ok(svg.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}"))
    }

    /// Returns the plot as the bytes of a PNG file. The image has twice the width and height of the
    /// plot in pixels, or the same width and height if the plot is very large.
    ///
    /// # Errors
    ///
    /// The plot cannot be drawn.
    fn png(&self) -> Result<Vec<u8>> {
        let (width, height) = self.size();
        let is_huge = width * height > PNG_PIXELS;
        let (density, finer) = if is_huge { (1, 1) } else { PNG_SCALE };
        let (width, height) = pixels((width, height), density);
        let fine = (width * finer, height * finer);
        let mut image = vec![255; 3 * fine.0 as usize * fine.1 as usize];
        {
            let area = BitMapBackend::with_buffer(&mut image, fine).into_drawing_area();
            self.draw(&area, f64::from(density * finer))?;
            area.present()?;
        }
        let image = shrink(&image, fine.0 as usize, finer as usize);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&image)?;
        writer.finish()?;
        Ok(file)
    }

    /// Writes the plot as a PNG file if the path ends in `.png`, else as an SVG file. The parent
    /// folder is created if it is missing. If the write fails, no partial file is left.
    ///
    /// # Errors
    ///
    /// The plot cannot be drawn, or the file cannot be written. In the second case, the message
    /// names the file.
    fn save(&self, path: &Path) -> Result<()> {
        let is_png = path.extension().is_some_and(|extension| extension == "png");
        let bytes = if is_png {
            self.png()?
        } else {
            self.svg()?.into()
        };
        fs::create_dir_all(path.parent().unwrap_or(path))
            .and_then(|()| replace_whole(path, &bytes))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}

fn pixels((width, height): (f64, f64), scale: u32) -> (u32, u32) {
    (width.ceil() as u32 * scale, height.ceil() as u32 * scale)
}

/// Divides an RGB image, which is `width` pixels wide, into squares of `finer` times `finer`
/// pixels. Returns the image in which each square has become one pixel, the mean of the square.
fn shrink(image: &[u8], width: usize, finer: usize) -> Vec<u8> {
    let rows = image.chunks(3 * width * finer);
    let shrunk = rows.flat_map(|rows| {
        (0..3 * width / finer).map(move |place| {
            let (column, channel) = (place / 3 * finer, place % 3);
            let square = (0..finer * finer).map(|cell| {
                let (x, y) = (column + cell % finer, cell / finer);
                u32::from(rows[3 * (y * width + x) + channel])
            });
            (square.sum::<u32>() as f64 / (finer * finer) as f64).round() as u8
        })
    });
    shrunk.collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use plotters::element::Rectangle;
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    use plotters::style::{Color, RGBColor};

    use super::*;
    use crate::plot::style::font;

    /// Returns the points, in pixels, of each line that has the given colour.
    pub fn lines(svg: &str, RGBColor(red, green, blue): RGBColor) -> Vec<Vec<(f64, f64)>> {
        let stroke = format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"");
        let polylines = svg.split("<polyline ").skip(1);
        let polylines = polylines.filter_map(|rest| {
            let (element, _) = rest.split_once("/>")?;
            let (_, points) = element.split_once("points=\"")?;
            let pixels = |number: &str| number.parse::<f64>().unwrap() / f64::from(SVG_SCALE);
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
        let scale = f64::from(SVG_SCALE);
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
    struct Square {
        size: (f64, f64),
        text: &'static str,
    }

    impl Plot for Square {
        fn title(&self) -> &str {
            "a <title> & more"
        }

        fn size(&self) -> (f64, f64) {
            self.size
        }

        fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: f64) -> Drawn<B> {
            let at = |x: f64, y: f64| ((x * scale) as i32, (y * scale) as i32);
            area.draw(&Rectangle::new(
                [at(10.0, 5.0), at(20.0, 15.0)],
                BLUE.filled(),
            ))?;
            let style = font(5.0 * scale, BLUE).pos(Pos::new(HPos::Left, VPos::Top));
            area.draw_text(self.text, &style, at(1.0, 9.0))
        }
    }

    fn square(text: &'static str) -> Square {
        let size = (30.0, 20.0);
        Square { size, text }
    }

    /// Returns the width and the pixels of a PNG file.
    fn decode(file: &[u8]) -> (usize, Vec<u8>) {
        let reader = png::Decoder::new(std::io::Cursor::new(file)).read_info();
        let mut reader = reader.unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width as usize, pixels)
    }

    #[test]
    fn an_svg_has_its_size_its_title_and_its_texts() {
        let svg = square("\" <b>\u{1b}").svg().unwrap();
        for part in [
            "width=\"30\" height=\"20\" viewBox=\"0 0 120 80\"",
            "<title>a &lt;title> &amp; more</title>",
            "&lt;b&gt;\u{fffd}",
        ] {
            assert!(svg.contains(part), "{svg}");
        }
        assert!(
            svg.trim_end().ends_with("</svg>") && is_inside(&svg),
            "{svg}"
        );
    }

    #[test]
    fn a_png_has_twice_the_size_and_the_right_pixels() {
        let (width, pixels) = decode(&square("").png().unwrap());
        assert_eq!((width, pixels.len()), (60, 3 * 60 * 40));
        for (index, pixel) in pixels.chunks(3).enumerate() {
            let (x, y) = (index % width, index / width);
            let inside = (20..40).contains(&x) && (10..30).contains(&y);
            let expected = if inside { [0, 0, 255] } else { [255; 3] };
            assert_eq!(pixel, expected, "{x}, {y}");
        }
        let mut huge = square("");
        huge.size = (6000.0, 1000.0);
        assert_eq!(decode(&huge.png().unwrap()).0, 6000);
    }

    #[test]
    fn files_that_cannot_be_written_are_errors_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let square = square("");
        let inside = folder.path().join("new/pictures");
        square.save(&inside.join("one.svg")).unwrap();
        square.save(&inside.join("one.png")).unwrap();
        let read = |name| fs::read(inside.join(name)).unwrap();
        assert_eq!(read("one.svg"), square.svg().unwrap().into_bytes());
        assert_eq!(read("one.png"), square.png().unwrap());
        fs::create_dir(inside.join("two.svg")).unwrap();
        let error = square.save(&inside.join("two.svg")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write "), "{error:#}");
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 3);
    }
}
