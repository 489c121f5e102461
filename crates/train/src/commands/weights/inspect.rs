//! `train inspect`: list the contents of a file of weights.

use anyhow::Result;
use serde::Serialize;
use transformer::Choice;
use transformer::weights::{self, WeightsError, WeightsFile};

use super::error::{shown, wrong};
use crate::args::InspectArgs;
use crate::terminal::output;

#[derive(Serialize)]
struct Report<'a> {
    format: &'a str,
    tensors: Vec<Tensor<'a>>,
    layout: Option<&'static str>,
    contents: Option<String>,
    /// Entry of the file's outermost dictionary that holds the weights; `None` if no single entry
    /// holds them, or if the layout is not recognised.
    group: Option<&'a str>,
    /// Prefix of the layout's names in this file, such as `module.`; `None` if the layout is not
    /// recognised.
    prefix: Option<&'a str>,
    /// Names that the layout requires and the file lacks.
    missing: &'a [String],
    /// Names of tensors in `group` that the layout does not have.
    unused: &'a [String],
    /// Names of tensors outside `group`, such as those of an optimizer.
    beside: &'a [String],
    other_objects: Vec<Object<'a>>,
    /// Names of the entries that hold weights, if several do and none has a usual name; `--entry`
    /// selects one.
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
/// A file that cannot be read, or a flag that names something that the file does not have.
pub fn run(args: &InspectArgs) -> Result<()> {
    let unfit = |error| wrong(&args.file, error);
    let file = WeightsFile::open(&args.file).map_err(unfit)?;
    let (known, several) = match weights::recognise(&file, &args.names.options()) {
        Ok(recognised) => (Some(recognised), None),
        Err(WeightsError::Unrecognised { .. }) => (None, None),
        Err(WeightsError::Ambiguous { entries }) => (None, Some(entries)),
        Err(_) if file.tensors().is_empty() => (None, None),
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
    let known = known.as_ref();
    let report = Report {
        format: file.format(),
        tensors: tensors.collect(),
        layout: known.map(|known| known.layout.name()),
        contents: known.map(|known| known.contents.to_string()),
        group: known.and_then(|known| known.group.as_deref()),
        prefix: known.map(|known| known.prefix.as_str()),
        missing: known.map_or(&[], |known| &known.missing),
        unused: known.map_or(&[], |known| &known.unused),
        beside: known.map_or(&[], |known| &known.beside),
        other_objects: objects.collect(),
        several,
        metadata: file.metadata(),
    };
    output::json_or(args.json, &report, || report.text())
}

impl Report<'_> {
    fn text(&self) -> String {
        let widest = |of: fn(&Tensor) -> usize| self.tensors.iter().map(of).max().unwrap_or(0);
        let name_width = widest(|tensor| shown(tensor.name).chars().count());
        let dtype_width = widest(|tensor| tensor.dtype.len());
        let mut lines = Vec::new();
        let mut elements = 0;
        for Tensor { name, dtype, shape } in &self.tensors {
            let name = shown(name);
            lines.push(format!(
                "{name:name_width$}  {dtype:dtype_width$}  {shape:?}"
            ));
            elements += shape.iter().product::<usize>();
        }
        let (format, count) = (self.format, self.tensors.len());
        lines.push(format!("\n{format}: {count} tensors, {elements} elements"));
        let metadata = self.metadata.iter();
        lines.extend(metadata.map(|(key, text)| shown(&format!("{key}: {text}"))));
        match (self.layout, &self.contents) {
            (Some(layout), Some(contents)) => {
                let mut line = format!("layout {layout}: {contents}");
                if let Some(group) = &self.group {
                    line += &format!(", in the entry {group}");
                }
                if let Some(prefix) = self.prefix.filter(|prefix| !prefix.is_empty()) {
                    line += &format!(", each name after {prefix}");
                }
                lines.push(shown(&line));
            }
            _ => lines.push(match &self.several {
                Some(entries) => shown(&format!(
                    "weights in several entries, choose one with --entry: {entries}"
                )),
                None => "no known layout has these names".into(),
            }),
        }
        let mut list = |what: &str, names: &[String]| {
            if !names.is_empty() {
                let all = names.join(", ");
                lines.push(shown(&format!("{what} ({}): {all}", names.len())));
            }
        };
        list("missing", self.missing);
        list("left over", self.unused);
        list("beside the model", self.beside);
        let objects = self.other_objects.iter();
        let objects = objects.map(|Object { path, class }| format!("{class} at {path:?}"));
        let objects: Vec<String> = objects.collect();
        list("objects other than tensors, not executed", &objects);
        if self.layout.is_some() && self.missing.is_empty() && self.unused.is_empty() {
            lines.push("nothing is missing, nothing is left over".into());
        }
        lines.join("\n")
    }
}
