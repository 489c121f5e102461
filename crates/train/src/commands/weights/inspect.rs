//! `train inspect`: list the contents of a file of weights.

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use training::error::shortened;
use transformer::Choice;
use transformer::weights::{self, Recognised, WeightsError, WeightsFile};

use super::error::wrong;
use crate::args::NameArgs;
use crate::number::counted;
use crate::terminal::output::{self, visible};

/// Flags of `inspect`.
#[derive(Clone, Debug, Args)]
pub struct InspectArgs {
    /// A safetensors file, or a checkpoint of torch.save
    pub file: PathBuf,
    /// How the names of tensors in the file are read.
    #[command(flatten)]
    pub names: NameArgs,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
///
/// A file that cannot be read, or a flag that names something that the file does not have.
pub fn run(args: &InspectArgs) -> Result<()> {
    let unfit = |error: WeightsError| wrong(&args.file, error.without_path());
    let file = WeightsFile::open(&args.file).map_err(unfit)?;
    let (known, several) = match weights::recognise(&file, &args.names.options()) {
        Ok(recognised) => (Some(recognised), None),
        Err(WeightsError::Unrecognised { .. }) => (None, None),
        Err(WeightsError::Ambiguous { entries }) => (None, Some(entries)),
        Err(_) if file.tensors().is_empty() => (None, None),
        Err(error) => return Err(unfit(error).into()),
    };
    let known = known.as_ref();
    if !args.json {
        return output::results(&text(&file, known, several));
    }
    let tensors = file.tensors().iter();
    let tensors = tensors
        .map(|(name, info)| json!({ "name": name, "dtype": info.dtype, "shape": info.shape }));
    let objects = file.foreign_objects().iter();
    let objects = objects.map(|object| json!({ "path": object.path, "class": object.class }));
    let report = json!({
        "format": file.format(),
        "tensors": tensors.collect::<Value>(),
        "layout": known.map(|known| known.layout.name()),
        "contents": known.map(|known| known.contents.to_string()),
        "group": known.and_then(|known| known.group.as_deref()),
        "prefix": known.map(|known| known.prefix.as_str()),
        "missing": known.map_or(&[][..], |known| &known.missing),
        "unused": known.map_or(&[][..], |known| &known.unused),
        "beside": known.map_or(&[][..], |known| &known.beside),
        "other_objects": objects.collect::<Value>(),
        "several": several,
        "metadata": file.metadata(),
    });
    output::result(&report.to_string())
}

fn text(file: &WeightsFile, known: Option<&Recognised>, several: Option<String>) -> String {
    let tensors = file.tensors().iter();
    let tensors = Vec::from_iter(tensors.map(|(name, info)| (shortened(visible(name)), info)));
    let widths = tensors.iter().map(|(name, _)| name.chars().count());
    let width = widths.max().unwrap_or(0);
    let mut lines = Vec::new();
    let mut elements = 0;
    for (name, info) in &tensors {
        let (dtype, shape) = (&info.dtype, &info.shape);
        lines.push(format!("{name:width$}  {dtype:<4}  {shape:?}"));
        elements += shape.iter().product::<usize>();
    }
    let (format, count, elements) = (file.format(), tensors.len(), counted(elements, "element"));
    let tensors = counted(count, "tensor");
    lines.push(format!("\n{format}: {tensors}, {elements}"));
    // Only --json shows the JSON with the settings of a native model.
    let metadata = file.metadata().iter();
    let metadata = metadata.filter(|(_, text)| !text.starts_with('{'));
    lines.extend(metadata.map(|(key, text)| shortened(format!("{key}: {text}"))));
    lines.push(match (known, several) {
        (Some(known), _) => {
            let mut line = format!("layout {}: {}", known.layout.name(), known.contents);
            if let Some(group) = &known.group {
                line += &format!(", in the entry {group}");
            }
            if !known.prefix.is_empty() {
                line += &format!(", each name after {}", known.prefix);
            }
            shortened(line)
        }
        (None, Some(entries)) => shortened(format!(
            "weights in several entries, choose one with --entry: {entries}"
        )),
        (None, None) => "no known layout has these names".into(),
    });
    let mut list = |what: &str, names: &[String]| {
        if !names.is_empty() {
            let all = names.join(", ");
            lines.push(shortened(format!("{what} ({}): {all}", names.len())));
        }
    };
    if let Some(known) = known {
        list("missing", &known.missing);
        list("left over", &known.unused);
        list("beside the model", &known.beside);
    }
    let objects = file.foreign_objects().iter();
    let objects = objects.map(|object| format!("{} at {:?}", object.class, object.path));
    let objects: Vec<String> = objects.collect();
    list("objects other than tensors, not executed", &objects);
    if known.is_some_and(|known| known.missing.is_empty() && known.unused.is_empty()) {
        lines.push("nothing is missing, nothing is left over".into());
    }
    lines.join("\n")
}
