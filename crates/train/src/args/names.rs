//! Flags about the names of tensors in a file of weights.

use clap::Args;
use transformer::weights::{ImportOptions, Layout};

use super::parse::{assignment, named};

/// Flags about the names of tensors in a file.
#[derive(Clone, Debug, Default, Args)]
pub struct NameArgs {
    /// Layout of the file [default: recognised by the names of its tensors; `import` takes that of
    /// its config.json first]
    #[arg(long, value_parser = named::<Layout>())]
    pub layout: Option<Layout>,
    /// Entry of the checkpoint to read, needed if several entries hold weights and none of them is
    /// called model, state_dict or model_state_dict
    #[arg(long, value_name = "NAME")]
    pub entry: Option<String>,
    /// Read the tensor FROM as if it were called TO; may be given several times
    #[arg(long, value_name = "FROM=TO", value_parser = assignment("the name in the file, =, and the name in the layout"))]
    pub rename: Vec<(String, String)>,
}

impl NameArgs {
    /// Returns import options with the given layout, entry and renamings.
    pub fn options(&self) -> ImportOptions {
        ImportOptions {
            layout: self.layout,
            entry: self.entry.clone(),
            rename: self.rename.clone(),
            ..ImportOptions::default()
        }
    }
}
