//! Model folders of Hugging Face: `config.json`, `generation_config.json`, and the weights in one
//! file or in shards.

mod generation;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;

pub use self::generation::{hugging_face_generation, read_generation};

use self::generation::is_of_generation;
use super::error::WeightsError;
use super::families::HuggingFace;
use super::fields::Fields;
use super::file::WeightsFile;
use super::import::{self, Imported, check_whole};
use super::json::{CONFIG, read_json};
use super::layout::Layout;
use super::options::ImportOptions;
use super::sizes::Sizes;
use crate::choice::Choice;

/// Names of weight files and shard indices, in the order in which a folder is searched for them. An
/// index names the shards of a model whose weights are in several files.
const WEIGHTS: [&str; 4] = [
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
];

/// A Hugging Face model folder whose configuration has been read.
///
/// The supported families are T5 (also T5 1.1, Flan-T5 and mT5), BART, mBART, M2M100 (also NLLB),
/// Marian and Pegasus, the decoders GPT-2 and Llama, whose model
/// [`Imported::decoder`](super::Imported::decoder) builds, the encoder BERT, and both stacks of
/// Whisper.
///
/// ```no_run
/// use burn::tensor::Device;
/// use transformer::weights::ModelFolder;
///
/// let folder = ModelFolder::open("nllb-200-distilled-600M")?;
/// let model = folder.import()?.transformer(&Device::flex())?;
/// # Ok::<(), transformer::weights::WeightsError>(())
/// ```
#[derive(Debug)]
pub struct ModelFolder {
    /// The weights.
    pub file: WeightsFile,
    /// Import options that follow from `config.json`. The caller may change them.
    pub options: ImportOptions,
    /// Settings of `config.json` that this crate does not know, each with its value. The import
    /// ignores them. Unknown settings that are `null`, `false` or empty are not listed.
    pub unknown: Vec<String>,
    path: PathBuf,
    sizes: Sizes,
}

impl ModelFolder {
    /// Reads the configuration of a folder and opens its weights.
    ///
    /// `path` names the folder or a file of weights inside the folder.
    ///
    /// # Errors
    ///
    /// A file is missing or damaged, a shard is outside the folder, or the configuration is of an
    /// unknown family, lacks a setting or has one that this crate does not support.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, WeightsError> {
        let path = path.as_ref();
        Self::open_path(path).map_err(|error| error.at(path))
    }

    fn open_path(path: &Path) -> Result<Self, WeightsError> {
        if !path.exists() {
            return Err(WeightsError::File("does not exist".into()));
        }
        let config = if path.is_dir() {
            path.join(CONFIG)
        } else {
            path.with_file_name(CONFIG)
        };
        let mut fields = Fields::read(&config, CONFIG)?;
        let (options, sizes, hugging_face) = read(&mut fields)?;
        let is_neutral =
            |name: &str| hugging_face.neutral.contains(&name) || is_of_generation(name);
        Ok(Self {
            file: if path.is_dir() {
                open_weights(path)?
            } else {
                WeightsFile::open(path)?
            },
            path: path.into(),
            options,
            unknown: fields.unknown(is_neutral),
            sizes,
        })
    }

    /// Checks that the folder is of a family of whole models of text.
    ///
    /// # Errors
    ///
    /// The models of the family have a single stack, or their encoder takes vectors.
    pub fn check_whole(&self) -> Result<(), WeightsError> {
        self.options.layout.map_or(Ok(()), check_whole)
    }

    /// Imports the weights.
    ///
    /// # Errors
    ///
    /// In the cases of [`import`](super::import()), or if a size in `config.json` differs from the
    /// weights.
    pub fn import(&self) -> Result<Imported, WeightsError> {
        self.read().map_err(|error| error.at(&self.path))
    }

    fn read(&self) -> Result<Imported, WeightsError> {
        let imported = import::read(&self.file, &self.options, true);
        let imported = imported.map_err(|error| self.file.error(error));
        let mut imported = imported.map_err(|error| match error.without_path() {
            WeightsError::Config(error) => {
                WeightsError::File(format!("has a {CONFIG} of an invalid model: {error}"))
            }
            error => error,
        })?;
        for (name, found, given) in self.sizes.compare(&imported.stacks, &imported.others) {
            if found != given {
                let what = format!("has weights with {name} {found}, but {CONFIG} has {given}");
                return Err(WeightsError::File(what));
            }
        }
        let unknown = self.unknown.iter();
        let unknown =
            unknown.map(|what| format!("{CONFIG}: {what} is not known, and was not used"));
        imported.warnings.extend(unknown);
        Ok(imported)
    }
}

/// Returns the import options, the sizes that the weights must have, and what is known of the
/// family.
fn read(fields: &mut Fields) -> Result<(ImportOptions, Sizes, &'static HuggingFace), WeightsError> {
    let model_type: String = fields.required("model_type")?;
    let families = || {
        Layout::ALL
            .iter()
            .filter_map(|layout| layout.family().hugging_face.as_ref())
    };
    let of_type = |family: &&HuggingFace| family.model_types.contains(&model_type.as_str());
    let Some(family) = families().find(of_type) else {
        let known: BTreeSet<&str> = families()
            .flat_map(|family| family.model_types)
            .copied()
            .collect();
        let expected = Vec::from_iter(known).join(", ");
        let what = format!(
            "has a config.json with model_type {model_type}, but must have one of {expected}"
        );
        return Err(WeightsError::File(what));
    };
    let (options, sizes) = (family.read)(fields, &model_type)?;
    Ok((options, sizes, family))
}

fn open_weights(folder: &Path) -> Result<WeightsFile, WeightsError> {
    let found = WEIGHTS.iter().find(|name| folder.join(name).exists());
    let Some(name) = found else {
        let what = format!("has no weights: none of {}", WEIGHTS.join(", "));
        return Err(WeightsError::File(what));
    };
    let path = folder.join(name);
    let of_file = |error: WeightsError| {
        WeightsError::File(format!("has a {name} that {}", error.without_path()))
    };
    if !name.ends_with(".json") {
        return WeightsFile::open(path).map_err(of_file);
    }
    let map = weight_map(&path).map_err(of_file)?;
    let shards: BTreeSet<&String> = map.values().collect();
    let paths: Vec<PathBuf> = shards.iter().map(|shard| folder.join(shard)).collect();
    let file = WeightsFile::open_shards(&paths)?;
    for (tensor, shard) in &map {
        if file.file_name_of(tensor).as_ref() != Some(shard) {
            let what = format!("has a {name} that has tensor {tensor} in {shard}, which lacks it");
            return Err(WeightsError::File(what));
        }
    }
    Ok(file)
}

/// Reads an index, and returns the file name of each tensor's shard.
fn weight_map(path: &Path) -> Result<BTreeMap<String, String>, WeightsError> {
    let index = read_json(path)?;
    let Some(Value::Object(map)) = index.get("weight_map") else {
        return Err(WeightsError::File("has no object weight_map".into()));
    };
    if map.is_empty() {
        return Err(WeightsError::File("has an empty weight_map".into()));
    }
    let shard = |(tensor, shard): (&String, &Value)| match shard.as_str() {
        // A shard must be in the folder itself.
        Some(name)
            if Path::new(name)
                .file_name()
                .is_some_and(|whole| whole == name) =>
        {
            Ok((tensor.clone(), name.to_string()))
        }
        _ => {
            let what = format!(
                "has {shard} for tensor {tensor}, but must have the name of a file beside it"
            );
            Err(WeightsError::File(what))
        }
    };
    map.iter().map(shard).collect()
}
