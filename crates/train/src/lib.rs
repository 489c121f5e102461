//! The training program around the `transformer` crate.
//!
//! `main` parses the command line and calls one of [`command`]; everything else is here, so that
//! it can be used and tested without a process of its own.

#![recursion_limit = "256"]

pub mod batch;
pub mod checkpoint;
pub mod cli;
pub mod command;
pub mod config;
pub mod config_file;
pub mod defaults;
pub mod device;
mod disk;
pub mod error;
pub mod evaluate;
pub mod fit;
pub mod generate;
pub mod input;
pub mod lengths;
pub mod memory;
pub mod metric;
pub mod monitor;
pub mod optimizer;
pub mod output;
pub mod plot;
pub mod progress;
pub mod run_folder;
pub mod schedule;
pub mod task;
pub mod text;
