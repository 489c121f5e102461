//! What one sees while it trains: a dashboard, a bar, or a line every few seconds.

mod dashboard;
mod plain;

use std::io::IsTerminal;
use std::time::Duration;

use anyhow::Result;

pub(crate) use dashboard::has_screen;
pub use dashboard::{Dashboard, leave_screen};
pub use plain::Plain;

use crate::run_folder::{Evaluation, StepMetrics};

/// Somebody who watches a run.
pub trait Monitor {
    /// A step of so many target tokens has been taken, in so much time.
    fn step(&mut self, step: usize, tokens: usize, elapsed: Duration);

    /// The numbers of a step are known; this comes some steps later.
    fn metrics(&mut self, metrics: &StepMetrics);

    /// The model was evaluated on the validation split.
    ///
    /// # Errors
    ///
    /// If stdout cannot be written.
    fn evaluation(&mut self, evaluation: &Evaluation) -> Result<()>;

    /// Something to tell.
    fn note(&mut self, line: &str);

    /// Whether somebody asked for an end.
    fn wants_to_stop(&self) -> bool {
        false
    }

    /// Training has ended. Later calls do nothing.
    fn finish(&mut self);
}

/// Watches nothing.
pub struct Nobody;

impl Monitor for Nobody {
    fn step(&mut self, _: usize, _: usize, _: Duration) {}

    fn metrics(&mut self, _: &StepMetrics) {}

    fn evaluation(&mut self, _: &Evaluation) -> Result<()> {
        Ok(())
    }

    fn note(&mut self, _: &str) {}

    fn finish(&mut self) {}
}

/// The dashboard on a terminal, unless `is_plain`; else a bar or lines. Counts from `first` steps
/// to `steps`.
pub fn choose(is_plain: bool, task: &str, first: usize, steps: usize) -> Box<dyn Monitor> {
    let is_terminal = std::io::stdout().is_terminal()
        && std::io::stderr().is_terminal()
        && std::io::stdin().is_terminal();
    if is_terminal && !is_plain {
        Box::new(Dashboard::new(task, first, steps))
    } else {
        Box::new(Plain::new(first, steps))
    }
}

/// A result's line.
fn line(evaluation: &Evaluation) -> String {
    let Evaluation {
        step,
        valid_loss,
        exact_match,
        bleu,
        chrf,
        ..
    } = evaluation;
    let exact = exact_match.map_or(String::new(), |x| format!(", exact match {x:.4}"));
    let bleu = bleu.map_or(String::new(), |x| format!(", BLEU {x:.2}"));
    let chrf = chrf.map_or(String::new(), |x| format!(", chrF {x:.2}"));
    format!("step {step}: evaluation loss {valid_loss:.4}{exact}{bleu}{chrf}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_evaluation_is_one_line() {
        let mut evaluation = Evaluation {
            step: 20,
            valid_loss: 0.123_45,
            token_accuracy: 0.5,
            exact_match: None,
            bleu: None,
            chrf: None,
        };
        assert_eq!(line(&evaluation), "step 20: evaluation loss 0.1235");
        evaluation.exact_match = Some(0.25);
        assert!(line(&evaluation).ends_with(", exact match 0.2500"));
    }
}
