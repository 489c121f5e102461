//! State of a run during training, collected from its events.

use std::time::{Duration, Instant};

use training::config::BestBy;
use training::run::{Best, Evaluation, Event, StepMetrics};

use super::series::Series;

/// Minimum training time between two measurements of the speed.
const SPEED_WINDOW: Duration = Duration::from_secs(2);

/// A run during training: its progress, its newest values and its curves.
#[derive(Clone, Debug)]
pub(super) struct LiveRun {
    /// Last step before this process started; 0 for a new run.
    pub(super) first: usize,
    /// Step after which training ends at the latest.
    pub(super) steps: usize,
    /// Last step that was taken.
    pub(super) step: usize,
    /// Whether the training loss has label smoothing, which the validation loss never has.
    pub(super) is_smoothed: bool,
    pub(super) begun: Instant,
    /// Time of the last step.
    stepped: Instant,
    pub(super) metrics: Option<StepMetrics>,
    /// Target tokens per second, at the last measurement; `None` before the first one.
    pub(super) speed: Option<f64>,
    /// Target tokens and time since the last measurement of the speed.
    since: (usize, Duration),
    pub(super) evaluation: Option<Evaluation>,
    /// The measure by which evaluations are compared, and the best evaluation. `None` before the
    /// first evaluation.
    pub(super) best: Option<(BestBy, Best)>,
    /// Step of the last checkpoint, and when it was written; `None` before the first one of this
    /// process.
    pub(super) checkpoint: Option<(usize, Instant)>,
    pub(super) curves: Curves,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Curves {
    pub(super) loss: Series,
    pub(super) valid_loss: Series,
    /// Exact match or BLEU, see [`score`].
    pub(super) score: Series,
    pub(super) token_accuracy: Series,
    pub(super) learning_rate: Series,
    pub(super) gradient_norm: Series,
    pub(super) speed: Series,
}

/// Returns the name and value of the task's score: exact match (0 to 1) or BLEU (0 to 100). `None`
/// if the evaluation has neither.
pub(super) fn score(evaluation: &Evaluation) -> Option<(&'static str, f64)> {
    let exact_match = evaluation.exact_match.map(|value| ("exact match", value));
    exact_match.or_else(|| evaluation.bleu.map(|value| ("BLEU", value)))
}

impl LiveRun {
    /// Returns a run that has taken `first` of `steps` steps.
    pub(super) fn new(first: usize, steps: usize) -> Self {
        let now = Instant::now();
        Self {
            first,
            steps,
            step: first,
            is_smoothed: false,
            begun: now,
            stepped: now,
            metrics: None,
            speed: None,
            since: (0, Duration::ZERO),
            evaluation: None,
            best: None,
            checkpoint: None,
            curves: Curves::default(),
        }
    }

    /// Updates the state after an event.
    pub(super) fn event(&mut self, event: Event<'_>) {
        match event {
            Event::Step {
                step,
                tokens,
                elapsed,
            } => self.step(step, tokens, elapsed),
            Event::Metrics(metrics) => {
                let curves = &mut self.curves;
                curves.loss.push(metrics.step, metrics.loss.into());
                let norm = metrics.gradient_norm.into();
                curves.gradient_norm.push(metrics.step, norm);
                let learning_rate = metrics.learning_rate;
                curves.learning_rate.push(metrics.step, learning_rate);
                self.metrics = Some(*metrics);
            }
            Event::Evaluation(evaluation) => self.evaluation(*evaluation),
            Event::Best { by, best } => self.best = Some((by, best)),
            Event::Checkpoint { step, .. } => self.checkpoint = Some((step, Instant::now())),
            _ => {}
        }
    }

    fn step(&mut self, step: usize, tokens: usize, elapsed: Duration) {
        self.step = step;
        self.stepped = Instant::now();
        self.since.0 += tokens;
        self.since.1 += elapsed;
        let speed = self.since.0 as f64 / self.since.1.as_secs_f64();
        if self.since.1 >= SPEED_WINDOW {
            self.since = (0, Duration::ZERO);
            self.speed = Some(speed);
            self.curves.speed.push(step, speed);
        } else if self.curves.speed.points().is_empty() {
            // Until the first window is full, the speed is the mean so far.
            self.speed = Some(speed);
        }
    }

    fn evaluation(&mut self, evaluation: Evaluation) {
        let step = evaluation.step;
        let curves = &mut self.curves;
        curves.valid_loss.push(step, evaluation.valid_loss);
        curves.token_accuracy.push(step, evaluation.token_accuracy);
        if let Some((_, value)) = score(&evaluation) {
            curves.score.push(step, value);
        }
        self.evaluation = Some(evaluation);
    }

    /// Returns the time that the remaining steps will take at the average speed of this process,
    /// including evaluations; `None` before the first step.
    pub(super) fn left(&self, now: Instant) -> Option<Duration> {
        let taken = self
            .step
            .checked_sub(self.first)
            .filter(|&taken| taken > 0)?;
        let seconds = (self.stepped - self.begun).as_secs_f64() / taken as f64;
        let left = seconds * self.steps.saturating_sub(self.step) as f64;
        let since = now.saturating_duration_since(self.stepped).as_secs_f64();
        Duration::try_from_secs_f64((left - since).max(0.0)).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn evaluation(step: usize, exact_match: f64) -> Evaluation {
        Evaluation {
            step,
            seconds: 1.0,
            valid_loss: 1.0,
            token_accuracy: 0.5,
            exact_match: Some(exact_match),
            bleu: None,
            chrf: None,
        }
    }

    #[test]
    fn the_time_left_counts_only_the_steps_of_this_process() {
        let mut run = LiveRun::new(75, 100);
        assert_eq!(run.left(run.begun), None);
        run.step = 80;
        run.stepped = run.begun + Duration::from_secs(2);
        let left = |after| run.left(run.begun + Duration::from_secs(after));
        assert_eq!(left(2), Some(Duration::from_secs(8)));
        // The remaining time counts down during a long step.
        assert_eq!(left(5), Some(Duration::from_secs(5)));
        assert_eq!(left(100), Some(Duration::ZERO));
    }

    #[test]
    fn the_best_evaluation_is_that_of_the_run() {
        let mut run = LiveRun::new(0, 100);
        let best = Best {
            step: 20,
            value: 0.7,
        };
        let by = BestBy::ExactMatch;
        run.event(Event::Best { by, best });
        for (step, score) in [(30, 0.6), (40, 0.8)] {
            run.event(Event::Evaluation(&evaluation(step, score)));
        }
        assert_eq!(run.best, Some((by, best)));
        assert_eq!(run.curves.score.points().len(), 2);
        assert_eq!(run.evaluation.unwrap().step, 40);
    }

    #[test]
    fn speed_is_that_of_the_last_seconds() {
        let mut run = LiveRun::new(0, 100);
        let step = |step, millis| Event::Step {
            step,
            tokens: 100,
            elapsed: Duration::from_millis(millis),
        };
        run.event(step(1, 1000));
        assert_eq!(run.speed, Some(100.0));
        // Two steps fill the first window. The first point of the curve is the speed of both steps.
        run.event(step(2, 1500));
        assert_eq!(run.speed, Some(80.0));
        assert_eq!(run.curves.speed.points(), [(2.0, 80.0)]);
        run.event(step(3, 1000));
        assert_eq!(run.speed, Some(80.0));
        run.event(step(4, 4000));
        assert_eq!(run.speed, Some(40.0));
    }
}
