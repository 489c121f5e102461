//! Shows a training run on the terminal.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use anyhow::Result;
use training::run::{Evaluation, Event, MetricsLine, Observer, RunData};

use super::about::About;
use super::capability;
use super::dashboard::Dashboard;
use super::interrupt::{self, Listening};
use super::live_run::LiveRun;
use super::status::Status;
use super::{output, screen};
use crate::metric;
use crate::number::counted;

/// Shows a training run on the terminal, and passes on the user's requests to stop.
#[derive(Default)]
pub struct RunView {
    about: About,
    is_plain: bool,
    /// Whether this process writes the folder of the run. Others only listen to signals.
    is_own: bool,
    run: Option<Arc<Mutex<LiveRun>>>,
    dashboard: Option<Dashboard>,
    /// The progress of a run that has no dashboard.
    status: Option<Status>,
    listening: Option<Listening>,
}

impl RunView {
    /// Prepares to show a run whose training begins later. `is_plain` switches the dashboard off.
    /// `is_own` says whether this process writes the folder of the run; others are silent.
    pub fn new(about: About, is_plain: bool, is_own: bool) -> Self {
        Self {
            about,
            is_plain,
            is_own,
            ..Self::default()
        }
    }

    fn begin(&mut self, first: usize, steps: usize) -> Result<()> {
        let begins = match first {
            0 => "training".into(),
            step => format!("resuming after step {step}:"),
        };
        let (title, folder) = (&self.about.title, &self.about.folder);
        let steps_in_all = counted(steps, "step");
        output::note(&format!("{begins} {title}, {steps_in_all}, in {folder}"));
        self.about.table.iter().for_each(|line| output::note(line));
        // The program starts to receive signals before the dashboard changes the terminal, so that
        // no signal leaves the terminal changed.
        let folder = Path::new(folder);
        self.listening = Some(interrupt::listen(folder, self.is_own)?);
        // The curves of a resumed run begin with its first step.
        let before = (first > 0).then(|| RunData::read(folder));
        let before = before.and_then(Result::ok).map(|run| run.curves);
        let run = LiveRun::new(first, steps, &before.unwrap_or_default());
        let run = Arc::new(Mutex::new(run));
        if capability::has_screen() && !self.is_plain && !output::is_quiet() {
            self.dashboard = Dashboard::open(Arc::clone(&run), self.about.clone());
        }
        if self.dashboard.is_none() {
            self.status = Some(Status::new(Some(steps)));
        }
        self.run = Some(run);
        Ok(())
    }
}

impl Observer for RunView {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        if let Event::Begin { first, steps, .. } = event {
            self.begin(first, steps)?;
        }
        if let Some(run) = &self.run {
            let mut run = screen::lock(run);
            run.event(event);
            if let (Event::Step { step }, Some(status)) = (event, &mut self.status) {
                status.update(step, || state(&run, Instant::now()));
            }
        }
        match event {
            Event::Trained { step, reason } => {
                output::note(&format!("training ended at step {step}: {reason}"));
            }
            Event::Evaluation(evaluation) if !output::is_quiet() => {
                output::results(&evaluated(evaluation))?;
            }
            Event::End => (self.dashboard, self.status, self.listening) = (None, None, None),
            _ => {}
        }
        Ok(())
    }

    fn wants_to_stop(&self) -> Option<&'static str> {
        interrupt::requested_by()
    }
}

/// Returns the steps, the loss, the tokens per second and the time left of a run.
fn state(run: &LiveRun, now: Instant) -> String {
    let [loss, speed] = ["loss", "tokens_per_second"].map(|field| run.newest(field));
    let (step, steps, left) = (run.step, run.steps, run.time_left(now));
    format!("step {step}/{steps}, loss {loss}, {speed} tokens/s, {left} left")
}

/// Returns the line that reports an evaluation.
fn evaluated(evaluation: &Evaluation) -> String {
    let line = MetricsLine::of(evaluation);
    let fields = ["valid_loss", "exact_match", "bleu", "chrf"].into_iter();
    let items = fields.filter_map(|field| Some(metric::named(field, line.number(field)?)));
    let items: Vec<String> = items.collect();
    format!("step {}: evaluation {}", line.step, items.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::dashboard;
    use super::*;
    use training::run::Curves;

    #[test]
    fn the_state_has_loss_speed_and_time_left() {
        let mut run = LiveRun::new(0, 1000, &Curves::default());
        assert_eq!(
            state(&run, run.begun),
            "step 0/1000, loss -, - tokens/s, - left"
        );
        run = dashboard::tests::run(500);
        let state = state(&run, run.begun);
        let begin = "step 500/1000, loss 0.00800, 500 tokens/s, ";
        assert!(state.starts_with(begin), "{state}");
    }

    #[test]
    fn an_evaluation_has_the_scores_that_were_computed() {
        let mut evaluation = Evaluation {
            step: 20,
            seconds: 1.0,
            valid_loss: 0.123_45,
            token_accuracy: 0.5,
            exact_match: None,
            texts: None,
        };
        assert_eq!(evaluated(&evaluation), "step 20: evaluation loss 0.1235");
        evaluation.exact_match = Some(0.25);
        assert!(evaluated(&evaluation).ends_with(", exact match 0.2500"));
    }
}
