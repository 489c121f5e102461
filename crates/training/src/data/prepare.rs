//! Makes the data set that a configuration names.

use std::path::Path;

use anyhow::{Context, Result};

use super::parallel::dataset::ParallelDataset;
use super::{DataConfig, Dataset};

/// Purpose that a data set is prepared for.
#[derive(Clone, Copy, Debug)]
pub enum Purpose<'a> {
    /// A new run.
    NewRun {
        /// Folder of tokenised corpora, unless the settings name another.
        caches: &'a Path,
        /// Maximum number of examples for validation.
        eval_size: usize,
    },
    /// A run that is resumed.
    Resume {
        /// The run's folder.
        run: &'a Path,
        /// Folder of tokenised corpora, unless the settings name another.
        caches: &'a Path,
        /// Maximum number of examples for validation.
        eval_size: usize,
    },
    /// The use of a trained model; the data set of text has no examples then.
    Inference {
        /// The run's folder.
        run: &'a Path,
    },
}

/// Prepares the data set that `config` names. For a new run on text, makes paths in `config`
/// absolute and adds the hashes of tokenisers and corpora.
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
/// A wrong setting, corpora or tokenisers that cannot be used, corpora that have changed since the
/// run began, or a folder that cannot be written.
pub fn prepare(config: &mut DataConfig, purpose: Purpose<'_>) -> Result<Box<dyn Dataset>> {
    let DataConfig::Text(text) = config else {
        let dataset = config.check()?;
        return dataset.context("only text is read from files");
    };
    let dataset = match purpose {
        Purpose::NewRun { caches, eval_size } => {
            text.make_paths_absolute()?;
            let dataset = ParallelDataset::prepare(text, caches, eval_size)?;
            **text = dataset.config.clone();
            dataset
        }
        Purpose::Resume {
            run,
            caches,
            eval_size,
        } => {
            let mut dataset = ParallelDataset::open(run, text)?;
            dataset.reload(caches, eval_size)?;
            dataset
        }
        Purpose::Inference { run } => ParallelDataset::open(run, text)?,
    };
    Ok(Box::new(dataset))
}
