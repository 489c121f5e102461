//! Opens pretrained models in Hugging Face folders, with their tokenisers, as trained runs.
//!
//! [`PretrainedModel::open`] reads the tokeniser, and then `config.json`, the weights and the
//! generation settings through [`transformer::weights`].

mod written;

use std::path::Path;

use burn::tensor::Device;
use sha2::{Digest, Sha256};
use transformer::weights::{ImportOptions, Imported, ModelFolder, WeightsError, read_generation};
use transformer::{Transformer, TransformerConfig};

use crate::config::RunConfig;
use crate::data::parallel::{
    BATCH_TOKENS, ParallelDataset, PretrainedConfig, PretrainedTokenizer, TextConfig, TokenizerPair,
};
use crate::data::{Dataset, Sides};
use crate::error::UsageError;
use crate::files::hex;
use crate::notes;
use crate::positions::max_tokens;
use crate::run::checkpoint::TrainedRun;
use crate::run::layout::CHECKPOINTS;
#[doc(hidden)]
pub use crate::run::layout::is_pretrained;

pub use written::write_folder;

/// Says how one gets a folder of a model.
#[doc(hidden)]
pub const DOWNLOADED: &str =
    "of a Hugging Face model, such as `hf download t5-small --local-dir t5-small` makes";

/// Languages to translate from and into with a multilingual model. Both are `None` for a model of
/// one language pair.
#[derive(Clone, Debug, Default)]
pub struct Languages {
    /// Language of sources, as the tokeniser writes it, such as `eng_Latn`.
    pub source: Option<String>,
    /// Language of targets.
    pub target: Option<String>,
}

impl Languages {
    /// Returns the languages of sources and of targets.
    pub fn new(source: Option<String>, target: Option<String>) -> Self {
        Self { source, target }
    }
}

/// The model and the tokeniser of a folder.
pub struct PretrainedModel {
    /// Settings for training on texts, with the folder's model and tokeniser. They have no corpora
    /// yet.
    pub config: RunConfig,
    /// Data set that encodes texts with the model's tokeniser. It has no corpora yet.
    pub dataset: ParallelDataset,
    /// Parameters and configuration of the model.
    pub imported: Imported,
    folder: String,
}

impl PretrainedModel {
    /// Opens the model of a folder. A multilingual model translates between `languages`.
    ///
    /// # Errors
    ///
    /// If a file is missing or cannot be used, if the tokeniser has tokens that the model does not
    /// have, or if the tokeniser lacks one of `languages`.
    pub fn open(folder: &Path, languages: &Languages) -> Result<Self, UsageError> {
        Self::open_with(folder, languages, ImportOptions::default())
    }

    /// Opens the model of a folder; see [`open`](Self::open). `options` take precedence over
    /// `config.json`.
    ///
    /// # Errors
    ///
    /// In the cases of [`open`](Self::open).
    pub fn open_with(
        folder: &Path,
        languages: &Languages,
        options: ImportOptions,
    ) -> Result<Self, UsageError> {
        let wrong = |what: String| UsageError::new("folder", folder.display(), what);
        if !folder.is_dir() {
            let is = if folder.exists() {
                "is not a folder"
            } else {
                "does not exist"
            };
            return Err(wrong(format!("{is}; name a folder {DOWNLOADED}")));
        }
        if !is_pretrained(folder) && folder.join(CHECKPOINTS).is_dir() {
            let what = "is a run, not a Hugging Face model: `train resume` trains it further on its \
                        own texts, and `train export` with --folder writes a folder that can be used \
                        here, if the run began with `fit --family`";
            return Err(wrong(what.into()));
        }
        let refused = |error: WeightsError| wrong(error.without_path().to_string());
        let mut opened = ModelFolder::open(folder).map_err(refused)?;
        opened.check_whole().map_err(refused)?;
        opened.options = options.or(opened.options);
        // The tokeniser is read before the weights, so that the memory for parsing it is free again
        // when the weights are read.
        let tokenizer = PretrainedTokenizer::read(folder)?;
        // M2M100 has its languages by their codes, too.
        let mut languages = languages.clone();
        for name in (languages.source.iter_mut()).chain(&mut languages.target) {
            if let Some((token, _)) = tokenizer.language(name) {
                *name = token;
            }
        }
        let mut imported = opened.import().map_err(refused)?;
        for warning in std::mem::take(&mut imported.warnings) {
            notes::warn(&format!("{}: {warning}", folder.display()));
        }
        let whole = imported.config().map_err(refused)?;
        let mut model = settings(folder, &whole, &languages)?;
        let target = languages.target.as_ref();
        let target_id = target.and_then(|name| Some(tokenizer.language(name)?.1));
        let bos_id = model.search.bos_id;
        // The start token of mBART-25 is the language of the target.
        if target_id.is_some() && bos_id.is_some_and(|id| tokenizer.is_language(id)) {
            model.search.bos_id = target_id;
        }
        let tokenizers = TokenizerPair::pretrained(&tokenizer, &model)?;
        if let Some(language) = &languages.target {
            // The target language replaces the forced first token of the folder's settings.
            let id = tokenizers.target.id(language);
            let id = id.filter(|_| id != model.search.bos_id);
            model.search.prefix = id.into_iter().collect();
        }
        let mut text = TextConfig::new(model.vocab_size.target, BATCH_TOKENS);
        text.tokenizer.vocab_size = model.vocab_size;
        // Texts may be as long as the model allows.
        text.max_length = Sides::both(model.max_tokens);
        text.pretrained = Some(model);
        let dataset = ParallelDataset::new(&text, tokenizers);
        Ok(Self {
            config: RunConfig::fine_tuning(dataset.config.clone(), whole),
            dataset,
            imported,
            folder: folder.display().to_string(),
        })
    }

    /// Returns the SHA-256 of the names and values of the parameters, in hexadecimal digits.
    pub fn sha256(&self) -> String {
        let mut hash = Sha256::new();
        for (name, data) in &self.imported.parameters {
            hash.update(name);
            hash.update(data.as_bytes());
        }
        hex(&hash.finalize())
    }

    /// Builds the model on a device.
    ///
    /// # Errors
    ///
    /// If the folder does not hold a whole model, or if its weights do not fit its configuration.
    pub fn transformer(self, device: &Device) -> Result<Transformer, UsageError> {
        Ok(self.run(device)?.model)
    }

    /// Builds the model on a device, and returns it as a run that has taken no step.
    ///
    /// # Errors
    ///
    /// In the cases of [`transformer`](Self::transformer).
    pub fn run(self, device: &Device) -> Result<TrainedRun, UsageError> {
        let wrong = |error: WeightsError| UsageError::new("folder", self.folder, error.to_string());
        let model = self.imported.transformer(device).map_err(wrong)?;
        Ok(TrainedRun {
            config: self.config,
            dataset: Box::new(self.dataset) as Box<dyn Dataset>,
            step: 0,
            model,
        })
    }
}

/// Returns the settings for texts that follow from a model's files and `languages`: special tokens,
/// languages and generation.
fn settings(
    folder: &Path,
    model: &TransformerConfig,
    languages: &Languages,
) -> Result<PretrainedConfig, UsageError> {
    let wrong = |what: String| UsageError::new("folder", folder.display(), what);
    let max_tokens = max_tokens(model);
    let refused = |error: WeightsError| wrong(error.without_path().to_string());
    let mut search = read_generation(folder, model).map_err(refused)?;
    search.max_length = search.max_length.map(|most| most.min(max_tokens - 1));
    let valid = search.config(max_tokens - 1).validate();
    valid.map_err(|error| wrong(format!("has generation settings in which {error}")))?;
    if languages.target.is_some() {
        search.prefix.clear();
    }
    Ok(PretrainedConfig {
        folder: std::path::absolute(folder)
            .map_err(|error| wrong(format!("has no absolute path ({error})")))?,
        sha256: None,
        vocab_size: Sides::new(model.source_vocab_size, model.target_vocab_size),
        max_tokens,
        pad_id: model.pad_id,
        source_language: languages.source.clone(),
        target_language: languages.target.clone(),
        search,
    })
}
