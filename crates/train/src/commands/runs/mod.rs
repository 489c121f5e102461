//! `train runs` and `train compare`: list and compare runs.

mod compare;
mod list;
mod shown;

pub(super) use compare::run as compare;
pub(super) use list::run as list;
