//! Layouts: how others name and arrange the parameters of the same model.
//!
//! A layout is a table of rules, which import and export read in both directions.

mod defaults;
mod expand;
mod name;
mod rule;
mod shapes;
mod tables;

pub use name::Layout;

pub(super) use expand::expand;
pub(super) use rule::{CORE, Kind, Rule};
pub(super) use shapes::shapes;
