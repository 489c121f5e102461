//! Flags of `fit`, and their conversion into the settings of a run.

mod evaluation;
mod execution;
mod model;
mod optimization;
mod pretrained;
mod run;
mod settings;
mod text;
mod tokenizer;

use std::path::Path;

use clap::Args;
use training::config::{RunConfig, TextSize, file};
use training::data::DataConfig;
use training::error::UsageError;
use training::pretrained::PretrainedModel;

use super::check::set;
use super::parse::{preset, seed};
use super::resume::ResumeArgs;
use super::task::TaskArgs;
use evaluation::EvaluationArgs;
use execution::ExecutionArgs;
use model::HyperParameterArgs;
use optimization::OptimizationArgs;
use pretrained::{PretrainedArgs, in_languages};
use run::RunArgs;
use settings::SettingsArgs;
use text::TextArgs;
use tokenizer::TokenizerArgs;

/// Text at the end of the help of `fit`.
pub const HINT: &str = "\
Defaults that depend on the task are listed by `train presets`. Settings without a flag are changed by --set or --config.";

/// Flags of `fit`, in the groups of its help. A setting whose flag is not given comes from the file
/// of `--config`, the model of `--from`, the preset or the task.
#[derive(Clone, Debug, Default, PartialEq, Args)]
#[command(after_help = HINT)]
pub struct FitArgs {
    /// The task and its settings.
    #[command(flatten, next_help_heading = "Task")]
    pub task: TaskArgs,
    /// Named settings, which other flags override [default: those of the task]
    #[arg(long, value_name = "PRESET", help_heading = "Task", value_parser = preset())]
    pub preset: Option<String>,
    /// The model that training begins with.
    #[command(flatten, next_help_heading = "Pretrained model (for --task text)")]
    pub pretrained: PretrainedArgs,
    /// Corpora of texts.
    #[command(flatten, next_help_heading = "Text data (for --task text)")]
    pub text: TextArgs,
    /// Tokenisers of texts.
    #[command(flatten, next_help_heading = "Tokeniser (for --task text)")]
    pub tokenizer: TokenizerArgs,
    /// Hyper-parameters of the model.
    #[command(flatten, next_help_heading = "Model")]
    pub model: HyperParameterArgs,
    /// Batches and updates.
    #[command(flatten, next_help_heading = "Optimisation")]
    pub optimization: OptimizationArgs,
    /// Seed for parameter initialisation, data order and dropout [default: 0]
    #[arg(long, value_name = "N", help_heading = "Optimisation", allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Evaluations and the end of training.
    #[command(flatten, next_help_heading = "Evaluation and stopping")]
    pub evaluation: EvaluationArgs,
    /// The run's folder and its checkpoints.
    #[command(flatten, next_help_heading = "Run folder")]
    pub run: RunArgs,
    /// Speed and memory.
    #[command(flatten, next_help_heading = "Speed and memory")]
    pub execution: ExecutionArgs,
    /// Files of settings, and what is printed.
    #[command(flatten, next_help_heading = "Settings and output")]
    pub settings: SettingsArgs,
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
        let file = self.settings.config.as_ref();
        let file = file.map(|path| file::read(path)).transpose()?;
        let model = self.pretrained.open(file.as_ref())?;
        let mut config = match (file, &model) {
            (Some(file), Some(model)) => in_languages(file, model),
            (Some(file), None) => file,
            (None, Some(model)) => self.of_pretrained(model)?,
            (None, None) => self.defaults()?,
        };
        self.task.apply(&mut config.data)?;
        if let DataConfig::Text(text) = &mut config.data {
            if let (Some(_), Some(flag)) = (&text.pretrained, self.tokenizer.given()?.first()) {
                let expected = "has no effect on a pretrained model, which has its tokeniser";
                return Err(UsageError::new(flag, "", expected));
            }
            self.text.apply(text)?;
            self.tokenizer.apply(&mut text.tokenizer)?;
        } else {
            let given = [
                self.pretrained.given()?,
                self.text.given()?,
                self.tokenizer.given()?,
            ];
            let given = given.concat();
            if let Some(flag) = given.first() {
                let expected = "belongs to --task text only";
                return Err(UsageError::new(flag, "", expected));
            }
        }
        self.model.apply(&mut config.model);
        set(&mut config.seed, self.seed);
        self.optimization
            .apply(&mut config.optimization, &mut config.data)?;
        self.evaluation
            .apply(&mut config.evaluation, &config.data)?;
        self.run.apply(&mut config.checkpointing);
        self.execution.apply(&mut config.execution)?;
        self.settings.apply(&mut config)?;
        Ok((config, model))
    }

    /// Returns the settings of the model of `--from`, which the flags override. Rejects a task
    /// other than text.
    fn of_pretrained(&self, model: &PretrainedModel) -> Result<RunConfig, UsageError> {
        if let Some(task) = self.task.task.as_ref().filter(|task| *task != "text") {
            let expected = "cannot be combined with --from, which is for texts";
            return Err(UsageError::new("--task", task, expected));
        }
        Ok(pretrained::defaults(model))
    }

    /// Returns the settings that the flags override if neither `--config` nor `--from` is given:
    /// those of the preset, else those of the task.
    fn defaults(&self) -> Result<RunConfig, UsageError> {
        let Some(preset) = &self.preset else {
            return Ok(match &self.task.task {
                None if self.text.has_corpus() => RunConfig::text(TextSize::Small),
                _ => self.task.defaults(),
            });
        };
        let config = RunConfig::of_preset(preset).expect("the flag has presets only");
        let of_preset = config.data.name();
        match &self.task.task {
            Some(task) if task != of_preset => {
                let expected = format!("is for --task {of_preset}, not {task}");
                Err(UsageError::new("--preset", preset, expected))
            }
            _ => Ok(config),
        }
    }

    /// Returns the arguments of `train resume` that have the same effect as `fit --resume`.
    ///
    /// # Errors
    ///
    /// A flag that cannot be combined with `--resume`, such as one for a setting, because a resumed
    /// run keeps its settings.
    pub fn resume_args(&self, run: &Path) -> Result<ResumeArgs, UsageError> {
        let mut allowed = Self::default();
        allowed.run.resume.clone_from(&self.run.resume);
        allowed.optimization.steps = self.optimization.steps;
        allowed.execution.backend = self.execution.backend.clone();
        allowed.settings.plain = self.settings.plain;
        allowed.run.tensorboard = self.run.tensorboard;
        if allowed != *self {
            let expected = "goes with no other flags than --steps, --backend, --tensorboard and --plain: the settings of a run do not change";
            return Err(UsageError::new("--resume", run.display(), expected));
        }
        Ok(ResumeArgs {
            run: run.into(),
            steps: self.optimization.steps,
            backend: self.execution.backend.backend.clone(),
            plain: self.settings.plain,
            tensorboard: self.run.tensorboard,
        })
    }
}
