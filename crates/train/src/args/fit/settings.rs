//! Flags of `fit` about files of settings and what is printed.

use std::path::PathBuf;

use clap::Args;
use training::config::RunConfig;
use training::error::{Subject, UsageError};

use crate::args::parse::assignment;

/// Error for `--set` with a wrong path whose last part is `lr`, the usual abbreviation of the
/// learning rate.
const LEARNING_RATE: &str =
    "is not a setting; use --learning-rate, or set optimization.schedule.learning_rate";

/// Flags of `fit` about files of settings and what is printed.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct SettingsArgs {
    /// File of settings, JSON or TOML, such as a run's config.json; other flags override it
    #[arg(long, value_name = "FILE", conflicts_with_all = ["preset", "task"])]
    pub config: Option<PathBuf>,
    /// Set a setting by its path in config.json, such as optimization.optimizer.beta_2=0.99, after
    /// all other flags; may be given several times
    #[arg(long, value_name = "PATH=VALUE", value_parser = assignment)]
    pub set: Vec<(String, String)>,
    /// Print the settings as JSON, and exit
    #[arg(long)]
    pub print_config: bool,
    /// Print the size of the model and the time of a step, and exit; writes nothing
    #[arg(long, conflicts_with = "print_config")]
    pub dry_run: bool,
    /// Show a progress bar instead of the dashboard (lines if stderr is not a terminal)
    #[arg(long)]
    pub plain: bool,
}

impl SettingsArgs {
    /// Applies the assignments of `--set` in their order.
    ///
    /// # Errors
    ///
    /// The first assignment whose path does not name a setting that can be set, or whose value has
    /// the wrong type.
    pub fn apply(&self, config: &mut RunConfig) -> Result<(), UsageError> {
        for (path, value) in &self.set {
            *config = config.with(path, value).map_err(|error| UsageError {
                subject: Subject::Other(format!("--set {path}")),
                expected: match path.rsplit('.').next() {
                    Some("lr") => LEARNING_RATE.into(),
                    _ => error.expected,
                },
                ..error
            })?;
        }
        Ok(())
    }
}
