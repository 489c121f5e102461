//! Library for training, evaluation and inference with the `transformer` crate, for your own
//! programs.
//!
//! The program `train` is the command-line interface of this library. The library itself prints
//! nothing, parses no arguments and draws no plots. It reports what happens in a run to an
//! [`Observer`](trainer::Observer). Messages for the user are events of `tracing` (see [`notes`]).
//! A mistake of the user is returned as an error, mostly as a [`UsageError`](error::UsageError),
//! which names the wrong setting, file or line. Settings are named by their paths.
//!
//! Three promises hold for every run:
//!
//! - **The seed determines all random numbers.** Random initial parameters, batches and dropout
//!   depend only on the configuration, its seed, the step and the rank of the process. On a CPU
//!   backend, two runs with the same configuration, data and initial parameters on the same machine
//!   have the same losses, bit for bit, if they use the same number of threads and processes.
//! - **A run is a folder that explains itself.** `config.json` has the settings to repeat the run,
//!   `metrics.jsonl` has a line for each step, and `summary.json` has the result.
//!   `checkpoints/step-N/` has the parameters and the state from which training continues.
//! - **A killed run loses only the steps since its last checkpoint.** Checkpoints and all files but
//!   growing logs appear whole or not at all. On a CPU backend, a run that is resumed with the same
//!   number of threads and processes gives the same results as an uninterrupted one, to the last
//!   bit.
//!
//! # A task of your own
//!
//! A task has an alphabet, the lengths to train on, and a function that returns a source and its
//! target for a given length:
//!
//! ```
//! use std::ops::RangeInclusive;
//!
//! use burn::tensor::Device;
//! use rand::RngExt;
//! use training::config::RunConfig;
//! use training::data::{Alphabet, DataConfig, DataRng, SyntheticTask};
//! use training::run::RunFolder;
//! use training::trainer::{Ending, Trainer};
//!
//! /// Repeats the first letter of a word as often as the word has letters.
//! struct FirstLetter(Alphabet);
//!
//! impl SyntheticTask for FirstLetter {
//!     fn alphabet(&self) -> &Alphabet {
//!         &self.0
//!     }
//!
//!     fn lengths(&self) -> RangeInclusive<usize> {
//!         1..=5
//!     }
//!
//!     fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
//!         let symbols = self.0.symbols();
//!         let word: Vec<u32> = (0..length).map(|_| rng.random_range(symbols.clone())).collect();
//!         (word.clone(), vec![word[0]; length])
//!     }
//! }
//!
//! let task = FirstLetter(Alphabet::new(('a'..='t').map(String::from))?);
//! let mut config = RunConfig::reverse();
//! config.data = DataConfig::Custom { title: "first-letter".into() };
//! config.execution.backend = "flex".into();
//! config.optimization.steps = 5; // hundreds are needed to learn it
//! config.evaluation.test_size = 20;
//! config.fit_to(&task)?;
//!
//! # let runs = tempfile::tempdir()?;
//! # let path = runs.path().join("run");
//! let folder = RunFolder::create(Some(&path), &config)?; // `None` for runs/first-letter-N
//! let trainer = Trainer::new(&config, &task, &Device::flex(), folder)?;
//! if let Ending::Done(finished) = trainer.train(&mut ())? {
//!     let test = finished.test()?;
//!     println!("{:.3} of {} words are correct", test.scores.exact_match, test.decoded.len());
//!     let summary = finished.summary(&test);
//!     finished.folder.finish(&summary)?;
//! }
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! # Modules
//!
//! Apart from its tests, each module imports only from modules above it in this table. The only
//! exception is `config::Schedule`, which synthetic tasks in `data` use. What only the program
//! `train` uses is hidden from this documentation, and may change at any time.
//!
//! | module | contents |
//! |---|---|
//! | [`error`] | mistakes of the user |
//! | [`data`] | data sets, text and token ids, batches |
//! | [`config`] | the settings of a run, presets, JSON and TOML |
//! | [`collective`] | groups of processes that train together |
//! | [`evaluation`] | decoding and scores |
//! | [`run`] | the run folder, its records and checkpoints |
//! | [`trainer`] | the training loop, one training step, the optimizer |
//! | [`pretrained`] | pretrained models in folders of the Hugging Face format |
//! | [`inference`] | a trained run as a predictor of lines |

#![recursion_limit = "256"]

pub mod collective;
pub mod config;
#[doc(hidden)]
pub mod contain;
pub mod data;
pub mod error;
pub mod evaluation;
#[doc(hidden)]
pub mod files;
#[doc(hidden)]
pub mod host;
pub mod inference;
#[doc(hidden)]
pub mod lora;
#[doc(hidden)]
pub mod memory;
#[doc(hidden)]
pub mod metrics;
#[doc(hidden)]
pub mod notes;
pub mod number;
#[doc(hidden)]
pub mod positions;
pub mod pretrained;
pub mod run;
mod schedule;
#[doc(hidden)]
pub mod setting;
pub mod trainer;

/// Compiles and runs the program of the tutorial as a doc test.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tutorial.md")]
struct Tutorial;

/// The example in the workspace's README, as a test.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;

#[cfg(test)]
mod tests;
