//! Tests of configurations, valid and invalid, and of the check of token ids.

use burn::config::Config;
use burn::tensor::Device;
use transformer::{
    CrossEntropy, InputConfig, InputError, NormPlacement, Positions, TransformerConfig,
    WeightTying, check_sequences,
};

fn base() -> TransformerConfig {
    TransformerConfig::new(10, 12)
}

#[test]
fn the_defaults_are_the_papers_base_model() {
    let config = base();
    assert_eq!(
        (config.d_model, config.n_heads, config.d_ff, config.dropout),
        (512, 8, 2048, 0.1)
    );
    assert_eq!((config.n_encoder_layers, config.n_decoder_layers), (6, 6));
    assert_eq!(config.norm_placement, NormPlacement::Post);
    assert_eq!(config.positions, Positions::Sinusoidal);
    assert_eq!(config.max_len, 5000);
    assert_eq!(config.validate(), Ok(()));
}

#[test]
fn errors_name_the_field_its_value_and_the_valid_values() {
    let cases = [
        (
            base().with_n_heads(3),
            "n_heads is 3, but must be a divisor of d_model (512)",
        ),
        (
            base().with_n_heads(0),
            "n_heads is 0, but must be at least 1",
        ),
        (
            base().with_d_model(0),
            "d_model is 0, but must be at least 1",
        ),
        (base().with_d_ff(0), "d_ff is 0, but must be at least 1"),
        (
            base().with_n_encoder_layers(0),
            "n_encoder_layers is 0, but must be at least 1",
        ),
        (
            base().with_n_decoder_layers(0),
            "n_decoder_layers is 0, but must be at least 1",
        ),
        (
            base().with_max_len(0),
            "max_len is 0, but must be at least 1",
        ),
        (
            base().with_d_ff(usize::MAX),
            "d_ff is 18446744073709551615, but must be at most 16777216",
        ),
        (
            TransformerConfig::new(0, 5),
            "source_vocab_size is 0, but must be at least 1",
        ),
        (
            TransformerConfig::new(5, 0),
            "target_vocab_size is 0, but must be at least 1",
        ),
        (
            base().with_dropout(1.0),
            "dropout is 1, but must be at least 0 and less than 1",
        ),
        (
            base().with_dropout(-0.1),
            "dropout is -0.1, but must be at least 0 and less than 1",
        ),
        (
            base().with_dropout(f64::NAN),
            "dropout is NaN, but must be at least 0 and less than 1",
        ),
        (
            base().with_norm_epsilon(0.0),
            "norm_epsilon is 0, but must be a positive number that float32 can hold",
        ),
        (
            base().with_pad_id(10),
            "pad_id is 10, but must be less than the size of the source vocabulary (10)",
        ),
        (
            base().with_weight_tying(WeightTying::All),
            "weight_tying is all, but must be none or decoder, because the vocabularies have different sizes (10 and 12)",
        ),
        (
            base()
                .with_d_model(9)
                .with_n_heads(3)
                .with_positions(Positions::Rotary),
            "d_model is 9, but must be an even multiple of n_heads (3): rotary positions rotate pairs of dimensions",
        ),
    ];
    let device = Device::flex();
    for (config, message) in cases {
        assert_eq!(config.validate().unwrap_err().to_string(), message);
        assert_eq!(config.init(&device).unwrap_err().to_string(), message);
    }
    let input = InputConfig::new(512).with_vocab_size(Some(0));
    let error = input.init(&device).unwrap_err();
    assert_eq!(error.to_string(), "vocab_size is 0, but must be at least 1");
    for smoothing in [1.0, -0.5, f64::NAN] {
        let error = CrossEntropy::new(smoothing).unwrap_err();
        assert_eq!(error.field, "label_smoothing");
    }
}

#[test]
fn configurations_are_saved_and_loaded() {
    let config = base()
        .with_norm_placement(NormPlacement::Pre)
        .with_weight_tying(WeightTying::Decoder);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("config.json");
    config.save(&path).unwrap();
    assert_eq!(TransformerConfig::load(&path).unwrap(), config);
    let json = std::fs::read_to_string(&path).unwrap();
    assert!(json.contains("\"norm_placement\": \"pre\""), "{json}");
}

#[test]
fn ids_from_outside_are_checked() {
    assert_eq!(check_sequences(&[vec![0, 9], vec![]], 10, 2), Ok(()));
    let error = check_sequences(&[vec![1], vec![2, 10]], 10, 5).unwrap_err();
    assert_eq!(
        error.to_string(),
        "sequence 1, position 1: token id 10 is outside the vocabulary, ids are 0..10"
    );
    let error = check_sequences(&[vec![1, 1, 1]], 10, 2).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("needs 3 positions, but the model's max_len is 2")
    );
    let none: [Vec<u32>; 0] = [];
    assert_eq!(check_sequences(&none, 10, 2), Err(InputError::EmptyBatch));
}
