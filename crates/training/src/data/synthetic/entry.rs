//! Definitions of synthetic tasks: their names, default settings and recipes for training.

use crate::data::dataset::Dataset;
use crate::error::UsageError;

/// Definition of a synthetic task with settings of type `C`: its name, how to create it, and a
/// recipe to train on it. [`DataConfig`](crate::data::DataConfig) lists all synthetic tasks.
pub struct TaskEntry<C> {
    /// Name in `config.json` and on the command line, in kebab case.
    pub name: &'static str,
    /// One-line description of the task, such as "The target is the source".
    pub summary: &'static str,
    /// Returns the default settings.
    pub settings: fn() -> C,
    /// Creates the task from its settings.
    pub create: fn(&C) -> Result<Box<dyn Dataset>, UsageError>,
    /// Model and training settings that solve the task on two CPU cores, as `PATH=VALUE`. Those that
    /// are not listed have their defaults, which solve the copy task.
    pub recipe: &'static [&'static str],
}
