//! A training run on the terminal.

use std::io::IsTerminal;
use std::path::Path;

use anyhow::Result;
use training::config::RunConfig;
use training::run::{Event, Observer};

use super::dashboard::Dashboard;
use super::interrupt::{self, Listening};
use super::output;
use super::plain::Plain;

/// Shows a training run on the terminal, and passes on the user's requests to stop.
pub struct RunView<'a> {
    config: &'a RunConfig,
    folder: &'a Path,
    is_plain: bool,
    shown: Option<Box<dyn Observer>>,
    listening: Option<Listening>,
}

impl<'a> RunView<'a> {
    /// Prepares to show a run whose training begins later. `is_plain` switches the dashboard off.
    pub fn new(config: &'a RunConfig, folder: &'a Path, is_plain: bool) -> Self {
        Self {
            config,
            folder,
            is_plain,
            shown: None,
            listening: None,
        }
    }

    fn begin(&mut self, first: usize, steps: usize) -> Result<()> {
        let begins = match first {
            0 => "training".into(),
            step => format!("resuming after step {step}:"),
        };
        let (task, backend) = (self.config.data.name(), &self.config.execution.backend);
        let folder = self.folder.display();
        output::note(&format!(
            "{begins} {task} on {backend}, {steps} steps, in {folder}"
        ));
        let is_terminal = std::io::stdout().is_terminal()
            && std::io::stderr().is_terminal()
            && std::io::stdin().is_terminal();
        self.shown = Some(match is_terminal && !self.is_plain {
            true => Box::new(Dashboard::new(task, first, steps)),
            false => Box::new(Plain::new(first, steps)),
        });
        self.listening = Some(interrupt::listen()?);
        Ok(())
    }
}

impl Observer for RunView<'_> {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Begin { first, steps } => self.begin(first, steps)?,
            Event::Trained { step, reason } => {
                output::note(&format!("training ended at step {step}: {reason}"));
            }
            Event::End => {
                self.shown = None;
                self.listening = None;
            }
            event => self
                .shown
                .iter_mut()
                .try_for_each(|shown| shown.event(event))?,
        }
        Ok(())
    }

    fn wants_to_stop(&self) -> Option<&'static str> {
        let by_shown = self.shown.as_ref().and_then(|it| it.wants_to_stop());
        interrupt::requested_by().or(by_shown)
    }
}
