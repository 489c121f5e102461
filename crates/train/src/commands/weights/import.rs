//! `train import`: import weights of other programs, or of an earlier import.

use std::borrow::Cow;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use training::config::{ModelSettings, RunConfig};
use training::data::{DataConfig, Dataset, Sides, TASK};
use training::error::{UsageError, shortened};
use training::pretrained::{Languages, PretrainedModel, is_pretrained};
use training::run::checkpoint::{self, Checkpoints, Content};
use training::run::{RunFolder, TrainingState, layout};
use training::setting::Section;
use transformer::weights::{
    self, Contents, Dtype, ImportOptions, Imported, Layout, ModelFolder, Parameters, WeightsError,
    WeightsFile,
};
use transformer::{Positions, TransformerConfig};

use super::error::wrong;
use super::output_file::{check_output, write};
use crate::allocator::return_freed_pages;
use crate::args::{NameArgs, SETTING, TaskArgs, WeightArgs, assignment, named, needs, reject};
use crate::device::DeviceName;
use crate::number::counted;
use crate::terminal::output;

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
    /// Replace the --output file if an earlier import or an export wrote it
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
        let is_text = |(setting, value)| setting == TASK && value == "text";
        is_pretrained(&self.file) && self.task.iter().all(is_text)
    }

    /// Returns the options of the import.
    ///
    /// # Errors
    ///
    /// A setting that is not one of the model's, or that the file has, or a value that is not valid.
    pub fn options(&self) -> Result<ImportOptions, UsageError> {
        let mut model = serde_json::Map::new();
        let mut given: Vec<_> = self.model.iter().collect();
        for (path, value) in &self.set {
            let mut settings = ModelSettings::SETTINGS.iter();
            let setting = settings.find(|setting| setting.path == path);
            let unknown = || UsageError::new("--set", path, "is not a setting of the model");
            given.push((setting.ok_or_else(unknown)?, value));
        }
        for (setting, text) in given {
            let value = setting.read_text(text);
            let wrong = |expected| UsageError::setting(setting, text, expected);
            let other = model.insert(setting.key().into(), value.map_err(wrong)?);
            let twice = other.map(|_| text);
            reject(setting.name(), twice, "is given twice")?;
        }
        // The values are valid, so that only a setting that the file itself shows can be wrong.
        let wrong = |_| UsageError::new("--set", "", "is for settings that weights do not show");
        let model: ImportOptions = serde_json::from_value(model.into()).map_err(wrong)?;
        Ok(ImportOptions {
            allow_unused: self.allow_unused,
            ..model.or(self.names.options())
        })
    }

    /// Converts an error about the file, or about the value of a flag.
    fn wrong(&self, error: WeightsError) -> UsageError {
        let is_given = |field| {
            let is_it = |path: &str| path.rsplit('.').next() == Some(field);
            let mut flags = self.model.iter();
            flags.any(|(it, _)| is_it(it.path)) || self.set.iter().any(|(path, _)| is_it(path))
        };
        match error.without_path() {
            WeightsError::Config(error) if is_given(error.field) => error.into(),
            error => wrong(&self.file, error),
        }
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
            let task = self.task.of(TASK);
            let texts = task.filter(|task| *task == "text" && !is_pretrained(&self.file));
            let expected = "is for a Hugging Face folder, such as `train export --folder` writes of a run with `fit --family`; a file has no tokeniser: of another run, copy its folder";
            reject("--task", texts, expected)?;
        }
        let has_run = self.run_dir.is_some();
        let mut given = self.task.iter();
        given.try_for_each(|(it, value)| needs(it.name(), Some(value), "--run-dir", has_run))
    }
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a file that cannot be read or imported, or a file or a folder that cannot be
/// written.
pub fn run(args: &ImportArgs) -> Result<()> {
    args.check()?;
    let _pages = return_freed_pages();
    if let Some(path) = &args.output {
        check_output(path, args.force)?;
    }
    if let Some(run) = &args.run_dir {
        layout::check_output("run_dir", run)?;
    }
    let options = args.options()?;
    let mut of_run = None;
    let imported = match &args.run_dir {
        Some(run) if args.is_text() => {
            let languages = Languages::new(args.source_lang.clone(), args.target_lang.clone());
            if let Ok(folder) = ModelFolder::open(&args.file) {
                warn_of_replaced(&options, &folder);
            }
            let mut model = PretrainedModel::open_with(&args.file, &languages, options)?;
            let mut config = model.config.clone();
            let sha256 = model.sha256();
            let text = &mut model.dataset.config;
            if let Some(pretrained) = &mut text.pretrained {
                pretrained.sha256 = Some(sha256);
            }
            // Two positions remain for the begin and the end symbol.
            let most = config.model.max_len.saturating_sub(2).max(1);
            text.max_length = Sides::both(most);
            config.data = DataConfig::Text(Box::new(text.clone()));
            config.fit_to(&model.dataset)?;
            config.execution.backend = DeviceName::choose(None)?.to_string();
            let with = |folder: &Path| model.dataset.save(folder);
            save(args, run, &config, &model.imported.parameters, with)?;
            of_run = Some(config.model);
            model.imported
        }
        run => {
            let imported = read(&args.file, options).map_err(|error| args.wrong(error))?;
            if let Some(run) = run {
                let config = run_of(args, &imported)?;
                save(args, run, &config, &imported.parameters, |_| Ok(()))?;
                of_run = Some(config.model);
            }
            imported
        }
    };
    let stacks = &imported.stacks;
    describe(&imported, of_run);
    if let Some(path) = &args.output {
        let all = &imported.parameters;
        let parameters = match imported.contents {
            Contents::Model => Cow::Borrowed(all),
            alone => Cow::Owned(weights::export(stacks, alone, all, Layout::Native, false)?),
        };
        let size = write(path, &parameters, args.dtype, &weights::metadata(stacks))?;
        output::result(&format!("{}: {size}", path.display()))?;
    }
    if let Some(run) = &args.run_dir {
        output::result(&format!("{}: step 0 of a run", run.display()))?;
    }
    Ok(())
}

/// Imports a file of weights, or a folder in the Hugging Face format.
///
/// For a file in a Hugging Face layout, a `config.json` beside the file is also read. `options`
/// take precedence over `config.json`.
fn read(path: &Path, options: ImportOptions) -> Result<Imported, WeightsError> {
    if !path.is_dir() {
        let file = WeightsFile::open(path)?;
        let recognised = weights::recognise(&file, &options);
        let is_theirs = recognised.is_ok_and(|recognised| recognised.layout.is_hugging_face());
        if !is_theirs || !path.with_file_name("config.json").exists() {
            return weights::import(&file, &options);
        }
    }
    let mut folder = ModelFolder::open(path)?;
    warn_of_replaced(&options, &folder);
    folder.options = options.or(folder.options);
    folder.import()
}

/// Warns if flags contradict the folder's `config.json`.
fn warn_of_replaced(flags: &ImportOptions, folder: &ModelFolder) {
    let (own, theirs) = (flags.clone(), folder.options.clone());
    if own.clone().or(theirs.clone()) != theirs.or(own) {
        output::warn("settings of config.json are replaced by those of the flags");
    }
}

/// Prints the warnings of the import, the contents of the file, and the settings that do not follow
/// from the weights; `of_run` are those of the run that was created.
fn describe(imported: &Imported, of_run: Option<TransformerConfig>) {
    for warning in &imported.warnings {
        output::warn(&shortened(warning.clone()));
    }
    if let Some(first) = imported.others.keys().next() {
        let n = counted(imported.others.len(), "tensor");
        output::warn(&format!("{n} of no stack left out: {first}, .."));
    }
    let (layout, contents) = (imported.layout, imported.contents);
    let tensors = imported.parameters.values();
    let n = counted(tensors.map(|data| data.num_elements()).sum(), "parameter");
    let Some(config) = &of_run.or_else(|| imported.stacks.config()) else {
        return output::note(&format!("layout {layout}: {contents}, {n}"));
    };
    let layers = match contents {
        Contents::Model => format!("{}+{}", config.n_encoder_layers, config.n_decoder_layers),
        Contents::Encoder => config.n_encoder_layers.to_string(),
        Contents::Decoder => config.n_decoder_layers.to_string(),
    };
    output::note(&format!(
        "layout {layout}: {contents}, {layers} layers, d_model {}, {} heads, d_ff {}, {n}",
        config.d_model, config.n_heads, config.d_ff,
    ));
    output::note(&format!("settings: {}", flags_of(config)));
}

/// Returns the flags of `import` for the settings that do not follow from the weights, except
/// `--heads` and `--dropout`.
fn flags_of(config: &TransformerConfig) -> String {
    let config = serde_json::to_value(config).expect("it is plain data");
    let keys = "norm_placement norm_epsilon norm_variance activation positions max_len \
        scale_embeddings weight_tying pad_id";
    let settings = ModelSettings::SETTINGS.iter();
    let unshown = settings.filter(|setting| keys.split(' ').any(|key| key == setting.key()));
    let flags = unshown.map(|setting| {
        let value = setting.shown(&config[setting.key()]);
        let flagged = setting.flag.map(|flag| format!("{} {value}", flag.name));
        flagged.unwrap_or_else(|| format!("--set {setting}={value}"))
    });
    let flags: Vec<String> = flags.collect();
    flags.join(" ")
}

/// Returns the settings of the run that is created. Rejects a single encoder or decoder, and a
/// model that does not fit the sequences of the task.
fn run_of(args: &ImportArgs, imported: &Imported) -> Result<RunConfig, UsageError> {
    let mut config = args.task.apply(args.task.defaults())?;
    config.execution.backend = DeviceName::choose(None)?.to_string();
    let given = &imported.config().map_err(|error| args.wrong(error))?;
    config.model = given.clone();
    config.check()?;
    let name = config.data.name();
    let [theirs, ours] =
        [given, &config.model].map(|model| serde_json::to_value(model).expect("it is plain data"));
    for setting in ModelSettings::SETTINGS.iter().filter(|it| it.is_derived) {
        let [theirs, ours] = [&theirs, &ours].map(|model| &model[setting.key()]);
        // Only a table of learned positions has one length.
        let is_bound = *setting != ModelSettings::max_len || given.positions == Positions::Learned;
        if is_bound && theirs != ours {
            let what = format!(
                "makes a run of the task {name} with {setting} {ours}, but the model has {theirs}: give the task that it was trained on (--task, --symbols, --max-length, --set model.pad_id); a file has no tokeniser, so that a model of texts becomes a run again by copying the folder of its run, or from the folder that `train export --folder` writes if it was trained with `fit --family`"
            );
            return Err(UsageError::new("--run-dir", "", what));
        }
    }
    Ok(config)
}

/// Creates the folder of a run with a checkpoint of step 0, which is there before the run is. `with`
/// writes the files of the run's data set.
fn save(
    args: &ImportArgs,
    folder: &Path,
    config: &RunConfig,
    parameters: &Parameters,
    with: impl FnOnce(&Path) -> Result<()>,
) -> Result<()> {
    let none = Parameters::new();
    let state = serde_json::to_vec_pretty(&TrainingState::new(config))?;
    let settings = serde_json::to_vec_pretty(config)?;
    let files = [
        (checkpoint::MODEL, Content::Parameters(parameters)),
        (checkpoint::OPTIMIZER, Content::Parameters(&none)),
        (checkpoint::STATE, Content::Bytes(&state)),
        (checkpoint::CONFIG, Content::Bytes(&settings)),
    ];
    let mut folder = RunFolder::create_with(Some(folder), config, |run| {
        let checkpoints = Checkpoints::of(run);
        let saved = checkpoints.save(0, &files).and_then(|_| with(run));
        saved.inspect_err(|_| _ = fs::remove_dir_all(checkpoints.folder()))
    })?;
    folder.record_import(&args.file)
}
