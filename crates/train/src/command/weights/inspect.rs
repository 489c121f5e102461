//! `train inspect`.

use anyhow::Result;
use serde::Serialize;
use transformer::Choice;
use transformer::weights::{self, ImportOptions, WeightsError, WeightsFile};

use super::{shown, wrong};
use crate::cli::InspectArgs;
use crate::output;

#[derive(Serialize)]
struct Report<'a> {
    format: &'a str,
    tensors: Vec<Tensor<'a>>,
    layout: Option<&'static str>,
    contents: Option<String>,
    group: Option<String>,
    prefix: Option<String>,
    missing: Vec<String>,
    unused: Vec<String>,
    beside: Vec<String>,
    other_objects: Vec<Object<'a>>,
    /// Entries of which each holds weights; `--entry` chooses one.
    several: Option<String>,
    metadata: &'a std::collections::BTreeMap<String, String>,
}

#[derive(Serialize)]
struct Tensor<'a> {
    name: &'a str,
    dtype: &'a str,
    shape: &'a [usize],
}

#[derive(Serialize)]
struct Object<'a> {
    path: &'a str,
    class: &'a str,
}

/// Runs the command.
///
/// # Errors
///
/// A file that cannot be read.
pub fn run(args: &InspectArgs) -> Result<()> {
    let unfit = |error| wrong(&args.file, error);
    let file = WeightsFile::open(&args.file).map_err(unfit)?;
    let options = ImportOptions {
        layout: args.names.layout.map(Into::into),
        entry: args.names.entry.clone(),
        rename: args.names.rename.clone(),
        ..Default::default()
    };
    let mut several = None;
    let recognised = match weights::recognise(&file, &options) {
        Ok(recognised) => Some(recognised),
        Err(WeightsError::Unrecognised { .. }) => None,
        Err(WeightsError::Ambiguous { entries }) => {
            several = Some(entries);
            None
        }
        Err(_) if file.tensors().is_empty() => None,
        Err(error) => return Err(unfit(error).into()),
    };
    let tensors = file.tensors().iter().map(|(name, info)| Tensor {
        name,
        dtype: &info.dtype,
        shape: &info.shape,
    });
    let objects = file.foreign_objects().iter().map(|object| Object {
        path: &object.path,
        class: &object.class,
    });
    let known = recognised.as_ref();
    let report = Report {
        format: file.format(),
        tensors: tensors.collect(),
        layout: known.map(|known| known.layout.name()),
        contents: known.map(|known| known.contents.to_string()),
        group: known.and_then(|known| known.group.clone()),
        prefix: known.map(|known| known.prefix.clone()),
        missing: known.map(|known| known.missing.clone()).unwrap_or_default(),
        unused: known.map(|known| known.unused.clone()).unwrap_or_default(),
        beside: known.map(|known| known.beside.clone()).unwrap_or_default(),
        other_objects: objects.collect(),
        several,
        metadata: file.metadata(),
    };
    if args.json {
        return output::result(&serde_json::to_string(&report)?);
    }
    output::result(&report.text())
}

impl Report<'_> {
    fn text(&self) -> String {
        let widest = |of: fn(&Tensor) -> usize| self.tensors.iter().map(of).max().unwrap_or(0);
        let name_width = widest(|tensor| shown(tensor.name).chars().count());
        let dtype_width = widest(|tensor| tensor.dtype.len());
        let mut lines: Vec<String> = self
            .tensors
            .iter()
            .map(|Tensor { name, dtype, shape }| {
                let name = shown(name);
                format!("{name:name_width$}  {dtype:dtype_width$}  {shape:?}")
            })
            .collect();
        let numbers: usize = self
            .tensors
            .iter()
            .map(|tensor| tensor.shape.iter().product::<usize>())
            .sum();
        lines.push(String::new());
        lines.push(format!(
            "{}: {} tensors, {numbers} numbers",
            self.format,
            self.tensors.len()
        ));
        for (key, text) in self.metadata {
            lines.push(shown(&format!("{key}: {text}")));
        }
        match (self.layout, &self.contents) {
            (Some(layout), Some(contents)) => {
                let mut line = format!("layout {layout}: {contents}");
                if let Some(group) = &self.group {
                    line += &format!(", in the entry {group}");
                }
                match self.prefix.as_deref() {
                    None | Some("") => {}
                    Some(prefix) => line += &format!(", each name after {prefix}"),
                }
                lines.push(shown(&line));
            }
            _ => lines.push(match &self.several {
                Some(entries) => shown(&format!(
                    "weights in several entries, of which --entry takes one: {entries}"
                )),
                None => "no layout is known by these names".into(),
            }),
        }
        let mut list = |what: &str, names: &[String]| {
            if !names.is_empty() {
                let all = names.join(", ");
                lines.push(shown(&format!("{what} ({}): {all}", names.len())));
            }
        };
        list("missing", &self.missing);
        list("left over", &self.unused);
        list("beside the model", &self.beside);
        let objects: Vec<String> = self
            .other_objects
            .iter()
            .map(|object| format!("{} at {:?}", object.class, object.path))
            .collect();
        list("no tensors, not executed", &objects);
        if self.layout.is_some() && self.missing.is_empty() && self.unused.is_empty() {
            lines.push("nothing is missing, nothing is left over".into());
        }
        lines.join("\n")
    }
}
