//! Describes a run before it begins: its model, data and device.

use std::collections::BTreeMap;
use std::path::Path;

use training::config::RunConfig;
use training::data::{DataConfig, Dataset, Split};
use training::lora::trained_parameters;
use training::run::loss_floor;
use transformer::{Choice, Transformer, weights};

use crate::number::{bytes, grouped};

/// Description of a run before it begins.
#[derive(Clone, Debug)]
pub struct About {
    pub(super) task: String,
    pub(super) backend: String,
    pub(super) parameters: usize,
    pub(super) folder: String,
    /// The smallest possible training loss, see [`loss_floor`].
    pub floor: f64,
    /// Lines of a table that describes the model, the data and the device.
    pub(super) table: Vec<String>,
}

impl About {
    /// Describes the run of `config`, which `processes` processes train.
    ///
    /// The settings that follow from `dataset`, such as vocabulary sizes, must already have their
    /// final values in `config`.
    pub fn new(
        config: &RunConfig,
        dataset: &dyn Dataset,
        model: &Transformer,
        folder: &Path,
        processes: usize,
    ) -> Self {
        let shapes = weights::shapes(model);
        let parts = Parts::of_shapes(&shapes);
        let trained = trained_parameters(&shapes, config.optimization.lora.is_some());
        let folder = folder.display().to_string();
        let mut table = model_table(config, &parts, trained);
        let rest = [
            ("data", data(config, dataset)),
            ("device", device(config, processes, trained)),
        ];
        for (name, lines) in rest {
            for (index, line) in lines.into_iter().enumerate() {
                let name = if index == 0 { name } else { "" };
                table.push(format!("{name:<10}{line}"));
            }
        }
        Self {
            task: config.data.name().into(),
            backend: config.execution.backend.clone(),
            parameters: parts.total(),
            floor: loss_floor(
                config.optimization.label_smoothing,
                config.model.target_vocab_size,
            ),
            folder,
            table,
        }
    }
}

/// Number of parameters in each part of the model.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Parts {
    /// Embeddings, their layer norms, and positional encodings if they are learned.
    embeddings: usize,
    encoder: usize,
    decoder: usize,
    generator: usize,
}

impl Parts {
    fn of_shapes(shapes: &BTreeMap<String, Vec<usize>>) -> Self {
        let mut parts = Self::default();
        for (name, shape) in shapes {
            let part = if name.contains(".input.") {
                &mut parts.embeddings
            } else if name.contains(".generator.") {
                &mut parts.generator
            } else if name.starts_with("encoder.") {
                &mut parts.encoder
            } else {
                &mut parts.decoder
            };
            *part += shape.iter().product::<usize>();
        }
        parts
    }

    fn total(&self) -> usize {
        self.embeddings + self.encoder + self.decoder + self.generator
    }
}

fn model_table(config: &RunConfig, parts: &Parts, trained: usize) -> Vec<String> {
    let model = &config.model;
    let d_model = model.d_model;
    let attention = format!("{} heads, d_ff {}", model.n_heads, model.d_ff);
    let norm = format!("{}-norm", model.norm_placement.name());
    let of_trained = match &config.optimization.lora {
        None => String::new(),
        Some(lora) => format!(
            "of which {} are trained, with rank {}",
            grouped(trained),
            lora.rank
        ),
    };
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
        ("total", None, parts.total(), of_trained),
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

fn data(config: &RunConfig, dataset: &dyn Dataset) -> Vec<String> {
    let evaluation = &config.evaluation;
    let longest = dataset.limits().sequence();
    let examples = match dataset.batches_per_epoch() {
        Some(batches) => format!(
            "{} batches an epoch, sequences of up to {longest} tokens",
            grouped(batches)
        ),
        None => format!(
            "new sequences of up to {longest} tokens in batches of {}",
            config.optimization.batch_size
        ),
    };
    let held_out = match config.data {
        DataConfig::Text(_) => {
            // A corpus may have fewer pairs than `validation_size`.
            let most = evaluation.validation_size;
            let pairs = dataset.held_out(config.seed, Split::Validation, most).len();
            let unit = if pairs == 1 { "pair" } else { "pairs" };
            format!("{} {unit} for validation, no test split", grouped(pairs))
        }
        _ => {
            let validation = grouped(evaluation.validation_size);
            let test = grouped(evaluation.test_size);
            format!("held out: {validation} for validation, {test} for the test")
        }
    };
    vec![examples, held_out]
}

fn device(config: &RunConfig, processes: usize, trained: usize) -> Vec<String> {
    let execution = &config.execution;
    let threads = rayon::current_num_threads();
    let (backend, precision) = (&execution.backend, execution.precision.name());
    let unit = if threads == 1 { "thread" } else { "threads" };
    let mut lines = vec![format!("{backend}, {precision}, {threads} {unit}")];
    if processes > 1 {
        let sent = bytes(trained * size_of::<f32>());
        lines.push(format!(
            "{processes} processes with a share of each batch; {sent} of gradients a step"
        ));
    }
    lines
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;

    #[test]
    fn a_run_is_described_in_few_lines() {
        let mut config = RunConfig::copy();
        config.execution.backend = "flex".into();
        let dataset = config.check().unwrap().unwrap();
        let model = config.model.init_seeded(0, &Device::flex()).unwrap();
        let folder = Path::new("runs/copy-1");
        let about = About::new(&config, dataset.as_ref(), &model, folder, 1);
        assert_eq!(about.parameters, 123_940);
        assert!(about.table.len() <= 12, "{:#?}", about.table);
        assert!(
            about.table.iter().all(|line| line.len() <= 80),
            "{:#?}",
            about.table
        );
        let row = |name: &str| {
            let line = about.table.iter().find(|line| line.starts_with(name));
            line.unwrap_or_else(|| panic!("no {name}")).clone()
        };
        assert!(row("total").ends_with(" 123,940"));
        assert!(row("encoder").contains("d_model 64, 2 heads, d_ff 256, pre-norm"));
        assert!(row("device").starts_with("device    flex, f32, "));
    }

    #[test]
    fn every_parameter_belongs_to_one_part() {
        let mut run = RunConfig::sort();
        run.check().unwrap();
        let config = run.model;
        let model = config.init_seeded(0, &Device::flex()).unwrap();
        let shapes = weights::shapes(&model);
        let parts = Parts::of_shapes(&shapes);
        let elements = |shape: &Vec<usize>| shape.iter().product::<usize>();
        assert_eq!(parts.total(), shapes.values().map(elements).sum::<usize>());
        let d_model = config.d_model;
        let generator = d_model * config.target_vocab_size + config.target_vocab_size;
        assert_eq!(parts.generator, generator);
        let rows = config.source_vocab_size + config.target_vocab_size + 2 * config.max_len;
        assert_eq!(parts.embeddings, rows * d_model);
        assert!(parts.encoder < parts.decoder);
    }
}
