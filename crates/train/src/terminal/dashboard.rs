//! A training run on burn-train's terminal dashboard.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use burn_train::Interrupter;
use burn_train::logger::TrainingProgressLogger;
use burn_train::metric::{
    MetricAttributes, MetricDefinition, MetricEntry, MetricId, NumericAttributes, NumericEntry,
    SerializedEntry,
};
use burn_train::renderer::tui::TuiMetricsRendererWrapper;
use burn_train::renderer::{MetricState, MetricsRenderer, MetricsRendererTraining};
use sysinfo::{Pid, ProcessRefreshKind, ProcessesToUpdate, System};

use training::data::Split;
use training::run::{Evaluation, Event, Observer, StepMetrics};

use super::plain::line;
use super::{output, screen};

/// A metric of the dashboard: its name, its unit, and whether higher is better.
type Metric = (&'static str, Option<&'static str>, bool);

const LOSS: Metric = ("Loss", Some("nats/token"), false);
const PERPLEXITY: Metric = ("Perplexity", None, false);
const TOKEN_ACCURACY: Metric = ("Token accuracy", Some("%"), true);
const BLEU: Metric = ("BLEU", None, true);
const EXACT_MATCH: Metric = ("Exact match", Some("%"), true);
const LEARNING_RATE: Metric = ("Learning rate", None, false);
const GRADIENT_NORM: Metric = ("Gradient norm", None, false);
const SPEED: Metric = ("Speed", Some("tokens/s"), true);
const PADDING: Metric = ("Padding", Some("%"), false);
const CPU: Metric = ("CPU", Some("%"), true);
const MEMORY: Metric = ("Memory", Some("MiB"), false);

/// All metrics, in the order of their plots. The list beside the plots has the order of their first
/// values.
const METRICS: [Metric; 11] = [
    LOSS,
    EXACT_MATCH,
    BLEU,
    TOKEN_ACCURACY,
    SPEED,
    MEMORY,
    PERPLEXITY,
    LEARNING_RATE,
    GRADIENT_NORM,
    PADDING,
    CPU,
];

/// Plots and progress on the whole screen. Dropping it restores the screen.
pub(super) struct Dashboard {
    renderer: Option<TuiMetricsRendererWrapper>,
    interrupter: Interrupter,
    system: System,
    process: Option<Pid>,
    /// Tokens and time since the speed was last shown.
    tokens: usize,
    elapsed: Duration,
    /// Lines of results, which are printed when the screen is restored.
    results: Vec<String>,
}

impl Dashboard {
    /// Opens the dashboard for a run that has taken `first` of `steps` steps.
    pub(super) fn new(task: &str, first: usize, steps: usize) -> Self {
        let interrupter = Interrupter::new();
        screen::remember_modes();
        let mut renderer = TuiMetricsRendererWrapper::new(interrupter.clone(), None);
        screen::take();
        for (name, unit, higher_is_better) in METRICS {
            let attributes = NumericAttributes {
                unit: unit.map(Into::into),
                higher_is_better,
            };
            renderer.register_metric(MetricDefinition {
                metric_id: MetricId::new(Arc::new(name.into())),
                name: Arc::new(name.into()),
                description: None,
                attributes: MetricAttributes::Numeric(attributes),
            });
        }
        renderer.start(1, 1, Some(steps), Some(task));
        renderer.start_split("train", steps);
        renderer.update_split(first);
        Self {
            renderer: Some(renderer),
            interrupter,
            system: System::new(),
            process: sysinfo::get_current_pid().ok(),
            tokens: 0,
            elapsed: Duration::ZERO,
            results: Vec::new(),
        }
    }

    /// Calls the renderer, which panics when the user asked it to kill the process.
    fn render(&mut self, f: impl FnOnce(&mut TuiMetricsRendererWrapper)) {
        let Some(renderer) = &mut self.renderer else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| f(renderer))).is_err() {
            screen::restore();
            std::process::exit(130);
        }
    }

    fn show(&mut self, split: Split, metric: Metric, value: f64, digits: usize) {
        let (name, unit, _) = metric;
        let text = match unit {
            Some(unit) => format!("{value:.digits$} {unit}"),
            None if value != 0.0 && value.abs() < 0.01 => format!("{value:.3e}"),
            None => format!("{value:.digits$}"),
        };
        let entry = MetricEntry::new(
            MetricId::new(Arc::new(name.into())),
            SerializedEntry::new(text, value.to_string()),
        );
        let state = MetricState::Numeric(entry, Some(NumericEntry::Value(value)));
        self.render(|renderer| match split {
            Split::Train => renderer.update_train(state),
            _ => renderer.update_valid(state),
        });
    }

    /// Returns the percentage of the machine's processors that this process uses, and its memory in
    /// MiB.
    fn usage(&mut self) -> Option<(f64, f64)> {
        let pid = self.process?;
        let what = ProcessRefreshKind::nothing().with_cpu().with_memory();
        let system = &mut self.system;
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
        let process = self.system.process(pid)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let cpu = f64::from(process.cpu_usage()) / cores as f64;
        Some((cpu, process.memory() as f64 / f64::from(1 << 20)))
    }

    fn metrics(&mut self, metrics: &StepMetrics) {
        screen::let_signals_through();
        let loss = f64::from(metrics.loss);
        self.show(Split::Train, LOSS, loss, 4);
        // The metrics of several steps come at once.
        if self.elapsed >= Duration::from_millis(100) {
            let speed = self.tokens as f64 / self.elapsed.as_secs_f64();
            (self.tokens, self.elapsed) = (0, Duration::ZERO);
            self.show(Split::Train, SPEED, speed, 0);
            if let Some((cpu, memory)) = self.usage() {
                self.show(Split::Train, MEMORY, memory, 0);
                self.show(Split::Train, CPU, cpu, 0);
            }
        }
        self.show(Split::Train, LEARNING_RATE, metrics.learning_rate, 4);
        self.show(Split::Train, GRADIENT_NORM, metrics.gradient_norm.into(), 4);
        self.show(Split::Train, PERPLEXITY, loss.exp(), 3);
        let padding = 100.0 * f64::from(metrics.padding);
        self.show(Split::Train, PADDING, padding, 1);
    }

    fn evaluation(&mut self, evaluation: &Evaluation) {
        self.results.push(line(evaluation));
        let loss = evaluation.valid_loss;
        self.show(Split::Validation, LOSS, loss, 4);
        self.show(Split::Validation, PERPLEXITY, loss.exp(), 3);
        let accuracy = 100.0 * evaluation.token_accuracy;
        self.show(Split::Validation, TOKEN_ACCURACY, accuracy, 2);
        if let Some(bleu) = evaluation.bleu {
            self.show(Split::Validation, BLEU, bleu, 2);
        }
        if let Some(exact_match) = evaluation.exact_match {
            self.show(Split::Validation, EXACT_MATCH, 100.0 * exact_match, 2);
        }
    }
}

impl Observer for Dashboard {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Step {
                step,
                tokens,
                elapsed,
            } => {
                self.tokens += tokens;
                self.elapsed += elapsed;
                self.render(|renderer| renderer.update_split(step));
            }
            Event::Metrics(metrics) => self.metrics(metrics),
            Event::Evaluation(evaluation) => self.evaluation(evaluation),
            _ => {}
        }
        Ok(())
    }

    fn wants_to_stop(&self) -> Option<&'static str> {
        self.interrupter.should_stop().then_some("the dashboard")
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        // Dropping the renderer waits until its thread has restored the screen.
        drop(self.renderer.take());
        screen::restore();
        for line in self.results.drain(..) {
            let _ = output::result(&line);
        }
        output::release_notes();
    }
}
