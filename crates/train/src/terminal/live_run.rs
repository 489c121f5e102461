//! State of a run during training, collected from its events.

use std::collections::BTreeMap;
use std::time::Instant;

use serde::Serialize;
use training::run::{Best, CURVES, Curves, Event, MetricsLine, Point};

use super::series::Series;
use crate::metric;
use crate::number::seconds;

/// A run during training: its progress, its newest values and its curves.
#[derive(Clone, Debug)]
pub(super) struct LiveRun {
    /// Last step before this process started; 0 for a new run.
    pub(super) first: usize,
    /// Step after which training ends at the latest.
    pub(super) steps: usize,
    /// Number of steps in an epoch; `None` if the data set has no epochs.
    pub(super) epoch: Option<usize>,
    /// Number of steps between two evaluations; `None` if it is not known.
    pub(super) evaluate_every: Option<usize>,
    /// Last step that was taken.
    pub(super) step: usize,
    pub(super) begun: Instant,
    /// Time of the last step.
    stepped: Instant,
    /// Newest metrics of a step.
    pub(super) metrics: Option<MetricsLine>,
    pub(super) evaluation: Option<MetricsLine>,
    pub(super) best: Option<Best>,
    /// Step of the last checkpoint, and when it was written; `None` before the first one of this
    /// process.
    pub(super) checkpoint: Option<(usize, Instant)>,
    curves: BTreeMap<&'static str, Series>,
}

impl LiveRun {
    /// Returns a run that has taken `first` of `steps` steps, with the curves of these steps.
    pub(super) fn new(first: usize, steps: usize, before: &Curves) -> Self {
        let now = Instant::now();
        let mut run = Self {
            first,
            steps,
            epoch: None,
            evaluate_every: None,
            step: first,
            begun: now,
            stepped: now,
            metrics: None,
            evaluation: None,
            best: None,
            checkpoint: None,
            curves: BTreeMap::new(),
        };
        for (field, _) in CURVES {
            for &(step, value) in before.get(field) {
                run.curves.entry(field).or_default().push(step, value);
            }
        }
        run
    }

    /// Updates the state after an event.
    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Begin {
                evaluate_every,
                epoch,
                ..
            } => (self.evaluate_every, self.epoch) = (Some(evaluate_every), epoch),
            Event::Step { step } => (self.step, self.stepped) = (step, Instant::now()),
            Event::Metrics(metrics) => self.metrics = Some(self.add(metrics)),
            Event::Evaluation(evaluation) => self.evaluation = Some(self.add(evaluation)),
            Event::Best(best) => self.best = Some(best),
            Event::Checkpoint { step } => self.checkpoint = Some((step, Instant::now())),
            _ => {}
        }
    }

    /// Adds the metrics of a record to the curves, and returns them.
    fn add(&mut self, record: &impl Serialize) -> MetricsLine {
        let line = MetricsLine::of(record);
        for (field, value) in line.metrics() {
            let curve = self.curves.entry(field).or_default();
            curve.push(line.step as f64, value);
        }
        line
    }

    /// Returns the points of a metric by step.
    pub(super) fn points(&self, field: &str) -> &[Point] {
        self.curves.get(field).map_or(&[], Series::points)
    }

    /// Returns the newest value of a metric of steps as text; `-` before the first.
    pub(super) fn newest(&self, field: &str) -> String {
        let line = self.metrics.as_ref();
        let value = line.and_then(|line| line.number(field));
        value.map_or("-".into(), |value| metric::text(field, value))
    }

    /// Returns the current epoch, counted from 1, and the number of epochs.
    pub(super) fn epochs(&self) -> Option<(usize, usize)> {
        let epoch = self.epoch?.max(1);
        let of = |step: usize| step.div_ceil(epoch).max(1);
        Some((of(self.step), of(self.steps)))
    }

    /// Returns the step of the next evaluation, if the run has one.
    pub(super) fn next_evaluation(&self) -> Option<usize> {
        let next = (self.step + 1).next_multiple_of(self.evaluate_every?);
        Some(next).filter(|&next| next <= self.steps)
    }

    /// Returns [`left`](Self::left) as text; `-` before the first step.
    pub(super) fn time_left(&self, now: Instant) -> String {
        self.left(now).map_or("-".into(), seconds)
    }

    /// Returns the seconds that the remaining steps will take at the average speed of this process,
    /// including evaluations; `None` before the first step.
    pub(super) fn left(&self, now: Instant) -> Option<f64> {
        let taken = self.step.checked_sub(self.first);
        let taken = taken.filter(|&taken| taken > 0)?;
        let seconds = (self.stepped - self.begun).as_secs_f64() / taken as f64;
        let left = seconds * self.steps.saturating_sub(self.step) as f64;
        let since = now.saturating_duration_since(self.stepped).as_secs_f64();
        Some((left - since).max(0.0))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_time_left_counts_only_the_steps_of_this_process() {
        let mut run = LiveRun::new(75, 100, &Curves::default());
        assert_eq!(run.left(run.begun), None);
        run.step = 80;
        run.stepped = run.begun + Duration::from_secs(2);
        let left = |after| run.left(run.begun + Duration::from_secs(after));
        assert_eq!(left(2), Some(8.0));
        // The remaining time counts down during a long step.
        assert_eq!(left(5), Some(5.0));
        assert_eq!(left(100), Some(0.0));
    }

    #[test]
    fn epochs_and_the_next_evaluation_follow_from_the_step() {
        let mut run = LiveRun::new(0, 25, &Curves::default());
        assert_eq!((run.epochs(), run.next_evaluation()), (None, None));
        (run.epoch, run.evaluate_every) = (Some(10), Some(10));
        for (step, epoch, next) in [
            (0, 1, Some(10)),
            (1, 1, Some(10)),
            (10, 1, Some(20)),
            (11, 2, Some(20)),
            (25, 3, None),
        ] {
            run.step = step;
            assert_eq!(run.epochs(), Some((epoch, 3)), "{step}");
            assert_eq!(run.next_evaluation(), next, "{step}");
        }
    }
}
