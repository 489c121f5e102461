//! What is known of a run before it begins: model, data, device.

use std::collections::BTreeMap;
use std::path::Path;

use training::config::{Precision, RunConfig};
use training::data::Dataset;
use transformer::{Choice, Transformer, weights};

use super::number::{bytes, grouped};

/// A run, as it is described before it begins.
#[derive(Clone, Debug)]
pub struct About {
    pub(super) task: String,
    pub(super) backend: String,
    pub(super) parameters: usize,
    pub(super) folder: String,
    /// The command that resumes the run.
    pub(super) resume: String,
    /// A table of the model, its memory, the data and the device.
    pub(super) table: Vec<String>,
}

impl About {
    /// Describes a run of a configuration that has been fitted to `dataset`.
    pub fn new(
        config: &RunConfig,
        dataset: &dyn Dataset,
        model: &Transformer,
        folder: &Path,
    ) -> Self {
        let parts = Parts::of(model);
        let folder = folder.display().to_string();
        let mut table = model_table(config, &parts);
        table.push(format!("memory    {}", memory(config, parts.total())));
        table.push(format!("data      {}", data(config, dataset)));
        table.push(format!("device    {}", device(config)));
        Self {
            task: config.data.name().into(),
            backend: config.execution.backend.clone(),
            parameters: parts.total(),
            resume: format!("train resume {folder}"),
            folder,
            table,
        }
    }
}

/// Number of parameters by part of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parts {
    /// Embeddings, and positions if they are learned.
    embeddings: usize,
    encoder: usize,
    decoder: usize,
    generator: usize,
}

impl Parts {
    fn of(model: &Transformer) -> Self {
        Self::of_shapes(&weights::shapes(model))
    }

    fn of_shapes(shapes: &BTreeMap<String, Vec<usize>>) -> Self {
        let mut parts = Self::default();
        for (name, shape) in shapes {
            let part = if name.contains("embedding") {
                &mut parts.embeddings
            } else if name.starts_with("encoder") {
                &mut parts.encoder
            } else if name.starts_with("decoder") {
                &mut parts.decoder
            } else {
                &mut parts.generator
            };
            *part += shape.iter().product::<usize>();
        }
        parts
    }

    fn total(&self) -> usize {
        self.embeddings + self.encoder + self.decoder + self.generator
    }
}

fn model_table(config: &RunConfig, parts: &Parts) -> Vec<String> {
    let model = &config.model;
    let d_model = model.d_model;
    let attention = format!("{} heads, d_ff {}", model.n_heads, model.d_ff);
    let norm = format!("{}-norm", model.norm_placement.name());
    let rows = [
        (
            "embeddings",
            None,
            parts.embeddings,
            format!(
                "vocabularies of {} and {}, {} positions",
                grouped(model.source_vocab_size),
                grouped(model.target_vocab_size),
                model.positions.name()
            ),
        ),
        (
            "encoder",
            Some(model.n_encoder_layers),
            parts.encoder,
            format!("d_model {d_model}, {attention}, {norm}"),
        ),
        (
            "decoder",
            Some(model.n_decoder_layers),
            parts.decoder,
            format!("{}, dropout {}", model.activation.name(), model.dropout),
        ),
        (
            "generator",
            None,
            parts.generator,
            format!("weight tying: {}", model.weight_tying.name()),
        ),
        ("total", None, parts.total(), String::new()),
    ];
    let mut lines = vec!["model     layers   parameters".to_string()];
    lines.extend(rows.into_iter().map(|(name, layers, parameters, detail)| {
        let layers = layers.map_or(String::new(), |layers: usize| layers.to_string());
        let parameters = grouped(parameters);
        format!("{name:<10}{layers:>6}{parameters:>13}  {detail}")
            .trim_end()
            .into()
    }));
    lines
}

/// Describes the memory that the parameters take, whatever the batch.
fn memory(config: &RunConfig, parameters: usize) -> String {
    let single = 4 * parameters;
    let mut items = vec![
        (single, "parameters"),
        (single, "gradients"),
        (2 * single, "optimizer"),
    ];
    if config.optimization.ema.is_some() {
        items.push((single, "moving average"));
    }
    if config.execution.precision != Precision::F32 {
        let name = config.execution.precision.name();
        items.push((2 * parameters, name));
    }
    let total: usize = items.iter().map(|(size, _)| size).sum();
    let items: Vec<String> = items
        .into_iter()
        .map(|(size, name)| format!("{name} {}", bytes(size)))
        .collect();
    format!("{} = {} and activations", items.join(" + "), bytes(total))
}

fn data(config: &RunConfig, dataset: &dyn Dataset) -> String {
    let (evaluation, optimization) = (&config.evaluation, &config.optimization);
    let examples = match dataset.batches_per_epoch() {
        Some(batches) => format!("{} batches an epoch", grouped(batches)),
        None => format!("new sequences in batches of {}", optimization.batch_size),
    };
    let limits = dataset.limits();
    format!(
        "{examples}, of up to {} tokens; {} for validation, {} for the test",
        limits.sequence,
        grouped(evaluation.validation_size),
        grouped(evaluation.test_size)
    )
}

fn device(config: &RunConfig) -> String {
    let execution = &config.execution;
    let threads = rayon::current_num_threads();
    let (backend, precision) = (&execution.backend, execution.precision.name());
    format!("{backend}, {precision}, {threads} threads")
}
