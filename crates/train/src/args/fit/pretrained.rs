//! Flags of `fit` about the model that training begins with.

use std::path::Path;

use clap::Args;
use training::config::RunConfig;
use training::data::parallel::PretrainedConfig;
use training::data::{DataConfig, Sides};
use training::error::UsageError;
use training::pretrained::{Languages, PretrainedModel};

use crate::args::check::needs;
use crate::args::parse::recorded_path;

/// Maximum number of tokens of a source or a target, unless a flag sets another maximum.
const MAX_LENGTH: usize = 256;

/// Flags of `fit` about the model that training begins with.
#[derive(Clone, Debug, Default, Args)]
pub struct PretrainedArgs {
    /// Fine-tune the model in this Hugging Face folder, with its tokeniser
    #[arg(long, value_name = "FOLDER", conflicts_with_all = ["preset", "config"], value_parser = recorded_path())]
    pub from: Option<String>,
    /// Language of the sources, such as eng_Latn, if the model is multilingual [default: that of
    /// --config, or the tokeniser's]
    #[arg(long, value_name = "CODE", hide_short_help = true)]
    pub source_lang: Option<String>,
    /// Language of the targets, such as deu_Latn, if the model is multilingual [default: that of
    /// --config, or the model's]
    #[arg(long, value_name = "CODE", hide_short_help = true)]
    pub target_lang: Option<String>,
}

impl PretrainedArgs {
    /// Opens the model of `--from`. Without `--from`, a flag that sets a language opens the model
    /// that `file`, the settings of `--config`, names. Without any of these flags, returns `None`.
    ///
    /// # Errors
    ///
    /// A folder that cannot be used, languages without a folder, or a language that its tokeniser
    /// does not have.
    pub fn open(&self, file: Option<&RunConfig>) -> Result<Option<PretrainedModel>, UsageError> {
        let of_file = file.and_then(pretrained_of);
        let asked = [
            ("--source-lang", &self.source_lang),
            ("--target-lang", &self.target_lang),
        ];
        let mut asks = false;
        for (flag, language) in asked {
            let needed = "--from, or --config of a pretrained model";
            let has_folder = self.from.is_some() || of_file.is_some();
            needs(flag, language.as_ref(), needed, has_folder)?;
            asks |= language.is_some();
        }
        let (folder, of_file) = match (&self.from, of_file) {
            (Some(folder), _) => (Path::new(folder), None),
            (None, Some(of_file)) if asks => (of_file.folder.as_path(), Some(of_file)),
            _ => return Ok(None),
        };
        let [source, target] = [
            of_file.and_then(|file| file.source_language.clone()),
            of_file.and_then(|file| file.target_language.clone()),
        ];
        let languages = Languages {
            source: self.source_lang.clone().or(source),
            target: self.target_lang.clone().or(target),
        };
        PretrainedModel::open(folder, &languages).map(Some)
    }
}

fn pretrained_of(config: &RunConfig) -> Option<&PretrainedConfig> {
    match &config.data {
        DataConfig::Text(text) => text.pretrained.as_ref(),
        _ => None,
    }
}

/// Returns the settings of `file` with the languages of `model`, and with the model's settings of
/// generation that depend on the languages.
pub fn in_languages(mut file: RunConfig, model: &PretrainedModel) -> RunConfig {
    if let DataConfig::Text(text) = &mut file.data
        && let (Some(ours), Some(theirs)) = (&mut text.pretrained, pretrained_of(&model.config))
    {
        ours.source_language.clone_from(&theirs.source_language);
        ours.target_language.clone_from(&theirs.target_language);
        ours.search.prefix.clone_from(&theirs.search.prefix);
    }
    file
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
