//! The trained model that a command uses.

use std::fmt;

use anyhow::Result;
use burn::tensor::DType;
use fused::FastPaths;
use serde::Serialize;
use training::error::UsageError;
use training::pretrained::{DOWNLOADED, Languages, PretrainedModel, is_pretrained};
use training::run::checkpoint::{CheckpointSelector, TrainedRun};
use training::run::unusable;
use transformer::weights::{self, ImportOptions};

use crate::allocator::return_freed_pages;
use crate::args::TrainedArgs;
use crate::device::DeviceName;
use crate::group::Group;
use crate::number::grouped;

/// A trained model, and the backend and device that the flags choose.
pub(super) struct Trained {
    pub(super) run: TrainedRun,
    pub(super) backend: DeviceName,
    pub(super) which: Which,
    /// Guard that keeps the fast paths (kernels of the crate `fused`) on or off, as the run's
    /// settings say, until the command ends.
    _fast_paths: FastPaths,
}

/// Says which model of a run was used.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Which {
    /// Training step of the checkpoint, or of the newest one.
    pub(super) step: usize,
    /// Number of checkpoints of which the model is the mean.
    pub(super) checkpoints: usize,
    int8: bool,
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.checkpoints > 1 {
            write!(f, "mean of {} checkpoints up to ", self.checkpoints)?;
        }
        let int8 = if self.int8 { ", 8 bits" } else { "" };
        write!(f, "step {}{int8}", grouped(self.step))
    }
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
        let or = languages.map_or(String::new(), |_| format!(", or {DOWNLOADED}"));
        let what = format!("does not exist; name the folder of a run, such as runs/copy-1{or}");
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
        run.model = weights::quantize_int8(run.model);
    }
    let layer = run.model.decoder.layers.first();
    let of_layer = layer.map(|layer| layer.feed_forward.w_1.weight.dtype());
    Ok(Trained {
        _fast_paths: fast_paths,
        which: Which {
            step: run.step,
            checkpoints: match args.checkpoint {
                CheckpointSelector::Average(k) => k,
                _ => 1,
            },
            int8: int8 || matches!(of_layer, Some(DType::QFloat(_))),
        },
        run,
        backend,
    })
}
