//! Flags of `resume`.

use std::path::PathBuf;

use clap::Args;

use super::parse::{run_folder, whole_number};
use super::settings::CorpusArgs;

/// Flags of `resume`.
#[derive(Clone, Debug, Args)]
pub struct ResumeArgs {
    /// Folder of the run, or `latest`; training resumes from the newest undamaged checkpoint, or
    /// begins again if none was written yet
    #[arg(value_parser = run_folder())]
    pub run: PathBuf,
    /// Training steps in total [default: as in the run's config.json]
    #[arg(long, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub steps: Option<usize>,
    /// The files of the corpora, if they have moved; what they contain must be the same.
    #[command(flatten)]
    pub corpora: CorpusArgs,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: the run's]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// Write event files for TensorBoard into the run's folder [default: if it has some]
    #[arg(long)]
    pub tensorboard: bool,
    /// Show a progress bar instead of the dashboard (lines if stderr is not a terminal)
    #[arg(long)]
    pub plain: bool,
}
