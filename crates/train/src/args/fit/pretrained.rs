//! Flags of `fit` about the model that training begins with.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use training::config::RunConfig;
use training::data::{DataConfig, Sides};
use training::error::UsageError;
use training::pretrained::{Languages, PretrainedModel};

use crate::args::check::needs;
use crate::args::parse::given;

/// Maximum number of tokens of a source or a target, unless a flag sets another.
const MAX_LENGTH: usize = 256;

/// Flags of `fit` about the model that training begins with.
#[derive(Clone, Debug, Default, PartialEq, Args, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct PretrainedArgs {
    /// Train the model of this folder of Hugging Face further, with its tokeniser
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["preset", "config"])]
    pub from: Option<PathBuf>,
    /// Language of sources, for a model of several languages, such as eng_Latn [default: the tokeniser's]
    #[arg(long, value_name = "CODE")]
    pub source_lang: Option<String>,
    /// Language of targets, for a model of several languages, such as deu_Latn [default: the model's]
    #[arg(long, value_name = "CODE")]
    pub target_lang: Option<String>,
}

impl PretrainedArgs {
    /// Returns the names of the flags that are given, such as `--from`.
    ///
    /// # Errors
    ///
    /// A path that is not valid UTF-8.
    pub fn given(&self) -> Result<Vec<String>, UsageError> {
        given(self)
    }

    /// Opens the folder; `None` without one.
    ///
    /// # Errors
    ///
    /// A folder that cannot be used, or languages without a folder.
    pub fn open(&self) -> Result<Option<PretrainedModel>, UsageError> {
        let has_folder = self.from.is_some();
        needs(
            "--source-lang",
            self.source_lang.as_ref(),
            "--from",
            has_folder,
        )?;
        needs(
            "--target-lang",
            self.target_lang.as_ref(),
            "--from",
            has_folder,
        )?;
        let Some(folder) = &self.from else {
            return Ok(None);
        };
        let languages = Languages {
            source: self.source_lang.clone(),
            target: self.target_lang.clone(),
        };
        PretrainedModel::open(folder, &languages).map(Some)
    }
}

/// Returns the settings that the flags override for a model of a folder.
pub fn defaults(model: &PretrainedModel) -> RunConfig {
    let mut config = model.config.clone();
    if let DataConfig::Text(text) = &mut config.data {
        // The tokens that begin and end a text need positions, too.
        let most = |length: usize| length.saturating_sub(2).clamp(1, MAX_LENGTH);
        let Sides { source, target } = text.max_length;
        text.max_length = Sides {
            source: most(source),
            target: most(target),
        };
    }
    config
}
