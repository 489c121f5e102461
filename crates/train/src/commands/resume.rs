//! `train resume`: resume a stopped run.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use training::config::{ExecutionConfig, OptimizationConfig, RunConfig};
use training::data::parallel::TrainSettings;
use training::data::{self, DataConfig};
use training::error::UsageError;
use training::run::checkpoint::{self, Checkpoints};
use training::run::layout::CONFIG;
use training::run::{
    EndReason, RunFolder, Status, TensorBoard, read_config, read_status, unusable,
};

use super::lengths;
use super::train::{begin_with, fit_to, new_trainer, open_device, train, warn_of_warmup};
use crate::args::{CorpusArgs, needs, reject, run_folder, whole_number};
use crate::device::DeviceName;
use crate::exit::Exit;
use crate::group::Group;
use crate::terminal::{end_progress, output};

/// Flags of `resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// Folder of the run, or `latest`; training resumes from the newest undamaged checkpoint, or
    /// begins again if none was written yet
    #[arg(value_parser = run_folder())]
    pub run: PathBuf,
    /// Training steps in total [default: as in the run's config.json]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub steps: Option<usize>,
    /// The files of the corpora, if they have moved; what they contain must be the same.
    #[command(flatten)]
    pub corpora: CorpusArgs,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: the run's]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Write event files for TensorBoard into the run's folder [default: if it has some]
    #[arg(long)]
    pub tensorboard: bool,
    /// Show a progress bar instead of the dashboard (lines if stderr is not a terminal)
    #[arg(long)]
    pub plain: bool,
}

/// Runs the command.
///
/// # Errors
///
/// A folder that is not a run or is in use, checkpoints that cannot be used, and the errors of
/// `fit`.
pub(super) fn run(args: &ResumeArgs, group: &Group) -> Result<Exit> {
    let (before, _) = read_config(&args.run)?;
    let mut config = args.corpora.apply(before.clone())?;
    let mut keeps_targets = false;
    if let (DataConfig::Text(text), DataConfig::Text(before)) = (&mut config.data, before.data) {
        text.check_targets()?;
        // Where sources alone have moved, their targets are where they were.
        let (train, valid) = (&mut text.train, &mut text.valid);
        for (now, then) in [(train, &before.train), (valid, &before.valid)] {
            keeps_targets |= now.target.is_none() && then.target.is_some() && now.source.exists();
            now.target = now.target.take().or(then.target.clone());
        }
        text.resolve_files()?;
        let fields = args.corpora.of(TrainSettings::fields);
        let has_fields = text.train.fields.is_some() || text.valid.fields.is_some();
        needs("--fields", fields, "a file of JSON Lines", has_fields)?;
        let then = before.train.fields.or(before.valid.fields);
        let now = text.train.fields.as_ref().or(text.valid.fields.as_ref());
        let others = fields.filter(|_| before.data.is_some() && now != then.as_ref());
        let then = then
            .as_ref()
            .map_or("left out".into(), |then| then.join(","));
        let expected = format!("must be {then}, as when the run began");
        reject("--fields", others, &expected)?;
    }
    let backend = args.backend.as_ref().unwrap_or(&config.execution.backend);
    let backend: Result<DeviceName, UsageError> = backend.parse();
    let backend = backend.map_err(|error| match &args.backend {
        Some(_) => error,
        None => unusable(
            &args.run.join(CONFIG),
            error.describe(ExecutionConfig::backend.path),
        ),
    });
    config.execution.backend = backend?.to_string();
    let earlier = config.optimization.clone();
    if let Some(steps) = args.steps {
        config.optimization.steps = steps;
        config.optimization.epochs = None;
    }
    let (run, size) = (&args.run, config.evaluation.validation_size);
    let caches = RunFolder::caches(Some(run));
    let dataset = group.first_then_others(|| data::reload(&mut config.data, run, &caches, size));
    end_progress();
    let dataset = dataset.map_err(|mut error| {
        if let (true, Some(error)) = (keeps_targets, error.downcast_mut::<UsageError>()) {
            error.expected += "; the run began with a file of sources and one of targets, and the targets are still that one: a file of pairs is for a new run";
        }
        error
    })?;
    fit_to(&mut config, dataset.as_ref(), group)?;
    lengths::at_end(&config, Some(dataset.as_ref()))?;
    let device = open_device(&config, group)?;
    let open = || RunFolder::open(&args.run);
    let folder = group.folder(group.is_first().then(open).transpose()?);
    let checkpoints = Checkpoints::of(&args.run);
    let wrong = |error| unusable(checkpoints.folder(), format!("cannot be read ({error})"));
    let is_new = checkpoints.is_new().map_err(wrong)?;
    let status = read_status(run).ok();
    let was_imported = status.as_ref().map(|it| it.status) == Some(Status::Imported);
    let (files, given) = if is_new && folder.ended_at().is_none() && !was_imported {
        if let Some(step) = status.map(|it| it.step).filter(|step| *step > 0) {
            let what = format!("has lost the one of step {step}: put it back, or begin a new run");
            return Err(unusable(checkpoints.folder(), what).into());
        }
        // The previous process ended before it wrote the first checkpoint.
        output::note("the run has no checkpoint yet: it begins again");
        (None, begin_with(&mut config, None)?)
    } else {
        let (step, files) = checkpoint::newest(&checkpoints, true)?;
        let end = checkpoint::read_state(&files)?.end_reason;
        let end = end.filter(|_| folder.ended_at() == Some(step));
        check_steps(args, &config, step, end)?;
        if let Some(warning) = warm_restart(&config, &earlier, step) {
            output::warn(&warning);
        }
        (Some((step, files)), None)
    };
    let dataset = dataset.as_ref();
    let mut trainer = new_trainer(&config, dataset, &device, folder, given, group)?;
    if let Some((step, files)) = &files {
        trainer.resume(files)?;
        warn_of_warmup(&config, *step, "more --steps");
        if args.steps.is_some() {
            trainer.go_on();
        }
    }
    let has_board = args.tensorboard || TensorBoard::has_events(run);
    train(trainer, &config, dataset, run, args.plain, has_board, group)
}

/// Rejects a run that has ended at the step of its newest undamaged checkpoint, or is past its last
/// step, unless `--steps` asks for more. `end` says why it has ended.
fn check_steps(
    args: &ResumeArgs,
    config: &RunConfig,
    step: usize,
    end: Option<EndReason>,
) -> Result<(), UsageError> {
    let steps = config.optimization.steps;
    let past = ", past a target if evaluation.target in its config.json is raised";
    let past = config.evaluation.target.map_or("", |_| past);
    let what = match end {
        None if step <= steps => return Ok(()),
        Some(_) if args.steps.is_some_and(|steps| steps > step) => return Ok(()),
        Some(end) if args.steps.is_none() => format!(
            "has ended after step {step} ({end}); say with --steps how far it goes on{past}"
        ),
        _ => format!(
            "is at step {step}, and --steps {steps} asks for no more; {} would",
            step + 1
        ),
    };
    Err(unusable(&args.run, what))
}

/// Returns a warning if the warm-up is over and the learning rate more than doubles after `step`.
///
/// This happens if the rate had fallen towards the last step of the `earlier` settings, and
/// `--steps` has moved that step.
fn warm_restart(config: &RunConfig, earlier: &OptimizationConfig, step: usize) -> Option<String> {
    let (schedule, d_model) = (earlier.schedule, config.model.d_model);
    let rate = |step: usize, steps| schedule.rate(step.max(1), steps, d_model);
    let steps = config.optimization.steps;
    let (before, after) = (rate(step, earlier.steps).max(0.0), rate(step + 1, steps));
    let is_rise = step > schedule.warmup && after > 2.0 * before;
    is_rise.then(|| {
        format!(
            "the learning rate rises from {before:.2e} to {after:.2e}: the schedule of this run ends \
             at the last step, which --steps moves from {} to {steps}",
            earlier.steps
        )
    })
}

#[cfg(test)]
mod tests {
    use training::config::{Schedule, ScheduleKind};

    use super::*;

    #[test]
    fn a_schedule_that_had_fallen_is_warned_about() {
        let mut config = RunConfig::copy();
        let warning = |config: &RunConfig, earlier: usize, step| {
            let earlier = OptimizationConfig {
                steps: earlier,
                ..config.optimization.clone()
            };
            warm_restart(config, &earlier, step)
        };
        config.optimization.schedule = Schedule::DEFAULT;
        config.optimization.steps = 2000;
        let text = warning(&config, 1000, 1000).unwrap();
        assert!(text.contains("from 1000 to 2000"), "{text}");
        assert_eq!(warning(&config, 2000, 1000), None);
        assert_eq!(warning(&config, 1000, 50), None);
        config.optimization.schedule.kind = ScheduleKind::Noam;
        assert_eq!(warning(&config, 1000, 1000), None);
    }
}
