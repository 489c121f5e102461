//! Training, which `fit` begins and `resume` continues.

use std::path::Path;

use anyhow::Result;
use burn::tensor::Device;
use training::config::{ModelSettings, RunConfig};
use training::data::{DataConfig, Dataset, Split};
use training::error::UsageError;
use training::memory::{MachineMemory, TrainingMemory};
use training::pretrained::{Languages, PretrainedModel};
use training::run::{Observer, RunFolder, Summary, TensorBoard, quoted};
use training::setting::{Section, shown};
use training::trainer::{Ending, Finished, Trainer, device_of};

use super::results::{report, say_what_next};
use crate::device::DeviceName;
use crate::exit::Exit;
use crate::group::Group;
use crate::number::{counted, grouped};
use crate::terminal::{About, RunView, output};

/// Opens the device of a run for this process of the group, and configures it for the precision of
/// the run.
///
/// # Errors
///
/// A device that cannot be used, or that does not support the precision.
pub(super) fn open_device(config: &RunConfig, group: &Group) -> Result<Device> {
    let execution = &config.execution;
    let name: DeviceName = execution.backend.parse()?;
    let name = name.of_process(group);
    let _fast_paths = execution.fast_paths();
    name.open_for(execution.precision)
}

/// Fits the settings to the data set. Checks that training fits into the machine's memory, if the
/// backend runs on the CPU and the system is Linux. Prints a warning if too little memory is free.
///
/// # Errors
///
/// Settings that do not fit the data set, or a model or a batch that needs more memory than the
/// machine has.
pub(super) fn fit_to(
    config: &mut RunConfig,
    dataset: &dyn Dataset,
    group: &Group,
) -> Result<(), UsageError> {
    config.fit_to(dataset)?;
    let (_, on_machine) = group.collective().on_machine();
    let processes = group.collective().size();
    let name: DeviceName = config.execution.backend.parse()?;
    let (true, Some(machine)) = (name.backend.is_cpu(), MachineMemory::read(on_machine)) else {
        return Ok(());
    };
    let memory = TrainingMemory::of(config, &dataset.limits(), processes);
    if let Some(warning) = memory.check(config, machine)? {
        output::warn(&warning);
    }
    Ok(())
}

/// Prints a warning if the learning rate rises for more than half of the steps after `step`. `advice`
/// is what to try instead.
pub(super) fn warn_of_warmup(config: &RunConfig, step: usize, advice: &str) {
    let optimization = &config.optimization;
    let (warmup, steps) = (optimization.schedule.warmup, optimization.steps);
    if warmup <= 1 || 2 * warmup.saturating_sub(step) <= steps.saturating_sub(step) {
        return;
    }
    let [shown, of] = [warmup, steps].map(grouped);
    let rises = if warmup > steps {
        let steps = counted(steps, "step");
        format!("the whole run of {steps} and does not reach its peak, of --warmup {shown}")
    } else {
        format!("--warmup {shown} of {of} steps")
    };
    let what = format!("the learning rate rises for {rises}; try {advice}");
    output::warn(&what);
}

/// Returns the pretrained model that training begins with; `None` for random parameters.
///
/// `given` is the model if it is open already. Otherwise, this function opens the model that the
/// settings name. Records a hash of the model in the settings.
///
/// # Errors
///
/// A folder that cannot be used, settings of another model, or a model that has changed since the
/// settings were written.
pub(super) fn begin_with(
    config: &mut RunConfig,
    given: Option<PretrainedModel>,
) -> Result<Option<PretrainedModel>, UsageError> {
    let DataConfig::Text(text) = &mut config.data else {
        return Ok(None);
    };
    let Some(pretrained) = &mut text.pretrained else {
        return Ok(None);
    };
    let model = match given {
        Some(model) => model,
        None => {
            let of = pretrained.clone();
            let languages = Languages::new(of.source_language, of.target_language);
            PretrainedModel::open(&pretrained.folder, &languages)?
        }
    };
    let wrong = |what: &str| UsageError::new("folder", pretrained.folder.display(), what);
    let sha256 = model.sha256();
    let then = pretrained.sha256.as_ref();
    if then.is_some_and(|then| *then != sha256) {
        let what = "has changed since the run began: put it back, or begin a new run with --from";
        return Err(wrong(what));
    }
    if let DataConfig::Text(theirs) = &model.config.data
        && let Some(mut theirs) = theirs.pretrained.clone()
    {
        theirs.sha256 = pretrained.sha256.clone();
        if theirs != *pretrained {
            let what = "has other tokens or settings of generation than data.pretrained";
            return Err(wrong(what));
        }
    }
    pretrained.sha256 = Some(sha256);
    // Two settings may differ from those of the folder: the dropout probability, because dropout
    // has no parameters, and `max_len`, because tables of computed positions can have any length.
    let theirs = model.config.model.clone();
    let theirs = theirs.with_dropout(config.model.dropout);
    let theirs = theirs.with_max_len(config.model.max_len);
    let [ours, theirs] = [&config.model, &theirs]
        .map(|model| serde_json::to_value(model).expect("a configuration is plain data"));
    let mut settings = ModelSettings::SETTINGS.iter();
    let differs = settings.find(|setting| ours[setting.key()] != theirs[setting.key()]);
    differs.map_or(Ok(Some(model)), |setting| {
        let [ours, theirs] = [ours, theirs].map(|model| shown(&model[setting.key()]));
        let folder = pretrained.folder.display();
        let expected = format!("must be {theirs}, as in {folder}");
        Err(UsageError::setting(setting, ours, expected))
    })
}

/// Returns a trainer of a run that begins with `given` or, without it, with random parameters, drawn
/// with the run's seed.
///
/// # Errors
///
/// A model that cannot be built.
pub(super) fn new_trainer<'a>(
    config: &'a RunConfig,
    dataset: &'a dyn Dataset,
    device: &Device,
    folder: RunFolder,
    given: Option<PretrainedModel>,
    group: &'a Group,
) -> Result<Trainer<'a>> {
    let trainer = match given {
        None => Trainer::new(config, dataset, device, folder)?,
        Some(mut given) => {
            given.imported.stacks = (&config.model).into();
            let model = given.transformer(&device_of(config, device))?;
            Trainer::of_model(config, dataset, model, folder)?
        }
    };
    Ok(trainer.with_group(group.collective()))
}

/// Trains a model, and reports its scores. Returns how the run ended. `path` is the folder of the
/// run, `is_plain` switches the dashboard off, and `has_board` asks for event files of TensorBoard.
///
/// # Errors
///
/// A loss or an output that is not finite, or a folder or a stdout that cannot be written.
pub(super) fn train(
    trainer: Trainer<'_>,
    config: &RunConfig,
    dataset: &dyn Dataset,
    path: &Path,
    is_plain: bool,
    has_board: bool,
    group: &Group,
) -> Result<Exit> {
    let processes = group.collective().size();
    let about = About::new(config, dataset, trainer.model(), path, processes);
    let mut view = RunView::new(about, is_plain, group.is_first());
    let mut board = TensorBoard::new(path);
    let mut observers: Vec<&mut dyn Observer> = vec![&mut view];
    if has_board && group.is_first() {
        observers.push(&mut board);
    }
    match trainer.train(&mut observers)? {
        Ending::Done(mut finished) => {
            let tested = test(&finished);
            let summary = tested.map_err(|error| finished.folder.record_failure(error))?;
            finished.folder.finish(&summary)?;
            say_what_next(path, &finished.state, finished.model_step);
            Ok(Exit::Success)
        }
        Ending::Stopped {
            by,
            step,
            checkpoint,
        } => {
            output::note(&format!(
                "stopped after step {step} by {by}; the step is saved in {}; resume with",
                checkpoint.display()
            ));
            let run = quoted(&path.display().to_string());
            output::note(&format!("  train resume {run}"));
            Ok(Exit::stopped_by(&by))
        }
    }
}

/// Tests a trained model, prints the results, and returns them.
fn test(finished: &Finished) -> Result<Summary> {
    let (config, sizes) = (finished.config, &finished.config.evaluation);
    let (unit, size) = match config.data {
        DataConfig::Text(_) => ("validation pair", sizes.validation_size),
        _ => ("unseen sequence", sizes.test_size),
    };
    let sequences = finished.dataset.held_out(config.seed, Split::Test, size);
    let count = counted(sequences.len(), unit);
    output::note(&format!("testing on {count} ..."));
    let test = finished.test()?;
    let summary = finished.summary(&test);
    report(finished, &test, &summary)?;
    Ok(summary)
}
