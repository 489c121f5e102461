//! The flag that chooses a backend.

use anyhow::Result;
use clap::Args;
use training::error::UsageError;

use crate::device::DeviceName;

/// The flag that chooses a backend.
#[derive(Clone, Debug, Default, PartialEq, Args)]
pub struct BackendArgs {
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}

impl BackendArgs {
    /// Returns the chosen backend, or the default of this build.
    ///
    /// # Errors
    ///
    /// A backend that is unknown or not in this build, an index that is not valid, or a build
    /// without backends.
    pub fn choose(&self) -> Result<DeviceName, UsageError> {
        DeviceName::choose(self.backend.as_deref())
    }
}
