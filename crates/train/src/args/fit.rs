//! Flags of `fit`, and the settings that they stand for.

use std::path::{Path, PathBuf};

use clap::Args;
use training::config::{RunConfig, ScheduleKind, TextSize, file};
use training::data::DataConfig;
use training::error::UsageError;
use transformer::{Activation, NormPlacement, Positions, WeightTying};

use super::backend::BackendArgs;
use super::check::{reject, set};
use super::lengths::LengthArgs;
use super::parse::{listed, name_of, named, seed, whole_number};
use super::resume::ResumeArgs;
use super::task::TaskArgs;
use super::text::TextArgs;
use super::training::TrainingArgs;
use super::values::{Preset, SCHEDULE};

/// Flags of `fit`. Settings without a flag are the task's or the preset's defaults.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct FitArgs {
    /// The task and its settings.
    #[command(flatten)]
    pub task: TaskArgs,
    /// Named preset; other flags override it
    #[arg(long)]
    pub preset: Option<Preset>,
    /// File of settings, JSON or TOML, such as a run's config.json; other flags override it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "task"])]
    pub config: Option<PathBuf>,
    /// Print the settings as JSON, and exit
    #[arg(long)]
    pub print_config: bool,
    /// Backend.
    #[command(flatten)]
    pub backend: BackendArgs,
    /// Seed for parameter initialisation, data order and dropout [default: 0]
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Training steps [default: 1000; sort, add: 3000; annotated: 200; text: see
    /// --epochs]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub steps: Option<usize>,
    /// Sequences in a batch (not for text) [default: 64; annotated: 30]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub batch_size: Option<usize>,
    /// Width of the model [default: 64; annotated: 512; text: 256;
    /// tiny: 128; base: 512]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub d_model: Option<usize>,
    /// Number of attention heads, which must divide the width [default: 2; reverse, sort, add: 4;
    /// annotated, text: 8; tiny: 4]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub heads: Option<usize>,
    /// Number of layers in the encoder, and in the decoder [default: 1; sort, add, annotated: 2;
    /// text: 3; tiny: 2; base: 6]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub layers: Option<usize>,
    /// Inner width of the feed-forward networks [default: 256; annotated: 2048; text:
    /// 512; tiny: 256; base: 2048]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub d_ff: Option<usize>,
    /// Dropout probability, at least 0 and less than 1 [default: 0; annotated, text:
    /// 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Placement of layer normalisation [default: pre]
    #[arg(long, value_parser = named::<NormPlacement>())]
    pub norm: Option<NormPlacement>,
    /// Positional encoding [default: sinusoidal; reverse, sort, add: learned]
    #[arg(long, value_parser = named::<Positions>())]
    pub positions: Option<Positions>,
    /// Activation function of the feed-forward networks [default: relu]
    #[arg(long, value_parser = named::<Activation>())]
    pub activation: Option<Activation>,
    /// Vocabulary matrices that are shared [default: none]
    #[arg(long, value_parser = named::<WeightTying>())]
    pub weight_tying: Option<WeightTying>,
    /// How the learning rate falls after its warm-up [default: linear; annotated: noam]
    #[arg(long, value_parser = listed::<ScheduleKind>(SCHEDULE))]
    pub schedule: Option<ScheduleKind>,
    /// Factor that multiplies the schedule's learning rate [default: 1.5; reverse, sort, annotated:
    /// 1; add: 0.4; text: 0.35; base: 0.7]
    #[arg(long, allow_negative_numbers = true)]
    pub factor: Option<f64>,
    /// Number of steps in which the learning rate rises [default: 100; add: 200; annotated,
    /// text: 400; tiny: 200; base: 2000]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub warmup: Option<usize>,
    /// Share of the target distribution that is spread over all tokens [default: 0; text: 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub label_smoothing: Option<f64>,
    /// Steps between evaluations on the validation split [default: 100; annotated: 20;
    /// text: an epoch]
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub eval_every: Option<usize>,
    /// Stop once exact match on the validation split reaches this fraction (not for text)
    #[arg(long, value_name = "EXACT_MATCH", allow_negative_numbers = true)]
    pub target: Option<f64>,
    /// Updates, evaluations and checkpoints.
    #[command(flatten)]
    pub training: TrainingArgs,
    /// Evaluation by length at the end.
    #[command(flatten)]
    pub lengths: LengthArgs,
    /// Folder of the run, new or empty [default: runs/TASK-N]
    #[arg(long, value_name = "FOLDER")]
    pub run_dir: Option<PathBuf>,
    /// Resume the run in this folder, as `train resume` does
    #[arg(long, value_name = "FOLDER")]
    pub resume: Option<PathBuf>,
    /// Show a progress bar instead of the dashboard (lines if stderr is not a terminal)
    #[arg(long)]
    pub plain: bool,
    /// Settings of `--task text`. They are the last, since their heading is for all that follow.
    #[command(flatten)]
    pub text: TextArgs,
}

impl FitArgs {
    /// Returns the settings that these flags stand for, not yet checked.
    ///
    /// # Errors
    ///
    /// A backend that is not usable, or flags that cannot be combined.
    pub fn config(&self) -> Result<RunConfig, UsageError> {
        let mut config = match &self.config {
            Some(path) => file::read(path)?,
            None => self.defaults()?,
        };
        self.task.apply(&mut config.data)?;
        let optimization = &mut config.optimization;
        match &mut config.data {
            DataConfig::Text(text) => {
                self.text.apply(text)?;
                let expected = "is not a flag of --task text; use --batch-tokens";
                reject("--batch-size", self.batch_size, expected)?;
                let expected = "is not a flag of --task text, where many outputs are correct";
                reject("--target", self.target, expected)?;
                if let Some(epochs) = self.text.epochs {
                    optimization.epochs = Some(epochs);
                } else if self.steps.is_some() {
                    optimization.epochs = None;
                }
            }
            _ => {
                if let Some(flag) = self.text.given()?.first() {
                    let expected = "is a flag of --task text only";
                    return Err(UsageError::new(flag, "", expected));
                }
            }
        }
        if self.backend.backend.is_some() || config.execution.backend.is_empty() {
            config.execution.backend = self.backend.choose()?.to_string();
        }
        let model = &mut config.model;
        set(&mut model.d_model, self.d_model);
        set(&mut model.n_heads, self.heads);
        set(&mut model.n_encoder_layers, self.layers);
        set(&mut model.n_decoder_layers, self.layers);
        set(&mut model.d_ff, self.d_ff);
        set(&mut model.dropout, self.dropout);
        set(&mut model.norm_placement, self.norm);
        set(&mut model.positions, self.positions);
        set(&mut model.activation, self.activation);
        set(&mut model.weight_tying, self.weight_tying);
        set(&mut config.seed, self.seed);
        set(&mut optimization.steps, self.steps);
        set(&mut optimization.batch_size, self.batch_size);
        set(&mut optimization.label_smoothing, self.label_smoothing);
        set(&mut optimization.schedule.kind, self.schedule);
        set(&mut optimization.schedule.factor, self.factor);
        set(&mut optimization.schedule.warmup, self.warmup);
        let evaluation = &mut config.evaluation;
        evaluation.every = self.eval_every.or(evaluation.every);
        evaluation.target = self.target.or(evaluation.target);
        self.training.apply(&mut config)?;
        let by_length = self.lengths.config()?;
        config.evaluation.by_length = by_length.or(config.evaluation.by_length);
        Ok(config)
    }

    /// Returns the settings that the other flags override, where there is no file of settings.
    fn defaults(&self) -> Result<RunConfig, UsageError> {
        let (task, Some(preset)) = (self.task.task.as_deref(), self.preset) else {
            return Ok(self.task.defaults());
        };
        let wrong = |expected| Err(UsageError::new("--preset", name_of(preset), expected));
        match (preset, task) {
            (Preset::Annotated, None) => Ok(RunConfig::annotated()),
            (Preset::Tiny, Some("text")) => Ok(RunConfig::text(TextSize::Tiny)),
            (Preset::Small, Some("text")) => Ok(RunConfig::text(TextSize::Small)),
            (Preset::Base, Some("text")) => Ok(RunConfig::text(TextSize::Base)),
            (Preset::Annotated, _) => wrong("is a task of its own, and goes with no --task"),
            _ => wrong("needs --task text"),
        }
    }

    /// Returns the flags of `resume` that `--resume` stands for.
    ///
    /// # Errors
    ///
    /// Other flags that are given, because a resumed run keeps its settings.
    pub fn resume_args(&self, run: &Path) -> Result<ResumeArgs, UsageError> {
        let allowed = Self {
            resume: self.resume.clone(),
            steps: self.steps,
            backend: self.backend.clone(),
            plain: self.plain,
            ..Self::default()
        };
        if allowed != *self {
            let expected = "goes with no other flags than --steps, --backend and --plain: the settings of a run do not change";
            return Err(UsageError::new("--resume", run.display(), expected));
        }
        Ok(ResumeArgs {
            run: run.into(),
            steps: self.steps,
            backend: self.backend.backend.clone(),
            plain: self.plain,
        })
    }
}
