//! Listens to the signals that stop a run, in processes other than rank 0. Rank 0 alone shows the
//! run.

use std::path::{Path, PathBuf};

use anyhow::Result;
use training::run::{Event, Observer};

use super::interrupt::{self, Listening};

/// An observer that shows nothing and passes on requests to stop.
pub struct Follower {
    folder: PathBuf,
    listening: Option<Listening>,
}

impl Follower {
    /// Prepares to listen during the training of the run in `folder`.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            listening: None,
        }
    }
}

impl Observer for Follower {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Begin { .. } => self.listening = Some(interrupt::listen(&self.folder, false)?),
            Event::End => self.listening = None,
            _ => {}
        }
        Ok(())
    }

    fn wants_to_stop(&self) -> Option<&'static str> {
        interrupt::requested_by()
    }
}
