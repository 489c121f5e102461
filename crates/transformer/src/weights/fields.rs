//! The fields of a `config.json` or `generation_config.json`.
//!
//! The import uses some fields, and requires others to have the only supported value. It skips
//! fields that are known not to change the model, and unknown fields that are `null`, `false` or
//! empty. It reports all other unknown fields.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::path::Path;

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::error::WeightsError;
use super::json::{is_empty, read_json};

/// Fields that do not change how this crate computes a model: names, labels, element types,
/// settings of training, and fields that repeat others.
const NEUTRAL: &[&str] = &[
    "_attn_implementation_autoset",
    "_name_or_path",
    "_num_labels",
    "activation_dropout",
    "architectures",
    "attention_dropout",
    "chunk_size_feed_forward",
    "classif_dropout",
    "classifier_dropout",
    "decoder_layerdrop",
    "dtype",
    "encoder_layerdrop",
    "extra_pos_embeddings",
    "finetuning_task",
    "force_bos_token_to_be_generated",
    "gradient_checkpointing",
    "id2label",
    "init_std",
    "initializer_factor",
    "is_decoder",
    "label2id",
    "n_positions",
    "output_past",
    "prefix",
    "problem_type",
    "return_dict",
    "save_step",
    "tokenizer_class",
    "torch_dtype",
    "unk_token_id",
];

/// The fields of a file that have not been read. Reading a field removes it.
pub(super) struct Fields {
    /// Name of the file.
    pub file: &'static str,
    pub fields: BTreeMap<String, Value>,
}

impl Fields {
    /// Reads the file `path`, whose name is `file`.
    pub fn read(path: &Path, file: &'static str) -> Result<Self, WeightsError> {
        let of_file =
            |error: WeightsError| WeightsError::File(format!("has a {file} that {error}"));
        match read_json(path).map_err(of_file)? {
            Value::Object(fields) => Ok(Self {
                file,
                fields: fields.into_iter().collect(),
            }),
            _ => Err(of_file(WeightsError::File("is not an object".into()))),
        }
    }

    /// Takes an optional field; `null` counts as absent.
    pub fn optional<T: DeserializeOwned>(&mut self, name: &str) -> Result<Option<T>, WeightsError> {
        let value = self.fields.remove(name).filter(|value| !value.is_null());
        let Some(value) = value else {
            return Ok(None);
        };
        let read = serde_json::from_value(value.clone());
        read.map(Some).map_err(|error| {
            let file = self.file;
            WeightsError::File(format!("has a {file} with {name} {value} ({error})"))
        })
    }

    /// Takes a field that is true or false. As in Python, null is false.
    pub fn flag(&mut self, name: &str) -> Result<Option<bool>, WeightsError> {
        if self.fields.get(name).is_some_and(Value::is_null) {
            self.fields.remove(name);
            return Ok(Some(false));
        }
        self.optional(name)
    }

    /// Takes a field that must be there.
    pub fn required<T: DeserializeOwned>(&mut self, name: &str) -> Result<T, WeightsError> {
        let value = self.optional(name)?;
        value.ok_or_else(|| WeightsError::File(format!("has a {} without {name}", self.file)))
    }

    /// Takes fields that must all have the value `expected` if they are there.
    pub fn expect(&mut self, names: &[&str], expected: Value) -> Result<(), WeightsError> {
        for name in names {
            if let Some(value) = self.optional::<Value>(name)?
                && value != expected
            {
                return Err(self.refuse(name, &value, &expected));
            }
        }
        Ok(())
    }

    /// Returns the fields that were not taken and may change what the model computes, each with its
    /// value. `is_neutral` tells further fields that do not.
    pub fn unknown(self, is_neutral: impl Fn(&str) -> bool) -> Vec<String> {
        let is_known = |name: &str| NEUTRAL.contains(&name) || is_neutral(name);
        let fields = self.fields.into_iter();
        let unknown = fields.filter(|(name, value)| !is_known(name) && !is_empty(value));
        unknown
            .map(|(name, value)| format!("{name} {value}"))
            .collect()
    }

    /// Takes a list of token ids, which may be a single id, or be missing.
    pub fn ids(&mut self, name: &str) -> Result<Vec<u32>, WeightsError> {
        if self.fields.get(name).is_some_and(Value::is_number) {
            return Ok(self.optional(name)?.into_iter().collect());
        }
        Ok(self.optional(name)?.unwrap_or_default())
    }

    /// Returns the error about a field whose value this crate does not support.
    pub fn refuse(&self, name: &str, value: &dyn Display, expected: &dyn Display) -> WeightsError {
        let file = self.file;
        let what = format!("has a {file} with {name} {value}, but only {expected} is supported");
        WeightsError::File(what)
    }
}
