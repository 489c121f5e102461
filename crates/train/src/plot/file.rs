//! Pictures as SVG and PNG files.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use plotters::backend::{BitMapBackend, SVGBackend};
use plotters::drawing::IntoDrawingArea;

use super::drawing::{Drawing, Medium, clean};
use super::font;

/// What is written for each picture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// An SVG file.
    Svg,
    /// An SVG file and a PNG file.
    SvgAndPng,
}

/// Units of an SVG file in a pixel: plotters has whole numbers for coordinates.
const SVG_SCALE: u32 = 4;

/// Pixels of a PNG file in a pixel of the picture, and how many times finer it is drawn before:
/// the first pair whose drawing takes no more memory than [`PNG_BYTES`].
const PNG_SCALES: [(u32, u32); 3] = [(2, 2), (2, 1), (1, 1)];
const PNG_BYTES: f64 = 256e6;

impl Drawing {
    /// The picture as the text of an SVG file.
    ///
    /// # Errors
    ///
    /// If it cannot be drawn.
    pub fn svg(&self) -> Result<String> {
        let (width, height) = self.pixels(SVG_SCALE);
        let mut svg = String::new();
        {
            let area = SVGBackend::with_string(&mut svg, (width, height)).into_drawing_area();
            self.draw(&area, SVG_SCALE.into(), Medium::Svg)
                .and_then(|()| area.present())
                .map_err(|error| anyhow!("cannot draw \"{}\": {error}", self.title))?;
        }
        let (_, body) = svg.split_once('\n').unwrap_or_default();
        // What every mark says again, or moves its text by. In texts, quotation marks are escaped.
        let family = format!(" font-family=\"{}\"", font::FAMILY);
        let body = [
            family.as_str(),
            " opacity=\"1\"",
            " stroke=\"none\"",
            " dy=\"-0.5ex\"",
        ]
        .iter()
        .fold(body.to_owned(), |body, default| body.replace(default, ""));
        let mut title = String::new();
        for c in clean(&self.title).chars() {
            match c {
                '<' => title += "&lt;",
                '&' => title += "&amp;",
                c => title.push(c),
            }
        }
        Ok(format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             viewBox=\"0 0 {width} {height}\"{family} stroke-linejoin=\"round\">\n\
             <title>{title}</title>\n{body}",
            self.width.ceil(),
            self.height.ceil(),
        ))
    }

    /// The picture as the bytes of a PNG file, of twice as many pixels each way unless it is very
    /// large.
    ///
    /// # Errors
    ///
    /// If it cannot be drawn.
    pub fn png(&self) -> Result<Vec<u8>> {
        let bytes = |scale: u32| 3.0 * self.width * self.height * f64::from(scale).powi(2);
        let (density, finer) = PNG_SCALES
            .into_iter()
            .find(|(density, finer)| bytes(density * finer) <= PNG_BYTES)
            .unwrap_or((1, 1));
        let scale = density * finer;
        let (width, height) = self.pixels(density);
        let size = (width * finer, height * finer);
        let mut pixels = vec![255; 3 * size.0 as usize * size.1 as usize];
        {
            let area = BitMapBackend::with_buffer(&mut pixels, size).into_drawing_area();
            self.draw(&area, scale.into(), Medium::Bitmap)
                .and_then(|()| area.present())
                .map_err(|error| anyhow!("cannot draw \"{}\": {error}", self.title))?;
        }
        let pixels = shrink(&pixels, size.0 as usize, finer as usize);
        let mut file = Vec::new();
        let mut encoder = png::Encoder::new(&mut file, width, height);
        encoder.set_color(png::ColorType::Rgb);
        let mut writer = encoder.write_header()?;
        writer.write_image_data(&pixels)?;
        writer.finish()?;
        Ok(file)
    }

    /// Writes the picture into a folder, which is made if it is not there, and returns what was
    /// written. A file appears whole or not at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save(&self, folder: &Path, name: &str, format: Format) -> Result<Vec<PathBuf>> {
        let svg = folder.join(format!("{name}.svg"));
        write(&svg, self.svg()?.as_bytes())?;
        let mut paths = vec![svg];
        if format == Format::SvgAndPng {
            let png = folder.join(format!("{name}.png"));
            write(&png, &self.png()?)?;
            paths.push(png);
        }
        Ok(paths)
    }

    fn pixels(&self, scale: u32) -> (u32, u32) {
        let size = [self.width, self.height].map(|size| size.ceil() as u32 * scale);
        (size[0], size[1])
    }
}

/// The mean of each square of `finer` times `finer` pixels.
fn shrink(pixels: &[u8], width: usize, finer: usize) -> Vec<u8> {
    if finer == 1 {
        return pixels.to_vec();
    }
    let rows = pixels.chunks(3 * width * finer);
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

/// Through a temporary file, so that no picture is half there.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".tmp");
    let temporary = path.with_file_name(name);
    let write = || -> std::io::Result<()> {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        let mut file = File::create(&temporary)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&temporary, path)
    };
    write()
        .inspect_err(|_| {
            let _ = fs::remove_file(&temporary);
        })
        .with_context(|| format!("cannot write {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::drawing::{Anchor, Color, Mark};

    const BLUE: Color = Color(0, 0, 255);

    fn drawing() -> Drawing {
        let mut drawing = Drawing::new("a <title> & more", 30.0, 20.0);
        drawing.marks = vec![
            Mark::Rectangle {
                corner: (10.0, 5.0),
                size: (10.0, 10.0),
                color: BLUE,
            },
            Mark::Text {
                text: "dy=\"-0.5ex\" <\u{1b}".into(),
                at: (1.0, 9.0),
                size: 5.0,
                color: BLUE,
                anchor: Anchor::Start,
                upwards: false,
            },
        ];
        drawing
    }

    /// Width and pixels of a PNG file.
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
        let svg = drawing().svg().unwrap();
        assert!(
            svg.contains("width=\"30\" height=\"20\" viewBox=\"0 0 120 80\""),
            "{svg}"
        );
        assert!(
            svg.contains("<title>a &lt;title> &amp; more</title>"),
            "{svg}"
        );
        assert!(svg.contains("dy=&quot;-0.5ex&quot; &lt;\u{fffd}"), "{svg}");
        assert!(!svg.contains(" dy="), "{svg}");
        assert!(svg.trim_end().ends_with("</svg>"), "{svg}");
    }

    #[test]
    fn a_png_has_twice_the_size_and_the_right_pixels() {
        let mut drawing = drawing();
        drawing.marks.truncate(1);
        let file = drawing.png().unwrap();
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
    fn letters_of_a_png_stand_on_their_line() {
        let mut drawing = Drawing::new("", 40.0, 40.0);
        drawing.marks.push(Mark::Text {
            text: "H".into(),
            at: (20.0, 30.0),
            size: 20.0,
            color: Color(0, 0, 0),
            anchor: Anchor::Middle,
            upwards: false,
        });
        let (width, _, pixels) = decode(&drawing.png().unwrap());
        let dark: Vec<usize> = (0..pixels.len() / 3)
            .filter(|i| pixels[3 * i] < 128)
            .collect();
        let rows = dark.iter().map(|i| i / width);
        let (top, bottom) = (rows.clone().min().unwrap(), rows.max().unwrap());
        // A capital letter is 0.73 of the font's size.
        assert!(bottom.abs_diff(59) <= 1, "{bottom}");
        assert!((bottom - top).abs_diff(29) <= 2, "{top} to {bottom}");
        let columns = dark.iter().map(|i| i % width);
        let middle = columns.clone().min().unwrap() + columns.max().unwrap();
        // plotters leaves out the space before a letter, a tenth of the size.
        assert!(middle.abs_diff(80) <= 8, "{middle}");
    }

    #[test]
    fn huge_pictures_are_drawn_less_finely() {
        let drawing = Drawing::new("", 6000.0, 5000.0);
        let (width, height, _) = decode(&drawing.png().unwrap());
        assert_eq!((width, height), (6000, 5000));
    }

    #[test]
    fn files_that_cannot_be_written_are_errors_and_leave_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let drawing = drawing();
        let inside = folder.path().join("new/pictures");
        let paths = drawing.save(&inside, "one", Format::SvgAndPng).unwrap();
        assert_eq!(paths, [inside.join("one.svg"), inside.join("one.png")]);
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 2);
        assert_eq!(
            fs::read_to_string(&paths[0]).unwrap(),
            drawing.svg().unwrap()
        );

        let file = folder.path().join("file");
        fs::write(&file, "mine").unwrap();
        let error = drawing.save(&file, "one", Format::Svg).unwrap_err();
        assert!(format!("{error:#}").contains("cannot write "), "{error:#}");
        fs::create_dir(inside.join("two.svg")).unwrap();
        assert!(drawing.save(&inside, "two", Format::Svg).is_err());
        assert_eq!(fs::read_dir(&inside).unwrap().count(), 3);
    }
}
