//! The sinusoidal positional encoding as a picture, and a chart of one's own.
//!
//!     cargo run --release -p examples --example positional_encoding

use burn::tensor::{Device, Tensor};
use train::picture::{Axis, Format, LineChart, Marker, Series, positional_encoding, series_color};
use transformer::position::SinusoidalEncoding;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex();
    let folder = std::env::temp_dir().join("transformer-pictures");
    let figure = positional_encoding(&device);
    let mut paths = figure.save(&folder, "positional_encoding", Format::SvgAndPng)?;

    // How alike the encodings of two positions are depends on their distance alone.
    let (positions, d_model) = (100, 64);
    let table = SinusoidalEncoding::new(positions, d_model, &device).forward(0, positions);
    let products = |position: usize| -> Vec<(f64, f64)> {
        let one: Tensor<2> = table.clone().narrow(0, position, 1);
        let products = one.matmul(table.clone().transpose()).into_data();
        let values = products.iter::<f64>().map(|x| x / (d_model / 2) as f64);
        (0..).map(f64::from).zip(values).collect()
    };
    let series = [(0, 20), (1, 60)].map(|(index, position)| Series {
        label: format!("to position {position}"),
        points: products(position),
        color: series_color(index),
        width: 2.0,
        marker: Marker::None,
    });
    assert!((series[0].points[25].1 - series[1].points[65].1).abs() < 1e-5);
    let chart = LineChart {
        title: "Similarity of positional encodings, d_model 64".into(),
        width: 820.0,
        plot_height: 300.0,
        x: Axis::linear("position (tokens)", 0.0, positions as f64, 10),
        y: Axis::linear("dot product / (d_model / 2)", 0.0, 1.0, 5),
        series: series.into(),
        band: None,
    };
    paths.extend(chart.draw().save(&folder, "similarity", Format::Svg)?);
    for path in paths {
        println!("{}", path.display());
    }
    Ok(())
}
