//! Flags of `fit`, and the run that they ask for.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};

use super::{
    ActivationKind, LengthArgs, Norm, PositionKind, ResumeArgs, TaskArgs, TaskName, TextArgs,
    TrainingArgs, Tying, refuse, seed, set, whole_number,
};
use crate::config::{RunConfig, TaskConfig};
use crate::config_file;
use crate::defaults::TextSize;
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::schedule::Schedule;

/// Settings of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// The Annotated Transformer's copy task of 2018
    Annotated,
    /// Of --task text: d_model 128, 2 layers a side, 2000 tokens a vocabulary
    Tiny,
    /// Of --task text, its default: d_model 256, 3 layers a side, 6000 tokens a vocabulary
    Small,
    /// Of --task text: the paper's base model, d_model 512, 6 layers a side, 16000 tokens
    Base,
}

/// How the learning rate falls after its rise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScheduleKind {
    /// With the square root of the step, as in the paper
    Noam,
    /// Linearly to 0 at the last step
    Linear,
    /// Along half a cosine to 0 at the last step
    Cosine,
}

/// Flags of `fit`. What is not given is the task's or the preset's default.
#[derive(Clone, Debug, Default, Args)]
pub struct FitArgs {
    /// The task and its settings.
    #[command(flatten)]
    pub task: TaskArgs,
    /// Settings from elsewhere, which the other flags change
    #[arg(long)]
    pub preset: Option<Preset>,
    /// Settings from a file, JSON or TOML, such as a run's config.json; the other flags change them
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "task"])]
    pub config: Option<PathBuf>,
    /// Print the settings as JSON, and do nothing
    #[arg(long)]
    pub print_config: bool,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Parameters, data and dropout are functions of it [default: 0]
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Training steps [default: 1000; sort, add: 3000; annotated: 200; text: see
    /// --epochs]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub steps: Option<usize>,
    /// Sequences in a step; not of text [default: 64; annotated: 30]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub batch_size: Option<usize>,
    /// Width of the model [default: 64; annotated: 512; text: 256;
    /// tiny: 128; base: 512]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub d_model: Option<usize>,
    /// Attention heads, a divisor of the width [default: 2; reverse, sort, add: 4;
    /// annotated, text: 8; tiny: 4]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub heads: Option<usize>,
    /// Layers of the encoder, and of the decoder [default: 1; sort, add, annotated: 2;
    /// text: 3; tiny: 2; base: 6]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub layers: Option<usize>,
    /// Inner width of the feed-forward networks [default: 256; annotated: 2048; text:
    /// 512; tiny: 256; base: 2048]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub d_ff: Option<usize>,
    /// Probability of dropout, from 0 to less than 1 [default: 0; annotated, text:
    /// 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Where the layer norms stand [default: pre]
    #[arg(long)]
    pub norm: Option<Norm>,
    /// How positions enter [default: sinusoidal; reverse, sort, add: learned]
    #[arg(long)]
    pub positions: Option<PositionKind>,
    /// The feed-forward networks' non-linearity [default: relu]
    #[arg(long)]
    pub activation: Option<ActivationKind>,
    /// Which vocabulary matrices are shared [default: none]
    #[arg(long)]
    pub weight_tying: Option<Tying>,
    /// How the learning rate falls [default: linear; annotated: noam]
    #[arg(long)]
    pub schedule: Option<ScheduleKind>,
    /// Scale of the learning rate [default: 1.5; reverse, sort, annotated: 1; add:
    /// 0.4; text: 0.35; base: 0.7]
    #[arg(long, allow_negative_numbers = true)]
    pub factor: Option<f64>,
    /// Steps in which the learning rate rises [default: 100; add: 200; annotated,
    /// text: 400; tiny: 200; base: 2000]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub warmup: Option<usize>,
    /// Share of the target distribution spread over all tokens [default: 0; text: 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub label_smoothing: Option<f64>,
    /// Evaluate on the validation split every so many steps [default: 100; annotated: 20;
    /// text: an epoch]
    #[arg(long, value_name = "STEPS", allow_negative_numbers = true, value_parser = whole_number)]
    pub eval_every: Option<usize>,
    /// Stop once exact match on the validation split is at least this
    #[arg(long, value_name = "EXACT_MATCH", allow_negative_numbers = true)]
    pub target: Option<f64>,
    /// Flags of the training itself.
    #[command(flatten)]
    pub training: TrainingArgs,
    /// What is reported by length at the end.
    #[command(flatten)]
    pub lengths: LengthArgs,
    /// Folder of the run, new or empty [default: runs/TASK-N]
    #[arg(long, value_name = "FOLDER")]
    pub run_dir: Option<PathBuf>,
    /// Go on with the run in this folder, as `train resume` does
    #[arg(long, value_name = "FOLDER")]
    pub resume: Option<PathBuf>,
    /// No dashboard: a progress bar, or lines
    #[arg(long)]
    pub plain: bool,
    /// What text is learned from; at the end, since its heading goes on to the next one.
    #[command(flatten)]
    pub text: TextArgs,
}

impl FitArgs {
    /// The run that these flags ask for, not yet checked.
    ///
    /// # Errors
    ///
    /// A backend that cannot be, or flags that do not go together.
    pub fn config(&self) -> Result<RunConfig, UsageError> {
        let mut config = match (&self.config, self.preset) {
            (Some(path), _) => config_file::read(path)?,
            (None, preset) => self.defaults(preset)?,
        };
        self.task.apply(&mut config.task)?;
        match &mut config.task {
            TaskConfig::Text(text) => {
                self.text.apply(text)?;
                let expected = "is no flag of --task text; use --batch-tokens";
                refuse("--batch-size", self.batch_size, expected)?;
                let expected =
                    "is no flag of --task text, of which no output is the only right one";
                refuse("--target", self.target, expected)?;
                if let Some(epochs) = self.text.epochs {
                    config.epochs = Some(epochs);
                } else if self.steps.is_some() {
                    config.epochs = None;
                }
            }
            _ => {
                if let Some(flag) = self.text.first_given() {
                    let expected = "is a flag of --task text alone";
                    return Err(UsageError::new(flag, "", expected));
                }
            }
        }
        if self.backend.is_some() || config.backend.is_empty() {
            config.backend = DeviceName::choose(self.backend.as_deref())?.to_string();
        }
        let model = &mut config.model;
        set(&mut model.d_model, self.d_model);
        set(&mut model.n_heads, self.heads);
        set(&mut model.n_encoder_layers, self.layers);
        set(&mut model.n_decoder_layers, self.layers);
        set(&mut model.d_ff, self.d_ff);
        set(&mut model.dropout, self.dropout);
        set(&mut model.norm_placement, self.norm.map(Into::into));
        set(&mut model.positions, self.positions.map(Into::into));
        set(&mut model.activation, self.activation.map(Into::into));
        set(&mut model.weight_tying, self.weight_tying.map(Into::into));
        set(&mut config.seed, self.seed);
        set(&mut config.steps, self.steps);
        set(&mut config.batch_size, self.batch_size);
        set(&mut config.label_smoothing, self.label_smoothing);
        config.eval_every = self.eval_every.or(config.eval_every);
        config.target = self.target.or(config.target);
        config.schedule = self.schedule(config.schedule);
        self.training.apply(&mut config)?;
        config.eval_lengths = self.lengths.config()?.or(config.eval_lengths);
        Ok(config)
    }

    /// The settings that the other flags change, where no file has them.
    fn defaults(&self, preset: Option<Preset>) -> Result<RunConfig, UsageError> {
        let task = self.task.task;
        let size = match preset {
            None => return Ok(task.unwrap_or(TaskName::Copy).config()),
            Some(Preset::Annotated) => {
                let expected = "is a task of its own, and goes with no --task";
                return match task {
                    None => Ok(RunConfig::annotated()),
                    Some(_) => Err(UsageError::new("--preset", "annotated", expected)),
                };
            }
            Some(Preset::Tiny) => TextSize::Tiny,
            Some(Preset::Small) => TextSize::Small,
            Some(Preset::Base) => TextSize::Base,
        };
        if task != Some(TaskName::Text) {
            let name = preset.and_then(|preset| preset.to_possible_value());
            let name = name.map_or(String::new(), |name| name.get_name().into());
            return Err(UsageError::new("--preset", name, "needs --task text"));
        }
        Ok(RunConfig::text(size))
    }

    /// The flags of `resume` that stand for `--resume`.
    ///
    /// # Errors
    ///
    /// If others are given: a run goes on as it was begun.
    pub fn resume_args(&self, run: &Path) -> Result<ResumeArgs, UsageError> {
        let allowed = Self {
            resume: self.resume.clone(),
            steps: self.steps,
            backend: self.backend.clone(),
            plain: self.plain,
            ..Self::default()
        };
        if format!("{allowed:?}") != format!("{self:?}") {
            let expected = "goes with no other flags than --steps, --backend and --plain: a run goes on as it was begun";
            return Err(UsageError::new("--resume", run.display(), expected));
        }
        Ok(ResumeArgs {
            run: run.into(),
            steps: self.steps,
            backend: self.backend.clone(),
            plain: self.plain,
        })
    }

    fn schedule(&self, default: Schedule) -> Schedule {
        let kind = match default {
            Schedule::Noam { .. } => ScheduleKind::Noam,
            Schedule::Linear { .. } => ScheduleKind::Linear,
            Schedule::Cosine { .. } => ScheduleKind::Cosine,
        };
        let (factor, warmup) = default.parts();
        let factor = self.factor.unwrap_or(factor);
        let warmup = self.warmup.unwrap_or(warmup);
        match self.schedule.unwrap_or(kind) {
            ScheduleKind::Noam => Schedule::Noam { factor, warmup },
            ScheduleKind::Linear => Schedule::Linear { factor, warmup },
            ScheduleKind::Cosine => Schedule::Cosine { factor, warmup },
        }
    }
}
