//! `train import`: import weights of other programs, or of an earlier import.

use std::borrow::Cow;
use std::path::{Path, PathBuf};

use anyhow::Result;
use training::config::{ModelSettings, RunConfig};
use training::data::{DataConfig, Dataset, Sides};
use training::error::UsageError;
use training::pretrained::{Languages, PretrainedModel};
use training::run::checkpoint::{self, Checkpoints, Content};
use training::run::{RunFolder, TrainingState, layout};
use transformer::weights::{
    self, Contents, ImportOptions, Imported, Layout, ModelFolder, Parameters, WeightsError,
    WeightsFile,
};
use transformer::{Positions, TransformerConfig};

use super::error::{shown, wrong};
use super::output_file::{check_output, write};
use crate::allocator::return_freed_pages;
use crate::args::ImportArgs;
use crate::device::DeviceName;
use crate::terminal::output;

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
    let unfit = |error| wrong(&args.file, error);
    let options = args.options()?;
    let (imported, saved) = match &args.run_dir {
        Some(run) if args.is_text() => {
            let languages = Languages {
                source: args.source_lang.clone(),
                target: args.target_lang.clone(),
            };
            let mut model = PretrainedModel::open_with(&args.file, &languages, options)?;
            let mut config = model.config.clone();
            let text = &mut model.dataset.config;
            // Two positions remain for the begin and the end symbol.
            let most = config.model.max_len.saturating_sub(2).max(1);
            text.max_length = Sides {
                source: text.max_length.source.min(most),
                target: text.max_length.target.min(most),
            };
            config.data = DataConfig::Text(Box::new(text.clone()));
            config.fit_to(&model.dataset)?;
            config.execution.backend = DeviceName::choose(None)?.to_string();
            let with = |folder: &Path| model.dataset.save(folder);
            let saved = save(run, &config, &model.imported.parameters, with)?;
            (model.imported, Some(saved))
        }
        _ => {
            let imported = read(&args.file, options).map_err(unfit)?;
            let save = |folder: &PathBuf| {
                let config = run_of(args, &imported)?;
                save(folder, &config, &imported.parameters, |_| Ok(()))
            };
            let saved = args.run_dir.as_ref().map(save).transpose()?;
            (imported, saved)
        }
    };
    let config = &imported.config;
    describe(&imported);
    if let Some(path) = &args.output {
        let all = &imported.parameters;
        let parameters = match imported.contents {
            Contents::Model => Cow::Borrowed(all),
            alone => Cow::Owned(weights::export(config, alone, all, Layout::Native, false)?),
        };
        let size = write(path, &parameters, args.dtype, &weights::metadata(config))?;
        output::result(&format!("{}: {size}", path.display()))?;
    }
    if let Some(path) = saved {
        output::result(&format!("{}: step 0 of a run", path.display()))?;
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
    folder.options = options.or(folder.options);
    folder.import()
}

/// Prints the warnings of the import, the contents of the file, and the settings that do not follow
/// from the weights.
fn describe(imported: &Imported) {
    for warning in &imported.warnings {
        output::warn(&shown(warning));
    }
    let config = &imported.config;
    let layers = match imported.contents {
        Contents::Model => format!("{}+{}", config.n_encoder_layers, config.n_decoder_layers),
        Contents::Encoder => config.n_encoder_layers.to_string(),
        Contents::Decoder => config.n_decoder_layers.to_string(),
    };
    let tensors = imported.parameters.values();
    output::note(&format!(
        "layout {}: {}, {layers} layers, d_model {}, {} heads, d_ff {}, {} parameters",
        imported.layout,
        imported.contents,
        config.d_model,
        config.n_heads,
        config.d_ff,
        tensors.map(|data| data.num_elements()).sum::<usize>(),
    ));
    output::note(&format!("taken to be: {}", flags_of(config)));
}

/// Returns the flags of `import` for the settings that do not follow from the weights, except
/// `--heads` and `--dropout`.
pub(super) fn flags_of(config: &TransformerConfig) -> String {
    let config = serde_json::to_value(config).expect("it is plain data");
    let flags = [
        ModelSettings::norm_placement,
        ModelSettings::norm_epsilon,
        ModelSettings::norm_variance,
        ModelSettings::activation,
        ModelSettings::positions,
        ModelSettings::max_len,
        ModelSettings::scale_embeddings,
        ModelSettings::weight_tying,
        ModelSettings::pad_id,
    ]
    .map(|setting| {
        let value = training::setting::shown(&config[setting.key()]).replace('_', "-");
        match setting.flag {
            Some(flag) => format!("{} {value}", flag.name),
            None => format!("--set {setting}={value}"),
        }
    });
    flags.join(" ")
}

/// Returns the settings of the run that is created. Rejects a single encoder or decoder, and a
/// model that does not fit the sequences of the task.
fn run_of(args: &ImportArgs, imported: &Imported) -> Result<RunConfig, UsageError> {
    let reject = |what: String| Err(UsageError::new("--run-dir", "", what));
    if imported.contents != Contents::Model {
        let contents = imported.contents;
        return reject(format!(
            "needs a whole model, but the file holds {contents}"
        ));
    }
    let mut config = args.task.apply(args.task.defaults())?;
    config.execution.backend = DeviceName::choose(None)?.to_string();
    let given = &imported.config;
    config.model = given.clone();
    config.check()?;
    let name = config.data.name();
    let [theirs, ours] =
        [given, &config.model].map(|model| serde_json::to_value(model).expect("it is plain data"));
    for setting in [
        ModelSettings::source_vocab_size,
        ModelSettings::target_vocab_size,
        ModelSettings::max_len,
        ModelSettings::pad_id,
    ] {
        let [theirs, ours] = [&theirs, &ours].map(|model| &model[setting.key()]);
        // Only a table of learned positions has one length.
        let is_bound = setting != ModelSettings::max_len || given.positions == Positions::Learned;
        if is_bound && theirs != ours {
            return reject(format!(
                "makes a run of the task {name} with {setting} {ours}, but the model has {theirs}: give the task that it was trained on (--task, --symbols, --max-length, --set model.pad_id), or --output instead"
            ));
        }
    }
    Ok(config)
}

/// Creates the folder of a run with a checkpoint of step 0, and returns the path of the folder.
/// `with` writes the files of the run's data set.
fn save(
    folder: &Path,
    config: &RunConfig,
    parameters: &Parameters,
    with: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let mut folder = RunFolder::create_with(Some(folder), config, with)?;
    let state = TrainingState {
        seed: config.seed,
        threads: rayon::current_num_threads(),
        processes: 1,
        version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let none = Parameters::new();
    let state = serde_json::to_vec_pretty(&state)?;
    let config = serde_json::to_vec_pretty(config)?;
    let files = [
        (checkpoint::MODEL, Content::Parameters(parameters)),
        (checkpoint::OPTIMIZER, Content::Parameters(&none)),
        (checkpoint::STATE, Content::Bytes(&state)),
        (checkpoint::CONFIG, Content::Bytes(&config)),
    ];
    Checkpoints::of(folder.path()).save(0, &files)?;
    folder.record_import()?;
    Ok(folder.path().into())
}
