//! Flags of `presets`.

use clap::Args;

use super::parse::preset;

/// Flags of `presets`.
#[derive(Clone, Debug, Args)]
pub struct PresetsArgs {
    /// Preset whose settings are printed as TOML [default: a list of all presets]
    #[arg(value_parser = preset())]
    pub preset: Option<String>,
}
