//! `train import`, `train export` and `train inspect`: weights of other programs.

mod error;
mod export;
mod import;
mod inspect;
mod output_file;
mod pytorch;

pub use export::run as export;
pub use import::run as import;
pub use inspect::run as inspect;
