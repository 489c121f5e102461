//! Outputs and attention weights of a run's model for examples of the validation split.

use std::path::Path;

use anyhow::Result;
use burn::module::Module;
use burn::tensor::Device;
use serde::Serialize;
use training::collective::Alone;
use training::data::{Decoded, Split};
use training::evaluation::decode_greedily;
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use training::run::unusable;

use super::marks::{Marked, marked};
use crate::plot::AttentionMaps;
use crate::plot::attention::attention_maps;

/// Maximum number of examples of a run whose attention a page shows.
const MAPS: usize = 8;

/// Maximum number of attention weights that a page holds for one run. The first example is kept
/// even if it alone has more. Each weight takes two bytes in the page.
const WEIGHTS: usize = 600_000;

/// Maximum number of source tokens of an example whose attention a page shows.
const TOKENS: usize = 64;

/// Outputs and attention weights of a model.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Examined {
    /// Step of the checkpoint.
    step: usize,
    #[serde(skip)]
    pub parameters: usize,
    /// Greedily decoded examples.
    samples: Vec<Sample>,
    /// Attention weights of some examples.
    attention: Vec<Attention>,
}

/// An example and the model's output.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Sample {
    source: String,
    reference: Vec<Marked>,
    output: Vec<Marked>,
    /// Whether the data set accepts the output as correct.
    is_exact: bool,
}

/// The attention weights for one source.
#[derive(Clone, Debug, PartialEq, Serialize)]
struct Attention {
    source: String,
    maps: Vec<AttentionMaps>,
}

impl Examined {
    /// Loads the model of a run, and decodes the first `n` examples of the validation split.
    ///
    /// # Errors
    ///
    /// A run that does not have the selected checkpoint, has no examples, or has files that cannot
    /// be used, or an example that the model cannot decode.
    pub fn of(
        folder: &Path,
        selector: CheckpointSelector,
        device: &Device,
        n: usize,
    ) -> Result<Self> {
        let run = TrainedRun::load_selected(folder, selector, device)?;
        let dataset = run.dataset.as_ref();
        let examples = dataset.held_out(run.config.seed, Split::Validation, n);
        if examples.is_empty() {
            return Err(unusable(
                folder,
                "has no examples of the validation split that can be read",
            )
            .into());
        }
        let decoded = decode_greedily(&run.model, dataset, &examples, &Alone)?;
        let sample = |(index, decoded): (usize, &Decoded)| {
            let reference = dataset.reference(index, &decoded.example);
            let output = dataset.codec().decode_target(&decoded.output);
            let [reference, output] = marked(&reference, &output, decoded.is_exact);
            Sample {
                source: dataset.codec().decode_source(&decoded.example.source),
                reference,
                output,
                is_exact: decoded.is_exact,
            }
        };
        let mut attention = Vec::new();
        let mut weights = 0;
        for example in &examples {
            if attention.len() == MAPS || example.source.len() > TOKENS {
                continue;
            }
            let maps = attention_maps(&run.model, dataset, &example.source, "")?;
            let heads = maps.iter().flat_map(|maps| maps.layers.iter().flatten());
            weights += heads.map(Vec::len).sum::<usize>();
            if weights > WEIGHTS && !attention.is_empty() {
                break;
            }
            let source = dataset.codec().decode_source(&example.source);
            attention.push(Attention { source, maps });
        }
        Ok(Self {
            step: run.step,
            parameters: run.model.num_params(),
            samples: decoded.iter().enumerate().map(sample).collect(),
            attention,
        })
    }

    /// Returns whether there are attention weights for at least one example.
    pub fn has_attention(&self) -> bool {
        !self.attention.is_empty()
    }
}
