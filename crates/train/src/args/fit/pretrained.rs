//! Flags of `fit` about the model that training begins with.

use std::path::Path;

use clap::Args;
use training::config::RunConfig;
use training::data::{DataConfig, Sides};
use training::error::UsageError;
use training::pretrained::{Languages, PretrainedModel};

use crate::args::parse::recorded_path;

/// Maximum number of tokens of a source or a target, unless a flag sets another maximum.
const MAX_LENGTH: usize = 256;

/// Flags of `fit` about the model that training begins with.
#[derive(Clone, Debug, Default, Args)]
pub struct PretrainedArgs {
    /// Fine-tune the model in this Hugging Face folder, with its tokeniser
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["preset", "config"], value_parser = recorded_path())]
    pub from: Option<String>,
    /// Language of the sources, such as eng_Latn, if the model is multilingual [default: the
    /// tokeniser's]
    #[arg(long, value_name = "CODE", hide_short_help = true, requires = "from")]
    pub source_lang: Option<String>,
    /// Language of the targets, such as deu_Latn, if the model is multilingual [default: the
    /// model's]
    #[arg(long, value_name = "CODE", hide_short_help = true, requires = "from")]
    pub target_lang: Option<String>,
}

impl PretrainedArgs {
    /// Opens the model of `--from`. Returns `None` without `--from`.
    ///
    /// # Errors
    ///
    /// A folder that cannot be used, or a language that its tokeniser does not have.
    pub fn open(&self) -> Result<Option<PretrainedModel>, UsageError> {
        let languages = Languages {
            source: self.source_lang.clone(),
            target: self.target_lang.clone(),
        };
        let folder = self.from.as_ref();
        let model = folder.map(|folder| PretrainedModel::open(Path::new(folder), &languages));
        model.transpose()
    }
}

/// Returns the settings of a run that trains `model` further, which the flags override. Sources and
/// targets have at most [`MAX_LENGTH`] tokens.
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
