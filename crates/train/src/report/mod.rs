//! The page of `train report`: runs as one self-contained HTML file.
//!
//! [`RunReport`] collects what the page shows of a run: curves, scores by length, attention
//! weights, decoded examples and facts. [`settings`] compares the settings of all runs. [`page()`]
//! writes these data as JSON into the page, together with the style and the scripts in the folder
//! `page`, which draw the data. The scripts insert every text as a text node or as the value of an
//! attribute, so that no text of a run becomes markup.

mod curve;
mod examples;
mod facts;
mod marks;
mod metrics;
mod page;
mod run;
mod seeds;
mod settings;

pub use examples::Examined;
pub use page::page;
pub use run::RunReport;
