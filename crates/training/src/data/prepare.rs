//! Makes the data set that a run's configuration names.

use std::path::Path;

use anyhow::{Context, Result};

use super::parallel::dataset::ParallelDataset;
use super::{DataConfig, Dataset};
use crate::error::UsageError;

/// Prepares the data set of a new run. For texts, makes the paths of corpora, tokeniser files and
/// caches in `config` absolute, and adds the hashes of tokenisers and corpora. `caches` is the
/// default folder of cached tokenisers and tokenised corpora, and `eval_size` the maximum number of
/// examples for validation.
///
/// ```
/// use training::data::{DataConfig, Split, prepare};
///
/// let mut config: DataConfig = serde_json::from_str(r#"{"task": "add", "max_digits": 3}"#)?;
/// let caches = std::env::temp_dir(); // only for text
/// let dataset = prepare(&mut config, &caches, 100)?;
/// let examples = dataset.held_out(0, Split::Test, 100);
/// assert_eq!(examples.len(), 100);
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
///
/// If a setting is wrong, the data set belongs to another program, a corpus or tokeniser cannot be
/// used, or a folder cannot be written.
pub fn prepare(
    config: &mut DataConfig,
    caches: &Path,
    eval_size: usize,
) -> Result<Box<dyn Dataset>> {
    let DataConfig::Text(text) = config else {
        return synthetic(config);
    };
    text.resolve_files()?;
    let dataset = ParallelDataset::prepare(text, caches, eval_size);
    let dataset = dataset.map_err(|error| text.name_file(error))?;
    **text = dataset.config.clone();
    Ok(Box::new(dataset))
}

/// Prepares the data set of a run that is resumed, in the folder `run`; see [`prepare`]. Adds the
/// hashes of the corpora to those of an imported run, which had none before.
///
/// # Errors
///
/// In the cases of [`prepare`], if a corpus has changed since the run began, or if the run was
/// imported and has no corpora.
pub fn reload(
    config: &mut DataConfig,
    run: &Path,
    caches: &Path,
    eval_size: usize,
) -> Result<Box<dyn Dataset>> {
    let DataConfig::Text(text) = config else {
        return synthetic(config);
    };
    let mut dataset = ParallelDataset::open(run, text)?;
    if !text.has_corpora() {
        let what = "was imported, and has no corpora to train on: name one with --train";
        return Err(UsageError::argument("run", run.display(), what).into());
    }
    let loaded = dataset.reload(caches, eval_size);
    loaded.map_err(|error| text.name_file(error))?;
    text.data.clone_from(&dataset.config.data);
    Ok(Box::new(dataset))
}

/// Opens the data set of the run in the folder `run` for inference. A data set of texts then has no
/// training batches.
///
/// # Errors
///
/// If the data set belongs to another program, or a tokeniser cannot be used.
pub fn open(config: &DataConfig, run: &Path) -> Result<Box<dyn Dataset>> {
    let DataConfig::Text(text) = config else {
        return synthetic(config);
    };
    Ok(Box::new(ParallelDataset::open(run, text)?))
}

fn synthetic(config: &DataConfig) -> Result<Box<dyn Dataset>> {
    let dataset = config.check()?;
    dataset.context("only text is read from files")
}
