//! How well a model does on examples that it has not seen.

use burn::module::Module;
use burn::tensor::{Device, ElementConversion};
use serde::Serialize;
use transformer::generate::{GenerateConfig, Method};
use transformer::{CrossEntropy, Transformer};

use crate::batch::Batch;
use crate::task::{Example, Task, expected};

/// Loss of the next token, given the right ones before it.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TeacherForced {
    /// Mean cross-entropy a token, in nats, without label smoothing.
    pub loss: f64,
    /// Share of tokens for which the likeliest one is right.
    pub token_accuracy: f64,
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

/// Sequences in one forward pass of an evaluation, unless somebody says otherwise: as many as keep
/// its logits under 64 MiB.
pub fn default_batch_size(task: &dyn Task) -> usize {
    ((1 << 24) / (task.max_len() * task.vocab_size())).clamp(1, 250)
}

/// Scores the right targets.
pub fn teacher_forced(
    model: &Transformer,
    task: &dyn Task,
    examples: &[Example],
    batch_size: usize,
    device: &Device,
) -> TeacherForced {
    let device = device.clone().without_autodiff();
    let model = model.valid();
    let criterion = CrossEntropy::new(0.0, task.pad_id()).expect("0 is a smoothing");
    let (mut loss, mut right, mut tokens) = (0.0, 0, 0);
    for chunk in examples.chunks(batch_size) {
        let batch = Batch::new(chunk, task.pad_id(), &device);
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
    }
}

/// What [`decode`] asks of a model: room for one token more than the longest target, so that a
/// target that goes on is seen to.
pub fn decoding(task: &dyn Task, examples: &[Example], method: Method) -> GenerateConfig {
    let longest = examples.iter().map(|e| expected(task, e).len()).max();
    let max_length = longest.unwrap_or(0) + usize::from(task.eos_id().is_some());
    GenerateConfig::new(task.bos_id(), max_length)
        .with_eos_id(task.eos_id())
        .with_method(method)
}

/// Decodes the sources and compares.
///
/// # Panics
///
/// If the model cannot take the sources or the generation.
pub fn decode(
    model: &Transformer,
    task: &dyn Task,
    examples: &[Example],
    batch_size: usize,
    config: &GenerateConfig,
) -> Vec<Decoded> {
    let model = model.valid();
    let mut decoded = Vec::with_capacity(examples.len());
    for chunk in examples.chunks(batch_size) {
        let sources: Vec<&[u32]> = chunk.iter().map(|example| &example.source[..]).collect();
        let outputs = model
            .generate(&sources, config)
            .expect("a task suits its model");
        let outputs = outputs.into_iter().map(|mut found| found.remove(0).tokens);
        decoded.extend(chunk.iter().zip(outputs).map(|(example, output)| Decoded {
            is_exact: task.is_right(example, &output),
            example: example.clone(),
            output,
        }));
    }
    decoded
}

/// Decodes the sources greedily and compares.
pub fn decode_greedily(model: &Transformer, task: &dyn Task, examples: &[Example]) -> Vec<Decoded> {
    let config = decoding(task, examples, Method::Greedy);
    decode(model, task, examples, default_batch_size(task), &config)
}

/// Share of the decoded sequences that are just right.
pub fn exact_match(decoded: &[Decoded]) -> f64 {
    decoded.iter().filter(|d| d.is_exact).count() as f64 / decoded.len() as f64
}
