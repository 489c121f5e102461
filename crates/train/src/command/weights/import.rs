//! `train import`.

use std::collections::BTreeMap;

use anyhow::Result;
use transformer::Positions;
use transformer::weights::{
    self, Contents, Imported, Layout, Parameters, WeightsError, WeightsFile,
};

use super::{check_output, hugging_face, shown, size, warn_of_f16, write, wrong};
use crate::checkpoint::{self, Checkpoints};
use crate::cli::{DtypeName, ImportArgs, TaskName};
use crate::config::RunConfig;
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::fit::TrainingState;
use crate::output;
use crate::run_folder::RunFolder;

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a file that cannot be read or does not fit, a folder that cannot be written.
pub fn run(args: &ImportArgs) -> Result<()> {
    args.check()?;
    if let Some(path) = &args.output {
        check_output(path, args.force)?;
    }
    let unfit = |error| wrong(&args.file, error);
    let file = WeightsFile::open(&args.file).map_err(unfit)?;
    let mut options = args.model.options(&args.names);
    let about = hugging_face::complete(&mut options, &file, &args.file)?;
    let imported = weights::import(&file, &options).map_err(unfit)?;
    if let Some(about) = about {
        about.check(&imported.config)?;
    }
    let config = &imported.config;
    let run = args.run_dir.as_ref().map(|_| run_of(args, &imported));
    let run = run.transpose()?;
    let saved = run.map(|run| save(args, &run, &imported.parameters));
    let saved = saved.transpose()?;
    describe(&imported);
    if let Some(path) = &args.output {
        warn_of_f16(&imported.parameters, args.dtype);
        let about = weights::metadata(config);
        let bytes = match imported.contents {
            Contents::Model => to_bytes(&imported.parameters, args.dtype, &about),
            alone => {
                let (all, layout) = (&imported.parameters, Layout::Native);
                let named_alone = weights::export(config, alone, all, layout, false)?;
                to_bytes(&named_alone, args.dtype, &about)
            }
        }?;
        write(path, &bytes)?;
        output::result(&format!("{}: {}", path.display(), size(path)?))?;
    }
    if let Some(path) = saved {
        output::result(&format!("{}: step 0 of a run", path.display()))?;
    }
    Ok(())
}

/// Tells what was found, and what was taken for granted.
fn describe(imported: &Imported) {
    for warning in &imported.warnings {
        output::note(&format!("warning: {}", shown(warning)));
    }
    let config = &imported.config;
    let layers = match imported.contents {
        Contents::Model => format!("{}+{}", config.n_encoder_layers, config.n_decoder_layers),
        Contents::Encoder => config.n_encoder_layers.to_string(),
        Contents::Decoder => config.n_decoder_layers.to_string(),
    };
    output::note(&format!(
        "layout {}: {}, {layers} layers, d_model {}, {} heads, d_ff {}, {} numbers",
        imported.layout,
        imported.contents,
        config.d_model,
        config.n_heads,
        config.d_ff,
        numbers(&imported.parameters),
    ));
    let word = |x: &dyn std::fmt::Debug| format!("{x:?}").to_lowercase();
    output::note(&format!(
        "taken to be: --norm {} --norm-epsilon {} --norm-variance {} --activation {} --positions {} --max-len {} --scale-embeddings {} --weight-tying {} --pad-id {}",
        word(&config.norm_placement),
        config.norm_epsilon,
        word(&config.norm_variance),
        word(&config.activation),
        match config.positions {
            Positions::SinusoidalHalves => "sinusoidal-halves".into(),
            positions => word(&positions),
        },
        config.max_len,
        config.scale_embeddings,
        word(&config.weight_tying),
        config.pad_id
    ));
}

fn to_bytes(
    parameters: &Parameters,
    dtype: DtypeName,
    about: &BTreeMap<String, String>,
) -> Result<Vec<u8>, WeightsError> {
    weights::to_bytes_with(parameters, dtype.into(), about)
}

fn numbers(parameters: &Parameters) -> usize {
    parameters.values().map(|data| data.num_elements()).sum()
}

/// The run that is made of the weights, if the task's sequences are what the model reads.
fn run_of(args: &ImportArgs, imported: &Imported) -> Result<RunConfig, UsageError> {
    let refuse = |what: String| UsageError::new("--run-dir", "", what);
    if imported.contents != Contents::Model {
        let what = format!(
            "needs a whole model, but the file holds {}",
            imported.contents
        );
        return Err(refuse(what));
    }
    let mut config = args.task.task.unwrap_or(TaskName::Copy).config();
    args.task.apply(&mut config.task)?;
    config.backend = DeviceName::choose(None)?.to_string();
    let given = &imported.config;
    config.model = given.clone();
    let task = config.resolve()?;
    let name = config.task.name();
    let made = &config.model;
    if (given.source_vocab_size, given.target_vocab_size)
        != (made.source_vocab_size, made.target_vocab_size)
    {
        return Err(refuse(format!(
            "makes a run of the task {name} with {} tokens, but the model has {} and {}: give the task that it was trained on (--task, --symbols), or --output instead",
            made.source_vocab_size, given.source_vocab_size, given.target_vocab_size
        )));
    }
    if given.positions == Positions::Learned && given.max_len != made.max_len {
        return Err(refuse(format!(
            "makes a run of the task {name} with up to {} tokens, but the model has learned {} positions: give the lengths that it was trained on (--max-length)",
            made.max_len, given.max_len
        )));
    }
    if given.pad_id != task.pad_id() {
        return Err(refuse(format!(
            "makes a run of the task {name}, which pads with {}, but the model is taken to pad with {} (--pad-id)",
            task.pad_id(),
            given.pad_id
        )));
    }
    Ok(config)
}

/// Writes the folder, with a checkpoint of step 0.
fn save(
    args: &ImportArgs,
    config: &RunConfig,
    parameters: &Parameters,
) -> Result<std::path::PathBuf> {
    let folder = RunFolder::create(args.run_dir.as_deref(), config)?;
    let state = TrainingState {
        seed: config.seed,
        threads: rayon::current_num_threads(),
        version: env!("CARGO_PKG_VERSION").into(),
        ..Default::default()
    };
    let none = Parameters::new();
    let files = [
        (checkpoint::MODEL, weights::to_bytes(parameters)?),
        (checkpoint::OPTIMIZER, weights::to_bytes(&none)?),
        (checkpoint::STATE, serde_json::to_vec_pretty(&state)?),
        (checkpoint::CONFIG, serde_json::to_vec_pretty(config)?),
    ];
    Checkpoints::of(folder.path()).save(0, &files)?;
    Ok(folder.path().into())
}
