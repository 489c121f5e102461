//! Tests of the names, shapes, sizes and initial values of the parameters.
//!
//! A change of names or shapes would break all existing checkpoints.

mod common;

use burn::module::Module;
use burn::store::{BurnpackStore, ModuleSnapshot, SafetensorsStore};
use burn::tensor::Device;
use common::{bits, parameters};
use transformer::weights;
use transformer::{Activation, Positions, Transformer, TransformerConfig, WeightTying};

fn listing<M: Module>(module: &M) -> Vec<String> {
    let line = |(path, data): (String, burn::tensor::TensorData)| {
        let shape: Vec<_> = data.shape().iter().map(ToString::to_string).collect();
        format!("{path} [{}]", shape.join(", "))
    };
    parameters(module).into_iter().map(line).collect()
}

/// Returns the default configuration, with small vocabularies.
fn base() -> TransformerConfig {
    TransformerConfig::new(37, 41)
}

#[test]
fn the_default_configuration_has_these_parameters() {
    let model = base().init_seeded(0, &Device::flex()).unwrap();
    let golden = include_str!("parameters.txt");
    let listing = listing(&model).join("\n") + "\n";
    if listing != golden {
        let path = std::env::temp_dir().join("parameters.txt");
        std::fs::write(&path, &listing).unwrap();
        panic!(
            "parameters differ from tests/parameters.txt; they are in {}",
            path.display()
        );
    }
}

#[test]
fn options_change_only_their_own_parameters() {
    let list =
        |config: TransformerConfig| listing(&config.init_seeded(0, &Device::flex()).unwrap());
    let small = base()
        .with_d_model(8)
        .with_n_heads(2)
        .with_d_ff(6)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1)
        .with_max_len(5);
    let plain = list(small.clone());
    let changes = |config| {
        let other = list(config);
        let only = |a: &[String], b: &[String]| -> Vec<String> {
            a.iter().filter(|x| !b.contains(x)).cloned().collect()
        };
        (only(&plain, &other), only(&other, &plain))
    };
    let none: Vec<String> = vec![];

    let (gone, new) = changes(small.clone().with_positions(Positions::Learned));
    assert_eq!(gone, none);
    assert_eq!(
        new,
        [
            "encoder.input.position.learned.weight [5, 8]",
            "decoder.input.position.learned.weight [5, 8]"
        ]
    );
    for positions in [Positions::Rotary, Positions::None] {
        assert_eq!(
            changes(small.clone().with_positions(positions)),
            (none.clone(), none.clone())
        );
    }

    let (gone, new) = changes(small.clone().with_weight_tying(WeightTying::Decoder));
    assert_eq!(
        (gone, new),
        (
            vec!["decoder.generator.weight [8, 41]".into()],
            none.clone()
        )
    );

    let mut shared = small.clone();
    shared.source_vocab_size = 41;
    let (gone, new) = changes(shared.with_weight_tying(WeightTying::All));
    assert_eq!(
        gone,
        [
            "encoder.input.embedding.weight [37, 8]",
            "decoder.generator.weight [8, 41]"
        ]
    );
    assert_eq!(new, none);

    let (gone, new) = changes(small.clone().with_activation(Activation::Swiglu));
    assert_eq!(gone.len(), 4, "{gone:?}");
    assert!(new.contains(&"encoder.layers.0.feed_forward.w_1.weight [8, 12]".into()));

    let (gone, new) = changes(small.with_final_norm(false));
    assert_eq!(new, none);
    assert_eq!(gone.len(), 4);
    assert!(
        gone.iter().all(|path| path.contains("final_norm")),
        "{gone:?}"
    );
}

#[test]
fn the_number_and_size_of_parameters_are_those_computed_by_hand() {
    let model = TransformerConfig::new(10_000, 8_000)
        .init_seeded(0, &Device::flex())
        .unwrap();
    // An attention block has 4 * (512^2 + 512) parameters, a feed-forward network has
    // 2 * 512 * 2048 + 2048 + 512, and a norm has 1024. An encoder layer consists of one attention
    // block, one feed-forward network and two norms. A decoder layer consists of two attention
    // blocks, one feed-forward network and three norms.
    let (attention, feed_forward, norm) = (1_050_624, 2_099_712, 1_024);
    let encoder = 10_000 * 512 + 6 * (attention + feed_forward + 2 * norm) + norm;
    let decoder = 8_000 * 512 + 6 * (2 * attention + feed_forward + 3 * norm) + norm;
    let expected = encoder + decoder + 512 * 8_000 + 8_000;
    assert_eq!(model.num_params(), expected);
    assert_eq!(model.size_bytes(), 4 * expected);
}

fn all_bits(model: &Transformer) -> Vec<Vec<u32>> {
    parameters(model)
        .iter()
        .map(|(_, data)| bits(data))
        .collect()
}

#[test]
fn a_seed_gives_the_same_parameters_on_every_backend() {
    let config = base().with_d_model(16).with_d_ff(8).with_max_len(9);
    let reference = config.init_seeded(7, &Device::flex()).unwrap();
    for backend in common::backends() {
        let model = config.init_seeded(7, &backend.device).unwrap();
        assert_eq!(all_bits(&model), all_bits(&reference), "{}", backend.name);
    }
    let other = config.init_seeded(8, &Device::flex()).unwrap();
    assert_ne!(all_bits(&other), all_bits(&reference));
}

#[test]
fn initial_values_are_xavier_uniform_and_biases_those_of_torch() {
    let config = TransformerConfig::new(50, 60)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1);
    let model = config.init_seeded(1, &Device::flex()).unwrap();
    for (path, data) in parameters(&model) {
        let values: Vec<f32> = data.iter().collect();
        let shape: Vec<usize> = data.shape().iter().copied().collect();
        if path.ends_with("gamma") || path.ends_with("beta") {
            let expected = if path.ends_with("gamma") { 1.0 } else { 0.0 };
            assert!(values.iter().all(|&x| x == expected), "{path}");
            continue;
        }
        let d = 512.0f64;
        let bound = match path.rsplit_once('.').unwrap() {
            // An attention matrix may pack several projections. Its initial values have the bound
            // of a single projection, which is a matrix `[D, D]`.
            (module, "weight") if module.contains("attention") => (6.0 / (d + d)).sqrt(),
            (module, "bias") if module.ends_with("w_2") => 2048f64.powf(-0.5),
            (_, "weight") => (6.0 / (shape[0] + shape[1]) as f64).sqrt(),
            (_, "bias") => d.powf(-0.5),
            other => panic!("{other:?}"),
        };
        let largest = values
            .iter()
            .fold(0.0, |m: f64, &x| m.max(f64::from(x).abs()));
        assert!(largest <= bound * 1.000_001, "{path}: {largest} > {bound}");
        let variance =
            values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / values.len() as f64;
        let ratio = variance / (bound * bound / 3.0);
        // The tolerance is four standard deviations of `ratio`. For `n` uniform values, the
        // standard deviation is `sqrt(0.8 / n)`.
        let tolerance = 4.0 * (0.8 / values.len() as f64).sqrt();
        assert!(
            (ratio - 1.0).abs() < tolerance,
            "{path}: the variance is {ratio} times the expected one"
        );
    }
}

#[test]
fn records_are_saved_and_loaded() {
    let device = Device::flex();
    let config = base().with_d_model(16).with_d_ff(8).with_max_len(9);
    let model = config.init_seeded(1, &device).unwrap();
    let bytes = model.clone().into_record().into_bytes().unwrap();
    let record = burn::store::ModuleRecord::from_bytes(bytes).unwrap();
    // Records contain only parameters. Tables that a model computes, such as those of sinusoidal
    // positions, are not saved.
    assert_eq!(record.len(), parameters(&model).len());
    let other = || config.init_seeded(2, &device).unwrap();
    assert_eq!(all_bits(&other().load_record(record)), all_bits(&model));

    // The files of burn-store have the same names, and are exchanged with those of this crate.
    let folder = tempfile::tempdir().unwrap();
    let [tensors, pack, own] =
        ["a.safetensors", "b.bpk", "c.safetensors"].map(|name| folder.path().join(name));
    model
        .save_into(&mut SafetensorsStore::from_file(&tensors))
        .unwrap();
    model
        .save_into(&mut BurnpackStore::from_file(&pack))
        .unwrap();
    std::fs::write(
        &own,
        weights::to_bytes(&weights::parameters(&model)).unwrap(),
    )
    .unwrap();
    for path in [&tensors, &own] {
        let mut read = other();
        read.load_from(&mut SafetensorsStore::from_file(path))
            .unwrap();
        assert_eq!(all_bits(&read), all_bits(&model));
        let read = weights::from_bytes(&std::fs::read(path).unwrap()).unwrap();
        let read = weights::with_parameters(&other(), read).unwrap();
        assert_eq!(all_bits(&read), all_bits(&model));
    }
    let mut read = other();
    read.load_from(&mut BurnpackStore::from_file(&pack))
        .unwrap();
    assert_eq!(all_bits(&read), all_bits(&model));
}
