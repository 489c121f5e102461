//! Writes plots as SVG and PNG files.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use plotters::backend::{BitMapBackend, DrawingBackend, SVGBackend};
use plotters::coord::Shift;
use plotters::drawing::{DrawingArea, DrawingAreaErrorKind, IntoDrawingArea};

use super::bitmap::Bitmap;
use super::font;
use training::files::replace_whole;

/// A drawing area of the crate `plotters`, which covers a plot or a part of it. The crate rounds
/// all coordinates to whole units.
pub type Area<B> = DrawingArea<B, Shift>;

/// The outcome of drawing on a backend.
pub type Drawn<B> = Result<(), DrawingAreaErrorKind<<B as DrawingBackend>::ErrorType>>;

/// Units of an SVG file per pixel. plotters rounds coordinates to whole units, so more units make
/// the drawing more precise.
const SVG_SCALE: u32 = 4;

/// Scales of PNG files, the finest first.
///
/// The first number of a pair is the number of PNG pixels per pixel of the plot. The second number
/// says how many times finer the plot is drawn before pixels are averaged. The first pair for which
/// the drawing takes at most [`PNG_BYTES`] bytes is used, or else the last pair.
const PNG_SCALES: [(u32, u32); 3] = [(2, 2), (2, 1), (1, 1)];
const PNG_BYTES: f64 = 256e6;

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
        // Attributes that repeat a default value, or the font of the <svg> element, are removed.
        // This leaves texts unchanged, because quotation marks are escaped in texts.
        let (_, body) = svg.split_once('\n').unwrap_or_default();
        let family = format!(" font-family=\"{}\"", font::FAMILY);
        let body = body.replace(&family, "");
        let body = body
            .replace(" opacity=\"1\"", "")
            .replace(" stroke=\"none\"", "");
        let svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\"{family} stroke-linejoin=\"round\">\n\
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
        let bytes = |scale: u32| 3.0 * width * height * f64::from(scale).powi(2);
        let mut scales = PNG_SCALES.into_iter();
        let scale = scales.find(|(density, finer)| bytes(density * finer) <= PNG_BYTES);
        let (density, finer) = scale.unwrap_or((1, 1));
        let (width, height) = pixels(self.size(), density);
        let fine = (width * finer, height * finer);
        let mut image = vec![255; 3 * fine.0 as usize * fine.1 as usize];
        {
            let backend = Bitmap(BitMapBackend::with_buffer(&mut image, fine));
            let area = backend.into_drawing_area();
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
    use plotters::element::{Rectangle, Text};
    use plotters::style::text_anchor::{HPos, Pos, VPos};
    use plotters::style::{Color, RGBColor};

    use super::*;

    /// A text of an SVG file. Position and size are in pixels.
    #[derive(Debug)]
    pub struct SvgText {
        pub text: String,
        pub at: (f64, f64),
        pub size: f64,
        pub anchor: String,
        pub is_upward: bool,
    }

    fn attribute<'a>(element: &'a str, name: &str) -> Option<&'a str> {
        let (_, rest) = element.split_once(&format!(" {name}=\""))?;
        Some(rest.split_once('"')?.0)
    }

    fn number(element: &str, name: &str) -> f64 {
        attribute(element, name).unwrap().parse().unwrap()
    }

    /// Returns the texts that are drawn in an SVG file.
    pub fn texts(svg: &str) -> Vec<SvgText> {
        let scale = f64::from(SVG_SCALE);
        let elements = svg.split("<text ").skip(1).map(|rest| {
            let (element, text) = rest.split_once(">\n").unwrap();
            let element = format!(" {element}");
            SvgText {
                text: text.split_once("\n</text>").unwrap().0.to_owned(),
                at: (number(&element, "x") / scale, number(&element, "y") / scale),
                size: number(&element, "font-size") / scale,
                anchor: attribute(&element, "text-anchor").unwrap().to_owned(),
                is_upward: element.contains(" transform=\"rotate(270, "),
            }
        });
        elements.collect()
    }

    /// Returns the points, in pixels, of each line that has the given colour.
    pub fn lines(svg: &str, color: RGBColor) -> Vec<Vec<(f64, f64)>> {
        let stroke = stroke(color);
        let polylines = svg.split("<polyline ").skip(1).filter_map(|rest| {
            let (element, _) = rest.split_once("/>").unwrap();
            let element = format!(" {element}");
            element.contains(&stroke).then(|| {
                let points = attribute(&element, "points").unwrap().split_whitespace();
                let pixels = |number: &str| number.parse::<f64>().unwrap() / f64::from(SVG_SCALE);
                points
                    .map(|point| point.split_once(',').unwrap())
                    .map(|(x, y)| (pixels(x), pixels(y)))
                    .collect()
            })
        });
        polylines.collect()
    }

    /// Returns the SVG attribute for the colour of a line.
    pub fn stroke(RGBColor(red, green, blue): RGBColor) -> String {
        format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"")
    }

    /// Returns whether the rectangles, the points of lines and polygons, and the anchors of texts
    /// are inside the borders of an SVG file.
    pub fn is_inside(svg: &str) -> bool {
        let (head, body) = svg.split_once('\n').unwrap();
        let size = (number(head, "width"), number(head, "height"));
        let inside = |x: f64, y: f64| (0.0..=size.0).contains(&x) && (0.0..=size.1).contains(&y);
        let scale = f64::from(SVG_SCALE);
        let elements = body.lines().filter(|line| line.starts_with('<'));
        let mut count = 0;
        let all_inside = elements.map(|element| {
            if let Some(points) = attribute(element, "points") {
                points.split_whitespace().all(|point| {
                    count += 1;
                    let (x, y) = point.split_once(',').unwrap();
                    let pixels = |number: &str| number.parse::<f64>().unwrap() / scale;
                    inside(pixels(x), pixels(y))
                })
            } else if attribute(element, "x").is_some() {
                count += 1;
                let (x, y) = (number(element, "x"), number(element, "y"));
                let side = |name| attribute(element, name).map_or(0.0, |s| s.parse().unwrap());
                inside(x / scale, y / scale)
                    && inside((x + side("width")) / scale, (y + side("height")) / scale)
            } else {
                true
            }
        });
        all_inside.collect::<Vec<_>>().iter().all(|&inside| inside) && count > 0
    }

    const BLUE: RGBColor = RGBColor(0, 0, 255);

    /// A text on a white area, with a blue square if the size of the text is 5 pixels.
    struct Square {
        size: (f64, f64),
        text: &'static str,
        text_at: (f64, f64),
        text_size: f64,
    }

    impl Plot for Square {
        fn title(&self) -> &str {
            "a <title> & more"
        }

        fn size(&self) -> (f64, f64) {
            self.size
        }

        fn draw<B: DrawingBackend>(&self, area: &Area<B>, scale: f64) -> Drawn<B> {
            let at = |(x, y)| ((x * scale) as i32, (y * scale) as i32);
            if self.text_size == 5.0 {
                let corners = [at((10.0, 5.0)), at((20.0, 15.0))];
                area.draw(&Rectangle::new(corners, BLUE.filled()))?;
            }
            let style = font::style(self.text_size * scale, RGBColor(0, 0, 0))
                .pos(Pos::new(HPos::Center, VPos::Bottom));
            area.draw(&Text::new(self.text, at(self.text_at), style))
        }
    }

    fn square() -> Square {
        Square {
            size: (30.0, 20.0),
            text: "dy=\"-0.5ex\" <\u{1b}",
            text_at: (1.0, 9.0),
            text_size: 5.0,
        }
    }

    /// Returns the width and the pixels of a PNG file.
    fn decode(file: &[u8]) -> (usize, usize, Vec<u8>) {
        let mut reader = png::Decoder::new(std::io::Cursor::new(file))
            .read_info()
            .unwrap();
        let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut pixels).unwrap();
        (info.width as usize, info.height as usize, pixels)
    }

    #[test]
    fn an_svg_has_its_size_its_title_and_its_texts() {
        let svg = square().svg().unwrap();
        assert!(
            svg.contains("width=\"30\" height=\"20\" viewBox=\"0 0 120 80\""),
            "{svg}"
        );
        assert!(
            svg.contains("<title>a &lt;title> &amp; more</title>"),
            "{svg}"
        );
        assert!(svg.contains("dy=&quot;-0.5ex&quot; &lt;\u{fffd}"), "{svg}");
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
        let texts = texts(&svg);
        assert_eq!(texts.len(), 1);
        assert_eq!((texts[0].at, texts[0].size), ((1.0, 9.0), 5.0));
    }

    #[test]
    fn a_png_has_twice_the_size_and_the_right_pixels() {
        let mut square = square();
        square.text = "";
        let file = square.png().unwrap();
        assert!(file.starts_with(b"\x89PNG\r\n\x1a\n"));
        let (width, height, pixels) = decode(&file);
        assert_eq!((width, height), (60, 40));
        for y in 0..height {
            for x in 0..width {
                let inside = (20..40).contains(&x) && (10..30).contains(&y);
                let expected = if inside { [0, 0, 255] } else { [255; 3] };
                assert_eq!(pixels[3 * (y * width + x)..][..3], expected, "{x}, {y}");
            }
        }
    }

    #[test]
    fn letters_have_the_same_position_in_png_and_svg() {
        let square = Square {
            size: (40.0, 40.0),
            text: "H",
            text_at: (20.0, 30.0),
            text_size: 20.0,
        };
        let (width, _, pixels) = decode(&square.png().unwrap());
        let dark: Vec<usize> = (0..pixels.len() / 3)
            .filter(|i| pixels[3 * i] < 128)
            .collect();
        let rows = dark.iter().map(|i| i / width);
        let (top, bottom) = (rows.clone().min().unwrap(), rows.max().unwrap());
        // An em is 40 pixels of this PNG file. The SVG backend draws the baseline half an ex above
        // the anchor, which is 0.5 * 0.547 em, or 11 pixels.
        assert!(bottom.abs_diff(59 - 11) <= 1, "{bottom}");
        // A capital letter is 0.73 em high.
        assert!((bottom - top).abs_diff(29) <= 2, "{top} to {bottom}");
        let columns = dark.iter().map(|i| i % width);
        let middle = columns.clone().min().unwrap() + columns.max().unwrap();
        // plotters leaves out the left side bearing of the letter, a tenth of an em. So the letter
        // is not exactly centred.
        assert!(middle.abs_diff(80) <= 8, "{middle}");
    }

    #[test]
    fn huge_plots_are_drawn_less_finely() {
        let mut square = square();
        square.size = (6000.0, 5000.0);
        let (width, height, _) = decode(&square.png().unwrap());
        assert_eq!((width, height), (6000, 5000));
    }

    #[test]
    fn files_that_cannot_be_written_are_errors_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let square = square();
        let inside = folder.path().join("new/pictures");
        for name in ["one.svg", "one.png"] {
            square.save(&inside.join(name)).unwrap();
        }
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 2);
        let read = |name| fs::read(inside.join(name)).unwrap();
        assert_eq!(read("one.svg"), square.svg().unwrap().into_bytes());
        assert_eq!(read("one.png"), square.png().unwrap());

        let file = folder.path().join("file");
        fs::write(&file, "mine").unwrap();
        let error = square.save(&file.join("one.svg")).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write "), "{error:#}");
        fs::create_dir(inside.join("two.svg")).unwrap();
        assert!(square.save(&inside.join("two.svg")).is_err());
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 3);
    }
}
