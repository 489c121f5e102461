//! Flags of `presets` and `init`.

use clap::Args;

use super::parse::{preset, task};

/// Flags of `presets`.
#[derive(Clone, Debug, Args)]
pub struct PresetsArgs {
    /// Preset whose settings are all listed [default: a table of all presets]
    #[arg(value_parser = preset())]
    pub preset: Option<String>,
    /// Print the settings as JSON
    #[arg(long)]
    pub json: bool,
}

/// Flags of `init`.
#[derive(Clone, Debug, Args)]
pub struct InitArgs {
    /// Task whose settings are printed [default: copy]
    #[arg(long, value_name = "TASK", value_parser = task())]
    pub task: Option<String>,
    /// Preset whose settings are printed [default: that of the task]
    #[arg(long, value_name = "PRESET", value_parser = preset(), conflicts_with = "task")]
    pub preset: Option<String>,
}
