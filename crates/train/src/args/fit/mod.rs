//! Flags of `fit`, and their conversion into the settings of a run.

mod pretrained;

use std::path::PathBuf;

use clap::Args;
use training::config::OptimizerKind;
use training::config::{ExecutionConfig, OptimizerConfig, RunConfig, file};
use training::data::parallel::{TokenizerConfig, TrainSettings};
use training::data::{DataConfig, TASK};
use training::error::{Subject, UsageError};
use training::pretrained::PretrainedModel;
use transformer::weights::Layout;

use super::check::needs;
use super::parse::{SETTING, assignment, named, preset, recorded_path};
use super::settings::SettingArgs;
use crate::device::DeviceName;
use pretrained::PretrainedArgs;

/// Text at the end of the help of `fit`.
pub const HINT: &str = "\
`train presets NAME` prints all settings of a preset. Settings without a flag are changed by --set or --config.";

/// Flags of `fit`, in the groups of its help. A setting whose flag is not given comes from the file
/// of `--config`, the model of `--from`, the preset or the task.
#[derive(Clone, Debug, Default, Args)]
#[command(after_help = HINT)]
pub struct FitArgs {
    /// The flags of single settings.
    #[command(flatten)]
    pub settings: SettingArgs,
    /// Named settings, which other flags override [default: those of the task]
    #[arg(long, value_name = "PRESET", help_heading = "Task", value_parser = preset())]
    pub preset: Option<String>,
    /// Use the architecture of the models with this layout of weights, such as t5: their norms,
    /// positions, activation, biases and shared matrices; other flags override it
    #[arg(long, value_name = "LAYOUT", help_heading = "Model", hide_short_help = true, conflicts_with = "from", value_parser = named::<Layout>())]
    pub family: Option<Layout>,
    /// A tokenizer.json for both sides, instead of a trained one
    #[arg(long, value_name = "FILE", help_heading = "Tokeniser (for --task text)", hide_short_help = true, value_parser = recorded_path())]
    pub tokenizer_file: Option<String>,
    /// The model that training begins with.
    #[command(flatten, next_help_heading = "Pretrained model (for --task text)")]
    pub pretrained: PretrainedArgs,
    /// Folder of the run, new or empty [default: runs/TASK-N]
    #[arg(long, value_name = "FOLDER", help_heading = "Run folder")]
    pub run_dir: Option<PathBuf>,
    /// Write event files for TensorBoard into the run's folder
    #[arg(long, help_heading = "Run folder")]
    pub tensorboard: bool,
    /// File of settings, TOML or JSON, such as a run's config.json; other flags override it
    #[arg(long, value_name = "FILE", help_heading = "Settings and output", conflicts_with_all = ["preset", "task"])]
    pub config: Option<PathBuf>,
    /// Set a setting by its path in config.json, such as optimization.optimizer.beta_2=0.99, after
    /// all other flags; may be given several times
    #[arg(long, value_name = "PATH=VALUE", help_heading = "Settings and output", value_parser = assignment(SETTING))]
    pub set: Vec<(String, String)>,
    /// Print the size of the model and the time of a step, and exit; writes nothing
    #[arg(long, help_heading = "Settings and output")]
    pub dry_run: bool,
    /// Show a progress bar instead of the dashboard (lines if stderr is not a terminal)
    #[arg(long, help_heading = "Settings and output")]
    pub plain: bool,
}

impl FitArgs {
    /// Returns the settings of the run that the flags describe, and the pretrained model if it
    /// had to be opened for the settings. The caller must check the settings.
    ///
    /// # Errors
    ///
    /// A file or a folder that cannot be used, a backend that cannot be used, a value that is not
    /// valid, or flags that cannot be combined with each other or with the task.
    pub fn config(&self) -> Result<(RunConfig, Option<PretrainedModel>), UsageError> {
        let file = self.config.as_ref();
        let file = file.map(|path| file::read(path)).transpose()?;
        let model = self.pretrained.open()?;
        let mut config = match (file, &model) {
            (Some(file), _) => file,
            (None, Some(model)) => self.of_pretrained(model)?,
            (None, None) => self.defaults()?,
        };
        if let Some(family) = self.family {
            config.model = family.choices(config.model);
        }
        config = self.settings.apply(config)?;
        if let Some(path) = &self.tokenizer_file {
            for file in [TokenizerConfig::source_file, TokenizerConfig::target_file] {
                config = config.with(file.path, path)?;
            }
        }
        for (path, value) in &self.set {
            config = config.with(path, value)?;
        }
        self.check_effect(&config)?;
        let backend = self.settings.of(ExecutionConfig::backend);
        if backend.is_some() || config.execution.backend.is_empty() {
            config.execution.backend = DeviceName::choose(backend)?.to_string();
        }
        Ok((config, model))
    }

    /// Names a setting that no flag has given by its key in the file of `--config`.
    pub fn name_in_file(&self, mut error: UsageError) -> UsageError {
        if let (Subject::Setting(setting), Some(file)) = (&error.subject, &self.config) {
            let is_given = self.set.iter().any(|(path, _)| path == setting.path)
                || self.settings.of(setting).is_some()
                || self.tokenizer_file.is_some() && setting.path.starts_with("data.tokenizer.");
            if !is_given {
                error.subject = Subject::Other(format!("{}: {}", file.display(), setting.path));
            }
        }
        error
    }

    /// Rejects flags without an effect.
    fn check_effect(&self, config: &RunConfig) -> Result<(), UsageError> {
        if let DataConfig::Text(text) = &config.data {
            let tokenizer = &text.tokenizer;
            let has_files = tokenizer.source_file.is_some() && tokenizer.target_file.is_some();
            let of_training = [
                TokenizerConfig::kind,
                TokenizerConfig::vocab_size,
                TokenizerConfig::joint,
                TokenizerConfig::lower_case,
            ];
            let mut given = self.settings.settings();
            if let Some(setting) = given.find(|setting| of_training.contains(setting))
                && (text.pretrained.is_some() || has_files)
            {
                let expected = "is for tokenisers that are trained, but both sides have one";
                return Err(UsageError::setting(setting, "", expected));
            }
        }
        let decay = OptimizerConfig::weight_decay;
        let is_decayed = config.optimization.optimizer.kind == OptimizerKind::AdamW;
        needs(
            decay.name(),
            self.settings.of(decay),
            "--optimizer adamw",
            is_decayed,
        )
    }

    /// Returns the settings of the model of `--from`, which the flags override. Rejects a task
    /// other than text.
    fn of_pretrained(&self, model: &PretrainedModel) -> Result<RunConfig, UsageError> {
        if let Some(task) = self.settings.of(TASK).filter(|task| *task != "text") {
            let expected = "cannot be combined with --from, which is for texts";
            return Err(UsageError::setting(TASK, task, expected));
        }
        Ok(pretrained::defaults(model))
    }

    /// Returns the settings that the flags override if neither `--config` nor `--from` is given:
    /// those of the preset, else those of the task.
    fn defaults(&self) -> Result<RunConfig, UsageError> {
        let task = self.settings.of(TASK);
        let Some(preset) = &self.preset else {
            return Ok(match task {
                None if self.settings.of(TrainSettings::source).is_some() => {
                    RunConfig::text("small")
                }
                _ => self.settings.defaults(),
            });
        };
        let config = RunConfig::of_preset(preset).expect("the flag has presets only");
        let of_preset = config.data.name();
        match task {
            Some(task) if task != of_preset => {
                let expected = format!("is for --task {of_preset}, not {task}");
                Err(UsageError::new("--preset", preset, expected))
            }
            _ => Ok(config),
        }
    }
}
