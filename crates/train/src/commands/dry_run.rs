//! `train fit --dry-run`: describe and measure a run without leaving any file.

use std::time::Instant;

use anyhow::Result;
use burn::tensor::Device;
use training::collective::Alone;
use training::config::RunConfig;
use training::data::Dataset;
use training::lora::trained_parameters;
use training::memory::{peak_rss_bytes, reset_peak_rss, state_bytes};
use training::trainer::{Learner, new_model, step_examples};
use transformer::weights::shapes;

use crate::number::{bytes, grouped, seconds};
use crate::terminal::{describe, output};

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
    let mut learner = Learner::new(config, new_model(config, device)?)?;
    let shapes = shapes(learner.model());
    let has_lora = optimization.lora.is_some();
    let [parameters, trained] = [false, has_lora].map(|lora| trained_parameters(&shapes, lora));

    let steps = optimization.steps;
    let (mut time, mut tokens) = (0.0, 0);
    reset_peak_rss();
    for step in 1..=WARM_UP + STEPS {
        let begun = Instant::now();
        let examples = step_examples(dataset, config, step - 1);
        let taken = learner.take_step(config, step, examples, None, &Alone);
        let _ = taken.loss.into_data();
        device.sync()?;
        if step > WARM_UP {
            time += begun.elapsed().as_secs_f64() / STEPS as f64;
            tokens += taken.tokens;
        }
    }

    for line in describe(config, dataset, &shapes, 1) {
        output::result(&line)?;
    }
    let line = |name: &str, text: String| output::result(&format!("{name:<12}{text}"));
    let state = bytes(state_bytes(config, parameters, trained));
    let text = format!("{state} for parameters, gradients and optimizer state");
    line("memory", text)?;
    if let Some(peak) = peak_rss_bytes().map(|peak| bytes(peak as usize)) {
        line("", format!("this process took {peak} at most"))?;
    }
    let (total, per_step) = (grouped(steps), grouped(tokens / STEPS));
    let schedule = &optimization.schedule;
    let highest = schedule.warmup.min(steps);
    let rate = schedule.rate(highest, steps, config.model.d_model);
    let text = format!("{total}, about {per_step} target tokens each");
    line("steps", text)?;
    let highest = grouped(highest);
    let text = format!("learning rate {rate:.3e} at its highest, step {highest}");
    line("", text)?;
    let [one, all] = [time, time * steps as f64].map(seconds);
    let text = format!("{one} a step, mean of {STEPS}; {all} for all steps, without evaluations");
    line("time", text)
}
