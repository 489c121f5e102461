//! The trained model that a command uses.

use anyhow::Result;
use burn::tensor::Device;
use fused::FastPaths;
use training::error::UsageError;
use training::pretrained::{DOWNLOADED, Languages, PretrainedModel, is_pretrained};
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use training::run::unusable;
use transformer::generate::Method;
use transformer::weights::{self, ImportOptions};

use crate::allocator::return_freed_pages;
use crate::args::TrainedArgs;
use crate::device::DeviceName;
use crate::group::Group;

/// A trained model, and the backend and device that the flags choose.
pub(super) struct Trained {
    pub(super) run: TrainedRun,
    pub(super) backend: DeviceName,
    /// Guard that keeps the fast paths (kernels of the crate `fused`) on or off, as the run's
    /// settings say, until the command ends.
    _fast_paths: FastPaths,
}

/// Loads a trained model. If `int8` is true, its weights are quantised to 8 bits.
///
/// # Errors
///
/// A device that cannot be used, or a run that cannot be read.
pub(super) fn load(args: &TrainedArgs, int8: bool, group: &Group) -> Result<Trained> {
    let _pages = return_freed_pages();
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let device = backend.of_process(group).open()?;
    let run = TrainedRun::load_selected(&args.run, args.checkpoint, &device)?;
    Ok(quantized(run, backend, int8, &device))
}

/// Loads the model of a run, or a pretrained model from a folder in the Hugging Face format.
/// `languages` selects the languages of a multilingual pretrained model.
///
/// # Errors
///
/// In the cases of [`load`], if the folder cannot be used, or if `--checkpoint` is given with a
/// pretrained model.
pub(super) fn load_any(
    args: &TrainedArgs,
    languages: &Languages,
    int8: bool,
    group: &Group,
) -> Result<Trained> {
    if !args.run.exists() {
        let what = format!(
            "does not exist; name the folder of a run, such as runs/copy-1, or {DOWNLOADED}"
        );
        return Err(unusable(&args.run, what).into());
    }
    if !is_pretrained(&args.run) {
        return load(args, int8, group);
    }
    if args.checkpoint != CheckpointSelector::default() {
        let expected = "needs the folder of a run";
        return Err(UsageError::new("--checkpoint", args.checkpoint, expected).into());
    }
    let _pages = return_freed_pages();
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let device = backend.of_process(group).open()?;
    let options = ImportOptions {
        int8: int8 && fused::takes_int8(&device),
        ..Default::default()
    };
    let run = PretrainedModel::open_with(&args.run, languages, options)?.run(&device)?;
    Ok(quantized(run, backend, int8, &device))
}

/// Returns a loaded model, whose weights are quantised to 8 bits if `int8` is true.
fn quantized(mut run: TrainedRun, backend: DeviceName, int8: bool, device: &Device) -> Trained {
    let fast_paths = run.config.execution.fast_paths();
    if int8 {
        run.model = weights::quantize_int8(run.model, device);
    }
    Trained {
        _fast_paths: fast_paths,
        run,
        backend,
    }
}

/// Returns the beam width of a method; 1 for methods without a beam.
pub(super) fn beam_width(method: Method) -> usize {
    match method {
        Method::Beam { width, .. } => width,
        _ => 1,
    }
}
