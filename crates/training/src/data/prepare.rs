//! Makes the data set that a run's configuration names.

use std::path::Path;

use anyhow::{Context, Result};

use super::parallel::dataset::ParallelDataset;
use super::parallel::prepare::name_file;
use super::{DataConfig, Dataset};

/// Purpose for which a data set is prepared.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// A new run.
    NewRun {
        /// Default folder of cached tokenisers and tokenised corpora; the setting `data.cache`
        /// overrides it.
        caches: &'a Path,
        /// Maximum number of examples for validation.
        eval_size: usize,
    },
    /// A run that is resumed.
    Resume {
        /// The run's folder.
        run: &'a Path,
        /// Default folder of cached tokenisers and tokenised corpora; the setting `data.cache`
        /// overrides it.
        caches: &'a Path,
        /// Maximum number of examples for validation.
        eval_size: usize,
    },
    /// Inference with a trained model. A data set of texts then has no training batches.
    Inference {
        /// The run's folder.
        run: &'a Path,
    },
}

/// Prepares the data set that `config` names. For a new run on texts, makes the paths of corpora,
/// tokeniser files and caches in `config` absolute, and adds the hashes of tokenisers and corpora.
///
/// ```
/// use training::data::{DataConfig, Purpose, Split, prepare};
///
/// let mut config: DataConfig = serde_json::from_str(r#"{"task": "add", "max_digits": 3}"#)?;
/// let caches = std::env::temp_dir(); // only for text
/// let purpose = Purpose::NewRun { caches: &caches, eval_size: 100 };
/// let dataset = prepare(&mut config, purpose)?;
/// let examples = dataset.held_out(0, Split::Test, 100);
/// assert_eq!(examples.len(), 100);
/// # Ok::<(), anyhow::Error>(())
/// ```
///
/// # Errors
///
/// If a setting is wrong, the data set belongs to another program, a corpus or tokeniser cannot be
/// used, a corpus has changed since the run began, a resumed run was imported and has no corpora,
/// or a folder cannot be written.
pub fn prepare(config: &mut DataConfig, purpose: Purpose<'_>) -> Result<Box<dyn Dataset>> {
    let DataConfig::Text(text) = config else {
        let dataset = config.check()?;
        return dataset.context("only text is read from files");
    };
    let dataset = match purpose {
        Purpose::NewRun { caches, eval_size } => {
            text.make_paths_absolute()?;
            let dataset = ParallelDataset::prepare(text, caches, eval_size);
            let dataset = dataset.map_err(|error| name_file(text, error))?;
            **text = dataset.config.clone();
            dataset
        }
        Purpose::Resume {
            run,
            caches,
            eval_size,
        } => {
            let mut dataset = ParallelDataset::open(run, text)?;
            let loaded = dataset.reload(caches, eval_size);
            loaded.map_err(|error| name_file(text, error))?;
            dataset
        }
        Purpose::Inference { run } => ParallelDataset::open(run, text)?,
    };
    Ok(Box::new(dataset))
}
