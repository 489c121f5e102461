//! Flags of `import`, `export` and `inspect`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use transformer::NormVariance;
use transformer::weights::{ImportOptions, Layout, Precision};

use super::{ActivationKind, Norm, PositionKind, TaskArgs, Tying, whole_number};
use crate::checkpoint::Which;
use crate::error::UsageError;

/// Whose names and arrangement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LayoutName {
    /// This program's own
    Native,
    /// encoder.layers.0.self_attn.w_q: models with the paper's names
    Paper,
    /// encoder.layers.0.self_attn.query.linear: labml's annotated implementation
    Labml,
    /// encoder.layers.0.self_attn.linears.0: the Annotated Transformer
    Annotated,
    /// encoder.layers.0.self_attn.in_proj_weight: torch.nn.Transformer
    TorchNn,
    /// model.encoder.layers.0.self_attn.q_proj: Marian of Hugging Face
    Marian,
}

impl From<LayoutName> for Layout {
    fn from(name: LayoutName) -> Self {
        match name {
            LayoutName::Native => Self::Native,
            LayoutName::Paper => Self::Paper,
            LayoutName::Labml => Self::Labml,
            LayoutName::Annotated => Self::Annotated,
            LayoutName::TorchNn => Self::TorchNn,
            LayoutName::Marian => Self::Marian,
        }
    }
}

/// What numbers are written as.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum DtypeName {
    /// Exactly
    #[default]
    F32,
    /// Half of the size, numbers up to 65504
    F16,
    /// Half of the size, 3 digits
    Bf16,
}

impl From<DtypeName> for Precision {
    fn from(name: DtypeName) -> Self {
        match name {
            DtypeName::F32 => Self::F32,
            DtypeName::F16 => Self::F16,
            DtypeName::Bf16 => Self::BF16,
        }
    }
}

/// What a variance is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Variance {
    /// The width, as in torch.nn.LayerNorm
    Biased,
    /// The width less 1, as in the Annotated Transformer
    Unbiased,
}

impl From<Variance> for NormVariance {
    fn from(variance: Variance) -> Self {
        match variance {
            Variance::Biased => Self::Biased,
            Variance::Unbiased => Self::Unbiased,
        }
    }
}

/// How a file's names are read.
#[derive(Clone, Debug, Default, Args)]
pub struct NameArgs {
    /// The file's layout [default: recognised by its names]
    #[arg(long)]
    pub layout: Option<LayoutName>,
    /// The entry of the checkpoint that has the weights, where several could be meant
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Read the tensor FROM as if it were called TO; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = rename)]
    pub rename: Vec<(String, String)>,
}

fn rename(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((from, to)) if !from.is_empty() && !to.is_empty() => Ok((from.into(), to.into())),
        _ => Err("must be the name in the file, =, and the name in the layout".into()),
    }
}

/// What weights do not show of their model.
#[derive(Clone, Debug, Default, Args)]
pub struct ModelArgs {
    /// Attention heads, a divisor of the width; must be given where the file does not say it
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub heads: Option<usize>,
    /// Where the layer norms stand [default: the layout's; paper, torch-nn: post]
    #[arg(long)]
    pub norm: Option<Norm>,
    /// The feed-forward networks' non-linearity [default: relu; marian: swish]
    #[arg(long)]
    pub activation: Option<ActivationKind>,
    /// How positions enter [default: as the file's tables; sinusoidal]
    #[arg(long)]
    pub positions: Option<PositionKind>,
    /// The most tokens of a sequence [default: as the file's tables; 5000]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number)]
    pub max_len: Option<usize>,
    /// The epsilon of the layer norms [default: 1e-5; annotated: 2e-6]
    #[arg(long, allow_negative_numbers = true)]
    pub norm_epsilon: Option<f64>,
    /// What the norms' variance is divided by [default: biased; annotated: unbiased]
    #[arg(long)]
    pub norm_variance: Option<Variance>,
    /// Whether embeddings are multiplied by the square root of the width [default: true]
    #[arg(long, value_name = "BOOL")]
    pub scale_embeddings: Option<bool>,
    /// The token that fills short sequences up [default: 0; marian: the last]
    #[arg(long, allow_negative_numbers = true, value_parser = token_id)]
    pub pad_id: Option<u32>,
    /// Probability of dropout when it is trained further [default: 0.1]
    #[arg(long, allow_negative_numbers = true)]
    pub dropout: Option<f64>,
    /// Which vocabulary matrices are shared [default: those that are the same]
    #[arg(long)]
    pub weight_tying: Option<Tying>,
    /// Pass over tensors and other objects that the model does not have
    #[arg(long)]
    pub allow_unused: bool,
}

fn token_id(text: &str) -> Result<u32, String> {
    text.parse()
        .map_err(|_| "must be a whole number, written in digits".into())
}

impl ModelArgs {
    /// What the model crate calls them.
    pub fn options(&self, names: &NameArgs) -> ImportOptions {
        ImportOptions {
            layout: names.layout.map(Into::into),
            n_heads: self.heads,
            activation: self.activation.map(Into::into),
            norm_placement: self.norm.map(Into::into),
            norm_epsilon: self.norm_epsilon,
            norm_variance: self.norm_variance.map(Into::into),
            scale_embeddings: self.scale_embeddings,
            positions: self.positions.map(Into::into),
            max_len: self.max_len,
            weight_tying: self.weight_tying.map(Into::into),
            pad_id: self.pad_id,
            dropout: self.dropout,
            entry: names.entry.clone(),
            rename: names.rename.clone(),
            allow_unused: self.allow_unused,
        }
    }
}

/// Flags of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// A safetensors file, or a checkpoint of torch.save
    pub file: PathBuf,
    /// How its names are read.
    #[command(flatten)]
    pub names: NameArgs,
    /// What it does not show.
    #[command(flatten)]
    pub model: ModelArgs,
    /// Write a safetensors file with this program's names and the model's configuration
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Numbers of that file
    #[arg(long, default_value = "f32", requires = "output")]
    pub dtype: DtypeName,
    /// Replace that file where it is there already
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Make a run in this folder, new or empty, as if it had been trained on the task
    #[arg(long, value_name = "FOLDER")]
    pub run_dir: Option<PathBuf>,
    /// The task of that run.
    #[command(flatten)]
    pub task: TaskArgs,
}

impl ImportArgs {
    /// Refuses to write nothing, and flags of a task where no run is made.
    ///
    /// # Errors
    ///
    /// The first that is wrong.
    pub fn check(&self) -> Result<(), UsageError> {
        if self.output.is_none() && self.run_dir.is_none() {
            let expected = "is missing: name a file to write, or give --run-dir FOLDER";
            return Err(UsageError::new("--output", "", expected));
        }
        let TaskArgs {
            task,
            min_length,
            max_length,
            symbols,
            max_digits,
        } = &self.task;
        let task = task.map(|task| format!("{task:?}").to_lowercase());
        let has_run = self.run_dir.is_some();
        super::needs("--task", task.as_ref(), "--run-dir", has_run)?;
        for (flag, value) in [
            ("--min-length", min_length),
            ("--max-length", max_length),
            ("--symbols", symbols),
            ("--max-digits", max_digits),
        ] {
            super::needs(flag, value.as_ref(), "--run-dir", has_run)?;
        }
        Ok(())
    }
}

/// Flags of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Folder of a run, or a file that `import` wrote
    #[arg(value_name = "RUN")]
    pub source: PathBuf,
    /// Names and arrangement of what is written
    #[arg(long)]
    pub layout: LayoutName,
    /// The safetensors file to write
    #[arg(long, value_name = "FILE")]
    pub output: PathBuf,
    /// Its numbers
    #[arg(long, default_value = "f32")]
    pub dtype: DtypeName,
    /// Which checkpoint of the run: last, best, the number of a step, or average:K of the last K
    #[arg(long, value_name = "WHICH", default_value = "last")]
    pub checkpoint: Which,
    /// Write the layout's tensor FROM as TO; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = rename)]
    pub rename: Vec<(String, String)>,
    /// Without the tables of sines and cosines, which some PyTorch classes do not keep in their state
    #[arg(long)]
    pub no_positions: bool,
    /// Replace the file where it is there already
    #[arg(long)]
    pub force: bool,
}

/// Flags of `inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// A safetensors file, or a checkpoint of torch.save
    pub file: PathBuf,
    /// How its names are read.
    #[command(flatten)]
    pub names: NameArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
