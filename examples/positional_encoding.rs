//! Prints the similarity (scaled dot product) of sinusoidal positional encodings, which depends
//! only on the distance between two positions. `train plot --positional-encoding` plots the
//! encoding itself.
//!
//!     cargo run --release --example positional_encoding

use burn::tensor::{Device, Tensor};
use transformer::position::SinusoidalEncoding;

const POSITIONS: usize = 100;
const D_MODEL: usize = 64;

fn main() {
    let device = Device::flex();
    let table = SinusoidalEncoding::new(POSITIONS, D_MODEL, &device).forward(0, POSITIONS);
    let similarity = |position: usize| -> Vec<f64> {
        let one: Tensor<2> = table.clone().narrow(0, position, 1);
        let products = one.matmul(table.clone().transpose()).into_data();
        let scale = (D_MODEL / 2) as f64;
        products.iter::<f64>().map(|x| x / scale).collect()
    };
    let [to_20, to_60] = [similarity(20), similarity(60)];
    println!("distance  similarity to position 20  and to position 60");
    for distance in (0..40).step_by(4) {
        let [a, b] = [to_20[20 + distance], to_60[60 + distance]];
        assert!((a - b).abs() < 1e-5);
        let bar = "*".repeat((40.0 * a.max(0.0)).round() as usize);
        println!("{distance:>8}  {a:>25.3}  {b:>18.3}  {bar}");
    }
}
