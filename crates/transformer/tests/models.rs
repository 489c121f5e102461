//! Models of the library `transformers` that have one stack, as it saves them, through public
//! functions only: GPT-2, Llama and BERT, as folders and by rules, and the stacks of Whisper. States
//! and logits agree to 1e-5, and generation is the same.

use std::fs;
use std::path::{Path, PathBuf};

use burn::module::Module;
use burn::nn::attention::{MhaInput, MultiHeadAttentionConfig};
use burn::nn::conv::{Conv1d, Conv1dConfig};
use burn::nn::transformer::{TransformerEncoderConfig, TransformerEncoderInput};
use burn::nn::{Embedding, EmbeddingConfig, PaddingConfig1d};
use burn::tensor::activation::gelu;
use burn::tensor::{Device, Distribution, Int, Tensor, TensorData, Tolerance};
use serde_json::{Value, from_value};
use transformer::generate::{GenerateConfig, LengthPenalty, Method};
use transformer::weights::{
    Contents, Dtype, ImportOptions, Imported, Layout, ModelFolder, Parameters, PythonModel, Rules,
    Stacks, WeightsError, WeightsFile, export, hugging_face_config, hugging_face_generation,
    import, metadata, parameters, read_generation, to_bytes, to_bytes_with, with_parameters,
};
use transformer::{
    Activation, AttentionConfig, AttentionMask, ConfigError, Decoder, DecoderConfig, Encoder,
    EncoderConfig, FeedForwardConfig, Memory, NormKind, NormPlacement, Positions, pad_sequences,
};

const VOCAB: usize = 31;
const EOS: u32 = 7;

const FAMILIES: [(&str, Layout, Contents); 3] = [
    ("gpt2", Layout::Gpt2, Contents::Decoder),
    ("llama", Layout::Llama, Contents::Decoder),
    ("bert", Layout::Bert, Contents::Encoder),
];

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/models")
        .join(name)
}

/// Returns the file of a model, and what `transformers` computes with it.
fn model(name: &str) -> (WeightsFile, Value) {
    let file = WeightsFile::open(folder(name).join("model.safetensors")).unwrap();
    let about = fs::read(folder(name).with_extension("json")).unwrap();
    (file, serde_json::from_slice(&about).unwrap())
}

fn imported(name: &str) -> Imported {
    let folder = ModelFolder::open(folder(name)).unwrap_or_else(|error| panic!("{name} {error}"));
    let imported = folder.import();
    imported.unwrap_or_else(|error| panic!("{name} {error}"))
}

/// Returns what is imported of a file with these tensors.
fn reread(tensors: &Parameters, stacks: Option<&Stacks>, options: &ImportOptions) -> Imported {
    let about = stacks.map(metadata).unwrap_or_default();
    let file = tempfile::NamedTempFile::new().unwrap();
    let bytes = to_bytes_with(tensors, Dtype::F32, &about).unwrap();
    fs::write(file.path(), bytes).unwrap();
    import(&WeightsFile::open(file.path()).unwrap(), options).unwrap()
}

fn rows(about: &Value, name: &str) -> Vec<Vec<u32>> {
    from_value(about[name].clone()).unwrap()
}

/// Returns what is imported of a folder whose `config.json` has another value.
fn with_setting(name: &str, key: &str, value: &str) -> Result<Imported, WeightsError> {
    let path = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(folder(name).join("config.json")).unwrap();
    let mut config: Value = serde_json::from_str(&text).unwrap();
    config[key] = serde_json::from_str(value).unwrap();
    fs::write(path.path().join("config.json"), config.to_string()).unwrap();
    let weights = "model.safetensors";
    fs::copy(folder(name).join(weights), path.path().join(weights)).unwrap();
    ModelFolder::open(path.path()).and_then(|folder| folder.import())
}

/// Compares the real positions of `[B, T, N]` with rows of `T * N` values.
fn assert_close(found: Tensor<3>, expected: &Value) {
    for (row, expected) in expected.as_array().unwrap().iter().enumerate() {
        let expected: Vec<f32> = from_value(expected.clone()).unwrap();
        let found: Vec<f32> = found.clone().narrow(0, row, 1).into_data().iter().collect();
        for (a, b) in found.iter().zip(&expected) {
            assert!(
                (a - b).abs() < 1e-5 * b.abs().max(1.0),
                "row {row}: {a} for {b}"
            );
        }
    }
}

fn check_language_model(decoder: &Decoder, about: &Value) {
    let device = Device::flex();
    let prompts = rows(about, "rows");
    let ids = pad_sequences(&prompts, 0, &device);
    let logits = decoder.forward(ids, None, &mut decoder.new_cache());
    assert_close(logits, &about["logits"]);
    for width in [1, 3] {
        // Prompts have 7, 3 and 1 tokens, and each is continued by at most 9.
        for (prompt, expected) in prompts.iter().zip(rows(about, &format!("beam {width}"))) {
            let config = GenerateConfig::new(prompt.len() + 9).with_eos_id(Some(EOS));
            let config = match width {
                1 => config,
                _ => config.with_method(Method::Beam {
                    width,
                    length_penalty: LengthPenalty::None,
                }),
            };
            let found = decoder.complete(None, &[prompt], &config).unwrap();
            assert_eq!(found[0][0].tokens, expected, "{prompt:?}, beam {width}");
        }
    }
    // The length penalty does not count the prompt.
    let penalised = about["penalised"].as_array().unwrap();
    assert!(penalised.len() > 20);
    for case in penalised {
        let ids = |name: &str| -> Vec<u32> { from_value(case[name].clone()).unwrap() };
        let ends = ids("eos");
        let config = GenerateConfig::new(32)
            .with_max_new_tokens(Some(9))
            .with_min_new_tokens(from_value(case["least"].clone()).unwrap())
            .with_eos_id(Some(ends[0]))
            .with_stop_ids(ends[1..].to_vec())
            .with_normalize_first(true)
            .with_method(Method::Beam {
                width: 3,
                length_penalty: LengthPenalty::Power { alpha: 2.0 },
            });
        let found = decoder.complete(None, &[ids("prompt")], &config).unwrap();
        assert_eq!(found[0][0].tokens, ids("tokens"), "{case}");
        let end: Option<u32> = from_value(case["end"].clone()).unwrap();
        assert_eq!(found[0][0].end_id, end, "{case}");
    }
    // In one batch, each prompt is continued as alone.
    let config = GenerateConfig::new(32).with_max_new_tokens(Some(5));
    let config = config.with_eos_id(Some(EOS));
    let together = decoder.complete(None, &prompts, &config).unwrap();
    for (prompt, found) in prompts.iter().zip(together) {
        let alone = decoder.complete(None, &[prompt], &config).unwrap();
        assert_eq!(found[0].tokens, alone[0][0].tokens);
    }
}

#[test]
fn the_settings_of_a_chat_model_are_followed() {
    let imported = imported("llama");
    let path = tempfile::tempdir().unwrap();
    fs::copy(
        folder("llama").join("config.json"),
        path.path().join("config.json"),
    )
    .unwrap();
    let read = |settings: Value| {
        fs::write(
            path.path().join("generation_config.json"),
            settings.to_string(),
        )
        .unwrap();
        read_generation(path.path(), &imported.stacks)
    };
    let settings = |more: Value| {
        let mut all = serde_json::json!({ "eos_token_id": [EOS, 12, 3], "do_sample": true });
        all.as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        all
    };
    let chat = read(settings(
        serde_json::json!({ "temperature": 0.6, "top_p": 0.9 }),
    ))
    .unwrap();
    assert_eq!((chat.eos_id, &chat.stop_ids[..]), (Some(EOS), &[12, 3][..]));
    let sample = Method::Sample {
        temperature: 0.6,
        top_k: Some(50),
        top_p: Some(0.9),
        seed: 0,
        first_source: 0,
    };
    assert_eq!(chat.method, sample);
    assert_eq!(
        read(Value::Object(hugging_face_generation(&chat))).unwrap(),
        chat
    );
    for (name, value) in [
        ("num_beams", 3.0),
        ("min_p", 0.5),
        ("temperature", 0.0),
        ("top_p", 2.0),
    ] {
        let more = match name {
            "num_beams" => serde_json::json!({ name: value as u32 }),
            _ => serde_json::json!({ name: value }),
        };
        let error = read(settings(more)).unwrap_err().to_string();
        assert!(
            error.contains(&format!("{name} {value}, but only")),
            "{error}"
        );
        assert!(error.contains("with do_sample true"), "{error}");
    }
    // A sample of the one best token is what greedy decoding finds.
    let best = read(settings(serde_json::json!({ "top_k": 1 })))
        .unwrap()
        .config(20);
    let greedy = best.clone().with_method(Method::Greedy);
    let decoder = imported.decoder(&Device::flex()).unwrap();
    for prompt in [&[5, 9, 11][..], &[4, 4, 29], &[12]] {
        let [found, expected] =
            [&best, &greedy].map(|config| decoder.complete(None, &[prompt], config).unwrap());
        assert_eq!(found[0][0].tokens, expected[0][0].tokens);
        let new = &found[0][0].tokens[prompt.len()..];
        assert!(new.iter().all(|id| ![EOS, 12, 3].contains(id)));
    }
}

#[test]
fn gpt2() {
    let (file, about) = model("gpt2");
    let mut config = DecoderConfig::new(VOCAB, 24, 96, 6, 2)
        .with_cross_attention(false)
        .with_positions(Positions::Learned)
        .with_max_len(32)
        .with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::GeluTanh)
        .with_tied_generator(true)
        .with_dropout(0.0);
    config.input.scale = false;
    config.generator.bias = false;
    // GPT-2's linear layers are `[in, out]`, as those of this crate.
    let mut rules = Rules::new()
        .in_out()
        .same("transformer.wte.weight", "input.embedding.weight")
        .same("transformer.wpe.weight", "input.position.learned.weight")
        .norm(
            "transformer.h.{i}.ln_1",
            "layers.{i}.self_attention_residual.norm",
        )
        .norm(
            "transformer.h.{i}.ln_2",
            "layers.{i}.feed_forward_residual.norm",
        )
        .norm("transformer.ln_f", "final_norm");
    for (theirs, ours) in [
        ("attn.c_attn", "self_attention.w_qkv"),
        ("attn.c_proj", "self_attention.w_o"),
        ("mlp.c_fc", "feed_forward.w_1"),
        ("mlp.c_proj", "feed_forward.w_2"),
    ] {
        let theirs = format!("transformer.h.{{i}}.{theirs}");
        rules = rules.linear(&theirs, &format!("layers.{{i}}.{ours}"));
    }
    let decoder = config.init(&Device::flex()).unwrap();
    check_language_model(&rules.read(&file, &decoder).unwrap(), &about);
}

#[test]
fn llama() {
    let (file, about) = model("llama");
    let mut config = DecoderConfig::new(VOCAB, 24, 20, 6, 2)
        .with_cross_attention(false)
        .with_positions(Positions::Rotary)
        .with_max_len(32)
        .with_norm(NormKind::Rms, 1e-5)
        .with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::Swiglu)
        .with_biases(false)
        .with_dropout(0.0);
    config.layer.attention.n_kv_heads = Some(2);
    config.input.positions.rotary_base = 500_000.0;
    config.input.scale = false;
    config.generator.bias = false;
    let attention = ["q", "k", "v"].map(|x| format!("model.layers.{{i}}.self_attn.{x}_proj"));
    let attention = [&*attention[0], &*attention[1], &*attention[2]];
    let gated = [
        "model.layers.{i}.mlp.gate_proj",
        "model.layers.{i}.mlp.up_proj",
    ];
    let rules = Rules::new()
        .same("model.embed_tokens.weight", "input.embedding.weight")
        .packed(&attention, "layers.{i}.self_attention.w_qkv")
        .linear(
            "model.layers.{i}.self_attn.o_proj",
            "layers.{i}.self_attention.w_o",
        )
        .packed(&gated, "layers.{i}.feed_forward.w_1")
        .linear(
            "model.layers.{i}.mlp.down_proj",
            "layers.{i}.feed_forward.w_2",
        )
        .norm(
            "model.layers.{i}.input_layernorm",
            "layers.{i}.self_attention_residual.norm",
        )
        .norm(
            "model.layers.{i}.post_attention_layernorm",
            "layers.{i}.feed_forward_residual.norm",
        )
        .norm("model.norm", "final_norm")
        .linear("lm_head", "generator");
    let decoder = config.init(&Device::flex()).unwrap();
    check_language_model(&rules.read(&file, &decoder).unwrap(), &about);
}

/// BERT: an encoder with embeddings of token types, which are added before positions and norm.
#[derive(Module, Debug)]
struct Bert {
    encoder: Encoder,
    types: Embedding,
}

impl Bert {
    fn new(device: &Device) -> Result<Self, ConfigError> {
        let mut config = EncoderConfig::new(24, 20, 6, 2)
            .with_vocab_size(VOCAB)
            .with_positions(Positions::Learned)
            .with_max_len(32)
            .with_activation(Activation::Gelu)
            .with_dropout(0.0);
        config.input.scale = false;
        let config = config
            .with_norm(NormKind::Layer, 1e-12)
            .with_embedding_norm(true)
            .with_final_norm(false);
        Ok(Self {
            encoder: config.init(device)?,
            types: EmbeddingConfig::new(2, 24).init(device),
        })
    }

    fn forward(&self, ids: Tensor<2, Int>, types: Tensor<2, Int>, lengths: &[usize]) -> Tensor<3> {
        let mask = AttentionMask::of_lengths(lengths, &ids.device());
        let words = self.encoder.input.embed(ids);
        let x = words + self.types.forward(types);
        self.encoder.forward_vectors(x, Some(&mask))
    }
}

fn rules_of_bert() -> Rules {
    let attention =
        ["query", "key", "value"].map(|x| format!("encoder.layer.{{i}}.attention.self.{x}"));
    let attention = [&*attention[0], &*attention[1], &*attention[2]];
    Rules::new()
        .same(
            "embeddings.word_embeddings.weight",
            "encoder.input.embedding.weight",
        )
        .same(
            "embeddings.position_embeddings.weight",
            "encoder.input.position.learned.weight",
        )
        .same("embeddings.token_type_embeddings.weight", "types.weight")
        .norm("embeddings.LayerNorm", "encoder.input.norm")
        .packed(&attention, "encoder.layers.{i}.self_attention.w_qkv")
        .linear(
            "encoder.layer.{i}.attention.output.dense",
            "encoder.layers.{i}.self_attention.w_o",
        )
        .norm(
            "encoder.layer.{i}.attention.output.LayerNorm",
            "encoder.layers.{i}.self_attention_residual.norm",
        )
        .linear(
            "encoder.layer.{i}.intermediate.dense",
            "encoder.layers.{i}.feed_forward.w_1",
        )
        .linear(
            "encoder.layer.{i}.output.dense",
            "encoder.layers.{i}.feed_forward.w_2",
        )
        .norm(
            "encoder.layer.{i}.output.LayerNorm",
            "encoder.layers.{i}.feed_forward_residual.norm",
        )
}

#[test]
fn bert() {
    let device = Device::flex();
    let (file, about) = model("bert");
    let bert = rules_of_bert()
        .read(&file, &Bert::new(&device).unwrap())
        .unwrap();
    let rows = rows(&about, "rows");
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let types: Vec<u32> = from_value(about["types"].clone()).unwrap();
    let types = pad_sequences(&vec![types; rows.len()], 0, &device);
    let states = bert.forward(pad_sequences(&rows, 0, &device), types, &lengths);
    assert_close(states, &about["states"]);
}

#[test]
fn folders_of_decoders_are_read_without_rules() {
    for (name, layout, contents) in FAMILIES {
        if contents == Contents::Encoder {
            continue;
        }
        let (_, about) = model(name);
        let imported = imported(name);
        assert_eq!((imported.layout, imported.contents), (layout, contents));
        assert_eq!(imported.warnings, [""; 0], "{name}");
        let generation = read_generation(folder(name), &imported.stacks).unwrap();
        // A prompt has the tokens that it begins with.
        let ends = (generation.bos_id, generation.eos_id);
        assert_eq!(ends, (None, Some(EOS)), "{name}");
        check_language_model(&imported.decoder(&Device::flex()).unwrap(), &about);
    }
}

#[test]
fn settings_of_a_family_without_its_folder_are_named() {
    let options = ImportOptions {
        n_heads: Some(6),
        ..Default::default()
    };
    let assumed = |name: &str| {
        let file = WeightsFile::open(folder(name).join("model.safetensors")).unwrap();
        let [warning] = &import(&file, &options).unwrap().warnings[..] else {
            panic!("one warning");
        };
        let (_, settings) = warning.split_once("these were assumed: ").unwrap();
        settings.to_owned()
    };
    let llama = "activation swiglu, norm_epsilon 1e-6, pad_id 0, rotary_base 10000";
    assert_eq!(assumed("llama"), llama);
    let gpt2 = "activation gelu_tanh, norm_epsilon 0.00001, pad_id 0";
    assert_eq!(assumed("gpt2"), gpt2);
}

#[test]
fn a_folder_of_bert_is_read_without_rules() {
    let device = Device::flex();
    let (_, about) = model("bert");
    let imported = imported("bert");
    assert_eq!(imported.warnings, [""; 0]);
    let name = "embeddings.token_type_embeddings.weight";
    let types = imported.others[name].clone();
    let encoder = imported.encoder(&device).unwrap();
    let rows = rows(&about, "rows");
    let lengths: Vec<usize> = rows.iter().map(Vec::len).collect();
    let ids = pad_sequences(&rows, 0, &device);
    let mask = AttentionMask::of_lengths(&lengths, &device);
    // The token type of the first three tokens is 0, that of later ones is 1.
    let difference: Tensor<2> = Tensor::<2>::from_data(types, &device).narrow(0, 1, 1);
    let later: Tensor<1> = Tensor::from_data([0.0f32, 0., 0., 1., 1., 1., 1.], &device);
    let added = later.reshape([1, 7, 1]) * difference.reshape([1, 1, 24]);
    let x = encoder.input.embed(ids.clone()) + added;
    let states = encoder.forward_vectors(x, Some(&mask));
    assert_close(states, &about["states"]);
    // The shorter rows have no later tokens.
    let states = encoder.forward(ids, Some(&mask));
    let expected = about["states"].as_array().unwrap()[1..].to_vec();
    assert_close(states.narrow(0, 1, 2), &expected.into());
}

/// What stands before the encoder of Whisper.
#[derive(Module, Debug)]
struct Convolutions {
    conv1: Conv1d,
    conv2: Conv1d,
}

/// Returns the states of Whisper's encoder for spectrograms `[B, N, 2 S]`.
fn states_of_sound(imported: &Imported, spectrograms: Tensor<3>) -> Tensor<3> {
    let device = spectrograms.device();
    let given: Parameters = (imported.others.iter())
        .map(|(name, data)| (name.replace("encoder.", ""), data.clone()))
        .collect();
    let conv = |name: &str, stride| {
        let shape = given[name].shape();
        let conv = Conv1dConfig::new(shape[1], shape[0], 3).with_stride(stride);
        conv.with_padding(PaddingConfig1d::Explicit(1, 1))
            .init(&device)
    };
    let convolutions = Convolutions {
        conv1: conv("conv1.weight", 1),
        conv2: conv("conv2.weight", 2),
    };
    let Convolutions { conv1, conv2 } = with_parameters(&convolutions, given).unwrap();
    let x = gelu(conv2.forward(gelu(conv1.forward(spectrograms))));
    let encoder = imported.clone().encoder(&device).unwrap();
    encoder.forward_vectors(x.swap_dims(1, 2), None)
}

/// Returns the spectrograms of a file about Whisper, which have two frames for each position.
fn spectrograms(imported: &Imported, about: &Value) -> Tensor<3> {
    let rows: Vec<Vec<f32>> = from_value(about["features"].clone()).unwrap();
    let encoder = imported.stacks.encoder.as_ref().unwrap();
    let n_frames = 2 * encoder.input.positions.max_len;
    let shape = [rows.len(), rows[0].len() / n_frames, n_frames];
    Tensor::from_data(TensorData::new(rows.concat(), shape), &Device::flex())
}

/// The environment variable `WHISPER` names another folder, beside which is a file as
/// `whisper.json`. `.ci/published.py` writes one.
#[test]
fn stacks_of_whisper_compute_what_transformers_computes() {
    let device = Device::flex();
    let path = std::env::var_os("WHISPER").map_or(folder("whisper"), PathBuf::from);
    let about = fs::read(path.with_extension("json")).unwrap();
    let about: Value = serde_json::from_slice(&about).unwrap();
    let imported = ModelFolder::open(&path).unwrap().import().unwrap();
    assert_eq!(imported.layout, Layout::Whisper);
    assert_eq!(imported.warnings, [""; 0]);
    let states = states_of_sound(&imported, spectrograms(&imported, &about));
    let decoder = imported.decoder(&device).unwrap();
    let ids = pad_sequences(&rows(&about, "rows"), 0, &device);
    let memory = Memory::from(states.clone());
    let logits = decoder.forward(ids, Some(&memory), &mut decoder.new_cache());
    for (what, found) in [("states", states), ("logits", logits)] {
        let expected: Vec<Vec<f32>> = from_value(about[what].clone()).unwrap();
        let (found, expected) = (found.into_data(), expected.concat());
        assert_eq!(found.num_elements(), expected.len());
        let pairs = found.iter::<f32>().zip(&expected);
        let difference = pairs.fold(0.0, |most: f32, (a, b)| most.max((a - b).abs()));
        let largest = expected.iter().fold(1.0, |most: f32, x| most.max(x.abs()));
        println!("{what}: up to {largest}, differ by at most {difference}");
        assert!(difference <= 1e-5 * largest, "{what}: {difference}");
    }
}

#[test]
fn whisper_generates_what_transformers_generates() {
    let (_, about) = model("whisper");
    let imported = imported("whisper");
    let mut defaults = read_generation(folder("whisper"), &imported.stacks).unwrap();
    assert_eq!((defaults.bos_id, defaults.eos_id), (Some(27), Some(EOS)));
    assert_eq!(defaults.prefix, [28, 29, 30]);
    assert_eq!(defaults.forbidden, [27, 28, 29, 30]);
    assert_eq!(defaults.forbidden_first, [9, EOS]);
    let memory = Memory::from(states_of_sound(&imported, spectrograms(&imported, &about)));
    let decoder = imported.decoder(&Device::flex()).unwrap();
    let prompts = [&defaults.prefix, &defaults.prefix].map(Vec::clone);
    for width in [1, 3] {
        defaults.method = Method::Beam {
            width,
            length_penalty: LengthPenalty::Power { alpha: 1.0 },
        };
        let config = defaults.config(31);
        let found = decoder.complete(&memory, &prompts, &config).unwrap();
        let found: Vec<_> = (found.iter())
            .map(|found| found[0].tokens[3..].to_vec())
            .collect();
        assert_eq!(
            found,
            rows(&about, &format!("beam {width}")),
            "beam {width}"
        );
    }
}

#[test]
fn no_limit_of_whisper_counts_the_prompt() {
    let (_, about) = model("whisper");
    let imported = imported("whisper");
    let path = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(folder("whisper").join("generation_config.json")).unwrap();
    fs::write(path.path().join("config.json"), "{}").unwrap();
    let memory = Memory::from(states_of_sound(&imported, spectrograms(&imported, &about)));
    let decoder = imported.clone().decoder(&Device::flex()).unwrap();
    // The greedy outputs of transformers 5.24 with these limits begin as those without.
    for (name, most, expected) in [
        ("max_length", 5, 5),
        ("max_length", 1, 1),
        ("max_length", 40, 28),
        ("max_new_tokens", 4, 4),
        ("max_new_tokens", 1, 1),
    ] {
        let mut fields: Value = serde_json::from_str(&text).unwrap();
        fields[name] = most.into();
        let file = path.path().join("generation_config.json");
        fs::write(file, fields.to_string()).unwrap();
        let defaults = read_generation(path.path(), &imported.stacks).unwrap();
        let prompts = [&defaults.prefix, &defaults.prefix].map(Vec::clone);
        let found = decoder.complete(&memory, &prompts, &defaults.config(31));
        for (found, whole) in found.unwrap().iter().zip(rows(&about, "beam 1")) {
            assert_eq!(found[0].tokens[3..], whole[..expected], "{name} {most}");
        }
    }
}

#[test]
fn tokens_before_a_text_of_whisper_are_those_of_the_folder() {
    let imported = imported("whisper");
    let path = tempfile::tempdir().unwrap();
    let text = fs::read_to_string(folder("whisper").join("generation_config.json")).unwrap();
    let original: Value = serde_json::from_str(&text).unwrap();
    fs::write(path.path().join("config.json"), "{}").unwrap();
    let read = |fields: &Value| {
        let file = path.path().join("generation_config.json");
        fs::write(file, fields.to_string()).unwrap();
        read_generation(path.path(), &imported.stacks)
    };
    for (name, value, expected) in [
        ("forced_decoder_ids", "[[1,25],[2,26]]", vec![25, 26, 30]),
        ("forced_decoder_ids", "null", vec![28, 29, 30]),
        ("language", "\"en\"", vec![28, 29, 30]),
        ("lang_to_id", "null", vec![29, 30]),
        ("no_timestamps_token_id", "29", vec![28, 29]),
    ] {
        let mut fields = original.clone();
        fields[name] = serde_json::from_str(value).unwrap();
        let defaults = read(&fields).unwrap();
        assert_eq!(defaults.prefix, expected, "{name} {value}");
        let again = read(&hugging_face_generation(&defaults).into()).unwrap();
        assert_eq!(again, defaults, "{name} {value}");
    }
    for (name, value, expected) in [
        (
            "language",
            "\"german\"",
            "language german, but only a name of lang_to_id is supported",
        ),
        (
            "forced_decoder_ids",
            "[[2,5]]",
            "forced_decoder_ids [[2,5]], but only the indices from 1 on",
        ),
        ("forced_decoder_ids", "[[1,31]]", "only a token below 31"),
        ("return_timestamps", "true", "true, but only false"),
    ] {
        let mut fields = original.clone();
        fields[name] = serde_json::from_str(value).unwrap();
        let error = read(&fields).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn files_of_whisper_are_only_read() {
    let (file, _) = model("whisper");
    let expected = imported("whisper");
    let options = ImportOptions {
        n_heads: Some(6),
        n_decoder_heads: Some(4),
        ..Default::default()
    };
    let mut tensors: Parameters = (file.tensors().keys())
        .map(|name| (name.clone(), file.read(name).unwrap()))
        .collect();
    let found = reread(&tensors, None, &options);
    assert_eq!(found.layout, Layout::Whisper);
    assert_eq!(found.parameters, expected.parameters);
    assert_eq!(found.others, expected.others);

    let bias = tensors.remove("model.encoder.conv2.bias").unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    let error = |tensors: &Parameters| {
        fs::write(file.path(), to_bytes(tensors).unwrap()).unwrap();
        let error = import(&WeightsFile::open(file.path()).unwrap(), &options);
        error.unwrap_err().without_path().to_string()
    };
    assert_eq!(error(&tensors), "has no tensor encoder.conv2.bias");
    tensors.insert("model.encoder.conv2.bias".into(), bias);
    let weight = TensorData::zeros::<f32, _>([24, 24]);
    tensors.insert("model.encoder.conv2.weight".into(), weight);
    let shapes = "encoder.conv2.weight has the shape [24, 24], but must have [24, 24, 3]";
    assert!(error(&tensors).contains(shapes));

    let (stacks, own) = (&expected.stacks, &expected.parameters);
    let refused = export(stacks, Contents::Model, own, Layout::Whisper, false);
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the model has stacks without the part that makes vectors of sound, which the layout \
         whisper cannot represent"
    );
    assert_eq!(hugging_face_config(stacks, Layout::Whisper), None);
    let native = export(stacks, Contents::Model, own, Layout::Native, false).unwrap();
    let again = reread(&native, Some(stacks), &ImportOptions::default());
    assert_eq!(again.stacks, expected.stacks);
    assert_eq!(again.parameters, expected.parameters);
}

#[test]
fn a_file_without_its_folder_is_recognised() {
    for (name, layout, _) in FAMILIES {
        let (file, _) = model(name);
        let options = ImportOptions {
            n_heads: Some(6),
            ..Default::default()
        };
        let found = import(&file, &options).unwrap();
        let expected = imported(name);
        assert_eq!(found.layout, layout);
        assert_eq!(found.parameters, expected.parameters, "{name}");
        assert_eq!(found.others, expected.others, "{name}");
    }
}

/// Other classes of `transformers` put further prefixes before the names, or leave some out.
#[test]
fn files_of_other_classes_are_read() {
    for (name, from, to, extra) in [
        ("gpt2", "transformer.", "", "h.0.attn.bias"),
        (
            "llama",
            "model.",
            "model.",
            "model.layers.0.self_attn.rotary_emb.inv_freq",
        ),
        ("bert", "", "bert.", "cls.predictions.bias"),
    ] {
        let (file, _) = model(name);
        let tensors = file.tensors().keys().map(|tensor| {
            let data = file.read(tensor).unwrap();
            let inner = tensor
                .strip_prefix(from)
                .map(|inner| format!("{to}{inner}"));
            (inner.unwrap_or_else(|| tensor.clone()), data)
        });
        let mut tensors: Parameters = tensors.collect();
        tensors.insert(extra.into(), TensorData::from([1.0f32]));
        let options = ImportOptions {
            n_heads: Some(6),
            ..Default::default()
        };
        let expected = imported(name);
        let found = reread(&tensors, None, &options);
        assert_eq!(found.parameters, expected.parameters, "{name}");
        assert_eq!(found.others, expected.others, "{name}");
    }
}

#[test]
fn exported_stacks_are_imported_again() {
    for (name, layout, contents) in FAMILIES {
        let original = imported(name);
        let (stacks, own) = (&original.stacks, &original.parameters);
        let theirs = export(stacks, contents, own, layout, true).unwrap();
        let (file, _) = model(name);
        for tensor in file.tensors().keys() {
            // Positions of BERT have the embedding of the first token type.
            if !tensor.starts_with("embeddings.") {
                assert_eq!(
                    theirs[tensor],
                    file.read(tensor).unwrap(),
                    "{name} {tensor}"
                );
            }
        }
        let fields = hugging_face_config(stacks, layout).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let write = |name, bytes: Vec<u8>| fs::write(folder.path().join(name), bytes).unwrap();
        write("model.safetensors", to_bytes(&theirs).unwrap());
        write("config.json", serde_json::to_vec(&fields).unwrap());
        let again = ModelFolder::open(folder.path()).unwrap().import().unwrap();
        assert_eq!(again.stacks, original.stacks, "{name}");
        assert_eq!(again.parameters, original.parameters, "{name}");
        assert_eq!(again.warnings, [""; 0], "{name}");

        let native = export(stacks, contents, own, Layout::Native, false).unwrap();
        let again = reread(&native, Some(stacks), &ImportOptions::default());
        assert_eq!(again.layout, Layout::Native);
        assert_eq!(again.stacks, original.stacks, "{name}");
        assert_eq!(again.parameters, original.parameters, "{name}");
        let code = layout.python(&PythonModel {
            stacks: stacks.clone(),
            contents,
            begin_end: None,
            has_positions: true,
            path: Path::new("a.safetensors"),
        });
        let expected = format!("from_config(AutoConfig.for_model(\"{name}\", ");
        assert!(code.unwrap().contains(&expected), "{name}");
    }
}

#[test]
fn a_language_model_survives_export_and_import() {
    let device = Device::flex();
    let config = DecoderConfig::new(VOCAB, 12, 20, 3, 2).with_cross_attention(false);
    let mut unusual = config.clone().with_positions(Positions::Rotary);
    unusual.input.positions.rotary_base = 777.0;
    unusual.generator.bias = false;
    for config in [
        config.clone(),
        config.clone().with_tied_generator(true),
        unusual.with_tied_generator(true),
    ] {
        let model = config.init_seeded(3, &device).unwrap();
        let own = parameters(&model);
        let tensors = export(&config, Contents::Decoder, &own, Layout::Native, false).unwrap();
        assert_eq!(tensors, own);
        let imported = reread(&tensors, Some(&(&config).into()), &ImportOptions::default());
        assert_eq!(imported.stacks, Stacks::from(&config));
        let again = imported.decoder(&device).unwrap();
        assert_eq!(again.config(), &config);
        assert_eq!(parameters(&again), own);
        let error = export(&config, Contents::Decoder, &own, Layout::TorchNn, false);
        let error = error.unwrap_err().to_string();
        let expected =
            "the model has cross_attention false, which the layout torch-nn cannot represent";
        assert_eq!(error, expected);
    }
    // Without metadata, the generator shows that it is a decoder.
    let config = config.with_dropout(0.0);
    let own = parameters(&config.init_seeded(3, &device).unwrap());
    let options = ImportOptions {
        n_heads: Some(3),
        ..Default::default()
    };
    let imported = reread(&own, None, &options);
    assert_eq!(imported.stacks, Stacks::from(&config));
}

#[test]
fn a_stack_is_no_whole_model() {
    for (name, expected) in [
        (
            "gpt2",
            "is not a whole model: model_type gpt2 is a decoder alone",
        ),
        (
            "bert",
            "is not a whole model: model_type bert is an encoder alone",
        ),
        (
            "whisper",
            "is not a model of text: the encoder of model_type whisper takes vectors of sound",
        ),
    ] {
        let error = imported(name).transformer(&Device::flex()).unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(imported(name).config().unwrap_err().to_string(), expected);
    }
    let error = imported("gpt2").encoder(&Device::flex()).unwrap_err();
    assert_eq!(error.to_string(), "holds a decoder alone");
}

#[test]
fn settings_that_would_change_the_outputs_are_refused() {
    for (name, key, value, expected) in [
        (
            "gpt2",
            "scale_attn_by_inverse_layer_idx",
            "true",
            "true, but only false",
        ),
        (
            "gpt2",
            "scale_attn_weights",
            "false",
            "false, but only true",
        ),
        (
            "gpt2",
            "add_cross_attention",
            "true",
            "true, but only false",
        ),
        (
            "gpt2",
            "activation_function",
            "\"tanh\"",
            "tanh, but only relu",
        ),
        (
            "gpt2",
            "n_inner",
            "20",
            "has weights with d_ff 96, but config.json has 20",
        ),
        (
            "gpt2",
            "n_layer",
            "3",
            "has weights with decoder layers 2, but config.json has 3",
        ),
        (
            "llama",
            "rope_scaling",
            "{\"factor\": 2.0}",
            "but only null",
        ),
        (
            "llama",
            "rope_parameters",
            "{\"rope_type\": \"llama3\"}",
            "but only the rope_type default",
        ),
        ("llama", "rope_parameters", "3", "3, but only an object"),
        ("llama", "attention_bias", "true", "true, but only false"),
        ("llama", "mlp_bias", "true", "true, but only false"),
        (
            "llama",
            "hidden_act",
            "\"gelu\"",
            "\"gelu\", but only \"silu\"",
        ),
        (
            "llama",
            "num_key_value_heads",
            "6",
            "has weights with key-value heads 2",
        ),
        (
            "llama",
            "tie_word_embeddings",
            "true",
            "which weight_tying decoder would share",
        ),
        (
            "gpt2",
            "tie_word_embeddings",
            "false",
            "has no tensor decoder.generator.weight",
        ),
        (
            "bert",
            "position_embedding_type",
            "\"relative_key\"",
            "but only \"absolute\"",
        ),
        ("bert", "is_decoder", "true", "true, but only false"),
        ("whisper", "scale_embedding", "true", "true, but only false"),
        (
            "whisper",
            "encoder_ffn_dim",
            "28",
            "has weights with d_ff of the encoder 20, but config.json has 28",
        ),
        (
            "whisper",
            "max_source_positions",
            "11",
            "has weights with source positions 10, but config.json has 11",
        ),
        (
            "whisper",
            "max_target_positions",
            "10",
            "has weights with target positions 32, but config.json has 10",
        ),
        (
            "whisper",
            "num_mel_bins",
            "80",
            "has weights with num_mel_bins 5, but config.json has 80",
        ),
        (
            "whisper",
            "encoder_attention_heads",
            "5",
            "has a config.json of an invalid model: n_heads is 5",
        ),
    ] {
        let error = with_setting(name, key, value).unwrap_err().to_string();
        assert!(error.contains(expected), "{name}, {key}: {error}");
        if expected.contains("but only") {
            assert!(error.contains(&format!("with {key} ")), "{error}");
        }
    }
}

#[test]
fn rules_that_do_not_fit_name_the_tensor() {
    let device = Device::flex();
    let (file, _) = model("bert");
    let bert = Bert::new(&device).unwrap();
    let error = |rules: Rules| {
        let error = rules.read(&file, &bert).unwrap_err();
        error.without_path().to_string()
    };
    let table = "encoder.input.embedding.weight";
    let expected =
        "is read with a rule from embeddings.other to other.weight, which is no parameter";
    let wrong = rules_of_bert().within("", "");
    assert_eq!(
        error(wrong.clone().same("embeddings.other", "other.weight")),
        expected
    );
    assert_eq!(
        error(wrong.same("embeddings.word_embeddings.weight", table)),
        format!("is read with several rules for the parameter {table}")
    );
    let without = Rules::new();
    let expected = "is read without a rule for the parameter encoder.input.embedding.weight";
    assert_eq!(error(without), expected);
    let (file, _) = model("gpt2");
    let missing = rules_of_bert().read(&file, &bert).unwrap_err().to_string();
    assert!(
        missing.contains("gpt2/model.safetensors: has no tensor embeddings."),
        "{missing}"
    );
}

#[test]
fn a_layer_that_the_file_lacks_is_missing_and_not_a_bias_of_zeros() {
    let device = Device::flex();
    let attention = AttentionConfig::new(4, 2);
    let attention = attention.init_self_attention(&device).unwrap();
    let mut theirs = Parameters::new();
    for name in ["q", "v", "o"] {
        let weight = TensorData::new(vec![1f32; 16], [4, 4]);
        theirs.insert(format!("{name}.weight"), weight);
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), to_bytes(&theirs).unwrap()).unwrap();
    let file = WeightsFile::open(file.path()).unwrap();
    let rules = Rules::new()
        .packed(&["q", "k", "v"], "w_qkv")
        .linear("o", "w_o")
        .with_zero_biases();
    let error = rules.read(&file, &attention).unwrap_err();
    let error = error.without_path().to_string();
    assert!(error.starts_with("has no tensor "), "{error}");
    assert!(error.contains("k.weight"), "{error}");
    let error = rules.linear("layer.{i}.x", "x").read(&file, &attention);
    assert_eq!(
        error.unwrap_err().without_path().to_string(),
        "is read with a rule from layer.{i}.x.weight to x.weight, but {i} must be in both names or in none"
    );
}

#[test]
fn a_tensor_of_another_shape_is_compared_with_that_of_the_parameter() {
    let device = Device::flex();
    let config = FeedForwardConfig::new(4, 6).with_biases(false);
    let module = config.init(&device).unwrap();
    let mut theirs = Parameters::new();
    theirs.insert("a.weight".into(), TensorData::new(vec![1f32; 24], [6, 4]));
    theirs.insert("b.weight".into(), TensorData::new(vec![1f32; 24], [4, 6]));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), to_bytes(&theirs).unwrap()).unwrap();
    let file = WeightsFile::open(file.path()).unwrap();
    let rules = |rules: Rules| rules.linear("a", "w_1").linear("b", "w_2");
    rules(Rules::new()).read(&file, &module).unwrap();
    // The tensors of PyTorch are transposed, those of Burn are not.
    let error = rules(Rules::new().in_out()).read(&file, &module);
    assert_eq!(
        error.unwrap_err().without_path().to_string(),
        "tensor a.weight has the shape [6, 4], but must have [4, 6]"
    );
}

#[test]
fn rules_read_the_attention_of_pytorch() {
    let device = Device::flex();
    let attention = AttentionConfig::new(4, 2);
    let attention = attention.init_self_attention(&device).unwrap();
    let mut theirs = Parameters::new();
    let values = |n: usize| (0..n).map(|x| x as f32).collect::<Vec<_>>();
    for (name, shape) in [
        ("in_proj_weight", vec![12, 4]),
        ("in_proj_bias", vec![12]),
        ("out_proj.weight", vec![4, 4]),
        ("out_proj.bias", vec![4]),
    ] {
        let n = shape.iter().product();
        theirs.insert(format!("attn.{name}"), TensorData::new(values(n), shape));
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), to_bytes(&theirs).unwrap()).unwrap();
    let rules = Rules::new()
        .within("attn.", "")
        .linear("in_proj_{p}", "w_qkv")
        .linear("out_proj", "w_o");
    let file = WeightsFile::open(file.path()).unwrap();
    let read = parameters(&rules.read(&file, &attention).unwrap());
    let weight = read["w_qkv.weight"].as_slice::<f32>().unwrap();
    // Row 1 has the second inputs of all outputs.
    let expected: Vec<f32> = (0..12).map(|output| (4 * output + 1) as f32).collect();
    assert_eq!(weight[12..24], expected);
    assert_eq!(read["w_qkv.bias"].as_slice::<f32>().unwrap(), values(12));

    // Cross-attention has the queries in a layer of their own.
    let cross = AttentionConfig::new(4, 2).init_cross_attention(&device);
    let rules = Rules::new()
        .within("attn.", "")
        .split("in_proj_{p}", &[("w_q", 1), ("w_kv", 2)])
        .linear("out_proj", "w_o");
    let read = parameters(&rules.read(&file, &cross.unwrap()).unwrap());
    for (name, outputs) in [("w_q", 0..4), ("w_kv", 4..12)] {
        let weight = read[&format!("{name}.weight")].as_slice::<f32>().unwrap();
        assert_eq!(
            weight[outputs.len()..][..outputs.len()],
            expected[outputs.clone()]
        );
        let bias = read[&format!("{name}.bias")].as_slice::<f32>().unwrap();
        assert_eq!(bias, &values(12)[outputs]);
    }
}

#[test]
fn rules_read_the_attention_of_burn_nn() {
    let device = Device::flex();
    let theirs = MultiHeadAttentionConfig::new(6, 2).init(&device);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), to_bytes(&parameters(&theirs)).unwrap()).unwrap();
    let file = WeightsFile::open(file.path()).unwrap();
    let config = AttentionConfig::new(6, 2);
    let attention = config.init_self_attention(&device).unwrap();
    let rules = Rules::new().in_out().linear("output", "w_o");
    let of_self = (rules.clone()).packed(&["query", "key", "value"], "w_qkv");
    let attention = of_self.read(&file, &attention).unwrap();
    let [x, memory] = [[2, 5, 6], [2, 3, 6]]
        .map(|shape| Tensor::<3>::random(shape, Distribution::Default, &device));
    let expected = theirs.forward(MhaInput::self_attn(x.clone())).context;
    let found = attention.forward(x.clone(), None, None);
    let tolerance = Tolerance::absolute(1e-6);
    (found.into_data()).assert_approx_eq::<f32>(&expected.into_data(), tolerance);

    let cross = config.init_cross_attention(&device).unwrap();
    let of_cross = rules.linear("query", "w_q");
    let of_cross = of_cross.packed(&["key", "value"], "w_kv");
    let cross = of_cross.read(&file, &cross).unwrap();
    let input = MhaInput::new(x.clone(), memory.clone(), memory.clone());
    let expected = theirs.forward(input).context;
    let found = cross.forward(x, memory, None);
    (found.into_data()).assert_approx_eq::<f32>(&expected.into_data(), tolerance);

    // A layer of another width.
    let wide = AttentionConfig::new(8, 2).init_self_attention(&device);
    let error = of_self.read(&file, &wide.unwrap()).unwrap_err().to_string();
    assert!(
        error.ends_with("has the shape [6], but must have [8]"),
        "{error}"
    );
}

/// The table of the crate's page for those who come from burn-nn.
#[test]
fn the_encoder_of_burn_nn_is_ours_with_other_settings() {
    let device = Device::flex();
    let x = Tensor::<3>::random([2, 5, 6], Distribution::Default, &device);
    let pad = AttentionMask::of_lengths(&[5, 3], &device);
    let pad = pad.blocked().clone().reshape([2, 5]);
    let attn = AttentionMask::causal(5, &device).blocked().clone();
    let attn = attn.reshape([1, 5, 5]).expand([2, 5, 5]);
    let mask = AttentionMask::from(pad.clone()).and(&AttentionMask::from_blocked(attn.clone()));
    for (norm_first, placement, norms) in [
        (false, NormPlacement::Post, ["norm_1", "norm_2"]),
        (true, NormPlacement::Pre, ["norm_2", "norm_1"]),
    ] {
        let theirs = TransformerEncoderConfig::new(6, 10, 2, 2).with_norm_first(norm_first);
        let theirs = theirs.init(&device);
        // Norms begin with ones and zeros, so that swapped ones would be the same.
        let mut number = 0.0f32;
        let mut values = parameters(&theirs);
        for (_, norm) in values.iter_mut().filter(|(name, _)| name.contains("norm")) {
            number += 0.1;
            *norm = TensorData::new(vec![number; 6], [6]);
        }
        let theirs = with_parameters(&theirs, values.clone()).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), to_bytes(&values).unwrap()).unwrap();
        let config = EncoderConfig::new(6, 10, 2, 2)
            .with_positions(Positions::None)
            .with_activation(Activation::Gelu)
            .with_norm_placement(placement)
            .with_final_norm(false);
        let rules = Rules::new()
            .as_in_burn()
            .within("layers.{i}.", "layers.{i}.")
            .packed(
                &["mha.query", "mha.key", "mha.value"],
                "self_attention.w_qkv",
            )
            .linear("mha.output", "self_attention.w_o")
            .linear("pwff.linear_inner", "feed_forward.w_1")
            .linear("pwff.linear_outer", "feed_forward.w_2")
            .norm(norms[0], "self_attention_residual.norm")
            .norm(norms[1], "feed_forward_residual.norm");
        let ours = config.init_zeros(&device).unwrap();
        let ours = rules.read(&WeightsFile::open(file.path()).unwrap(), &ours);
        let found = ours.unwrap().forward_vectors(x.clone(), Some(&mask));
        let input = TransformerEncoderInput::new(x.clone());
        let input = input.mask_pad(pad.clone()).mask_attn(attn.clone());
        let expected = theirs.forward(input).into_data();
        let tolerance = Tolerance::absolute(1e-5);
        (found.into_data()).assert_approx_eq::<f32>(&expected, tolerance);
    }
}

/// Position tables of vision models have an axis for the batch.
#[test]
fn a_table_may_have_an_axis_of_size_1_before_it() {
    let device = Device::flex();
    let table = EmbeddingConfig::new(5, 3).init(&device);
    let values: Vec<f32> = (0..15).map(|x| x as f32).collect();
    let file = tempfile::NamedTempFile::new().unwrap();
    for (shape, is_right) in [([1, 5, 3], true), ([5, 1, 3], false), ([1, 3, 5], false)] {
        let theirs = TensorData::new(values.clone(), shape);
        let theirs = Parameters::from([("positions".into(), theirs)]);
        std::fs::write(file.path(), to_bytes(&theirs).unwrap()).unwrap();
        let rules = Rules::new().same("positions", "weight");
        let read = rules.read(&WeightsFile::open(file.path()).unwrap(), &table);
        assert_eq!(read.is_ok(), is_right, "{shape:?}");
        if let Ok(read) = read {
            assert_eq!(
                parameters(&read)["weight"].as_slice::<f32>().unwrap(),
                values
            );
        }
    }
}

/// The oracles are FSMT and M2M100 of transformers.
#[test]
#[cfg(feature = "pytorch")]
fn checkpoints_of_fairseq_are_not_those_of_marian() {
    let device = Device::flex();
    let about = fs::read(folder("fairseq.json")).unwrap();
    let about: Value = serde_json::from_slice(&about).unwrap();
    let [source, target] =
        ["source", "target"].map(|side| pad_sequences(&rows(&about, side), 1, &device));
    let mask = AttentionMask::padding(&source, 1);
    let placements = [
        ("fairseq", NormPlacement::Post),
        ("fairseq_pre", NormPlacement::Pre),
    ];
    for (name, placement) in placements {
        let file = WeightsFile::open(folder(&format!("{name}.pt"))).unwrap();
        let options = ImportOptions {
            n_heads: Some(4),
            ..Default::default()
        };
        let imported = import(&file, &options).unwrap();
        assert_eq!(imported.layout, Layout::Fairseq);
        let config = imported.config().unwrap();
        assert_eq!((config.norm_placement, config.pad_id), (placement, 1));
        let model = imported.clone().transformer(&device).unwrap();
        let logits = model.forward(source.clone(), Some(&mask), target.clone());
        assert_close(logits, &about[name]);
        // What is exported has the names of the file, and is the same model.
        let (stacks, own) = (&imported.stacks, &imported.parameters);
        let exported = export(stacks, Contents::Model, own, Layout::Fairseq, true).unwrap();
        let given = file.tensors().keys().map(|name| name.replace("model.", ""));
        assert!(given.eq(exported.keys().cloned()), "{name}");
        assert_eq!(
            reread(&exported, None, &options).parameters,
            imported.parameters
        );
    }
}

/// Whisper's keys have no bias: the part of the packed bias is zeros.
#[test]
fn an_absent_bias_of_a_packed_layer_is_zeros() {
    let device = Device::flex();
    let config = AttentionConfig::new(4, 2);
    let attention = config.init_self_attention(&device).unwrap();
    let mut theirs = Parameters::new();
    for (name, value) in [("q", 1.0f32), ("k", 2.0), ("v", 3.0), ("o", 4.0)] {
        theirs.insert(
            format!("{name}.weight"),
            TensorData::new(vec![value; 16], [4, 4]),
        );
        if name != "k" {
            theirs.insert(format!("{name}.bias"), TensorData::new(vec![value; 4], [4]));
        }
    }
    theirs.insert("old.cls.weight".into(), TensorData::new(vec![0f32], [1]));
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), to_bytes(&theirs).unwrap()).unwrap();
    let file = WeightsFile::open(file.path()).unwrap();
    let rules = Rules::new()
        .packed(&["q", "k", "v"], "w_qkv")
        .linear("o", "w_o");
    let strict = rules.clone().ignoring("cls");
    let error = strict.read(&file, &attention).unwrap_err();
    assert_eq!(error.without_path().to_string(), "has no tensor k.bias");
    // Names in which weight and bias stand elsewhere.
    let renamed = theirs.iter().filter_map(|(name, data)| {
        let (layer, end) = name.split_once('.').filter(|(layer, _)| *layer != "old")?;
        Some((format!("x.bias_{layer}.{end}_p"), data.clone()))
    });
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), to_bytes(&renamed.collect()).unwrap()).unwrap();
    let of_others = Rules::new()
        .within("x.bias_", "")
        .packed(&["q.{p}_p", "k.{p}_p", "v.{p}_p"], "w_qkv")
        .linear("o.{p}_p", "w_o")
        .with_zero_biases();
    let other = WeightsFile::open(other.path()).unwrap();
    let other = parameters(&of_others.read(&other, &attention).unwrap());
    let zeros = rules.clone().with_zero_biases();
    let error = zeros.read(&file, &attention).unwrap_err().to_string();
    assert!(error.contains("old.cls.weight"), "{error}");
    let read = zeros.ignoring("cls").read(&file, &attention).unwrap();
    assert_eq!(parameters(&read), other);
    let bias = parameters(&read)["w_qkv.bias"].clone();
    let expected = [
        1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 3.0f32,
    ];
    assert_eq!(bias.as_slice::<f32>().unwrap(), expected);
}
