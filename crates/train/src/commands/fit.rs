//! `train fit`: train a model, test it and report the results.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use training::collective::check_alike;
use training::config::{EvaluationConfig, ExecutionConfig, RunConfig, file, setting_at};
use training::data::parallel::{TextConfig, TokenizerConfig};
use training::data::{self, DataConfig, Sides, TASK};
use training::error::{Subject, UsageError};
use training::pretrained::{Languages, PretrainedModel};
use training::run::RunFolder;
use training::setting::{Section, Setting};
use transformer::weights::Layout;

use super::train::{begin_with, fit_to, new_trainer, open_device, train, warn_of_warmup};
use super::{dry_run, lengths};
use crate::args::{
    SETTING, SettingArgs, assignment, named_if, needs, preset, recorded_path, reject,
};
use crate::device::DeviceName;
use crate::exit::Exit;
use crate::group::Group;
use crate::terminal::{end_progress, output};

/// Settings with the files of tokenisers.
const FILES: [&Setting; 2] = [TokenizerConfig::source_file, TokenizerConfig::target_file];

/// Text at the end of the help of `fit`.
pub const HINT: &str = "\
`train presets NAME` prints all settings of a preset. Settings without a flag are changed by --set or --config.";

/// Flags of `fit`, in the groups of its help. A setting whose flag is not given comes from the file
/// of `--config`, the model of `--from`, the preset or the task.
#[derive(Clone, Debug, Args)]
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
    #[arg(long, value_name = "LAYOUT", help_heading = "Model", hide_short_help = true, conflicts_with = "from", value_parser = named_if(|it: &Layout| it.is_of_texts() && !it.is_native()))]
    pub family: Option<Layout>,
    /// A tokenizer.json for both sides, instead of a trained one
    #[arg(long, value_name = "FILE", help_heading = "Tokeniser (for --task text)", hide_short_help = true, conflicts_with_all = ["source_tokenizer_file", "target_tokenizer_file"], value_parser = recorded_path())]
    pub tokenizer_file: Option<String>,
    /// Fine-tune the model in this Hugging Face folder, with its tokeniser; `train export RUN --folder`
    /// writes one of a run that began with --family
    #[arg(long, value_name = "FOLDER", help_heading = "Pretrained model (for --task text)", conflicts_with_all = ["preset", "config"], value_parser = recorded_path())]
    pub from: Option<String>,
    /// Language of the sources, such as eng_Latn, if the model is multilingual [default: the
    /// tokeniser's]
    #[arg(long, value_name = "CODE", help_heading = "Pretrained model (for --task text)", hide_short_help = true, value_parser = recorded_path())]
    pub source_lang: Option<String>,
    /// Language of the targets, such as deu_Latn, if the model is multilingual [default: the
    /// model's]
    #[arg(long, value_name = "CODE", help_heading = "Pretrained model (for --task text)", hide_short_help = true, value_parser = recorded_path())]
    pub target_lang: Option<String>,
    /// Folder of the run, new or empty [default: runs/TASK-N]
    #[arg(long, value_name = "FOLDER", help_heading = "Run folder")]
    pub run_dir: Option<PathBuf>,
    /// Write event files for TensorBoard into the run's folder
    #[arg(long, help_heading = "Run folder")]
    pub tensorboard: bool,
    /// File of settings, TOML or JSON, such as a run's config.json; other flags, which
    /// cannot be --task and --preset, override it
    #[arg(long, value_name = "FILE", help_heading = "Settings and output", conflicts_with_all = ["preset", "task"])]
    pub config: Option<PathBuf>,
    /// Set a setting by its path in config.json, such as optimization.optimizer.beta_2=0.99, also
    /// one that has no flag; may be given several times
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
        let languages = Languages::new(self.source_lang.clone(), self.target_lang.clone());
        for (flag, name) in [
            ("--source-lang", &languages.source),
            ("--target-lang", &languages.target),
        ] {
            needs(flag, name.as_ref(), "--from", self.from.is_some())?;
        }
        let open = |folder| PretrainedModel::open(Path::new(folder), &languages);
        let model = self.from.as_ref().map(open).transpose()?;
        let mut config = match (&self.config, &model) {
            (Some(path), _) => file::read(path)?,
            (None, Some(model)) => self.of_pretrained(model)?,
            (None, None) => self.defaults()?,
        };
        if let Some(family) = self.family {
            config.choose_family(family)?;
        }
        config = self.settings.apply(config)?;
        if let Some(path) = &self.tokenizer_file {
            for file in FILES {
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
        let is_file = |it: &Subject| matches!(it, Subject::Setting(it) if FILES.contains(it));
        if self.tokenizer_file.is_some() && is_file(&error.subject) {
            error.subject = Subject::Other("--tokenizer-file".into());
        }
        let caches = RunFolder::caches(self.run_dir.as_deref());
        let (cache, caches) = (TextConfig::cache, caches.display().to_string());
        let is_default = error.value == caches && !self.gives(cache);
        if is_default && error.subject == Subject::Setting(cache) {
            let run_dir = self.run_dir.clone().unwrap_or_default();
            let what = format!("with the cache {caches}: {}", error.expected);
            return UsageError::argument("run_dir", run_dir.display(), what);
        }
        if let (Subject::Setting(setting), Some(file)) = (&error.subject, &self.config)
            && !self.gives(setting)
        {
            error.subject = Subject::Other(format!("{}: {}", file.display(), setting.path));
        }
        error
    }

    /// Returns whether a flag of the setting, or `--set`, gives it a value.
    fn gives(&self, setting: &Setting) -> bool {
        let is_it = |path: &str| {
            let rest = path.strip_prefix(setting.path);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        self.settings.of(setting).is_some() || self.set.iter().any(|(path, _)| is_it(path))
    }

    /// Rejects flags without an effect.
    fn check_effect(&self, config: &RunConfig) -> Result<(), UsageError> {
        if let DataConfig::Text(text) = &config.data {
            let tokenizer = &text.tokenizer;
            let has_files = tokenizer.source_file.is_some() && tokenizer.target_file.is_some();
            let mut settings = TokenizerConfig::SETTINGS.iter();
            let of_training = settings.find(|it| !FILES.contains(it) && self.gives(it));
            if let (Some(setting), true) = (of_training, text.pretrained.is_some() || has_files) {
                let expected = "is for tokenisers that are trained, but both sides have one";
                return Err(UsageError::setting(setting, "", expected));
            }
            let share = TextConfig::valid_share;
            if self.gives(share) && text.has_validation_corpus() {
                let expected = "is for runs without --valid-source, whose pairs are all used";
                return Err(UsageError::setting(share, text.valid_share, expected));
            }
        }
        let by = EvaluationConfig::best_by;
        if self.gives(by) && config.evaluation.decides() != config.evaluation.best_by {
            let value = self.settings.of(by).unwrap_or_default();
            let expected = "must be exact-match beside --target";
            return Err(UsageError::setting(by, value, expected));
        }
        let mut seen: HashSet<&str> = self.settings.iter().map(|(given, _)| given.path).collect();
        let mut paths = self.set.iter().map(|(path, _)| path);
        let twice = paths.find(|path| !seen.insert(path));
        let mut given = self.settings.iter();
        let flag = twice.and_then(|path| given.find(|(it, _)| it.path == path));
        let also = flag.map_or("twice".into(), |(it, _)| format!("by {}, too", it.name()));
        reject("--set", twice, &format!("is given {also}"))?;
        let set = self.set.iter();
        let set = set.filter_map(|(path, value)| Some((setting_at(path)?, &value[..])));
        self.settings.check_needs(config, set)
    }

    /// Returns the settings of the model of `--from`, which the flags override. Rejects a task other than text.
    fn of_pretrained(&self, model: &PretrainedModel) -> Result<RunConfig, UsageError> {
        let task = self.settings.of(TASK).filter(|task| *task != "text");
        let expected = "cannot be combined with --from, which is for texts";
        reject("--task", task, expected)?;
        let mut config = model.config.clone();
        if let DataConfig::Text(text) = &mut config.data
            && let Some(pretrained) = &text.pretrained
        {
            text.max_length = Sides::both(pretrained.usual_length());
        }
        Ok(config)
    }

    /// Returns the settings that the flags override if neither `--config` nor `--from` is given:
    /// those of the preset, else those of the task.
    fn defaults(&self) -> Result<RunConfig, UsageError> {
        let Some(preset) = &self.preset else {
            return Ok(self.settings.defaults());
        };
        let config = RunConfig::of_preset(preset).expect("the flag has presets only");
        let of_preset = config.data.name();
        match self.settings.of(TASK) {
            Some(task) if task != of_preset => {
                let expected = format!("is for --task {of_preset}, not {task}");
                Err(UsageError::new("--preset", preset, expected))
            }
            _ => Ok(config),
        }
    }
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, files that cannot be used, a device that cannot be used, a run that does not fit
/// into memory, a folder that cannot be written, or a loss or an output that is not finite.
pub(super) fn run(args: &FitArgs, group: &Group) -> Result<Exit> {
    let ended = fit(args, group);
    ended.map_err(|error| match error.downcast::<UsageError>() {
        Ok(error) => args.name_in_file(error).into(),
        Err(error) => error,
    })
}

fn fit(args: &FitArgs, group: &Group) -> Result<Exit> {
    let (mut config, given) = args.config()?;
    let run_dir = args.run_dir.as_deref();
    let mut caches = RunFolder::caches(run_dir);
    // A dry run leaves no files, so it writes tokenised corpora to a temporary folder.
    let for_dry_run = args.dry_run.then(tempfile::tempdir).transpose()?;
    if let DataConfig::Text(text) = &mut config.data {
        if let Some(folder) = &for_dry_run {
            text.cache = Some(folder.path().into());
        }
        caches = text.cache.clone().unwrap_or(caches);
    }
    let dataset = config.check()?;
    let given = begin_with(&mut config, given)?;
    lengths::at_end(&config, dataset.as_deref())?;
    if config.optimization.lora.is_some() && given.is_none() {
        let what = "--lora-rank leaves matrices as they are, which are random here: it is for --from and for \
                    imported models";
        output::warn(what);
    }
    let device = open_device(&config, group)?;
    if !args.dry_run && group.is_first() {
        RunFolder::check(run_dir, &caches)?;
    }
    let size = config.evaluation.validation_size;
    let dataset = group.first_then_others(|| data::prepare(&mut config.data, &caches, size));
    end_progress();
    let dataset = dataset?;
    fit_to(&mut config, dataset.as_ref(), group)?;
    let is_other = args.preset.as_deref() != Some("tiny") && given.is_none();
    let is_large = is_other && args.config.is_none() && dataset.batches_per_epoch().is_some();
    let more = if is_large { ", or --preset tiny" } else { "" };
    let advice = format!("a smaller --warmup or more steps{more}");
    warn_of_warmup(&config, 0, &advice);
    if args.dry_run {
        dry_run::run(&config, dataset.as_ref(), &device)?;
        return Ok(Exit::Success);
    }
    check_alike(group.collective(), &config, &[])?;
    let create = || RunFolder::create_with(run_dir, &config, |folder| dataset.save(folder));
    let folder = group.is_first().then(create).transpose()?;
    let folder = group.folder(folder);
    let path = folder.path().to_owned();
    let dataset = dataset.as_ref();
    let trainer = new_trainer(&config, dataset, &device, folder, given, group)?;
    let (is_plain, has_board) = (args.plain, args.tensorboard);
    train(trainer, &config, dataset, &path, is_plain, has_board, group)
}
