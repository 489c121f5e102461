//! The computations of the demo page: training, attention maps and beam search, for JavaScript.
//!
//! JavaScript sends settings, texts and model files, and gets JSON. The model, the tasks, the
//! schedule and the optimizer are those of the crates `transformer` and `training`. The module
//! `glue`, which exists only in WebAssembly, has the functions that JavaScript calls; the other
//! modules also run natively, for example in tests.

pub mod beams;
#[cfg(target_family = "wasm")]
pub mod glue;
pub mod maps;
pub mod session;
pub mod source;

pub use beams::{Beams, TrainedModel};
pub use session::{Session, Step};
pub use source::Look;
