//! `train export`: write a model's weights for other programs.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use training::data::DataConfig;
use training::data::parallel::TokenizerKind;
use training::error::UsageError;
use training::files::write_whole;
use training::pretrained::write_folder;
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use training::run::layout::{self, STATUS};
use training::run::single_file;
use transformer::weights::{
    self, Contents, Dtype, ImportOptions, Layout, Parameters, PythonModel, WeightsError,
    WeightsFile,
};
use transformer::{Choice, TransformerConfig};

use super::error::wrong;
use super::output_file::{NOT_WRITTEN, check_output, is_written, write};
use crate::allocator::return_freed_pages;
use crate::args::flags::fit_flag_of;
use crate::args::{named, needs, reject, run_folder};
use crate::device::DeviceName;
use crate::number::{bytes, counted};
use crate::terminal::output;

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
    #[arg(long, value_name = "FILE")]
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
    /// Replace what an earlier export wrote
    #[arg(long)]
    pub force: bool,
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a run that cannot be read, a model that the layout cannot represent, or a file that
/// cannot be written.
pub fn run(args: &ExportArgs) -> Result<()> {
    let output = output_of(args)?;
    let _pages = return_freed_pages();
    let (config, contents, parameters, run) = read(args)?;
    if args.web {
        return write_web(args, &output, run);
    }
    let layout = match args.layout.or_else(|| Layout::of_hugging_face(&config)) {
        Some(layout) => layout,
        None if args.folder.is_none() => Layout::Native,
        None => {
            let what = "has settings that no family of Hugging Face has, unlike one that is trained \
                        with `fit --family t5`, or another; with --layout t5, the error names one of them";
            return Err(UsageError::new("the model of", args.source.display(), what).into());
        }
    };
    let int8 = args.dtype.filter(|dtype| *dtype == Dtype::Int8);
    let needed = "--layout native: other layouts have no 8-bit integers";
    needs("--dtype", int8, needed, layout.is_native())?;
    let theirs = weights::export(&config, contents, &parameters, layout, !args.no_positions)
        .map_err(|error| {
            let able = match (Layout::of_hugging_face(&config), &args.folder) {
                (Some(able), Some(_)) => format!("--layout {able} can"),
                (None, Some(_)) => format!("train it with `fit --family {layout}`"),
                (_, None) => {
                    let can = |layout: &&Layout| {
                        let export =
                            weights::export(&config, contents, &Parameters::new(), **layout, false);
                        !matches!(export, Err(WeightsError::Layout { .. }))
                    };
                    let able: Vec<String> = Layout::ALL
                        .iter()
                        .filter(can)
                        .map(ToString::to_string)
                        .collect();
                    format!("--layout {} can", able.join(", "))
                }
            };
            unrepresentable(error, &able)
        })?;
    drop(parameters);
    let mut metadata = weights::metadata(&config);
    if args.folder.is_some() {
        // The library `transformers` requires this entry.
        metadata.insert("format".into(), "pt".into());
    }
    if let Some(folder) = &args.folder {
        let created = fs::create_dir_all(folder);
        created.with_context(|| format!("cannot create {}", folder.display()))?;
    }
    if let (Some(folder), Some(run)) = (&args.folder, &run) {
        write_others(folder, layout, &args.source, run)?;
    }
    let size = write(&output, &theirs, args.dtype, &metadata)?;
    let (path, count) = (output.display(), counted(theirs.len(), "tensor"));
    let of = |run: &TrainedRun| format!(", {}", args.checkpoint.describe(run.step));
    let of = run.as_ref().map(of).unwrap_or_default();
    output::result(&format!(
        "{path}: {count} in the layout {layout}, {size}{of}"
    ))?;
    if args.folder.is_some() {
        return Ok(());
    }
    let vocabularies = run.map(|run| run.dataset.codec().vocabularies());
    let model = PythonModel {
        stacks: (&config).into(),
        contents,
        begin_end: vocabularies.map(|tokens| (tokens.bos_id, tokens.eos_id)),
        has_positions: !args.no_positions,
        path: &output,
    };
    let code = layout.python(&model);
    code.map_or(Ok(()), |code| output::results(&code))
}

/// Returns the path of the file of weights: `--output`, or a file in `--folder`. Rejects a path
/// that is of the wrong kind or already used, and flags that do not go with `--folder`.
fn output_of(args: &ExportArgs) -> Result<PathBuf, UsageError> {
    let Some(folder) = &args.folder else {
        let output = args.output.clone().ok_or_else(|| {
            let expected = "is missing: name a file to write, or give --folder FOLDER";
            UsageError::new("--output", "", expected)
        })?;
        check_output(&output, args.force)?;
        return Ok(output);
    };
    layout::check_output("folder", &folder.join(STATUS))?;
    let other = args.layout.filter(|layout| !layout.is_hugging_face());
    let layouts = Layout::ALL.iter().filter(|layout| layout.is_hugging_face());
    let names: Vec<_> = layouts.map(|layout| layout.to_string()).collect();
    let expected = format!("has no --folder; {} have one", names.join(", "));
    reject("--layout", other, &expected)?;
    let reject = |what: &str| Err(UsageError::new("--folder", folder.display(), what));
    if args.source.is_file() {
        return reject("needs the folder of a run, which has the special tokens");
    }
    if folder.exists() && !folder.is_dir() {
        return reject("is a file, but must be a folder");
    }
    let has_files = fs::read_dir(folder).is_ok_and(|mut files| files.next().is_some());
    if has_files && !args.force {
        return reject("has files already; name another folder, or give --force to replace them");
    }
    let model = folder.join("model.safetensors");
    if has_files && !is_written(&model) {
        return reject(NOT_WRITTEN);
    }
    Ok(model)
}

/// Writes all files of a Hugging Face folder except the weights.
///
/// `path` is the run folder.
fn write_others(folder: &Path, layout: Layout, path: &Path, run: &TrainedRun) -> Result<()> {
    let file = path.join("tokenizer.json");
    let tokenizer = file.exists().then(|| fs::read(file)).transpose();
    let tokenizer = tokenizer.with_context(|| format!("cannot read {}", path.display()))?;
    let (config, dataset) = (&run.config, run.dataset.as_ref());
    let written = write_folder(folder, layout, config, dataset, tokenizer.as_deref())?;
    let written = written.unwrap_or_default();
    output::result(&format!("{}: {}", folder.display(), written.join(", ")))?;
    let DataConfig::Text(text) = &config.data else {
        output::note("a task of symbols has no tokeniser, so the folder has none");
        return Ok(());
    };
    if tokenizer.is_some() && text.tokenizer.kind == TokenizerKind::Word {
        let what = "the tokeniser is one of words: other programs that read the folder put a blank between all tokens of an output, beside punctuation, too";
        output::note(what);
    }
    if tokenizer.is_none() {
        let what = "a folder has one tokeniser for both sides, as `fit --joint-vocabulary` trains; the run's are not written: in Python, end each source with the end symbol";
        output::note(what);
    }
    Ok(())
}

/// Converts an error of an export. If the layout cannot represent a setting, the message names the
/// setting by its flag, or by its path if `fit` has no flag for it, and
/// ends with `able`, which says what can.
fn unrepresentable(error: WeightsError, able: &str) -> UsageError {
    let WeightsError::Layout {
        layout,
        field,
        value,
    } = error
    else {
        return UsageError::new("RUN", "", error.to_string());
    };
    let path = format!("model.{field}");
    let flagged = fit_flag_of(&path).map(|flag| format!("{flag} {value}"));
    // A layout of one stack has no other.
    let setting = match field {
        "n_encoder_layers" => "an encoder".into(),
        "n_decoder_layers" => "a decoder".into(),
        _ => flagged.unwrap_or_else(|| format!("{path}={value}")),
    };
    let expected = format!("cannot represent the model, which has {setting}; {able}");
    UsageError::new("--layout", layout, expected)
}

/// Settings, part and parameters of a model, and the run that they are from.
type Source = (TransformerConfig, Contents, Parameters, Option<TrainedRun>);

/// Reads the model of a run, or of a file of weights.
fn read(args: &ExportArgs) -> Result<Source> {
    let path = &args.source;
    if !path.is_file() {
        let device = DeviceName::choose(None)?.open()?;
        let run = TrainedRun::load_selected(path, args.checkpoint, &device)?;
        let (config, parameters) = (run.config.model.clone(), weights::parameters(&run.model));
        return Ok((config, Contents::Model, parameters, Some(run)));
    }
    let checkpoint = Some(args.checkpoint).filter(|it| *it != CheckpointSelector::default());
    reject("--checkpoint", checkpoint, "needs the folder of a run")?;
    let unfit = |error: WeightsError| match error.without_path() {
        WeightsError::Heads | WeightsError::Unrecognised { .. } => {
            let what = "is not the folder of a run, nor a file that `train import --output` wrote";
            UsageError::new("RUN", path.display(), what)
        }
        error => wrong(path, error),
    };
    let options = ImportOptions {
        layout: Some(Layout::Native),
        ..Default::default()
    };
    let file = WeightsFile::open(path).map_err(unfit)?;
    let imported = weights::import(&file, &options).map_err(unfit)?;
    let other = || UsageError::new("RUN", path.display(), "has no stacks of one whole model");
    let config = imported.stacks.config().ok_or_else(other)?;
    Ok((config, imported.contents, imported.parameters, None))
}

/// Writes a run as the single file that the page `demo` reads.
fn write_web(args: &ExportArgs, output: &Path, run: Option<TrainedRun>) -> Result<()> {
    let is_synthetic = |run: &TrainedRun| !matches!(run.config.data, DataConfig::Text(_));
    let run = run.filter(is_synthetic).ok_or_else(|| {
        let expected =
            "must be the folder of a run of a synthetic task, whose symbols the page has";
        UsageError::new("RUN", args.source.display(), expected)
    })?;
    let contents = single_file::to_bytes(&run.config, &run.model)?;
    let path = output.display();
    write_whole(output, &contents).with_context(|| format!("cannot write {path}"))?;
    let (task, size) = (run.config.data.name(), bytes(contents.len()));
    let of = args.checkpoint.describe(run.step);
    output::result(&format!(
        "{path}: a model of the task {task} for the page demo, {size}, {of}"
    ))
}
