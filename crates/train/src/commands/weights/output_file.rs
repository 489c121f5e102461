//! The file that `import` and `export` write.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};
use burn::tensor::DType;
use training::error::UsageError;
use training::files::write_whole_by;
use training::run::layout;
use transformer::weights::{self, Dtype, Parameters, WeightsFile, dequantize};

use crate::args::{folder_of, unwritable_output};
use crate::number::{bytes, counted};

/// Rejects a path that has the ending of another format, is not that of a regular file, whose folder
/// does not exist, or that is a run's own. Also rejects an existing file, unless `force` is true and
/// [`is_written`] accepts the file.
pub(super) fn check_output(path: &Path, force: bool) -> Result<(), UsageError> {
    layout::check_output("output", path)?;
    let reject = |what: &str| Err(UsageError::new("--output", path.display(), what));
    let extension = path.extension().and_then(|extension| extension.to_str());
    if matches!(extension, Some("pt" | "pth" | "bin" | "ckpt" | "gz")) {
        return reject("must be a name such as model.safetensors, which is the format of the file");
    }
    if path.exists() && !path.is_file() {
        return reject("is not a regular file");
    }
    if fs::symlink_metadata(path).is_ok() && !force {
        return reject("exists already; name another file, or give --force to replace it");
    }
    if path.exists() && !is_written(path) {
        return reject(NOT_WRITTEN);
    }
    if !folder_of(path).is_dir() {
        return reject("is in a folder that does not exist");
    }
    Ok(())
}

/// Message about what `--force` does not replace.
pub(super) const NOT_WRITTEN: &str =
    "was not written by `export` or `import`, and --force replaces nothing else; name another path";

/// Returns whether `import` or `export` wrote a file, which then has the settings of the model.
pub(super) fn is_written(path: &Path) -> bool {
    let has = |file: &WeightsFile, key: &str| file.metadata().contains_key(key);
    WeightsFile::open(path).is_ok_and(|file| has(&file, "encoder") || has(&file, "decoder"))
}

/// Writes parameters to a file, and returns the size of the file as text.
///
/// If the write fails, no partial file is left. A symbolic link is followed. If `dtype` is `None`,
/// quantised matrices stay quantised, and other parameters are written in f32.
pub(super) fn write(
    path: &Path,
    parameters: &Parameters,
    dtype: Option<Dtype>,
    metadata: &BTreeMap<String, String>,
) -> Result<String> {
    let is_float = parameters.values().all(|data| data.dtype() == DType::F32);
    let parameters = if is_float || matches!(dtype, None | Some(Dtype::Int8)) {
        Cow::Borrowed(parameters)
    } else {
        let float = |(name, data): (&String, _)| (name.clone(), dequantize(data).into_owned());
        Cow::Owned(parameters.iter().map(float).collect())
    };
    if dtype == Some(Dtype::F16) {
        check_f16(&parameters)?;
    }
    let dtype = dtype.unwrap_or_default();
    let written = write_whole_by(path, |file| -> Result<()> {
        let mut to = BufWriter::new(file);
        let cannot = || format!("cannot write {}", path.display());
        weights::write(&mut to, &parameters, dtype, metadata).with_context(cannot)?;
        Ok(to.flush()?)
    });
    written.map_err(|error| unwritable_output(path, error))?;
    let about = fs::metadata(path).map_err(|error| unwritable_output(path, error))?;
    Ok(bytes(about.len() as usize))
}

/// Rejects elements that would become infinite: the file could not be read again.
fn check_f16(parameters: &Parameters) -> Result<(), UsageError> {
    for (name, data) in parameters {
        let too_large = |x: &f32| x.is_finite() && x.abs() >= 65_520.0;
        let count = data.iter::<f32>().filter(too_large).count();
        if count > 0 {
            let elements = counted(count, "element");
            let what = format!("makes {elements} of {name} infinite; use bf16 or f32");
            return Err(UsageError::new("--dtype", "f16", what));
        }
    }
    Ok(())
}
