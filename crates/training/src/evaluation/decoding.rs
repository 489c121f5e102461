//! Free-running decoding: a model generates whole outputs, each token from the tokens generated
//! before it.

use burn::module::Module;
use transformer::Transformer;
use transformer::generate::{GenerateConfig, GenerateError, Method};

use super::batches::{ROWS, batches};
use crate::collective::Collective;
use crate::data::{Dataset, Decoded, Example};

/// Maximum number of hypotheses that are decoded together if no batch size is given, unless a
/// single source has more.
const TARGETS: usize = 1280;

/// Returns the settings of [`decode`] for examples of a data set and a decoding method.
///
/// Outputs may have as many tokens as the longest output of the examples. If targets have an end
/// symbol, one more token is allowed, so that an output without its end symbol counts as an error.
/// A data set that limits outputs by the lengths of their sources keeps its own limits instead. The
/// default generation settings of the data set apply, but `method` replaces their beam settings.
pub fn generate_config(
    dataset: &dyn Dataset,
    examples: &[Example],
    method: Method,
) -> GenerateConfig {
    let vocabularies = dataset.codec().vocabularies();
    let limits = dataset.limits();
    let has_eos = vocabularies.eos_id.is_some();
    let longest = examples.iter().map(|e| e.output(has_eos).len()).max();
    let mut config = dataset.search_config();
    config.max_length = match limits.output {
        None => longest.unwrap_or(0) + usize::from(has_eos),
        // The model may have no positions for more.
        Some(_) => config.max_length.min(limits.target - 1),
    };
    config.min_length = config.min_length.min(config.max_length);
    config.with_method(method)
}

/// Index of an example, and the best output for it.
type Output = (usize, Vec<u32>);

/// Decodes the sources of examples. Returns the best output of each source. Every output begins with
/// the data set's [`prefix`](transformer::generate::GenerateDefaults::prefix).
///
/// `batch_size` is the number of sources that are decoded together; `None` chooses the number by
/// the hypotheses per source. The processes of `group` divide the batches, and all of them get the
/// outputs.
///
/// # Errors
///
/// If a source or a setting does not fit the model, or if the logits are not finite.
pub fn decode(
    model: &Transformer,
    dataset: &dyn Dataset,
    examples: &[Example],
    batch_size: Option<usize>,
    config: &GenerateConfig,
    group: &dyn Collective,
) -> Result<Vec<Vec<u32>>, GenerateError> {
    let model = model.valid();
    let vocab_size = dataset.codec().vocabularies().target_size;
    let size = batch_size.unwrap_or((TARGETS / config.rows_per_source()).clamp(1, ROWS));
    let prefix = dataset.search().prefix;
    let decode = |indices: &[usize]| -> Result<Vec<Output>, GenerateError> {
        let sources = Vec::from_iter(indices.iter().map(|&index| &examples[index].source[..]));
        let outputs = model.complete(&sources, &vec![&prefix[..]; sources.len()], config)?;
        let best = outputs.into_iter().map(|mut all| all.remove(0).tokens);
        Ok(indices.iter().copied().zip(best).collect())
    };
    // The outputs of this process, and the batches whose decoding returned an error.
    let (mut decoded, mut failed) = (Vec::new(), Vec::new());
    for indices in batches(examples, vocab_size, Some(size), group) {
        match decode(&indices) {
            Ok(outputs) => decoded.extend(outputs),
            Err(_) => failed.push(indices),
        }
    }
    let mut outputs = vec![Vec::new(); examples.len()];
    for (mut decoded, failed) in group.gather_values(&(decoded, failed)) {
        // A batch that failed in any process is decoded again, so that all return the same error.
        for indices in failed {
            decoded.extend(decode(&indices)?);
        }
        for (index, output) in decoded {
            outputs[index] = output;
        }
    }
    Ok(outputs)
}

/// Returns the outputs for the first examples of a split, and whether the data set accepts them.
pub fn judge(dataset: &dyn Dataset, examples: &[Example], outputs: Vec<Vec<u32>>) -> Vec<Decoded> {
    let outputs = examples.iter().zip(outputs).enumerate();
    let judged = outputs.map(|(index, (example, output))| Decoded {
        is_exact: dataset.accepts(index, example, &output),
        example: example.clone(),
        output,
    });
    judged.collect()
}

/// Decodes the sources of the first examples of a split greedily. Returns each output, and whether
/// the data set accepts it. The processes of `group` divide the work, as in [`decode`].
///
/// # Errors
///
/// The same as those of [`decode`].
pub fn decode_greedily(
    model: &Transformer,
    dataset: &dyn Dataset,
    examples: &[Example],
    group: &dyn Collective,
) -> Result<Vec<Decoded>, GenerateError> {
    let config = generate_config(dataset, examples, Method::Greedy);
    let outputs = decode(model, dataset, examples, None, &config, group)?;
    Ok(judge(dataset, examples, outputs))
}

/// Returns the fraction of outputs that the data set accepts as correct; NaN without any output.
pub fn exact_match(decoded: &[Decoded]) -> f64 {
    decoded.iter().filter(|d| d.is_exact).count() as f64 / decoded.len() as f64
}
