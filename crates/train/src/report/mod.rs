//! The page of `train report`: runs as one self-contained HTML file.
//!
//! The page has the charts of `train plot` as SVG, and the other data of the runs as JSON, which the
//! scripts in the folder `page` show: facts, decoded examples, attention weights and settings. The
//! scripts insert every text as a text node or as the value of an attribute, so that no text of a
//! run becomes markup.

mod examples;
mod marks;
mod page;
mod run;
mod settings;

pub use examples::Examined;
pub use page::{MARK, page};
pub use run::RunReport;
