//! Flags of `import`, `export` and `inspect`.

use std::path::PathBuf;

use clap::Args;
use training::config::ModelSettings;
use training::data::TASK;
use training::error::UsageError;
use training::pretrained::is_pretrained;
use training::run::checkpoint::CheckpointSelector;
use training::setting::Section;
use transformer::weights::{Dtype, ImportOptions, Layout};

use super::check::{needs, reject};
use super::parse::{SETTING, assignment, named, run_folder};
use super::settings::{TaskArgs, WeightArgs};

/// Flags about the names of tensors in a file.
#[derive(Clone, Debug, Default, Args)]
pub struct NameArgs {
    /// Layout of the file [default: that of its config.json (import only), else recognised by the
    /// names of its tensors]
    #[arg(long, value_parser = named::<Layout>())]
    pub layout: Option<Layout>,
    /// Entry of the checkpoint to read, needed if several entries hold weights and none of them is
    /// called model, state_dict or model_state_dict
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Read the tensor FROM as if it were called TO; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = assignment("the name in the file, =, and the name in the layout"))]
    pub rename: Vec<(String, String)>,
}

impl NameArgs {
    /// Returns import options with the given layout, entry and renamings.
    pub fn options(&self) -> ImportOptions {
        ImportOptions {
            layout: self.layout,
            entry: self.entry.clone(),
            rename: self.rename.clone(),
            ..ImportOptions::default()
        }
    }
}

/// Flags of `import`.
#[derive(Clone, Debug, Args)]
pub struct ImportArgs {
    /// A safetensors file, a checkpoint of torch.save, or a Hugging Face folder
    pub file: PathBuf,
    /// How the names of tensors in the file are read.
    #[command(flatten)]
    pub names: NameArgs,
    /// Hyper-parameters that do not follow from the weights.
    #[command(flatten)]
    pub model: WeightArgs,
    /// Set another setting of the model by its path, such as model.norm_epsilon=1e-6; may be given
    /// several times
    #[arg(long, value_name = "PATH=VALUE", value_parser = assignment(SETTING))]
    pub set: Vec<(String, String)>,
    /// Skip tensors and other objects that the model does not have
    #[arg(long)]
    pub allow_unused: bool,
    /// Write a safetensors file with this program's names and the model's configuration
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Number format of the --output file [default: f32, and 8-bit matrices stay as they are]
    #[arg(long, requires = "output", value_parser = named::<Dtype>())]
    pub dtype: Option<Dtype>,
    /// Replace the --output file if it exists
    #[arg(long, requires = "output")]
    pub force: bool,
    /// Create a run in this folder, new or empty, as if the model had been trained on the task
    #[arg(long, value_name = "FOLDER")]
    pub run_dir: Option<PathBuf>,
    /// Language of the run's sources, such as eng_Latn, if the folder has a multilingual model
    /// [default: the tokeniser's]
    #[arg(long, value_name = "CODE", requires = "run_dir")]
    pub source_lang: Option<String>,
    /// Language of the run's targets, such as deu_Latn [default: the model's]
    #[arg(long, value_name = "CODE", requires = "run_dir")]
    pub target_lang: Option<String>,
    /// Task of the run that `--run-dir` creates.
    #[command(flatten)]
    pub task: TaskArgs,
}

impl ImportArgs {
    /// Returns whether `--run-dir` creates a run on texts, with the tokeniser of the folder `file`.
    pub fn is_text(&self) -> bool {
        let is_other = self.task.of(TASK).is_some_and(|task| task != "text");
        is_pretrained(&self.file) && !is_other && self.task.settings().next().is_none()
    }

    /// Returns the options of the import.
    ///
    /// # Errors
    ///
    /// A setting that is not one of the model's, or that the file has, or a value that is not valid.
    pub fn options(&self) -> Result<ImportOptions, UsageError> {
        let mut model = serde_json::Map::new();
        let given = self.model.settings();
        let given = given.map(|setting| (setting, self.model.of(setting).unwrap_or_default()));
        let mut given: Vec<_> = given.collect();
        for (path, value) in &self.set {
            let mut settings = ModelSettings::SETTINGS.iter();
            let setting = settings.find(|setting| setting.path == path);
            let unknown = || UsageError::new("--set", path, "is not a setting of the model");
            given.push((setting.ok_or_else(unknown)?, value));
        }
        for (setting, text) in given {
            let value = setting.read_text(text);
            let wrong = |expected| UsageError::setting(setting, text, expected);
            model.insert(setting.key().into(), value.map_err(wrong)?);
        }
        // The values are valid, so that only a setting that the file itself shows can be wrong.
        let wrong = |_| UsageError::new("--set", "", "is for settings that weights do not show");
        let model: ImportOptions = serde_json::from_value(model.into()).map_err(wrong)?;
        Ok(ImportOptions {
            allow_unused: self.allow_unused,
            ..model.or(self.names.options())
        })
    }

    /// Rejects an import that writes nothing, flags of a task without `--run-dir`, and languages
    /// for a model that is not one of texts.
    ///
    /// # Errors
    ///
    /// The first flag that is missing or has no effect.
    pub fn check(&self) -> Result<(), UsageError> {
        if self.output.is_none() && self.run_dir.is_none() {
            let expected = "is missing: name a file to write, or give --run-dir FOLDER";
            return Err(UsageError::new("--output", "", expected));
        }
        if !self.is_text() {
            let expected = "is for a Hugging Face folder, without --task";
            reject("--source-lang", self.source_lang.as_ref(), expected)?;
            reject("--target-lang", self.target_lang.as_ref(), expected)?;
        }
        let has_run = self.run_dir.is_some();
        needs("--task", self.task.of(TASK), "--run-dir", has_run)?;
        let given = self.task.settings().next();
        given.map_or(Ok(()), |setting| {
            needs(setting.name(), self.task.of(setting), "--run-dir", has_run)
        })
    }
}

/// Flags of `export`.
#[derive(Clone, Debug, Args)]
pub struct ExportArgs {
    /// Folder of a run, `latest`, or a file that `import` wrote
    #[arg(value_name = "RUN", value_parser = run_folder())]
    pub source: PathBuf,
    /// Layout of the written file [default: that of the model's family of Hugging Face, else native]
    #[arg(long, value_parser = named::<Layout>())]
    pub layout: Option<Layout>,
    /// Write the file that the page `demo` reads: the weights in the layout native and in f32, and
    /// the settings of the run, which must be of a synthetic task
    #[arg(long, conflicts_with_all = ["layout", "dtype", "no_positions", "folder"])]
    pub web: bool,
    /// Safetensors file to write
    #[arg(long, value_name = "FILE", required_unless_present = "folder")]
    pub output: Option<PathBuf>,
    /// Write a folder that Hugging Face's `from_pretrained` can load; needs a Hugging Face layout
    #[arg(long, value_name = "FOLDER", conflicts_with = "output")]
    pub folder: Option<PathBuf>,
    /// Number format of the file [default: f32, and 8-bit matrices stay as they are in the layout native]
    #[arg(long, value_parser = named::<Dtype>())]
    pub dtype: Option<Dtype>,
    /// Checkpoint of the run: best for the run's model, which the best evaluation chose, last, the
    /// number of a step, or average:K for the mean of the last K
    #[arg(long, value_name = "WHICH", default_value = "best")]
    pub checkpoint: CheckpointSelector,
    /// Leave out the tables of sines and cosines, which some PyTorch classes do not have in their
    /// `state_dict`
    #[arg(long)]
    pub no_positions: bool,
    /// Replace the file if it exists
    #[arg(long)]
    pub force: bool,
}

/// Flags of `inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// A safetensors file, or a checkpoint of torch.save
    pub file: PathBuf,
    /// How the names of tensors in the file are read.
    #[command(flatten)]
    pub names: NameArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
