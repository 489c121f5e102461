//! Layouts: how other implementations name and arrange the same parameters.
//!
//! A layout is a table of rules. Import and export apply the same rules in opposite directions.

pub(super) mod activation;
mod defaults;
mod expand;
mod name;
mod rule;
mod shapes;
mod tables;

pub use name::Layout;

pub(super) use expand::expand;
pub(super) use rule::{CORE, Kind, Part, Rule};
pub(super) use shapes::shapes;
