//! The trained model that a command uses.

use anyhow::Result;
use fused::FastPaths;
use training::error::UsageError;
use training::pretrained::{DOWNLOADED, Languages, PretrainedModel, is_pretrained};
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use training::run::unusable;
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

/// Loads the model of a run or, if `languages` is given, of a run or of a folder in the Hugging Face
/// format. `languages` selects the languages of a multilingual pretrained model. If `int8` is true,
/// the weights are quantised to 8 bits.
///
/// # Errors
///
/// A device or a folder that cannot be used, or a `--checkpoint` of a pretrained model.
pub(super) fn load(
    args: &TrainedArgs,
    languages: Option<&Languages>,
    int8: bool,
    group: &Group,
) -> Result<Trained> {
    if training::run::layout::is_missing(&args.run) {
        let what = format!(
            "does not exist; name the folder of a run, such as runs/copy-1, or {DOWNLOADED}"
        );
        return Err(unusable(&args.run, what).into());
    }
    let _pages = return_freed_pages();
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let device = backend.of_process(group).open()?;
    let mut run = match languages.filter(|_| is_pretrained(&args.run)) {
        None => TrainedRun::load_selected(&args.run, args.checkpoint, &device)?,
        Some(_) if args.checkpoint != CheckpointSelector::default() => {
            let expected = "needs the folder of a run";
            return Err(UsageError::new("--checkpoint", args.checkpoint, expected).into());
        }
        Some(languages) => {
            let options = ImportOptions {
                int8: int8 && fused::takes_int8(&device),
                ..Default::default()
            };
            PretrainedModel::open_with(&args.run, languages, options)?.run(&device)?
        }
    };
    let fast_paths = run.config.execution.fast_paths();
    if int8 {
        run.model = weights::quantize_int8(run.model, &device);
    }
    Ok(Trained {
        _fast_paths: fast_paths,
        run,
        backend,
    })
}
