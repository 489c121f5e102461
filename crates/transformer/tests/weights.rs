//! Tests of the import and export of weights.
//!
//! `fixtures/layouts` holds the files, and the outputs that PyTorch computed from them.

mod common;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use burn::tensor::{Device, Int, Tensor, TensorData};
use common::{Fixture, assert_close};
use transformer::weights::{
    Contents, Dtype, ImportOptions, Imported, Layout, Parameters, WeightsError, WeightsFile,
    export, import, metadata, parameters, to_bytes_with,
};
use transformer::{
    Activation, AttentionMask, Choice, NormKind, NormPlacement, NormVariance, Positions,
    Transformer, TransformerConfig, WeightTying,
};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/layouts")
        .join(name)
}

fn options() -> ImportOptions {
    ImportOptions {
        n_heads: Some(3),
        ..Default::default()
    }
}

fn read(name: &str, options: &ImportOptions) -> Result<Imported, String> {
    let file = WeightsFile::open(path(name)).map_err(|error| error.without_path().to_string())?;
    import(&file, options).map_err(|error| error.without_path().to_string())
}

/// Imports a fixture and compares the model's outputs with PyTorch's.
///
/// `part` names the outputs to compare with, if the fixture has several.
fn agrees(name: &str, options: &ImportOptions, part: Option<&str>) -> Imported {
    let imported = read(name, options).unwrap_or_else(|error| panic!("{name} {error}"));
    let (stem, _) = name.rsplit_once('.').unwrap();
    let expected = Fixture::load(&format!("layouts/{stem}.expected"));
    let output = part.map_or_else(|| expected.part("output"), |part| expected.part(part));
    let device = Device::flex();
    let source: Tensor<2, Int> = expected.int("input.source", &device);
    let close = |what: &str, found: Tensor<3>| {
        assert_close(
            &format!("{what} of {name}"),
            &found.into_data(),
            &output.data(what),
            1e-5,
        );
    };
    let mask = AttentionMask::padding(&source, imported.stacks.config().unwrap().pad_id);
    if imported.contents == Contents::Encoder {
        let encoder = imported.clone().encoder(&device).unwrap();
        close("memory", encoder.forward(source, Some(&mask)));
        return imported;
    }
    let model = imported.clone().transformer(&device).unwrap();
    let target: Tensor<2, Int> = expected.int("input.target", &device);
    close(
        "memory",
        model.encode(source.clone(), Some(&mask)).states().clone(),
    );
    close("logits", model.forward(source, Some(&mask), target));
    imported
}

#[test]
fn safetensors_of_pytorch_give_its_logits() {
    let imported = agrees("torch_nn.safetensors", &options(), None);
    assert_eq!(imported.layout, Layout::TorchNn);
    assert_eq!(imported.config().unwrap().max_len, 16);
    assert_eq!(imported.config().unwrap().positions, Positions::Sinusoidal);
    assert_eq!(imported.config().unwrap().weight_tying, WeightTying::None);
    let expected = "the file has no configuration of the model, so these were assumed: \
        norm_placement post, activation relu, positions sinusoidal, norm_epsilon 0.00001, \
        scale_embeddings true, pad_id 0";
    assert_eq!(imported.warnings, [expected]);
    agrees(
        "torch_nn_bf16.safetensors",
        &options(),
        Some("exact_positions"),
    );
    let imported = agrees("marian.safetensors", &options(), None);
    assert_eq!(imported.layout, Layout::Marian);
    assert_eq!(imported.config().unwrap().weight_tying, WeightTying::All);
    assert_eq!(imported.stacks.config().unwrap().pad_id, 18);
    let imported = agrees("paper_peer.safetensors", &options(), None);
    assert_eq!(imported.layout, Layout::Paper);
}

#[test]
#[cfg(feature = "pytorch")]
fn checkpoints_of_pytorch_give_its_logits() {
    for (name, layout) in [
        ("paper.pt", Layout::Paper),
        ("labml.pt", Layout::Labml),
        ("annotated.pt", Layout::Annotated),
        ("paper_encoder.pt", Layout::Paper),
    ] {
        let imported = agrees(name, &options(), None);
        assert_eq!(imported.layout, layout, "{name}");
        assert_eq!(
            imported.stacks.config().unwrap().n_encoder_layers,
            2,
            "{name}"
        );
        let [warning] = &imported.warnings[..] else {
            panic!("{name}: {:?}", imported.warnings);
        };
        assert!(
            warning.contains("these were assumed: norm_placement "),
            "{name}: {warning}"
        );
    }
    let pre = ImportOptions {
        norm_placement: Some(NormPlacement::Pre),
        activation: Some(Activation::Gelu),
        ..options()
    };
    let imported = agrees("paper_checkpoint.pt", &pre, None);
    let expected = "6 tensors beside the model's of the entry model were skipped";
    assert_eq!(imported.warnings[0], expected);
    let imported = agrees("torch_nn_pre.pt", &pre, None);
    assert_eq!(imported.config().unwrap().weight_tying, WeightTying::All);
    agrees("marian_f16.pt", &options(), Some("exact_positions"));
}

#[test]
#[cfg(feature = "pytorch")]
fn pickles_are_never_executed() {
    for (name, class, at) in [
        ("evil_system.pt", "posix.system", ""),
        ("evil_namespace.pt", "argparse.Namespace", "args"),
        ("evil_in_state.pt", "__main__.Custom", "decoder.extra"),
    ] {
        let error = read(name, &options()).unwrap_err();
        let found = format!("refers to {class} at {at}");
        assert!(error.starts_with(&found), "{name}: {error}");
    }
    // With `allow_unused`, objects that are not tensors, such as `args`, are skipped.
    let all = ImportOptions {
        allow_unused: true,
        ..options()
    };
    let imported = read("evil_namespace.pt", &all).unwrap();
    assert!(imported.warnings[0].contains("args was skipped: it refers to argparse.Namespace"));
    assert_eq!(imported.layout, Layout::Paper);
    assert_eq!(imported.parameters.len(), 52);
}

#[test]
fn elements_that_are_not_finite_are_rejected() {
    let error = read("nan.safetensors", &options()).unwrap_err();
    let expected = [
        "tensor generator.bias has 1 of 19 elements that are not finite",
        "tensor transformer.encoder.layers.1.linear2.weight has 1 of 240 elements that are not finite",
    ];
    assert!(
        expected.iter().any(|expected| error.starts_with(expected)),
        "{error}"
    );
}

fn small() -> TransformerConfig {
    TransformerConfig::new(7, 7)
        .with_d_model(6)
        .with_n_heads(3)
        .with_d_ff(5)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(2)
        .with_max_len(9)
        .with_dropout(0.0)
}

/// Returns configurations of whole models that a layout can represent. `models.rs` tests the
/// layouts of a stack alone, and Whisper.
fn configs(layout: Layout) -> Vec<TransformerConfig> {
    let base = match layout {
        Layout::Gpt2 | Layout::Llama | Layout::Bert | Layout::Whisper => return Vec::new(),
        Layout::Labml => small().with_norm_placement(NormPlacement::Pre),
        Layout::Annotated => small()
            .with_norm_placement(NormPlacement::Pre)
            .with_norm_variance(NormVariance::Unbiased),
        Layout::Marian => {
            return vec![
                small()
                    .with_positions(Positions::SinusoidalHalves)
                    .with_final_norm(false)
                    .with_activation(Activation::Swish)
                    .with_weight_tying(WeightTying::All),
            ];
        }
        Layout::Bart => {
            let bart = small()
                .with_positions(Positions::Learned)
                .with_embedding_norm(true)
                .with_scale_embeddings(false)
                .with_weight_tying(WeightTying::All);
            let mbart = bart.clone().with_norm_placement(NormPlacement::Pre);
            return vec![bart.with_final_norm(false), mbart];
        }
        Layout::Fairseq => {
            let post = small()
                .with_positions(Positions::SinusoidalFairseq)
                .with_final_norm(false)
                .with_logits_bias(false);
            let pre = post.clone().with_final_norm(true);
            let pre = pre.with_norm_placement(NormPlacement::Pre);
            let learned = post.clone().with_positions(Positions::Learned);
            let tied = post.clone().with_weight_tying(WeightTying::Decoder);
            return vec![post, pre, learned, tied];
        }
        Layout::M2m100 => {
            let nllb = small()
                .with_norm_placement(NormPlacement::Pre)
                .with_positions(Positions::SinusoidalFairseq)
                .with_weight_tying(WeightTying::All);
            return vec![nllb.with_logits_bias(false)];
        }
        Layout::T5 | Layout::T5Gated => small()
            .with_norm_placement(NormPlacement::Pre)
            .with_norm(NormKind::Rms)
            .with_activation(match layout {
                Layout::T5 => Activation::Relu,
                _ => Activation::Swiglu,
            })
            .with_d_kv((layout == Layout::T5).then_some(3))
            .with_positions(Positions::Relative)
            .with_relative_buckets(8)
            .with_biases(false)
            .with_logits_bias(false)
            .with_scale_attention(false)
            .with_scale_embeddings(false),
        _ => small(),
    };
    let mut all = Vec::new();
    for tying in [WeightTying::None, WeightTying::Decoder, WeightTying::All] {
        let mut config = base.clone().with_weight_tying(tying);
        if matches!(layout, Layout::T5 | Layout::T5Gated) {
            if tying != WeightTying::All {
                config.weight_tying = WeightTying::Embeddings;
            }
            config.scale_logits = config.weight_tying.shares_generator();
        }
        if matches!(layout, Layout::Native | Layout::Paper | Layout::TorchNn) {
            all.push(config.clone().with_norm_placement(NormPlacement::Pre));
        }
        if layout == Layout::Native {
            all.extend([
                config.clone().with_positions(Positions::Learned),
                config.clone().with_positions(Positions::Rotary),
                config.clone().with_final_norm(false),
                config.clone().with_activation(Activation::Swiglu),
                config.clone().with_scale_embeddings(false),
            ]);
        }
        all.push(config);
    }
    all
}

/// Returns import options with the hyper-parameters of `config` that not every layout shows in its
/// weights.
fn told(config: &TransformerConfig) -> ImportOptions {
    ImportOptions {
        n_heads: Some(config.n_heads),
        activation: Some(config.activation),
        norm_placement: Some(config.norm_placement),
        norm_epsilon: Some(config.norm_epsilon),
        max_len: Some(config.max_len),
        pad_id: Some(config.pad_id),
        dropout: Some(config.dropout),
        ..Default::default()
    }
}

fn write(bytes: &[u8]) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

/// Maximum number of bytes that opening an invalid file may read.
///
/// The headers and pickles of these tests are smaller, and the sizes that the files claim are far
/// larger.
const MAX_READ: u64 = 80 << 20;

/// Returns the error of opening a file, and the number of bytes that this thread read to open it.
fn open_error(path: &Path) -> (String, u64) {
    let before = bytes_read();
    let error = WeightsFile::open(path)
        .unwrap_err()
        .without_path()
        .to_string();
    (error, bytes_read() - before)
}

/// Returns the number of bytes that this thread has read from files; 0 where the system does not
/// count them.
fn bytes_read() -> u64 {
    let Ok(counters) = std::fs::read_to_string("/proc/thread-self/io") else {
        return 0;
    };
    let mut lines = counters.lines();
    let read = lines.find_map(|line| line.strip_prefix("rchar: "));
    read.map_or(0, |read| read.parse().unwrap())
}

fn through_a_file(
    config: &TransformerConfig,
    contents: Contents,
    own: &Parameters,
    layout: Layout,
    dtype: Dtype,
) -> Imported {
    let theirs = export(config, contents, own, layout, true).unwrap();
    let (about, options) = match layout {
        Layout::Native => (metadata(config), ImportOptions::default()),
        _ => (BTreeMap::new(), told(config)),
    };
    let file = write(&to_bytes_with(&theirs, dtype, &about).unwrap());
    let file = WeightsFile::open(file.path()).unwrap();
    import(&file, &options).unwrap_or_else(|error| panic!("{layout}: {config:?}: {error}"))
}

fn model(config: &TransformerConfig) -> Transformer {
    config.init_seeded(5, &Device::flex()).unwrap()
}

#[test]
fn exported_weights_are_imported_to_the_last_bit() {
    for &layout in Layout::ALL {
        for config in configs(layout) {
            let own = parameters(&model(&config));
            let back = through_a_file(&config, Contents::Model, &own, layout, Dtype::F32);
            assert_eq!(back.layout, layout);
            assert_eq!(back.contents, Contents::Model);
            assert!(back.parameters == own, "{layout}: {config:?}");
            assert_eq!(back.config().unwrap(), config, "{layout}");
            let read = back.transformer(&Device::flex()).unwrap();
            assert!(parameters(&read) == own);
        }
    }
}

#[test]
fn exported_stacks_are_imported_to_the_last_bit() {
    for &layout in Layout::ALL {
        for config in configs(layout) {
            if config.weight_tying != WeightTying::None && !layout.is_hugging_face() {
                continue;
            }
            if layout == Layout::Fairseq {
                let alone = export(&config, Contents::Encoder, &Parameters::new(), layout, true);
                let error = alone.unwrap_err().to_string();
                let expected = "has stacks alone, which the layout fairseq cannot represent";
                assert!(error.ends_with(expected), "{error}");
                continue;
            }
            let all = parameters(&model(&config));
            for (contents, stack) in [
                (Contents::Encoder, "encoder."),
                (Contents::Decoder, "decoder."),
            ] {
                let own: Parameters = all
                    .iter()
                    .filter(|(name, _)| name.starts_with(stack))
                    .map(|(name, data)| (name.clone(), data.clone()))
                    .collect();
                let back = through_a_file(&config, contents, &own, layout, Dtype::F32);
                assert_eq!(back.contents, contents, "{layout}");
                assert!(back.parameters == own, "{layout}: {contents}");
                let device = Device::flex();
                match contents {
                    Contents::Encoder => drop(back.encoder(&device).unwrap()),
                    _ => drop(back.decoder(&device).unwrap()),
                }
            }
        }
    }
}

/// Returns the name, layout and configuration of each model in `fixtures/layouts/exports`.
///
/// Models with shared matrices are included only for `torch.nn` and Marian, because the Python
/// classes of the other layouts do not share matrices.
fn exported() -> Vec<(String, Layout, TransformerConfig)> {
    let mut all = Vec::new();
    for &layout in Layout::ALL {
        let mut configs = configs(layout);
        configs.retain(|config| {
            config.weight_tying == WeightTying::None
                || matches!(layout, Layout::TorchNn | Layout::Marian)
        });
        // The native layout has no Python classes, and fairseq's are in `models.rs`. `families.rs` tests
        // the layouts of Hugging Face; only Marian is tested here, too.
        let is_other = layout.is_hugging_face() && layout != Layout::Marian;
        if matches!(layout, Layout::Native | Layout::Fairseq) || is_other {
            configs.clear();
        }
        for (index, config) in configs.into_iter().enumerate() {
            let config = match layout {
                Layout::Annotated => config.with_norm_epsilon(2e-6),
                Layout::Marian => config.with_pad_id(6),
                _ => config,
            };
            all.push((format!("{layout}.{index}"), layout, config));
        }
    }
    all
}

/// `fixtures/layouts/exports` holds the exports that `check_exports.py` loaded into Python classes,
/// and the logits that these classes computed.
#[test]
fn exports_are_those_that_pytorch_has_loaded() {
    let mut stale = Vec::new();
    for (name, layout, config) in exported() {
        let device = Device::flex();
        let model = config.init_seeded(20_170_612, &device).unwrap();
        let theirs = export(&config, Contents::Model, &parameters(&model), layout, true).unwrap();
        let pad = i64::from(config.pad_id);
        let source = vec![vec![1i64, 2, 3, 4, 5], vec![5, 4, 3, pad, pad]];
        let target = vec![vec![1i64, 3, 2, 5], vec![1, 5, 5, 4]];
        let ids = |rows: &[Vec<i64>]| -> Tensor<2, Int> {
            let data = TensorData::new(rows.concat(), [rows.len(), rows[0].len()]);
            Tensor::from_data(data, &device)
        };
        let logits = model
            .forward(
                ids(&source),
                Some(&AttentionMask::of_lengths(&[5, 3], &device)),
                ids(&target),
            )
            .into_data();
        let json = serde_json::to_vec_pretty(&config).unwrap();
        let weights = to_bytes_with(&theirs, Dtype::F32, &BTreeMap::new()).unwrap();

        let folder = path("exports");
        let is = |ending: &str, bytes: &[u8]| {
            std::fs::read(folder.join(format!("{name}.{ending}"))).is_ok_and(|b| b == bytes)
        };
        if is("json", &json) && is("safetensors", &weights) {
            let checked = Fixture::load(&format!("layouts/exports/{name}.expected"));
            assert_close(&name, &logits, &checked.data("output.logits"), 1e-5);
            continue;
        }
        let expected = integers_and_logits(&source, &target, &logits);
        let folder = std::env::temp_dir().join("exports");
        std::fs::create_dir_all(&folder).unwrap();
        for (ending, bytes) in [
            ("json", json),
            ("safetensors", weights),
            ("expected.safetensors", expected),
        ] {
            std::fs::write(folder.join(format!("{name}.{ending}")), bytes).unwrap();
        }
        stale.push(name);
    }
    assert!(
        stale.is_empty(),
        "the exports {stale:?} have changed; the new ones are in {}, for check_exports.py",
        std::env::temp_dir().join("exports").display()
    );
}

fn integers_and_logits(source: &[Vec<i64>], target: &[Vec<i64>], logits: &TensorData) -> Vec<u8> {
    use safetensors::tensor::{Dtype, TensorView};
    let bytes = |rows: &[Vec<i64>]| -> Vec<u8> {
        rows.iter()
            .flatten()
            .flat_map(|id| id.to_le_bytes())
            .collect()
    };
    let (source_bytes, target_bytes) = (bytes(source), bytes(target));
    let ids = |rows: &[Vec<i64>], bytes| {
        TensorView::new(Dtype::I64, vec![rows.len(), rows[0].len()], bytes).unwrap()
    };
    let all = [
        ("input.source", ids(source, &source_bytes)),
        ("input.target", ids(target, &target_bytes)),
        (
            "output.logits",
            TensorView::new(Dtype::F32, logits.shape().to_vec(), logits.as_bytes()).unwrap(),
        ),
    ];
    safetensors::serialize(all, None).unwrap()
}

#[test]
fn half_precision_is_rounded_once() {
    let config = small();
    let own = parameters(&model(&config));
    for (dtype, digits) in [(Dtype::F16, 11), (Dtype::BF16, 8)] {
        let all = Contents::Model;
        let back = through_a_file(&config, all, &own, Layout::TorchNn, dtype);
        assert!(back.parameters != own);
        for (name, data) in &own {
            let pairs = data.iter::<f32>().zip(back.parameters[name].iter::<f32>());
            for (exact, rounded) in pairs {
                let most = exact.abs() * 0.5f32.powi(digits) + 1e-7;
                assert!((exact - rounded).abs() <= most, "{name}: {exact} {rounded}");
            }
        }
        let again = through_a_file(&config, all, &back.parameters, Layout::TorchNn, dtype);
        assert!(again.parameters == back.parameters);
    }
}

#[test]
fn layouts_reject_models_that_their_classes_cannot_compute() {
    for (layout, config, field) in [
        (Layout::Marian, small(), "final_norm true"),
        (
            Layout::TorchNn,
            small().with_positions(Positions::Rotary),
            "positions rotary",
        ),
        (
            Layout::Paper,
            small().with_activation(Activation::Swiglu),
            "activation swiglu",
        ),
        (Layout::Labml, small(), "norm_placement post"),
        (
            Layout::Annotated,
            small().with_norm_placement(NormPlacement::Pre),
            "norm_variance biased",
        ),
    ] {
        let own = parameters(&model(&config));
        let error = export(&config, Contents::Model, &own, layout, true).unwrap_err();
        let expected = format!("the model has {field}, which the layout {layout} cannot represent");
        assert_eq!(error.to_string(), expected);
    }
}

/// Exports a whole model in the layout of `torch.nn`, changes the tensors and imports them.
fn changed(change: impl FnOnce(&mut Parameters)) -> Result<Imported, String> {
    let config = small();
    let own = parameters(&model(&config));
    let mut theirs = export(&config, Contents::Model, &own, Layout::TorchNn, true).unwrap();
    change(&mut theirs);
    let bytes = to_bytes_with(&theirs, Dtype::F32, &BTreeMap::new()).unwrap();
    let file = write(&bytes);
    let file = WeightsFile::open(file.path()).unwrap();
    import(&file, &told(&config)).map_err(|error| error.without_path().to_string())
}

#[test]
fn errors_name_the_tensors_that_do_not_fit() {
    assert!(changed(|_| {}).is_ok());
    let name = "transformer.decoder.layers.1.linear1.bias";
    let error = changed(|all| drop(all.remove(name))).unwrap_err();
    assert_eq!(error, format!("has no tensor {name}"));

    let error = changed(|all| {
        let bias = all["generator.bias"].clone();
        all.insert("head.bias".into(), bias.clone());
        all.insert("tail.bias".into(), bias);
    });
    let expected = "has a tensor head.bias, tail.bias that the model does not have";
    assert_eq!(error.unwrap_err(), expected);

    let error = changed(|all| {
        let bias = all["generator.bias"].clone();
        all.insert(name.into(), bias);
    });
    let expected = format!("tensor {name} has the shape [7], but must have [5]");
    assert_eq!(error.unwrap_err(), expected);

    let error = changed(|all| {
        let table = all.remove("src_tok_emb.embedding.weight").unwrap();
        all.insert("words.weight".into(), table);
    });
    assert!(error.unwrap_err().contains("words.weight"));
    let error =
        changed(|all| *all = Parameters::from([("x".into(), all["generator.bias"].clone())]));
    let expected = "has 1 tensors (x, ..), but none of the names by which a layout is known";
    assert_eq!(error.unwrap_err(), expected);
}

#[test]
fn a_layer_without_its_first_tensor_is_reported() {
    for layer in [0, 1] {
        let name = format!("transformer.decoder.layers.{layer}.self_attn.in_proj_weight");
        let error = changed(|all| drop(all.remove(&name))).unwrap_err();
        assert_eq!(error, format!("has no tensor {name}"));
    }
    let error = changed(|all| {
        all.retain(|name, _| !name.contains("decoder.layers.0."));
    });
    let error = error.unwrap_err();
    assert!(
        error.starts_with("has no tensor") && error.ends_with("(and 15 more)"),
        "{error}"
    );
}

#[test]
fn layers_without_biases_have_zeros() {
    let imported = changed(|all| {
        all.retain(|name, _| !name.starts_with("transformer.") || !name.ends_with("bias"));
    });
    let imported = imported.unwrap();
    assert_eq!(
        imported.warnings[0],
        "the layers have no biases: zeros are used"
    );
    let beta = &imported.parameters["decoder.layers.1.feed_forward_residual.norm.beta"];
    assert!(beta.iter::<f32>().all(|x| x == 0.0));
    let weight = "decoder.layers.1.feed_forward.w_1.weight";
    assert!(imported.parameters[weight].iter::<f32>().any(|x| x != 0.0));
}

#[test]
fn position_tables_are_recognised_by_their_elements() {
    let name = "positional_encoding.pos_embedding";
    let with = |change: fn(usize, f32) -> f32| {
        changed(|all| {
            let table = &all[name];
            let values = table.iter::<f32>().enumerate();
            let values: Vec<f32> = values.map(|(i, x)| change(i, x)).collect();
            let table = TensorData::new(values, table.shape().to_vec());
            all.insert(name.into(), table);
        })
    };
    let read = |change| with(change).unwrap();
    assert_eq!(
        read(|_, x| x).config().unwrap().positions,
        Positions::Sinusoidal
    );
    let trained = read(|i, x| if i == 20 { x + 1e-3 } else { x });
    assert_eq!(trained.config().unwrap().positions, Positions::Learned);
    assert!(
        trained
            .parameters
            .contains_key("decoder.input.position.learned.weight")
    );
    let error = with(|i, x| if i == 20 { f32::NAN } else { x }).unwrap_err();
    assert!(
        error.starts_with(&format!(
            "tensor {name} has 1 of 54 elements that are not finite"
        )),
        "{error}"
    );
}

#[test]
fn tensors_that_share_memory_are_read_by_all_their_names() {
    let config = small().with_weight_tying(WeightTying::Decoder);
    let own = parameters(&model(&config));
    let mut theirs = export(&config, Contents::Model, &own, Layout::TorchNn, true).unwrap();
    let table = "tgt_tok_emb.embedding.weight";
    theirs.remove(table);
    let about = BTreeMap::from([(table.to_string(), "generator.weight".to_string())]);
    let file = write(&to_bytes_with(&theirs, Dtype::F32, &about).unwrap());
    let back = import(&WeightsFile::open(file.path()).unwrap(), &told(&config)).unwrap();
    assert!(back.parameters == own);
}

#[test]
fn a_file_that_changed_after_it_was_opened_is_rejected() {
    let bytes = std::fs::read(path("torch_nn.safetensors")).unwrap();
    let on_disk = write(&bytes);
    let file = WeightsFile::open(on_disk.path()).unwrap();
    let read = import(&file, &options()).unwrap();
    // A change of the file after an import does not affect the imported weights.
    let other = vec![0; bytes.len() + 1];
    std::fs::write(on_disk.path(), other).unwrap();
    let error = import(&file, &options()).unwrap_err().to_string();
    let expected = "was changed while it was read";
    assert_eq!(error, format!("{}: {expected}", on_disk.path().display()));
    assert!(read.transformer(&Device::flex()).is_ok());
}

#[test]
#[cfg(feature = "pytorch")]
fn the_entry_with_the_weights_is_found() {
    for name in ["paper_stacks.pt", "paper_module.pt", "paper_entries.pt"] {
        let imported = agrees(name, &options(), None);
        assert_eq!(imported.contents, Contents::Model);
    }
    let error = read("paper_pair.pt", &options()).unwrap_err();
    assert_eq!(error, "has weights in several entries (student, teacher)");
    let of = |entry: &str| ImportOptions {
        entry: Some(entry.into()),
        ..options()
    };
    assert!(read("paper_pair.pt", &of("teacher")).is_ok());
    let error = read("paper_pair.pt", &of("pupil")).unwrap_err();
    assert_eq!(
        error,
        "has no entry pupil that is a dictionary of tensors; those are [student, teacher], and one with two names has the first"
    );
    let ema = read("paper_entries.pt", &of("ema")).unwrap();
    let model = read("paper_entries.pt", &options()).unwrap();
    assert!(ema.parameters != model.parameters);
    // The name of the tensor to rename may include the name of its entry, `model`, or omit it.
    let renamed = |from: &str| ImportOptions {
        rename: vec![(from.into(), "encoder.table".into())],
        ..options()
    };
    for from in ["model.encoder.embedding.weight", "encoder.embedding.weight"] {
        let error = read("paper_entries.pt", &renamed(from)).unwrap_err();
        assert!(
            error.contains("encoder.table") || error.contains("has no tensor"),
            "{error}"
        );
    }
}

#[test]
#[cfg(feature = "pytorch")]
fn huge_pickles_are_rejected_before_they_are_read() {
    let error_of = |bytes: &[u8], length: u64| {
        let file = write(bytes);
        file.as_file().set_len(length).unwrap();
        let (error, read) = open_error(file.path());
        assert!(read <= MAX_READ, "read {read} bytes: {error}");
        error
    };
    let gigabytes = 10 << 30;
    // `long` claims a byte string of 8 GiB and `short` one of 2 GiB. `line` has a line without an
    // end, and `lists` has 3 million empty lists.
    let long = [&[0x80, 4, 0x8e][..], &(1u64 << 33).to_le_bytes()].concat();
    let short = [&[0x80, 2, b'B'][..], &(1u32 << 31).to_le_bytes()].concat();
    let line = [0x80, 2, b'V'];
    let lists = [&[0x80, 2][..], &[b']'; 3_000_000]].concat();
    for bytes in [&long[..], &short, &line] {
        let error = error_of(bytes, gigabytes);
        assert!(error.contains("MiB"), "{error}");
    }
    let error = error_of(&lists, lists.len() as u64);
    assert!(error.contains("more than 2000000 operations"), "{error}");
}

#[test]
#[cfg(feature = "pytorch")]
fn negated_views_keep_their_sign() {
    let open = |name: &str| WeightsFile::open(path(name));
    let file = open("negated.pt").unwrap();
    let read = |name: &str| file.read(name).unwrap().iter::<f32>().collect::<Vec<_>>();
    assert_eq!(read("model.a"), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    assert_eq!(read("model.b.c"), [-1.0, -4.0, -2.0, -5.0, -3.0, -6.0]);
    assert_eq!(read("model.d"), [-1.0, -2.0, -3.0, -4.0, -5.0, -6.0]);
    assert_eq!(read("model.e"), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let error = open("ambiguous.pt").unwrap_err().to_string();
    let expected = "its tensor a is a negated view, which cannot be told from others of this key";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn tensors_may_be_renamed() {
    let config = small();
    let own = parameters(&model(&config));
    let mut theirs = export(&config, Contents::Model, &own, Layout::TorchNn, true).unwrap();
    let table = theirs.remove("src_tok_emb.embedding.weight").unwrap();
    theirs.insert("words.weight".into(), table);
    let file = write(&to_bytes_with(&theirs, Dtype::F32, &BTreeMap::new()).unwrap());
    let file = WeightsFile::open(file.path()).unwrap();
    let rename = |to: &str| ImportOptions {
        rename: vec![("words.weight".into(), to.into())],
        ..told(&config)
    };
    let back = import(&file, &rename("src_embed.weight")).unwrap();
    assert!(back.parameters == own);
    let error = import(&file, &rename("generator.bias")).unwrap_err();
    assert!(error.to_string().contains("generator.bias already"));
}

/// Tensors do not show these settings, as in a file that burn-store wrote.
#[test]
fn assumed_settings_are_in_the_warnings() {
    let config = small().with_norm_placement(NormPlacement::Pre);
    let tensors = parameters(&model(&config));
    let warnings = |metadata, options: &ImportOptions| {
        let file = write(&to_bytes_with(&tensors, Dtype::F32, &metadata).unwrap());
        let file = WeightsFile::open(file.path()).unwrap();
        import(&file, options).unwrap().warnings
    };
    assert_eq!(warnings(metadata(&config), &options()), [""; 0]);
    let other = ImportOptions {
        activation: Some(Activation::Gelu),
        ..options()
    };
    let found = warnings(metadata(&config), &other);
    let written = serde_json::to_value(config.activation).unwrap();
    let expected = format!("settings of the file are replaced: activation {written} by \"gelu\"");
    assert_eq!(found, [expected]);
    let given = ImportOptions {
        n_heads: Some(config.n_heads),
        activation: Some(Activation::Relu),
        ..Default::default()
    };
    let expected = "the file has no configuration of the model, so these were assumed: \
        norm_placement post, positions sinusoidal, norm_epsilon 0.00001, scale_embeddings true, pad_id 0, \
        norm_variance biased, scale_attention true";
    assert_eq!(warnings(Default::default(), &given), [expected]);
}

#[test]
fn metadata_must_match_the_tensors() {
    let config = small();
    let error = |lacks: &str, expected: &str| {
        let mut own = parameters(&model(&config));
        own.retain(|name, _| !name.contains(lacks));
        let bytes = to_bytes_with(&own, Dtype::F32, &metadata(&config)).unwrap();
        let file = WeightsFile::from_bytes(bytes).unwrap();
        let error = import(&file, &ImportOptions::default()).unwrap_err();
        assert_eq!(error.without_path().to_string(), expected);
    };
    let expected = "says that final_norm is true, but its tensors say false";
    error("final_norm", expected);
    // A matrix that the model does not share.
    for name in ["decoder.generator.weight", "encoder.input.embedding.weight"] {
        error(name, &format!("has no tensor {name}"));
    }
    // A number of layers that no machine has memory for.
    let mut about = metadata(&config);
    let decoder = about["decoder"].replace(r#""n_layers":2"#, r#""n_layers":1000000000000"#);
    about.insert("decoder".into(), decoder);
    let bytes = to_bytes_with(&parameters(&model(&config)), Dtype::F32, &about).unwrap();
    let file = WeightsFile::from_bytes(bytes).unwrap();
    let error = import(&file, &ImportOptions::default())
        .unwrap_err()
        .to_string();
    assert!(
        error.contains("n_decoder_layers is 1000000000000, but must be at most"),
        "{error}"
    );
    // Biases and shifts that the metadata denies.
    let rms = config.clone().with_norm(NormKind::Rms);
    let mut plain = config.clone();
    plain.biases = false;
    for (denied, name) in [(rms, "beta"), (plain, "bias")] {
        let own = parameters(&model(&config));
        let bytes = to_bytes_with(&own, Dtype::F32, &metadata(&denied)).unwrap();
        let file = WeightsFile::from_bytes(bytes).unwrap();
        let error = import(&file, &ImportOptions::default()).unwrap_err();
        let WeightsError::Unused { name: unused, .. } = error.without_path() else {
            panic!("{denied}");
        };
        assert!(unused.ends_with(name), "{unused}");
        let options = ImportOptions {
            allow_unused: true,
            ..ImportOptions::default()
        };
        assert!(import(&file, &options).is_ok(), "{denied}");
    }
}

#[test]
fn shapes_show_grouped_queries() {
    for (n_kv_heads, d_kv) in [(Some(1), None), (None, Some(4)), (Some(1), Some(4))] {
        let config = small().with_n_kv_heads(n_kv_heads).with_d_kv(d_kv);
        let own = parameters(&model(&config));
        let file =
            WeightsFile::from_bytes(to_bytes_with(&own, Dtype::F32, &Default::default()).unwrap())
                .unwrap();
        let read = import(&file, &told(&config)).unwrap();
        let found = read.config().unwrap();
        assert_eq!((found.n_kv_heads, found.d_kv), (n_kv_heads, d_kv));
        assert!(read.parameters == own);
    }
}

#[test]
fn heads_must_be_given() {
    let error = read("torch_nn.safetensors", &ImportOptions::default()).unwrap_err();
    let expected =
        "does not show how many attention heads the model has, so that n_heads must be given";
    assert_eq!(error, expected);
    let five = ImportOptions {
        n_heads: Some(5),
        ..Default::default()
    };
    let error = read("torch_nn.safetensors", &five).unwrap_err();
    assert!(
        error.ends_with("n_heads is 5, but must be a divisor of d_model (12)"),
        "{error}"
    );
}

#[test]
fn a_header_whose_length_begins_like_a_pickle_is_read() {
    let config = small();
    let tensors = parameters(&model(&config));
    let bytes = to_bytes_with(&tensors, Dtype::F32, &metadata(&config)).unwrap();
    let (length, rest) = bytes.split_at(8);
    let length = u64::from_le_bytes(length.try_into().unwrap()) as usize;
    let (header, data) = rest.split_at(length);
    for start in [640, 896, 1152, 1408] {
        let longer = (0..).map(|n| start + (n << 16)).find(|&n| n >= length);
        let longer = longer.unwrap();
        let mut padded = header.to_vec();
        padded.resize(longer, b' ');
        let all = [&(longer as u64).to_le_bytes(), &padded[..], data].concat();
        assert!(matches!(all[..2], [0x80, 2..=5]));
        let file = write(&all);
        let file = WeightsFile::open(file.path()).unwrap();
        let imported = import(&file, &ImportOptions::default()).unwrap();
        assert!(imported.parameters == tensors);
    }
}

#[test]
fn parameters_of_another_type_are_not_exported() {
    let config = small();
    let mut all = parameters(&model(&config));
    let name = "decoder.input.embedding.weight";
    let table = all[name].clone();
    all.insert("decoder.layers.2.more".into(), table.clone());
    let other = export(&config, Contents::Model, &all, Layout::Paper, false);
    let other = other.unwrap_err().to_string();
    assert!(other.contains("decoder.layers.2.more"), "{other}");
    all.remove("decoder.layers.2.more");
    all.insert(name.into(), table.clone().convert::<f64>());
    let export = |all: &Parameters| export(&config, Contents::Model, all, Layout::Paper, false);
    let error = export(&all).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains("f64"), "{error}");
    let values = table.try_to_vec::<f32>().unwrap();
    let length = values.len();
    all.insert(name.into(), TensorData::new(values, [length]));
    let error = export(&all).unwrap_err().to_string();
    assert!(
        error.contains(name) && error.contains(&length.to_string()),
        "{error}"
    );
}

#[test]
fn invalid_headers_are_rejected_before_anything_else_is_read() {
    let error_of = |bytes: &[u8]| open_error(write(bytes).path()).0;
    assert_eq!(error_of(b""), "is empty");
    // This is a sparse file of 10 GiB of zeros.
    let file = write(b"");
    file.as_file().set_len(10 << 30).unwrap();
    let (error, read) = open_error(file.path());
    assert!(error.contains("its header would have 0 bytes"), "{error}");
    assert!(read <= MAX_READ, "read {read} bytes, more than the header");

    let with_header = |header: &str, data: usize| {
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![0; data]);
        error_of(&bytes)
    };
    let tensor = |name: &str, from: usize, to: usize| {
        format!(r#""{name}":{{"dtype":"F32","shape":[2],"data_offsets":[{from},{to}]}}"#)
    };
    for (header, data) in [
        (
            format!("{{{},{}}}", tensor("a", 0, 8), tensor("b", 4, 12)),
            12,
        ),
        (format!("{{{}}}", tensor("a", 8, 16)), 16),
        (format!("{{{}}}", tensor("a", 0, 8)), 4),
        (format!("{{{}}}", tensor("a", 0, 8)), 12),
        (format!("{{{}}}", tensor("a", 0, usize::MAX)), 8),
        (
            format!("{{{},{}}}", tensor("a", 0, 8), tensor("a", 8, 16)),
            16,
        ),
        ("[]".into(), 0),
        ("{\"a\":1}".into(), 0),
    ] {
        let error = with_header(&header, data);
        assert!(
            error.contains("not a whole safetensors file"),
            "{header}: {error}"
        );
    }
}

#[test]
fn a_table_that_is_read_in_parts_is_whole() {
    let device = Device::flex();
    let config = TransformerConfig::new(150_001, 3)
        .with_d_model(16)
        .with_n_heads(2)
        .with_d_ff(4)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1);
    let mut own = parameters(&config.init_seeded(1, &device).unwrap());
    let read = |own: &Parameters| {
        let bytes = to_bytes_with(own, Dtype::F32, &metadata(&config)).unwrap();
        import(
            &WeightsFile::from_bytes(bytes).unwrap(),
            &Default::default(),
        )
    };
    assert!(read(&own).unwrap().parameters == own);
    let name = "encoder.input.embedding.weight";
    let table = own.get_mut(name).unwrap();
    let elements = table.as_mut_slice::<f32>().unwrap();
    for index in [0, 1_500_000, elements.len() - 1] {
        elements[index] = f32::NAN;
    }
    let error = read(&own).unwrap_err().to_string();
    assert!(error.contains(name) && error.contains(" 3 "), "{error}");
}
