//! burn-train's terminal dashboard, fed by our loop.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

use super::{Monitor, line};
use crate::output;
use crate::run_folder::{Evaluation, StepMetrics};

/// Whether the terminal shows the dashboard.
static IS_SHOWN: AtomicBool = AtomicBool::new(false);

/// A number of the dashboard: its name, its unit, and whether more of it is better.
type Number = (&'static str, Option<&'static str>, bool);

const LOSS: Number = ("Loss", Some("nats/token"), false);
const PERPLEXITY: Number = ("Perplexity", None, false);
const TOKEN_ACCURACY: Number = ("Token accuracy", Some("%"), true);
const BLEU: Number = ("BLEU", None, true);
const EXACT_MATCH: Number = ("Exact match", Some("%"), true);
const LEARNING_RATE: Number = ("Learning rate", None, false);
const GRADIENT_NORM: Number = ("Gradient norm", None, false);
const SPEED: Number = ("Speed", Some("tokens/s"), true);
const PADDING: Number = ("Padding", Some("%"), false);
const CPU: Number = ("CPU", Some("%"), true);
const MEMORY: Number = ("Memory", Some("MiB"), false);

/// In the order of their plots. The list beside them has the order of their first values.
const NUMBERS: [Number; 11] = [
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

/// The dashboard: plots and progress on the whole screen, until [`finish`](Monitor::finish).
pub struct Dashboard {
    renderer: Option<TuiMetricsRendererWrapper>,
    interrupter: Interrupter,
    system: System,
    process: Option<Pid>,
    /// Tokens and seconds since the last numbers.
    tokens: usize,
    elapsed: Duration,
    /// What can be printed only when the screen is free again.
    results: Vec<String>,
    notes: Vec<String>,
}

impl Dashboard {
    /// Takes the screen.
    pub fn new(task: &str, first: usize, steps: usize) -> Self {
        let interrupter = Interrupter::new();
        terminal::remember();
        let mut renderer = TuiMetricsRendererWrapper::new(interrupter.clone(), None);
        IS_SHOWN.store(true, Ordering::SeqCst);
        for (name, unit, higher_is_better) in NUMBERS {
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
            notes: Vec::new(),
        }
    }

    /// Calls the renderer, which panics when somebody asked it to kill the process.
    fn render(&mut self, f: impl FnOnce(&mut TuiMetricsRendererWrapper)) {
        let Some(renderer) = &mut self.renderer else {
            return;
        };
        if catch_unwind(AssertUnwindSafe(|| f(renderer))).is_err() {
            leave_screen();
            std::process::exit(130);
        }
    }

    fn show(&mut self, split: Split, number: Number, value: f64, digits: usize) {
        let (name, unit, _) = number;
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
            Split::Valid => renderer.update_valid(state),
        });
    }

    /// Share of the machine's processors that this process uses, and its memory in MiB.
    fn usage(&mut self) -> Option<(f64, f64)> {
        let pid = self.process?;
        let what = ProcessRefreshKind::nothing().with_cpu().with_memory();
        self.system
            .refresh_processes_specifics(ProcessesToUpdate::Some(&[pid]), false, what);
        let process = self.system.process(pid)?;
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Some((
            f64::from(process.cpu_usage()) / cores as f64,
            process.memory() as f64 / f64::from(1 << 20),
        ))
    }
}

#[derive(Clone, Copy)]
enum Split {
    Train,
    Valid,
}

impl Monitor for Dashboard {
    fn step(&mut self, step: usize, tokens: usize, elapsed: Duration) {
        self.tokens += tokens;
        self.elapsed += elapsed;
        self.render(|renderer| renderer.update_split(step));
    }

    fn metrics(&mut self, metrics: &StepMetrics) {
        terminal::let_signals_through();
        let loss = f64::from(metrics.loss);
        self.show(Split::Train, LOSS, loss, 4);
        // The numbers of several steps come at once.
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

    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()> {
        self.results.push(line(evaluation));
        let loss = evaluation.valid_loss;
        self.show(Split::Valid, LOSS, loss, 4);
        self.show(Split::Valid, PERPLEXITY, loss.exp(), 3);
        let accuracy = 100.0 * evaluation.token_accuracy;
        self.show(Split::Valid, TOKEN_ACCURACY, accuracy, 2);
        if let Some(bleu) = evaluation.bleu {
            self.show(Split::Valid, BLEU, bleu, 2);
        }
        if let Some(exact_match) = evaluation.exact_match {
            self.show(Split::Valid, EXACT_MATCH, 100.0 * exact_match, 2);
        }
        Ok(())
    }

    fn note(&mut self, line: &str) {
        self.notes.push(line.into());
    }

    fn wants_to_stop(&self) -> bool {
        self.interrupter.should_stop()
    }

    fn finish(&mut self) {
        let Some(renderer) = self.renderer.take() else {
            return;
        };
        // Waits until the screen is as it was.
        drop(renderer);
        leave_screen();
        for line in self.results.drain(..) {
            let _ = output::result(&line);
        }
        for line in self.notes.drain(..) {
            output::note(&line);
        }
    }
}

impl Drop for Dashboard {
    fn drop(&mut self) {
        self.finish();
    }
}

/// Gives the terminal back as it was before the dashboard; does nothing without one. For the end of
/// a process whose other threads may be in the middle of drawing.
pub fn leave_screen() {
    if IS_SHOWN.swap(false, Ordering::SeqCst) {
        terminal::give_back();
    }
}

/// Whether the dashboard has the screen.
pub(crate) fn has_screen() -> bool {
    IS_SHOWN.load(Ordering::SeqCst)
}

#[cfg(unix)]
mod terminal {
    use std::io::Write;
    use std::sync::Mutex;

    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};

    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// Keeps the terminal's modes.
    pub(super) fn remember() {
        *BEFORE.lock().expect("nobody panics with it") = tcgetattr(std::io::stdin()).ok();
    }

    /// The dashboard takes all keys; Ctrl-C shall be a signal nevertheless.
    pub(super) fn let_signals_through() {
        if let Ok(mut modes) = tcgetattr(std::io::stdin())
            && !modes.local_modes.contains(LocalModes::ISIG)
        {
            modes.local_modes |= LocalModes::ISIG;
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &modes);
        }
    }

    /// No mouse, the other screen, a cursor, and the modes as they were.
    pub(super) fn give_back() {
        let mut stdout = std::io::stdout();
        let _ =
            stdout.write_all(b"\x1b[?1006l\x1b[?1003l\x1b[?1002l\x1b[?1000l\x1b[?1049l\x1b[?25h");
        let _ = stdout.flush();
        if let Some(modes) = &*BEFORE.lock().expect("nobody panics with it") {
            let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, modes);
        }
    }
}

#[cfg(not(unix))]
mod terminal {
    pub(super) fn remember() {}
    pub(super) fn let_signals_through() {}
    pub(super) fn give_back() {}
}
