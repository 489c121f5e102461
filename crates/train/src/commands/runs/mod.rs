//! `train runs` and `train compare`: list and compare runs.

mod compare;
mod list;
mod shown;

pub(super) use compare::{CompareArgs, run as compare};
pub(super) use list::{RunsArgs, run as list};
