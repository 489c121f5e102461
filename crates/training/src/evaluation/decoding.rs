//! Free-running decoding: a model generates whole outputs, each token from the tokens generated
//! before it.

use transformer::generate::{GenerateConfig, GenerateError, Method};

use super::batches::{ROWS, batches};
use crate::data::{Dataset, Decoded, Example};
use crate::model::SequenceModel;

/// Maximum number of hypotheses that are decoded together if no batch size is given.
const TARGETS: usize = 1280;

/// Returns the settings of [`decode`] for examples of a data set and a decoding method.
///
/// Outputs may have as many tokens as the longest output of the examples. If targets have an end
/// symbol, one more token is allowed, so that an output without its end symbol counts as an error.
/// If the data set limits outputs by the lengths of their sources, that limit applies instead.
pub fn generate_config(
    dataset: &dyn Dataset,
    examples: &[Example],
    method: Method,
) -> GenerateConfig {
    let vocabularies = dataset.codec().vocabularies();
    let limits = dataset.limits();
    let has_eos = vocabularies.eos_id.is_some();
    let longest = examples.iter().map(|e| e.output(has_eos).len()).max();
    let max_length = match limits.output {
        None => longest.unwrap_or(0) + usize::from(has_eos),
        Some(_) => limits.target - 1,
    };
    GenerateConfig::new(vocabularies.bos_id, max_length)
        .with_eos_id(vocabularies.eos_id)
        .with_method(method)
        .with_length_limit(limits.output)
}

/// Decodes the sources of examples. Returns the best output of each source, and whether the data
/// set accepts it.
///
/// `batch_size` is the number of sources that are decoded together; `None` chooses the number by
/// the hypotheses per source.
///
/// # Errors
///
/// If a source or a setting does not fit the model, or if the logits are not finite.
pub fn decode<M: SequenceModel>(
    model: &M,
    dataset: &dyn Dataset,
    examples: &[Example],
    batch_size: Option<usize>,
    config: &GenerateConfig,
) -> Result<Vec<Decoded>, GenerateError> {
    let model = model.valid();
    let (scorer, vocab_size) = (dataset.scorer(), dataset.codec().vocabularies().target_size);
    let mut decoded = vec![None; examples.len()];
    let size = batch_size.unwrap_or((TARGETS / config.rows_per_source()).clamp(1, ROWS));
    for indices in batches(examples, vocab_size, Some(size)) {
        let sources = indices.iter().map(|&index| &examples[index].source[..]);
        let outputs = model.generate(&sources.collect::<Vec<_>>(), config)?;
        for (index, mut hypotheses) in indices.into_iter().zip(outputs) {
            let output = hypotheses.remove(0).tokens;
            let example = examples[index].clone();
            decoded[index] = Some(Decoded {
                is_exact: scorer.accepts(&example, &output),
                example,
                output,
            });
        }
    }
    let decoded: Option<Vec<Decoded>> = decoded.into_iter().collect();
    Ok(decoded.expect("every example is in a batch"))
}

/// Decodes the sources of examples greedily. Returns each output, and whether the data set accepts
/// it.
///
/// # Errors
///
/// If a source does not fit the model, or if the logits are not finite.
pub fn decode_greedily<M: SequenceModel>(
    model: &M,
    dataset: &dyn Dataset,
    examples: &[Example],
) -> Result<Vec<Decoded>, GenerateError> {
    let config = generate_config(dataset, examples, Method::Greedy);
    decode(model, dataset, examples, None, &config)
}

/// Returns the fraction of outputs that the data set accepts as correct.
pub fn exact_match(decoded: &[Decoded]) -> f64 {
    decoded.iter().filter(|d| d.is_exact).count() as f64 / decoded.len() as f64
}
