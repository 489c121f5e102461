//! Prints results as a table or as JSON.

use anyhow::Result;
use burn::tensor::Device;
use serde_json::{Value, json};
use training::collective::Collective;
use training::memory::peak_rss_bytes;

use super::shape::{BenchArgs, Sizes};
use crate::args::name_of;
use crate::device::DeviceName;
use crate::number::bytes;
use crate::terminal::output;

/// Inputs for measuring one shape on one backend. A shape is a model with its batch size and
/// sequence length.
pub(super) struct Bench<'a> {
    pub(super) args: &'a BenchArgs,
    /// Name of the shape.
    pub(super) shape: String,
    pub(super) sizes: Sizes,
    pub(super) name: DeviceName,
    pub(super) device: Device,
    /// The processes that take the measured steps together.
    pub(super) group: &'a dyn Collective,
}

impl Bench<'_> {
    /// Prints a measurement as JSON or as a row of the table. `figures` are its results, and
    /// `columns` is the text of the columns in the middle of the row.
    pub(super) fn print(&self, batch: usize, figures: Value, columns: &str) -> Result<()> {
        let Self { args, shape, .. } = self;
        let peak = peak_rss_bytes();
        if args.json {
            let mut line = json!({
                "what": name_of(args.what),
                "shape": shape,
                "backend": self.name.to_string(),
                "batch": batch,
                "length": self.sizes.length,
                "n_layers": self.sizes.model.n_encoder_layers,
                "fused": !args.no_fused,
                "peak_rss_bytes": peak,
            });
            for (name, value) in figures.as_object().into_iter().flatten() {
                line[name] = value.clone();
            }
            return output::result(&line.to_string());
        }
        let peak = peak.map_or("-".into(), |peak| bytes(peak as usize));
        let name = self.name;
        output::result(&format!(
            "{shape:<5}  {batch:>5}  {columns}  {peak:>11}  {name}"
        ))
    }
}
