//! Compares models imported from Hugging Face folders with what the library `transformers` computes
//! from the same files.
//!
//! `fixtures/families` holds the folders, and the outputs and gradients that `transformers`
//! computed.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::{DType, Device, Tensor, TensorData};
use common::{Fixture, assert_close, backends};
use transformer::generate::{LengthPenalty, Method};
use transformer::weights::{
    Contents, Dtype, Imported, Layout, ModelFolder, Parameters, WeightsFile, export,
    hugging_face_config, hugging_face_generation, parameters, quantize_int8, read_generation,
    to_bytes_with,
};
use transformer::{AttentionMask, CrossEntropy, IGNORE_INDEX};

const FAMILIES: [(&str, Layout); 7] = [
    ("t5", Layout::T5),
    ("t5_gated", Layout::T5Gated),
    ("bart", Layout::Bart),
    ("mbart", Layout::Bart),
    ("m2m_100", Layout::M2m100),
    ("marian", Layout::Marian),
    ("pegasus", Layout::M2m100),
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/families")
        .join(name)
}

fn imported(name: &str) -> Imported {
    let folder = ModelFolder::open(folder(name)).unwrap_or_else(|error| panic!("{name} {error}"));
    folder
        .import()
        .unwrap_or_else(|error| panic!("{name} {error}"))
}

#[test]
fn logits_and_gradients_are_those_of_transformers() {
    for (name, layout) in FAMILIES {
        let expected = Fixture::load(&format!("families/{name}.expected"));
        let imported = imported(name);
        assert_eq!(imported.layout, layout, "{name}");
        assert_eq!(imported.warnings, [""; 0], "{name}");
        assert_eq!(imported.config().unwrap().dropout, 0.0, "{name}");
        for backend in backends() {
            let device = &backend.device;
            let model = imported.clone().transformer(device).unwrap();
            let [source, target] = ["source", "target"]
                .map(|what| expected.int::<2>(&format!("input.{what}"), device));
            // The parameters of the fixtures are large, and so are the outputs. The tolerance is
            // therefore relative to the largest element if this is above 1.
            let tolerance = |reference: &TensorData| {
                let size = |largest: f32, x: f32| largest.max(x.abs());
                backend.output * reference.iter::<f32>().fold(1.0, size)
            };
            let close = |what: &str, found: Tensor<3>| {
                let what = format!("output.{what}");
                let reference = expected.data(&what);
                let name = format!("{what} of {name} on {}", backend.name);
                assert_close(&name, &found.into_data(), &reference, tolerance(&reference));
            };
            let pad_id = imported.config().unwrap().pad_id;
            let mask = AttentionMask::padding(&source, pad_id);
            let memory = model.encode(source.clone(), Some(&mask));
            // At padding, `transformers` computes different states. They are not compared, because
            // they do not affect other outputs.
            let states = memory.states().clone();
            let hidden = source.clone().equal_elem(pad_id);
            let hidden = hidden.unsqueeze_dim::<3>(2).expand(states.dims());
            let reference: Tensor<3> = expected.float("output.memory", device);
            let difference = (states - reference).mask_fill(hidden, 0.0).abs().max();
            let difference = difference.into_scalar::<f32>();
            let allowed = tolerance(&expected.data("output.memory"));
            assert!(difference <= allowed, "memory of {name}: {difference}");
            let logits = model.forward(source.clone(), Some(&mask), target.clone());
            close("logits", logits.clone());

            let labels = expected.int::<2>("input.labels", device);
            let is_padding = labels.clone().equal_elem(pad_id);
            let labels = labels.mask_fill(is_padding, IGNORE_INDEX);
            let criterion = CrossEntropy::new(0.0).unwrap();
            let loss = model.loss(
                source.clone(),
                Some(&mask),
                target.clone(),
                labels,
                &criterion,
                None,
            );
            let reference = expected.data("output.loss");
            let name_of_loss = format!("loss of {name} on {}", backend.name);
            let loss = (loss.sum / loss.tokens).into_data();
            assert_close(&name_of_loss, &loss, &reference, tolerance(&reference));

            let [gaps, after] = ["source", "target"]
                .map(|what| expected.int::<2>(&format!("input.gaps.{what}"), device));
            let mask = AttentionMask::padding(&gaps, pad_id);
            close("gaps.logits", model.forward(gaps, Some(&mask), after));

            let cotangent: Tensor<3> = expected.float("input.cotangent", device);
            let gradients = (logits * cotangent).sum().backward();
            let all: Parameters = common::parameter_gradients(&model, &gradients)
                .into_iter()
                .map(|(path, gradient)| (path, gradient.expect("each parameter has a gradient")))
                .collect();
            let theirs = export(
                &imported.config().unwrap(),
                Contents::Model,
                &all,
                layout,
                false,
            )
            .unwrap();
            let mut compared = 0;
            for (parameter, mut gradient) in theirs {
                let reference = format!("gradient.{parameter}");
                if !expected.has(&reference) {
                    continue;
                }
                compared += 1;
                let reference = expected.data(&reference);
                if parameter.ends_with("model.shared.weight") {
                    // PyTorch's embeddings have no gradient for padding, although padding is the
                    // first token of some targets. The row of padding is therefore not compared.
                    let width = imported.config().unwrap().d_model;
                    let row = imported.config().unwrap().pad_id as usize * width;
                    let own = gradient.as_mut_slice::<f32>().unwrap();
                    let theirs = reference.as_slice::<f32>().unwrap();
                    own[row..row + width].copy_from_slice(&theirs[row..row + width]);
                }
                let largest = reference.iter::<f32>().fold(0.0_f32, |x, y| x.max(y.abs()));
                let what = format!("gradient of {parameter} of {name} on {}", backend.name);
                // In theory, the gradient of the bias of keys is 0. A tolerance relative to the
                // largest element alone would reject its rounding errors.
                let tolerance = backend.gradient * largest.max(0.1);
                assert_close(&what, &gradient, &reference, tolerance);
            }
            let with_gradients = expected.names().filter(|x| x.starts_with("gradient."));
            assert_eq!(compared, with_gradients.count(), "{name}");

            // Decodes one token at a time, with a cache and without autodiff.
            let model = imported
                .clone()
                .transformer(&device.clone().without_autodiff())
                .unwrap();
            let device = device.clone().without_autodiff();
            let [source, target] = ["source", "target"]
                .map(|what| expected.int::<2>(&format!("input.{what}"), &device));
            let mask = AttentionMask::padding(&source, imported.config().unwrap().pad_id);
            let memory = model.encode(source, Some(&mask));
            let mut cache = model.new_cache();
            let steps = target.dims()[1];
            let logits = (0..steps)
                .map(|step| model.decode(target.clone().narrow(1, step, 1), &memory, &mut cache));
            close("logits", Tensor::cat(logits.collect(), 1));
        }
    }
}

#[test]
fn matrices_can_be_quantised_while_they_are_read() {
    for (name, _) in FAMILIES {
        let device = Device::flex();
        let mut folder = ModelFolder::open(folder(name)).unwrap();
        let model = folder.import().unwrap().transformer(&device).unwrap();
        let expected = parameters(&quantize_int8(model));
        folder.options.int8 = true;
        let imported = folder.import().unwrap();
        let is_small = |data: &&TensorData| matches!(data.dtype(), DType::QFloat(_));
        assert!(imported.parameters.values().filter(is_small).count() > 10);
        let found = parameters(&imported.transformer(&device).unwrap());
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn exported_models_are_imported_again() {
    for (name, layout) in FAMILIES {
        let original = imported(name);
        let (config, whole) = (&original.config().unwrap(), Contents::Model);
        let tensors = export(config, whole, &original.parameters, layout, true).unwrap();
        let file = WeightsFile::open(self::folder(name).join("model.safetensors")).unwrap();
        for tensor in file.tensors().keys() {
            // The first two rows of BART's position tables precede position 0, and are not
            // imported.
            if !tensor.ends_with("embed_positions.weight") {
                assert_eq!(tensors[tensor], file.read(tensor).unwrap(), "{name}");
            }
        }
        let fields = hugging_face_config(config, layout).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let bytes = to_bytes_with(&tensors, Dtype::F32, &Default::default()).unwrap();
        fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        let fields = serde_json::to_vec(&fields).unwrap();
        fs::write(folder.path().join("config.json"), fields).unwrap();
        let again = ModelFolder::open(folder.path()).unwrap().import().unwrap();
        assert_eq!(
            again.config().unwrap(),
            original.config().unwrap(),
            "{name}"
        );
        assert_eq!(again.parameters, original.parameters, "{name}");
        assert_eq!(again.warnings, [""; 0], "{name}");
    }
}

/// Writes a folder with the tensors of the model `name` in two shards.
///
/// Returns the index that names the shards.
fn in_shards(name: &str, folder: &Path) -> serde_json::Value {
    let path = self::folder(name);
    fs::copy(path.join("config.json"), folder.join("config.json")).unwrap();
    let file = WeightsFile::open(path.join("model.safetensors")).unwrap();
    let mut shards = [Parameters::new(), Parameters::new()];
    let mut map = serde_json::Map::new();
    for (index, tensor) in file.tensors().keys().enumerate() {
        let shard = usize::from(index % 3 == 0);
        shards[shard].insert(tensor.clone(), file.read(tensor).unwrap());
        map.insert(tensor.clone(), format!("model-{shard}.safetensors").into());
    }
    for (shard, tensors) in shards.iter().enumerate() {
        let bytes = to_bytes_with(tensors, Dtype::F32, &Default::default()).unwrap();
        fs::write(folder.join(format!("model-{shard}.safetensors")), bytes).unwrap();
    }
    serde_json::json!({ "metadata": {}, "weight_map": map })
}

#[test]
fn shards_are_one_file() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let index = in_shards("m2m_100", folder);
    let write = |index: &serde_json::Value| {
        let path = folder.join("model.safetensors.index.json");
        fs::write(path, index.to_string()).unwrap();
    };
    write(&index);
    let again = ModelFolder::open(folder).unwrap().import().unwrap();
    assert_eq!(again.parameters, imported("m2m_100").parameters);

    let refused = |expected: &str| {
        let error = ModelFolder::open(folder).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    };
    let tensor = "model.shared.weight";
    for (shard, expected) in [
        (
            "../model-0.safetensors",
            "must have the name of a file beside it",
        ),
        ("/etc/passwd", "must have the name of a file beside it"),
        ("..", "must have the name of a file beside it"),
        (
            "model-2.safetensors",
            "has a shard model-2.safetensors that does not exist",
        ),
        ("model-1.safetensors", "which lacks it"),
    ] {
        let mut wrong = index.clone();
        let shard = if index["weight_map"][tensor] == shard {
            "model-0.safetensors"
        } else {
            shard
        };
        wrong["weight_map"][tensor] = shard.into();
        write(&wrong);
        refused(expected);
    }
    for (wrong, expected) in [
        ("[]", "has no object weight_map"),
        ("{\"weight_map\": {}}", "has an empty weight_map"),
        ("{\"weight_map\": {\"a\": 3}}", "has 3 for tensor a"),
        ("{", "is not JSON"),
    ] {
        fs::write(folder.join("model.safetensors.index.json"), wrong).unwrap();
        refused(expected);
    }
    write(&index);
    fs::copy(
        folder.join("model-0.safetensors"),
        folder.join("model-1.safetensors"),
    )
    .unwrap();
    refused(" twice, in model-0.safetensors and model-1.safetensors");
}

/// A file with tied matrices has one of them, with the name that its writer kept.
#[test]
fn a_tied_matrix_may_have_any_of_its_names() {
    for (family, before) in [("t5", ""), ("bart", "model."), ("marian", "model.")] {
        let path = self::folder(family);
        let file = WeightsFile::open(path.join("model.safetensors")).unwrap();
        let shared = format!("{before}shared.weight");
        let names = [
            format!("{before}encoder.embed_tokens.weight"),
            format!("{before}decoder.embed_tokens.weight"),
            "lm_head.weight".into(),
        ];
        let mut others: Parameters = (file.tensors().keys())
            .map(|name| (name.clone(), file.read(name).unwrap()))
            .collect();
        let table = others.remove(&shared).unwrap();
        others.retain(|name, _| !names.contains(name));
        for name in names.into_iter().chain([shared]) {
            let folder = tempfile::tempdir().unwrap();
            fs::copy(path.join("config.json"), folder.path().join("config.json")).unwrap();
            let mut tensors = others.clone();
            tensors.insert(name.clone(), table.clone());
            let bytes = to_bytes_with(&tensors, Dtype::F32, &Default::default()).unwrap();
            fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
            let again = ModelFolder::open(folder.path()).unwrap().import();
            let again = again.unwrap_or_else(|error| panic!("{family}, {name}: {error}"));
            let expected = imported(family);
            assert_eq!(
                again.config().unwrap(),
                expected.config().unwrap(),
                "{family}, {name}"
            );
            assert_eq!(again.parameters, expected.parameters, "{family}, {name}");
        }
    }
}

#[test]
fn tensors_that_transformers_ignores_are_ignored() {
    let extra = |name: &str| (name.to_string(), TensorData::from([[1.0_f32; 3]; 8]));
    for (family, names) in [
        (
            "t5",
            &["decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"][..],
        ),
        ("bart", &["model.encoder.version", "model.decoder.version"]),
        ("m2m_100", &["model.encoder.embed_positions.weights"]),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = self::folder(family);
        fs::copy(path.join("config.json"), folder.path().join("config.json")).unwrap();
        let file = WeightsFile::open(path.join("model.safetensors")).unwrap();
        let mut tensors: Parameters = file
            .tensors()
            .keys()
            .map(|name| (name.clone(), file.read(name).unwrap()))
            .collect();
        tensors.extend(names.iter().map(|name| extra(name)));
        let write = |tensors: &Parameters| {
            let bytes = to_bytes_with(tensors, Dtype::F32, &Default::default()).unwrap();
            fs::write(folder.path().join("model.safetensors"), bytes).unwrap();
        };
        let import = || ModelFolder::open(folder.path()).and_then(|folder| folder.import());
        write(&tensors);
        assert_eq!(import().unwrap().parameters, imported(family).parameters);
        if family != "t5" {
            // `BartModel` and `M2M100Model` write the names without `model.`.
            let name = |name: String| name.strip_prefix("model.").unwrap_or(&name).to_string();
            let tensors = tensors.clone().into_iter();
            write(
                &tensors
                    .map(|(key, data)| (name(key), data))
                    .filter(|(key, _)| key != "final_logits_bias")
                    .collect(),
            );
            let again = import().unwrap();
            for (key, data) in imported(family).parameters {
                if key != "decoder.generator.bias" {
                    assert_eq!(again.parameters[&key], data, "{family}: {key}");
                }
            }
        }
        tensors.extend([extra("model.encoder.another")]);
        write(&tensors);
        let error = import().unwrap_err().without_path().to_string();
        assert_eq!(
            error,
            "has a tensor model.encoder.another that the model does not have"
        );
    }
}

#[test]
fn a_configuration_that_cannot_be_represented_is_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let error = ModelFolder::open(folder).unwrap_err().to_string();
    let expected = "has a config.json that does not exist";
    assert_eq!(error, format!("{}: {expected}", folder.display()));
    for (family, key, value, expected) in [
        (
            "t5",
            "model_type",
            "\"rwkv\"",
            "has a config.json with model_type rwkv, but must have one of bart, bert,",
        ),
        (
            "t5",
            "feed_forward_proj",
            "\"gated-tanh\"",
            "with feed_forward_proj gated-tanh, but only",
        ),
        ("t5", "num_heads", "4", "tensor "),
        (
            "t5",
            "d_ff",
            "21",
            "has weights with d_ff 20, but config.json has 21",
        ),
        ("t5", "vocab_size", "\"many\"", "with vocab_size \"many\""),
        (
            "t5",
            "relative_attention_num_buckets",
            "32",
            "has weights with relative_buckets 8, but config.json has 32",
        ),
        ("t5", "d_model", "null", "has a config.json without d_model"),
        (
            "bart",
            "decoder_ffn_dim",
            "21",
            "with decoder_ffn_dim 21, but only 20 is supported",
        ),
        (
            "bart",
            "tie_word_embeddings",
            "false",
            "with tie_word_embeddings false, but only true is supported",
        ),
        (
            "bart",
            "normalize_before",
            "true",
            "with normalize_before true, but only false is supported",
        ),
        (
            "bart",
            "activation_function",
            "\"tanh\"",
            "with activation_function tanh, but only relu,",
        ),
        (
            "m2m_100",
            "encoder_layers",
            "3",
            "has weights with encoder layers 2, but config.json has 3",
        ),
    ] {
        let path = self::folder(family);
        let text = fs::read_to_string(path.join("config.json")).unwrap();
        let mut config: serde_json::Value = serde_json::from_str(&text).unwrap();
        config[key] = serde_json::from_str(value).unwrap();
        fs::write(folder.join("config.json"), config.to_string()).unwrap();
        fs::copy(
            path.join("model.safetensors"),
            folder.join("model.safetensors"),
        )
        .unwrap();
        let result = ModelFolder::open(folder).and_then(|folder| folder.import());
        let error = result.unwrap_err().to_string();
        assert!(error.contains(expected), "{family}, {key}: {error}");
    }
    let text = fs::read_to_string(self::folder("m2m_100").join("config.json")).unwrap();
    fs::write(
        folder.join("config.json"),
        text.replacen('{', "{\"n_experts\": 8, \"repetition_penalty\": 1.5,", 1),
    )
    .unwrap();
    let warnings = ModelFolder::open(folder)
        .unwrap()
        .import()
        .unwrap()
        .warnings;
    assert_eq!(
        warnings,
        ["config.json: n_experts 8 is not known, and was not used"]
    );
}

#[test]
fn generation_settings_are_those_of_the_folder() {
    let read =
        |name: &str| read_generation(folder(name), &imported(name).config().unwrap()).unwrap();
    let bart = read("bart");
    assert_eq!(
        (bart.bos_id, bart.eos_id, bart.force_end),
        (Some(2), Some(2), true)
    );
    let length_penalty = LengthPenalty::Power { alpha: 1.2 };
    let width = 5;
    assert_eq!(
        bart.method,
        Method::Beam {
            width,
            length_penalty
        }
    );
    assert_eq!((bart.max_length, bart.no_repeat_ngram), (Some(23), 3));
    let m2m_100 = read("m2m_100");
    assert_eq!((m2m_100.prefix, m2m_100.forbidden), (vec![6], vec![1]));
    for (name, defaults) in ["bart", "m2m_100", "t5"].map(|name| (name, read(name))) {
        let config = imported(name).config().unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("config.json"), "{}").unwrap();
        let fields = serde_json::to_vec(&hugging_face_generation(&defaults)).unwrap();
        fs::write(folder.path().join("generation_config.json"), fields).unwrap();
        let again = read_generation(folder.path(), &config).unwrap();
        assert_eq!(again, defaults, "{name}");
    }
}

#[test]
fn wrong_generation_settings_are_named() {
    let config = imported("m2m_100").config().unwrap();
    let text = fs::read_to_string(folder("m2m_100").join("generation_config.json")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("config.json"), "{}").unwrap();
    for (name, value, expected) in [
        (
            "begin_suppress_tokens",
            "[40]",
            "begin_suppress_tokens 40, but only a token below 29",
        ),
        (
            "renormalize_logits",
            "true",
            "true, but only false together with forced_bos_token_id",
        ),
        (
            "do_sample",
            "true",
            "do_sample true, but only false for a model with an encoder",
        ),
        ("num_beam_groups", "2", "num_beam_groups 2, but only 1"),
        ("num_beams", "0", "num_beams 0, but only at least 1"),
        ("num_beams", "2000", "num_beams 2000, but only at least 1"),
        ("max_length", "0", "max_length 0, but only at least 1"),
        (
            "length_penalty",
            "-1",
            "length_penalty -1, but only a number from 0 to 10",
        ),
        (
            "early_stopping",
            "\"soon\"",
            "early_stopping \"soon\", but only true, false",
        ),
        (
            "bad_words_ids",
            "[[3,4]]",
            "bad_words_ids [3,4], but only one token",
        ),
        (
            "bad_words_ids",
            "[[40]]",
            "bad_words_ids 40, but only a token below 29",
        ),
        (
            "min_length",
            "30",
            "min_length 30, but only at most 24 beside this max_length",
        ),
        ("eos_token_id", "2.5", "eos_token_id 2.5"),
        (
            "eos_token_id",
            "[2,40]",
            "eos_token_id 40, but only a token below 29",
        ),
        (
            "suppress_tokens",
            "[40]",
            "suppress_tokens 40, but only a token below 29",
        ),
        (
            "decoder_start_token_id",
            "null",
            "without decoder_start_token_id",
        ),
    ] {
        let mut fields: serde_json::Value = serde_json::from_str(&text).unwrap();
        fields[name] = serde_json::from_str(value).unwrap();
        if name == "decoder_start_token_id" {
            fields["bos_token_id"] = fields[name].clone();
        }
        fs::write(
            folder.path().join("generation_config.json"),
            fields.to_string(),
        )
        .unwrap();
        let error = read_generation(folder.path(), &config)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        // Without the file, `config.json` has the settings, and unknown names are the model's.
        fs::rename(
            folder.path().join("generation_config.json"),
            folder.path().join("config.json"),
        )
        .unwrap();
        let error = read_generation(folder.path(), &config)
            .unwrap_err()
            .to_string();
        assert!(error.contains(expected), "{error}");
        fs::write(folder.path().join("config.json"), "{}").unwrap();
    }
}
