//! Describes a run before it begins: its model, data and device.

use std::collections::BTreeMap;
use std::path::Path;

use training::config::RunConfig;
use training::data::{DataConfig, Dataset, Split};
use training::lora::trained_parameters;
use transformer::{Choice, Transformer, weights};

use super::table::Table;
use crate::number::{bytes, counted, grouped};

/// Description of a run before it begins.
#[derive(Clone, Debug, Default)]
pub struct About {
    /// The task and the backend.
    pub(super) title: String,
    pub(super) parameters: usize,
    pub(super) folder: String,
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
        Self {
            title: format!("{} on {}", config.data.name(), config.execution.backend),
            parameters: parameters_of_parts(&shapes).iter().sum(),
            folder: folder.display().to_string(),
            table: describe(config, dataset, &shapes, processes),
        }
    }
}

/// Returns the lines of a table that describes the model, the data and the device of a run.
pub fn describe(
    config: &RunConfig,
    dataset: &dyn Dataset,
    shapes: &BTreeMap<String, Vec<usize>>,
    processes: usize,
) -> Vec<String> {
    let model = &config.model;
    let trained = trained_parameters(shapes, config.optimization.lora.is_some());
    let [source, target] = [model.source_vocab_size, model.target_vocab_size].map(grouped);
    let (positions, norm) = (model.positions.name(), model.norm_placement.name());
    let (d_model, heads, d_ff) = (model.d_model, model.n_heads, model.d_ff);
    let (activation, dropout) = (model.activation.name(), model.dropout);
    let tying = model.weight_tying.name();
    let of_which = config.optimization.lora.as_ref().map(|lora| {
        let (trained, rank) = (grouped(trained), lora.rank);
        format!("with {trained} of LoRA of rank {rank}, which alone are trained")
    });
    let [embeddings, encoder, decoder, generator] = parameters_of_parts(shapes);
    let rows = [
        ("embeddings", None, embeddings),
        ("encoder", Some(model.n_encoder_layers), encoder),
        ("decoder", Some(model.n_decoder_layers), decoder),
        ("generator", None, generator),
        ("total", None, embeddings + encoder + decoder + generator),
    ];
    let details = [
        format!("vocabularies of {source} and {target}"),
        format!("d_model {d_model}, {heads} heads, d_ff {d_ff}, {norm}-norm"),
        format!("{activation}, dropout {dropout}, {positions} positions"),
        format!("weight tying: {tying}"),
        of_which.unwrap_or_default(),
    ];
    let mut table = Table::new(["model", "layers", "parameters", ""]).right([1, 2]);
    for ((name, layers, parameters), detail) in rows.into_iter().zip(details) {
        let layers = layers.map_or(String::new(), grouped);
        table.push(vec![name.into(), layers, grouped(parameters), detail]);
    }
    let mut lines = table.lines(None);
    let mut add = |name: &str, text: String| lines.push(format!("{name:<12}{text}"));
    let longest = dataset.limits().sequence();
    let batch = config.optimization.batch_size;
    let data = match dataset.batches_per_epoch().map(|n| counted(n, "batch")) {
        Some(batches) => format!("{batches} an epoch, sequences of up to {longest} tokens"),
        None => format!("new sequences of up to {longest} tokens in batches of {batch}"),
    };
    add("data", data);
    let evaluation = &config.evaluation;
    // There may be fewer examples than `validation_size` and `test_size`.
    let count = |split, most| dataset.held_out(config.seed, split, most).len();
    let validation = count(Split::Validation, evaluation.validation_size);
    let held_out = if let DataConfig::Text(_) = config.data {
        let pairs = counted(validation, "pair");
        format!("{pairs} for validation, no test split")
    } else {
        let [validation, test] =
            [validation, count(Split::Test, evaluation.test_size)].map(grouped);
        format!("held out: {validation} for validation, {test} for the test")
    };
    add("", held_out);
    let execution = &config.execution;
    let (backend, precision) = (&execution.backend, execution.precision.name());
    let threads = counted(rayon::current_num_threads(), "thread");
    add("device", format!("{backend}, {precision}, {threads}"));
    if processes > 1 {
        let sent = bytes(trained * size_of::<f32>());
        let text =
            format!("{processes} processes with a share of each batch; {sent} of gradients a step");
        add("", text);
    }
    lines
}

/// Returns the number of parameters in embeddings (with their norms and learned positions),
/// encoder, decoder and generator.
fn parameters_of_parts(shapes: &BTreeMap<String, Vec<usize>>) -> [usize; 4] {
    let mut parts = [0; 4];
    for (name, shape) in shapes {
        let marks = [(".input.", 0), (".generator.", 3), ("encoder.", 1)];
        let part = marks.into_iter().find(|(mark, _)| name.contains(mark));
        parts[part.map_or(2, |(_, part)| part)] += shape.iter().product::<usize>();
    }
    parts
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
        assert!(row("device").starts_with("device      flex, f32, "));
    }

    #[test]
    fn every_parameter_belongs_to_one_part() {
        let mut run = RunConfig::of_preset("sort").unwrap();
        run.check().unwrap();
        let config = run.model;
        let model = config.init_seeded(0, &Device::flex()).unwrap();
        let shapes = weights::shapes(&model);
        let [embeddings, encoder, decoder, generator] = parameters_of_parts(&shapes);
        let elements = |shape: &Vec<usize>| shape.iter().product::<usize>();
        let total: usize = shapes.values().map(elements).sum();
        assert_eq!(embeddings + encoder + decoder + generator, total);
        let d_model = config.d_model;
        assert_eq!(generator, (d_model + 1) * config.target_vocab_size);
        let rows = config.source_vocab_size + config.target_vocab_size + 2 * config.max_len;
        assert_eq!(embeddings, rows * d_model);
        assert!(encoder < decoder);
    }
}
