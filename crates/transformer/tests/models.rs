//! Models of the library `transformers` that have one stack, as it saves them, through public
//! functions only: GPT-2, Llama and BERT. States and logits agree to 1e-5, and generation is the
//! same.

use std::path::Path;

use burn::module::Module;
use burn::nn::{Embedding, EmbeddingConfig};
use burn::tensor::{Device, Int, Tensor, TensorData};
use serde_json::Value;
use transformer::generate::{GenerateConfig, LengthPenalty, Method};
use transformer::weights::{Parameters, Rules, WeightsFile, parameters, to_bytes};
use transformer::{
    Activation, AttentionConfig, AttentionMask, ConfigError, Decoder, DecoderConfig, Encoder,
    EncoderConfig, NormConfig, NormKind, NormPlacement, Positions, pad_sequences,
};

const VOCAB: usize = 31;
const EOS: u32 = 7;

/// Returns the file of a model, and what `transformers` computes with it.
fn model(name: &str) -> (WeightsFile, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/models");
    let file = WeightsFile::open(folder.join(format!("{name}.safetensors"))).unwrap();
    let about = std::fs::read(folder.join(format!("{name}.json"))).unwrap();
    (file, serde_json::from_slice(&about).unwrap())
}

fn rows(about: &Value, name: &str) -> Vec<Vec<u32>> {
    serde_json::from_value(about[name].clone()).unwrap()
}

/// Compares the real positions of `[B, T, N]` with rows of `T * N` values.
fn assert_close(found: Tensor<3>, expected: &Value) {
    for (row, expected) in expected.as_array().unwrap().iter().enumerate() {
        let expected: Vec<f32> = serde_json::from_value(expected.clone()).unwrap();
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
    // In one batch, each prompt is continued as alone.
    let config = GenerateConfig::new(10).with_eos_id(Some(EOS));
    let together = decoder.complete(None, &prompts, &config).unwrap();
    for (prompt, found) in prompts.iter().zip(together) {
        let alone = decoder.complete(None, &[prompt], &config).unwrap();
        assert_eq!(found[0].tokens, alone[0][0].tokens);
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
        rules = rules.linear_in_out(&theirs, &format!("layers.{{i}}.{ours}"));
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
        config.input.norm = Some(NormConfig::new(24));
        config.final_norm = None;
        Ok(Self {
            encoder: config.with_norm(NormKind::Layer, 1e-12).init(device)?,
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
    let types: Vec<u32> = serde_json::from_value(about["types"].clone()).unwrap();
    let types = pad_sequences(&vec![types; rows.len()], 0, &device);
    let states = bert.forward(pad_sequences(&rows, 0, &device), types, &lengths);
    assert_close(states, &about["states"]);
}

#[test]
fn rules_that_do_not_fit_name_the_tensor() {
    let device = Device::flex();
    let (file, _) = model("bert");
    let bert = Bert::new(&device).unwrap();
    let error = |rules: Rules| rules.read(&file, &bert).unwrap_err().to_string();
    let unused = rules_of_bert().same("embeddings.other", "other");
    assert!(
        unused.read(&file, &bert).is_ok(),
        "a rule without a parameter has no effect"
    );
    let without = Rules::new();
    let expected = "is read without a rule for the parameter encoder.input.embedding.weight";
    assert_eq!(error(without), expected);
    let (file, _) = model("gpt2");
    let missing = rules_of_bert().read(&file, &bert).unwrap_err().to_string();
    assert!(
        missing.starts_with("has no tensor embeddings."),
        "{missing}"
    );
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
    let error = strict.read(&file, &attention).unwrap_err().to_string();
    assert_eq!(error, "has no tensor k.bias");
    let zeros = rules.clone().with_zero_biases();
    let error = zeros.read(&file, &attention).unwrap_err().to_string();
    assert!(error.contains("old.cls.weight"), "{error}");
    let read = zeros.ignoring("cls").read(&file, &attention).unwrap();
    let bias = parameters(&read)["w_qkv.bias"].clone();
    let expected = [
        1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 3.0f32,
    ];
    assert_eq!(bias.as_slice::<f32>().unwrap(), expected);
}
