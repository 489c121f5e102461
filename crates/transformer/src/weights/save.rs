//! Files of whole modules: parameters and configuration together.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use burn::module::Module;
use burn::tensor::{DType, Device};

use super::error::{WeightsError, check_finite};
use super::file::WeightsFile;
use super::parameters::{Parameters, parameters, shapes, with_parameters};
use super::safetensors::{Dtype, write};
use super::stacks::{DECODER, ENCODER, Stacks, metadata, stack};
use crate::config::{DecoderConfig, EncoderConfig};
use crate::decoder::Decoder;
use crate::encoder::Encoder;
use crate::init::Init;
use crate::model::Transformer;

/// A module that a file describes completely: [`Transformer`], [`Encoder`] or [`Decoder`].
pub trait Saved: Module + sealed::Configured {}

impl<M: Module + sealed::Configured> Saved for M {}

mod sealed {
    use super::{BTreeMap, Device, Display, WeightsError};

    pub trait Configured: Sized + Display {
        /// Name of the stack; `None` for a whole model.
        const STACK: Option<&'static str>;

        /// Returns the module's configurations, as JSON.
        fn describe(&self) -> BTreeMap<String, String>;

        /// Builds a module of these configurations whose parameters are zeros.
        fn zeros(about: &BTreeMap<String, String>, device: &Device) -> Result<Self, WeightsError>;
    }
}

use sealed::Configured;

impl Configured for Encoder {
    const STACK: Option<&'static str> = Some(ENCODER);

    fn describe(&self) -> BTreeMap<String, String> {
        metadata(self.config())
    }

    fn zeros(about: &BTreeMap<String, String>, device: &Device) -> Result<Self, WeightsError> {
        let config: EncoderConfig = stack(about, ENCODER)?.ok_or_else(|| lacks(about, ENCODER))?;
        config.validate().map_err(WeightsError::Config)?;
        Ok(Self::build(&config, &mut Init::zeros(device)))
    }
}

impl Configured for Decoder {
    const STACK: Option<&'static str> = Some(DECODER);

    fn describe(&self) -> BTreeMap<String, String> {
        metadata(self.config())
    }

    fn zeros(about: &BTreeMap<String, String>, device: &Device) -> Result<Self, WeightsError> {
        let config: DecoderConfig = stack(about, DECODER)?.ok_or_else(|| lacks(about, DECODER))?;
        config.validate().map_err(WeightsError::Config)?;
        Ok(Self::build(&config, &mut Init::zeros(device)))
    }
}

impl Configured for Transformer {
    const STACK: Option<&'static str> = None;

    fn describe(&self) -> BTreeMap<String, String> {
        let mut about = self.encoder.describe();
        about.extend(self.decoder.describe());
        about
    }

    fn zeros(about: &BTreeMap<String, String>, device: &Device) -> Result<Self, WeightsError> {
        let encoder = Encoder::zeros(about, device)?;
        let decoder = Decoder::zeros(about, device)?;
        Stacks::check_fit(encoder.config(), decoder.config())?;
        Ok(Self::from_parts(encoder, decoder))
    }
}

/// Returns the error about a file of this metadata that does not describe `stack`.
fn lacks(about: &BTreeMap<String, String>, stack: &str) -> WeightsError {
    let other = [ENCODER, DECODER]
        .into_iter()
        .find(|key| about.contains_key(*key));
    WeightsError::File(match other {
        Some(other) => format!("has the {other} of a model only, not its {stack}"),
        None => format!(
            "has no configuration of the {stack}: read it with `weights::import`, which recognises other files"
        ),
    })
}

/// Saves a model with its configuration, for [`load`]. Burn's records have parameters alone: read into
/// a model with other heads, norms or positions, they give other outputs without an error.
///
/// The file is a safetensors file in the native layout, in f32 (quantised matrices stay so). It
/// appears whole or not at all: a file that stands there is replaced in one step, and keeps its
/// permissions. It does not have the ids of the parameters, by which an optimizer's record knows them: to
/// go on with a training, use records or Burnpack. If [`Transformer::config`] is not `None`, [`import`](super::import()) and the
/// program `train` read it, too.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use burn::tensor::Device;
/// use transformer::weights::{load, parameters, save};
/// use transformer::{Transformer, TransformerConfig};
///
/// let device = Device::flex();
/// let model = TransformerConfig::new(20, 20).with_d_model(16).with_n_heads(2).init(&device)?;
/// let folder = tempfile::tempdir()?;
/// let path = folder.path().join("model.safetensors");
/// save(&path, &model)?;
/// let same: Transformer = load(&path, &device)?;
/// assert_eq!(parameters(&same), parameters(&model));
/// # Ok(())
/// # }
/// ```
///
/// # Errors
///
/// The file cannot be written. A parameter is infinite or NaN. A matrix is quantised in another way than by
/// [`quantize_int8`](super::quantize_int8()). The module was changed after it was built, so that its
/// configuration does not describe it; only another dropout is no error, and not saved.
pub fn save<M: Saved>(path: impl AsRef<Path>, model: &M) -> Result<(), WeightsError> {
    let path = path.as_ref();
    write_model(path, model).map_err(|error| error.at(path))
}

fn write_model<M: Saved>(path: &Path, model: &M) -> Result<(), WeightsError> {
    let about = model.describe();
    let device = model.devices().into_iter().next().unwrap_or_default();
    let built = M::zeros(&about, &device.inner())?;
    if let Some(what) = changed(model, &built) {
        let what =
            format!("cannot hold this model: it has {what}, and was changed after it was built");
        return Err(WeightsError::File(what));
    }
    let mut values = parameters(model);
    for data in values.values_mut() {
        if matches!(data.dtype(), DType::F16 | DType::BF16) {
            *data = data.clone().convert::<f32>();
        }
    }
    // A file that cannot be loaded must not replace one that can.
    for (name, data) in &values {
        if let Ok(elements) = data.as_slice() {
            check_finite(name, elements)?;
        }
    }
    replace(path, |file| write(file, &values, Dtype::F32, &about))
}

/// Returns what a model has that is not that of its configuration, from which `built` was made; `None`
/// if a file of parameters and configuration describes the model.
fn changed<M: Module + Display>(model: &M, built: &M) -> Option<String> {
    let (own, expected) = (shapes(model), shapes(built));
    let differs = |name: &&String| own.get(*name) != expected.get(*name);
    if let Some(name) = own.keys().chain(expected.keys()).find(differs) {
        let hint = if name.contains(".lora.") {
            " (`materialize` merges LoRA's products)"
        } else {
            ""
        };
        return Some(format!(
            "a parameter {name} that is not that of its configuration{hint}"
        ));
    }
    // Burn's display has the rest: activations, norms, heads and positions.
    let [own, expected] = [model, built].map(|module| module.to_string());
    let lines = |text: &'_ str| -> Vec<String> {
        let lines = text.lines().map(str::trim);
        let lines = lines.filter(|line| !line.starts_with("dropout:"));
        lines.map(String::from).collect()
    };
    let mut pairs = lines(&own).into_iter().zip(lines(&expected));
    let (own, expected) = pairs.find(|(own, expected)| own != expected)?;
    Some(format!("`{own}` where its configuration says `{expected}`"))
}

/// Writes a file beside `path` that then replaces the file at `path`.
fn replace(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<File>) -> Result<(), WeightsError>,
) -> Result<(), WeightsError> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let io = |error: std::io::Error| WeightsError::io(&error);
    // A link stays, and its target is replaced.
    let path = &fs::canonicalize(path).unwrap_or_else(|_| path.into());
    let mut partial = path.as_os_str().to_owned();
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    partial.push(format!(".{}-{number}.part", std::process::id()));
    let file = File::create_new(&partial).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => WeightsError::File("is in no folder that exists".into()),
        _ => WeightsError::File(format!("cannot be written ({error})")),
    })?;
    let written = (|| {
        if let Ok(about) = fs::metadata(path) {
            file.set_permissions(about.permissions()).map_err(io)?;
        }
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush().map_err(io)?;
        file.get_ref().sync_all().map_err(io)?;
        fs::rename(&partial, path)
            .map_err(|error| WeightsError::File(format!("cannot be replaced ({error})")))
    })();
    if written.is_err() {
        // The error that counts is the first one.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Loads a model that [`save`] has saved; nothing else is needed.
///
/// Elements in f16 or bf16 are read, too, and take the precision of the device. A stack is also
/// read from the file of a whole model. The encoder of a model whose stacks share one embedding table
/// comes without it, as from [`Imported::encoder`](super::Imported::encoder).
///
/// # Errors
///
/// The file cannot be read, has no configuration of such a module, or its tensors do not fit the
/// configuration or have elements that are infinite or NaN.
pub fn load<M: Saved>(path: impl AsRef<Path>, device: &Device) -> Result<M, WeightsError> {
    let path = path.as_ref();
    read_model(path, device).map_err(|error| error.at(path))
}

fn read_model<M: Saved>(path: &Path, device: &Device) -> Result<M, WeightsError> {
    let file = WeightsFile::open(path)?;
    check_sizes(&file)?;
    let empty = M::zeros(file.metadata(), device)?;
    let read = |name: &str| match file.read_int8(name)? {
        Some(data) => Ok(data),
        None => {
            let data = file.read(name)?;
            check_finite(name, data.as_slice().expect("it was read as f32"))?;
            Ok(data)
        }
    };
    // In the file of a whole model, the names of a stack begin with the stack.
    let is_whole = [ENCODER, DECODER].map(|key| file.metadata().contains_key(key));
    let prefix = M::STACK.filter(|_| is_whole == [true; 2]);
    let mut given = Parameters::new();
    for name in file.tensors.keys() {
        let own = match &prefix {
            Some(stack) => name
                .strip_prefix(stack)
                .and_then(|name| name.strip_prefix('.')),
            None => Some(name.as_str()),
        };
        if let Some(own) = own {
            given.insert(own.into(), read(name)?);
        }
    }
    file.check_unchanged()?;
    with_parameters(&empty, given)
}

/// Checks the sizes in the configurations against the tensors, before a module of these sizes takes
/// memory.
fn check_sizes(file: &WeightsFile) -> Result<(), WeightsError> {
    /// Elements of a position table, which is computed, that take 1 GiB: too many.
    const MOST: usize = 1 << 28;
    let Stacks { encoder, decoder } = Stacks::of_metadata(file.metadata())?.unwrap_or_default();
    let encoder = encoder.map(|config| (config.n_layers, config.input));
    let decoder = decoder.map(|config| (config.n_layers, config.input));
    for (n_layers, input) in encoder.into_iter().chain(decoder) {
        let (max_len, d_model) = (input.positions.max_len, input.d_model);
        let has_width = |shape: &[usize]| shape == [d_model];
        let mut tensors = file.tensors().values();
        let what = if n_layers > file.tensors().len() {
            format!("has fewer tensors than the {n_layers} layers of its configuration")
        } else if !tensors.any(|info| has_width(&info.shape)) {
            format!("has no norm of the width {d_model} of its configuration")
        } else if input.positions.is_computed() && max_len.saturating_mul(d_model) >= MOST {
            format!(
                "has positions for {max_len} vectors of width {d_model}, of which a table takes 1 GiB or more"
            )
        } else {
            continue;
        };
        return Err(WeightsError::File(what));
    }
    Ok(())
}
