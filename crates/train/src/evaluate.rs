//! How well a model does on examples that it has not seen.

use burn::module::Module;
use burn::tensor::{Device, ElementConversion};
use serde::Serialize;
use transformer::generate::{GenerateConfig, Method};
use transformer::{CrossEntropy, Transformer};

use crate::batch::Batch;
use crate::metric::{BleuCounts, ChrfCounts, Tokenizer};
use crate::task::{Example, Task, expected};

/// Loss of the next token, given the right ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TeacherForced {
    /// Mean cross-entropy a token, in nats, without label smoothing.
    pub loss: f64,
    /// Share of tokens for which the likeliest one is right.
    pub token_accuracy: f64,
    /// Number of them.
    pub tokens: usize,
}

/// A model's own decoding of one example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// The example.
    pub example: Example,
    /// What the model made of its source.
    pub output: Vec<u32>,
    /// Whether the task calls that right.
    pub is_exact: bool,
}

/// Numbers in the logits of one forward pass of an evaluation, unless somebody says otherwise: 64
/// MiB of them.
const LOGITS: usize = 1 << 24;

/// Targets under way at a time, unless somebody says otherwise.
const TARGETS: usize = 1280;

/// Most sequences of one forward pass, unless somebody says otherwise.
const ROWS: usize = 250;

/// The examples by their places, in batches of like lengths: of `size` sequences, or as many as are
/// quick.
fn batches(task: &dyn Task, examples: &[Example], size: Option<usize>) -> Vec<Vec<usize>> {
    let length = |example: &Example| example.source.len().max(example.target.len());
    let mut places: Vec<usize> = (0..examples.len()).collect();
    places.sort_by_key(|&place| (length(&examples[place]), examples[place].source.len()));
    let mut batches: Vec<Vec<usize>> = Vec::new();
    for place in places {
        let row = length(&examples[place]) * task.target_vocab_size();
        let most = size.unwrap_or((LOGITS / row).clamp(1, ROWS));
        match batches.last_mut() {
            Some(batch) if batch.len() < most => batch.push(place),
            _ => batches.push(vec![place]),
        }
    }
    batches
}

/// Scores the right targets, `size` sequences at a time, or as many as are quick.
pub fn teacher_forced(
    model: &Transformer,
    task: &dyn Task,
    examples: &[Example],
    size: Option<usize>,
    device: &Device,
) -> TeacherForced {
    let device = device.clone().without_autodiff();
    let model = model.valid();
    let criterion = CrossEntropy::new(0.0, task.pad_id()).expect("0 is a smoothing");
    let (mut loss, mut right, mut tokens) = (0.0, 0, 0);
    for places in batches(task, examples, size) {
        let chunk: Vec<&Example> = places.iter().map(|&place| &examples[place]).collect();
        let batch = Batch::new(&chunk, task.pad_id(), &device);
        let logits = model.forward(batch.source, batch.target);
        let [rows, length, _] = logits.dims();
        let best = logits.clone().argmax(2).reshape([rows, length]);
        let is_real = batch.right.clone().not_equal_elem(task.pad_id());
        let is_right = best.equal(batch.right.clone()).bool_and(is_real);
        right += is_right.int().sum().into_scalar::<i64>();
        loss += criterion
            .sum(logits, batch.right)
            .sum
            .into_scalar::<f32>()
            .elem::<f64>();
        tokens += batch.tokens;
    }
    TeacherForced {
        loss: loss / tokens as f64,
        token_accuracy: right as f64 / tokens as f64,
        tokens,
    }
}

/// What [`decode`] asks of a model: room for one token more than the longest target, so that a
/// target that goes on is seen to; or what the task allows by the source.
pub fn decoding(task: &dyn Task, examples: &[Example], method: Method) -> GenerateConfig {
    let longest = examples.iter().map(|e| expected(task, e).len()).max();
    let max_length = match task.length_limit() {
        None => longest.unwrap_or(0) + usize::from(task.eos_id().is_some()),
        Some(_) => task.max_len() - 1,
    };
    GenerateConfig::new(task.bos_id(), max_length)
        .with_eos_id(task.eos_id())
        .with_method(method)
        .with_length_limit(task.length_limit())
}

/// Decodes the sources and compares, `size` sequences at a time, or as many as are quick.
///
/// # Panics
///
/// If the model cannot take the sources or the generation.
pub fn decode(
    model: &Transformer,
    task: &dyn Task,
    examples: &[Example],
    size: Option<usize>,
    config: &GenerateConfig,
) -> Vec<Decoded> {
    let model = model.valid();
    let mut decoded = vec![None; examples.len()];
    let size = size.unwrap_or((TARGETS / config.rows_per_source()).clamp(1, ROWS));
    for places in batches(task, examples, Some(size)) {
        let sources: Vec<&[u32]> = places
            .iter()
            .map(|&place| &examples[place].source[..])
            .collect();
        let outputs = model
            .generate(&sources, config)
            .expect("a task suits its model");
        for (place, mut found) in places.into_iter().zip(outputs) {
            let output = found.remove(0).tokens;
            let example = examples[place].clone();
            decoded[place] = Some(Decoded {
                is_exact: task.is_right(&example, &output),
                example,
                output,
            });
        }
    }
    let decoded = decoded.into_iter();
    decoded
        .map(|one| one.expect("each has its place"))
        .collect()
}

/// Decodes the sources greedily and compares.
pub fn decode_greedily(model: &Transformer, task: &dyn Task, examples: &[Example]) -> Vec<Decoded> {
    let config = decoding(task, examples, Method::Greedy);
    decode(model, task, examples, None, &config)
}

/// Scores of texts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TextScores {
    /// BLEU, from 0 to 100.
    pub bleu: f64,
    /// chrF, from 0 to 100.
    pub chrf: f64,
}

/// How good texts are, against the references; `decoded` begins with the first of those that are held
/// out. None where targets are no texts.
pub fn text_scores(task: &dyn Task, decoded: &[Decoded]) -> Option<TextScores> {
    if !task.is_text() {
        return None;
    }
    let mut bleu = BleuCounts::default();
    let mut chrf = ChrfCounts::default();
    for (place, decoded) in decoded.iter().enumerate() {
        let Decoded {
            example, output, ..
        } = decoded;
        let (hypothesis, reference) = (task.show(output), task.reference(place, example));
        bleu.add(&hypothesis, &reference, Tokenizer::default());
        chrf.add(&hypothesis, &reference);
    }
    Some(TextScores {
        bleu: bleu.score().score,
        chrf: chrf.score(),
    })
}

/// Share of the decoded sequences that are just right.
pub fn exact_match(decoded: &[Decoded]) -> f64 {
    decoded.iter().filter(|d| d.is_exact).count() as f64 / decoded.len() as f64
}
