//! Prints results as a table or as JSON.

use std::cell::Cell;

use anyhow::Result;
use burn::tensor::Device;
use serde::Serialize;
use training::collective::Collective;
use training::memory::peak_rss_bytes;

use super::shape::Sizes;
use crate::args::{BenchArgs, name_of};
use crate::device::DeviceName;
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
    /// Header of the table; `None` after it is printed.
    pub(super) header: &'a Cell<Option<&'static str>>,
    /// The processes that take the measured steps together.
    pub(super) group: &'a dyn Collective,
}

/// A measurement in the form of its JSON output.
#[derive(Serialize)]
struct Measurement<'a, F> {
    what: String,
    shape: &'a str,
    backend: String,
    /// Number of sequences in a batch.
    batch: usize,
    /// Number of tokens in each source and target.
    length: usize,
    /// Number of layers in the encoder, and in the decoder.
    n_layers: usize,
    /// Whether fast paths are switched on.
    fused: bool,
    #[serde(flatten)]
    figures: &'a F,
    /// Maximum resident memory of the process during the measurement, where the system reports it.
    peak_rss_bytes: Option<u64>,
}

impl Bench<'_> {
    /// Prints a measurement as JSON or as a row of the table. `columns` is the text of the columns
    /// in the middle of the row.
    pub(super) fn print(
        &self,
        batch: usize,
        figures: &impl Serialize,
        columns: &str,
    ) -> Result<()> {
        let Self { args, shape, .. } = self;
        let measurement = Measurement {
            what: name_of(args.what),
            shape,
            backend: self.name.to_string(),
            batch,
            length: self.sizes.length,
            n_layers: self.sizes.model.n_encoder_layers,
            fused: !args.no_fused,
            figures,
            peak_rss_bytes: peak_rss_bytes(),
        };
        if let (false, Some(header)) = (args.json, self.header.take()) {
            output::result(header)?;
        }
        output::json_or(args.json, &measurement, || {
            let bytes = measurement.peak_rss_bytes;
            let mebibytes = bytes.map(|bytes| bytes as f64 / f64::from(1 << 20));
            let peak = mebibytes.map_or("-".into(), |mebibytes| format!("{mebibytes:.0} MiB"));
            format!(
                "{shape:<5}  {batch:>5}  {columns}  {peak:>11}  {}",
                self.name
            )
        })
    }
}
