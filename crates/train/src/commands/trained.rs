//! The trained model that a command uses.

use anyhow::Result;
use fused::FastPaths;
use training::run::checkpoint::TrainedRun;
use transformer::generate::Method;
use transformer::weights;

use crate::args::TrainedArgs;
use crate::device::DeviceName;
use crate::group::Group;

/// A trained model and the name of its device.
pub(super) struct Trained {
    pub(super) run: TrainedRun,
    pub(super) backend: DeviceName,
    /// Guard that keeps the fast paths on or off, as the run's settings say, until the command
    /// ends.
    _fast_paths: FastPaths,
}

/// Loads a trained model. If `int8` is true, its weights are quantised to 8 bits.
///
/// # Errors
///
/// A device that cannot be used, or a run that cannot be read.
pub(super) fn load(args: &TrainedArgs, int8: bool, group: &Group) -> Result<Trained> {
    let backend = args.backend.choose()?;
    let device = backend.of_process(group).open()?;
    let mut run = TrainedRun::load_selected(&args.run, args.checkpoint, &device)?;
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

/// Returns the beam width of a method; 1 for methods without a beam.
pub(super) fn beam_width(method: Method) -> usize {
    match method {
        Method::Beam { width, .. } => width,
        _ => 1,
    }
}
