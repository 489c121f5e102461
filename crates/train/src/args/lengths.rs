//! Settings of an evaluation by length.

use training::config::{LengthsConfig, RunConfig};
use training::data::{Dataset, Split};
use training::error::UsageError;
use training::evaluation::{ByLength, LengthSettings, lengthened};
use transformer::generate::{GenerateConfig, Method};

use super::search::check_generation;

/// Returns the settings of an evaluation by length on `split`. Checks that the decoder cache fits
/// into memory.
///
/// # Errors
///
/// A data set that is not a synthetic task, a search that is not valid, or one that needs too much
/// memory.
pub fn length_settings(
    asked: &LengthsConfig,
    run: &RunConfig,
    dataset: &dyn Dataset,
    split: Split,
    method: Method,
    batch_size: Option<usize>,
) -> Result<LengthSettings, UsageError> {
    let task = ByLength::task_of(dataset)?;
    let model = lengthened(&run.model, task, &asked.lengths);
    let vocabularies = dataset.codec().vocabularies();
    let longest = GenerateConfig::new(model.max_len)
        .with_bos_id(Some(vocabularies.bos_id))
        .with_eos_id(vocabularies.eos_id)
        .with_method(method);
    let rows = batch_size.unwrap_or(1).min(asked.sequences);
    check_generation(&longest, &model, rows)?;
    Ok(LengthSettings {
        seed: run.seed,
        split,
        sequences: asked.sequences,
        method,
        batch_size,
    })
}
