//! `train fit --dry-run`: describe and measure a run without leaving any file.

use std::time::Instant;

use anyhow::Result;
use burn::tensor::Device;
use training::config::RunConfig;
use training::data::prefetcher::step_examples;
use training::data::{Batch, Dataset};
use training::lora::trained_parameters;
use training::memory::{peak_rss_bytes, reset_peak_rss, state_bytes};
use training::trainer::Learner;
use transformer::weights::shapes;

use crate::number::{bytes, grouped};
use crate::terminal::output;

/// Number of steps before the measurement. During them, backends tune their kernels and allocators
/// reserve memory.
const WARM_UP: usize = 1;

/// Number of measured steps.
const STEPS: usize = 3;

/// Prints the size of the model, the amount of data and the measured time of a step.
///
/// # Errors
///
/// A model that cannot be built, a device that fails, or a stdout that cannot be written.
pub(super) fn run(config: &RunConfig, dataset: &dyn Dataset, device: &Device) -> Result<()> {
    let _fast_paths = fused::fast_paths(config.execution.fused);
    let optimization = &config.optimization;
    let mut device = device.clone().autodiff();
    if config.execution.gradient_checkpointing {
        device = device.gradient_checkpointing();
    }
    let model = config.model.init_seeded(config.seed, &device)?;
    let mut learner = Learner::new(config, model)?;
    let shapes = shapes(learner.model());
    let has_lora = optimization.lora.is_some();
    let [parameters, trained] = [false, has_lora].map(|lora| trained_parameters(&shapes, lora));

    let (steps, accumulate) = (optimization.steps, optimization.accumulate);
    let (mut seconds, mut tokens) = (0.0, 0);
    reset_peak_rss();
    for step in 1..=WARM_UP + STEPS {
        let begun = Instant::now();
        let (seed, size) = (config.seed, optimization.batch_size);
        let examples = step_examples(dataset, seed, step - 1, accumulate, size);
        let batches = examples.iter();
        let batches: Vec<Batch> = batches
            .map(|examples| Batch::new(examples, &device))
            .collect();
        let in_step: usize = batches.iter().map(|batch| batch.tokens).sum();
        let rate = optimization
            .schedule
            .rate(step, steps, config.model.d_model);
        let result = learner.step(step, batches, rate, None);
        let _ = result.loss.into_data();
        device.sync()?;
        if step > WARM_UP {
            seconds += begun.elapsed().as_secs_f64() / STEPS as f64;
            tokens += in_step;
        }
    }

    let threads = rayon::current_num_threads();
    let unit = if threads == 1 { "thread" } else { "threads" };
    let line = |name: &str, text: String| output::result(&format!("{name:<14} {text}"));
    line("task", config.data.name().into())?;
    line(
        "backend",
        format!("{}, {threads} {unit}", config.execution.backend),
    )?;
    line(
        "parameters",
        if has_lora {
            format!(
                "{}, of which {} are trained",
                grouped(parameters),
                grouped(trained)
            )
        } else {
            grouped(parameters)
        },
    )?;
    line("memory", memory(config, parameters, trained))?;
    let held_out = config.evaluation.validation_size;
    line(
        "data",
        match dataset.batches_per_epoch() {
            Some(batches) => format!("{} batches an epoch", grouped(batches)),
            None => format!(
                "examples without end, {} to validate with",
                grouped(held_out)
            ),
        },
    )?;
    let per_step = tokens as f64 / STEPS as f64;
    line(
        "steps",
        format!(
            "{}, about {} target tokens each",
            grouped(steps),
            grouped(per_step as usize)
        ),
    )?;
    let schedule = &optimization.schedule;
    let peak = schedule.peak(config.model.d_model);
    line(
        "learning rate",
        format!("{peak:.3e} at its peak, step {}", schedule.warmup),
    )?;
    line(
        "time",
        format!(
            "{} a step, mean of {STEPS}; {} for all steps, without evaluations",
            duration(seconds),
            duration(seconds * steps as f64)
        ),
    )
}

/// Describes the memory of parameters, gradients and optimizer state, and the peak memory of the
/// process if the system reports it.
fn memory(config: &RunConfig, parameters: usize, trained: usize) -> String {
    let state = bytes(state_bytes(config, parameters, trained));
    let parts = "parameters, gradients and optimizer state";
    match peak_rss_bytes() {
        Some(peak) => {
            let peak = bytes(peak as usize);
            format!("{state} for {parts}; this process took {peak} at most")
        }
        None => format!("{state} for {parts}"),
    }
}

/// Formats a duration, given in seconds, in milliseconds, seconds, minutes or hours.
fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 1.0 => format!("{:.1} ms", 1e3 * s),
        s if s < 120.0 => format!("{s:.1} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_readable() {
        let seconds = [0.0123, 12.34, 600.0, 36_000.0];
        assert_eq!(
            seconds.map(duration),
            ["12.3 ms", "12.3 s", "10 min", "10.0 h"]
        );
    }
}
