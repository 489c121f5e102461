//! `train fit`: train a model, test it and report the results.

use anyhow::Result;
use training::collective::check_alike;
use training::config::RunConfig;
use training::data::{self, DataConfig};
use training::error::UsageError;
use training::run::RunFolder;

use super::dry_run;
use super::train::{Begin, Shown, begin_with, check_lengths, check_memory, open_device, train};
use crate::args::FitArgs;
use crate::exit::Exit;
use crate::group::Group;
use crate::terminal::{end_progress, output};

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
    // A dry run leaves no files, so it writes tokenised corpora to a temporary folder instead of
    // the cache.
    let for_dry_run = args.dry_run.then(tempfile::tempdir).transpose()?;
    if let (DataConfig::Text(text), true) = (&mut config.data, args.dry_run) {
        text.cache = None;
    }
    let text = match &config.data {
        DataConfig::Text(text) => Some(text),
        _ => None,
    };
    let run_dir = args.run_dir.as_deref();
    let caches = text.and_then(|text| text.cache.clone());
    let caches = match &for_dry_run {
        Some(folder) => folder.path().into(),
        None => caches.unwrap_or_else(|| RunFolder::caches(run_dir)),
    };
    let dataset = config.check()?;
    let given = begin_with(&mut config, given)?;
    check_lengths(&config, dataset.as_deref())?;
    let device = open_device(&config, group)?;
    if dataset.is_none() && !args.dry_run && group.is_first() {
        RunFolder::check(run_dir, &caches)?;
    }
    let size = config.evaluation.validation_size;
    let dataset = group.first_then_others(|| data::prepare(&mut config.data, &caches, size));
    end_progress();
    let dataset = dataset?;
    config.fit_to(dataset.as_ref())?;
    check_memory(&config, dataset.as_ref(), group)?;
    let optimization = &config.optimization;
    let (warmup, steps) = (optimization.schedule.warmup, optimization.steps);
    if dataset.batches_per_epoch().is_some() && 2 * warmup > steps {
        let tiny = RunConfig::text("tiny").model.d_model;
        let is_large = config.model.d_model > tiny && args.preset.as_deref() != Some("tiny");
        let is_large = is_large && given.is_none();
        let preset = if is_large { "--preset tiny, " } else { "" };
        output::warn(&format!(
            "the learning rate rises for --warmup {warmup} of {steps} steps; with so few pairs, try {preset}a smaller --warmup, more --epochs or smaller --batch-tokens"
        ));
    }
    if args.dry_run {
        dry_run::run(&config, dataset.as_ref(), &device)?;
        return Ok(Exit::Success);
    }
    check_alike(group.collective(), &config, &[])?;
    let create = || RunFolder::create_with(run_dir, &config, |folder| dataset.save(folder));
    let folder = group.is_first().then(create).transpose()?;
    let folder = group.folder(folder);
    let shown = Shown {
        is_plain: args.plain,
        tensorboard: args.tensorboard,
    };
    train(
        &config,
        dataset.as_ref(),
        &device,
        folder,
        Begin::New(given.map(Box::new)),
        shown,
        group,
    )
}
