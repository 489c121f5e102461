//! Draws the sinusoidal positional encoding, and a chart of your own.
//!
//!     cargo run --release -p examples --example positional_encoding

use burn::tensor::{Device, Tensor};
use train::plot::{Axis, LineChart, Plot, Series, Spacing, positional_encoding};
use transformer::position::SinusoidalEncoding;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex();
    let folder = std::env::temp_dir().join("transformer-pictures");
    let encoding = positional_encoding(&device);
    encoding.save(&folder.join("positional_encoding.svg"))?;
    encoding.save(&folder.join("positional_encoding.png"))?;

    // The dot product of two encodings depends only on the distance of their positions.
    let (positions, d_model) = (100, 64);
    let table = SinusoidalEncoding::new(positions, d_model, &device).forward(0, positions);
    let products = |position: usize| -> Vec<(f64, f64)> {
        let one: Tensor<2> = table.clone().narrow(0, position, 1);
        let products = one.matmul(table.clone().transpose()).into_data();
        let values = products.iter::<f64>().map(|x| x / (d_model / 2) as f64);
        (0..).map(f64::from).zip(values).collect()
    };
    let series = [(0, 20), (1, 60)].map(|(index, position)| {
        let label = format!("to position {position}");
        Series::new(index, label, products(position))
    });
    assert!((series[0].points[25].1 - series[1].points[65].1).abs() < 1e-5);
    let chart = LineChart {
        title: "Similarity of positional encodings, d_model 64".into(),
        x: Axis::new("position (tokens)", 0.0..positions as f64, Spacing::Whole),
        y: Axis::new("dot product / (d_model / 2)", 0.0..1.0, Spacing::Linear),
        series: series.into(),
        band: None,
    };
    chart.save(&folder.join("similarity.svg"))?;
    println!("{}", folder.display());
    Ok(())
}
