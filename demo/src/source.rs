//! The output and the attention weights of a model for a source that the user typed.

use anyhow::{Result, bail};
use burn::tensor::{Device, Int, Tensor};
use serde::Serialize;
use training::config::RunConfig;
use training::data::synthetic::{Rule, examples_of_length};
use training::data::{DataConfig, Dataset, Split};
use training::evaluation::generate_config;
use transformer::generate::Method;
use transformer::inspect::Inspection;
use transformer::{Transformer, pad_sequences};

use crate::maps::Maps;

/// A token of an output, compared with the correct token at its position.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Compared {
    /// The token that the model wrote; empty if the output is too short.
    pub text: String,
    /// The correct token; empty if the output is too long, `None` for tasks other than copy,
    /// reverse and sort.
    pub correct: Option<String>,
}

/// A source, the output of a model for it, and the attention weights of every layer.
#[derive(Debug, Serialize)]
pub struct Look {
    /// Tokens of the source.
    pub source: Vec<String>,
    /// Tokens that the decoder read, one for each row of its attention: the begin symbol and the
    /// output.
    pub read: Vec<String>,
    /// Tokens that the decoder wrote: the output and, if it is finished, the end symbol.
    ///
    /// Token `i` was written at row `i` of the decoder's attention.
    pub written: Vec<String>,
    /// The output compared with the correct one.
    pub compared: Vec<Compared>,
    /// Attention weights of every layer and head.
    pub maps: Maps,
}

impl Look {
    /// Decodes a source greedily.
    ///
    /// # Errors
    ///
    /// If a word of the source is not a symbol, the source is empty or too long, or the model
    /// computes logits that are not finite.
    pub fn of(
        model: &Transformer,
        config: &RunConfig,
        dataset: &dyn Dataset,
        text: &str,
    ) -> Result<Self> {
        let source = encode(dataset, text)?;
        let mut generate = generate_config(dataset, &[], Method::Greedy);
        generate.length_limit = None;
        generate.max_length = dataset.limits().target - 1;
        let mut found = model.generate(&[&source], &generate)?;
        let best = found.remove(0).remove(0);
        let inspection = inspect(model, dataset, &source, &best.tokens);
        let codec = dataset.codec();
        let name = |&id: &u32| codec.target_label(id);
        let vocabularies = codec.vocabularies();
        let end = best.end_id;
        let output: Vec<String> = best.tokens.iter().map(name).collect();
        let correct = correct(config, &source);
        let correct: Option<Vec<String>> = correct.map(|ids| ids.iter().map(name).collect());
        let length = output.len().max(correct.as_ref().map_or(0, Vec::len));
        let at = |all: &[String], i: usize| all.get(i).cloned().unwrap_or_default();
        let compared = (0..length).map(|i| Compared {
            text: at(&output, i),
            correct: correct.as_ref().map(|correct| at(correct, i)),
        });
        Ok(Self {
            source: source.iter().map(|&id| codec.source_label(id)).collect(),
            read: std::iter::once(&vocabularies.bos_id)
                .chain(&best.tokens)
                .map(name)
                .collect(),
            written: best.tokens.iter().chain(&end).map(name).collect(),
            compared: compared.collect(),
            maps: Maps::of(&inspection),
        })
    }
}

/// Returns the token ids of a source.
///
/// # Errors
///
/// If a word is not a symbol, or the source is empty or too long.
pub fn encode(dataset: &dyn Dataset, text: &str) -> Result<Vec<u32>> {
    let source = dataset.source(text).map_err(anyhow::Error::msg)?;
    // A source may be as long as the longest source of the task. For an addition, this one has two
    // numbers and the sign between them.
    let longest = dataset.synthetic().and_then(|task| {
        let length = *task.lengths().end();
        examples_of_length(task, 0, Split::Train, length, 1).pop()
    });
    let limit = dataset.limits().source;
    let most = longest.map_or(limit, |example| example.source.len());
    if source.is_empty() {
        bail!("type at least one symbol");
    }
    if source.len() > most {
        bail!(
            "the source has {} symbols, but the model has learned at most {most}",
            source.len()
        );
    }
    Ok(source)
}

/// Runs a model on a source and a target, which has no begin or end symbol.
pub fn inspect(
    model: &Transformer,
    dataset: &dyn Dataset,
    source: &[u32],
    target: &[u32],
) -> Inspection {
    let device = device();
    let vocabularies = dataset.codec().vocabularies();
    let read: Vec<u32> = std::iter::once(vocabularies.bos_id)
        .chain(target.iter().copied())
        .collect();
    let tensor = |ids: &[u32]| -> Tensor<2, Int> { pad_sequences(&[ids], 0, &device) };
    model.inspect(tensor(source), None, tensor(&read))
}

/// Returns the device that everything is computed on.
pub fn device() -> Device {
    Device::flex()
}

/// Returns the correct output for a source; `None` for tasks other than copy, reverse and sort.
fn correct(config: &RunConfig, source: &[u32]) -> Option<Vec<u32>> {
    let rule = match config.data {
        DataConfig::Copy(_) => Rule::Copy,
        DataConfig::Reverse(_) => Rule::Reverse,
        DataConfig::Sort(_) => Rule::Sort,
        _ => return None,
    };
    Some(rule.apply(source))
}
