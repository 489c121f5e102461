//! Tests of files with quantised models.
#![cfg(feature = "flex")]

use std::collections::BTreeMap;

use burn::module::{Module, ParamGroup, Quantizer};
use burn::tensor::quantization::{Calibration, QuantValue};
use burn::tensor::{DType, Device, Int, Tensor, TensorData};
use safetensors::tensor::{Dtype as FileDtype, TensorView};
use transformer::weights::{
    Contents, Dtype, ImportOptions, Imported, Layout, WeightsError, WeightsFile, dequantize,
    export, from_bytes, import, metadata, parameters, quantize_int8, to_bytes, to_bytes_with,
    with_parameters,
};
use transformer::{Positions, Transformer, TransformerConfig, WeightTying};

fn config(tying: WeightTying) -> TransformerConfig {
    TransformerConfig::new(24, 24)
        .with_d_model(16)
        .with_n_heads(2)
        .with_d_ff(24)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1)
        .with_weight_tying(tying)
}

/// Returns a model and its quantised copy.
fn models(tying: WeightTying) -> [Transformer; 2] {
    let device = Device::flex();
    let model = config(tying).init_seeded(1, &device).unwrap();
    [model.clone(), quantize_int8(model)]
}

fn logits(model: &Transformer) -> TensorData {
    let ids = Tensor::<2, Int>::from_data([[1, 5, 9, 3], [4, 2, 1, 6]], &Device::flex());
    model.forward(ids.clone(), None, ids).into_data()
}

fn import_bytes(bytes: &[u8]) -> Result<Imported, WeightsError> {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    import(&WeightsFile::open(file.path())?, &ImportOptions::default())
}

#[test]
fn quantised_models_survive_a_file_to_the_last_bit() {
    let _fast_paths = fused::fast_paths(true);
    let device = Device::flex();
    for tying in [WeightTying::None, WeightTying::Decoder, WeightTying::All] {
        let [model, small] = models(tying);
        let bytes = to_bytes(&parameters(&small)).unwrap();
        let of_f32 = to_bytes_with(&parameters(&model), Dtype::Int8, &BTreeMap::new()).unwrap();
        assert_eq!(of_f32, bytes);

        let zeros = config(tying).init_zeros(&device).unwrap();
        let read = with_parameters(&zeros, from_bytes(&bytes).unwrap()).unwrap();
        assert_eq!(parameters(&read), parameters(&small));
        assert_eq!(logits(&read), logits(&small));
        assert_ne!(logits(&read), logits(&model));
        let float = with_parameters(&small, parameters(&model)).unwrap();
        assert_eq!(parameters(&float), parameters(&model));
        assert_eq!(to_bytes(&parameters(&read)).unwrap(), bytes);

        let about = metadata(&config(tying));
        let bytes = to_bytes_with(&parameters(&model), Dtype::Int8, &about).unwrap();
        let imported = import_bytes(&bytes).unwrap();
        assert_eq!(imported.config().unwrap().weight_tying, tying);
        assert_eq!(imported.parameters, parameters(&small));
        let native = export(
            &config(tying),
            Contents::Model,
            &imported.parameters,
            Layout::Native,
            false,
        );
        assert_eq!(native.unwrap(), parameters(&small));
        let read = imported.transformer(&device).unwrap();
        assert_eq!(logits(&read), logits(&small));
    }
}

#[test]
fn a_file_has_a_quarter_of_the_size() {
    let device = Device::flex();
    let config = TransformerConfig::new(500, 500)
        .with_d_model(128)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1);
    let model = parameters(&config.init_seeded(1, &device).unwrap());
    let bytes = |dtype| {
        to_bytes_with(&model, dtype, &BTreeMap::new())
            .unwrap()
            .len()
    };
    let ratio = bytes(Dtype::Int8) as f64 / bytes(Dtype::F32) as f64;
    assert!((0.25..0.28).contains(&ratio), "{ratio}");
}

#[test]
fn other_layouts_and_trained_models_get_f32() {
    let _fast_paths = fused::fast_paths(true);
    let [_, small] = models(WeightTying::None);
    let small = parameters(&small);
    let exact: BTreeMap<_, _> = small
        .iter()
        .map(|(name, data)| (name.clone(), dequantize(data).into_owned()))
        .collect();
    assert!(exact.values().all(|data| data.dtype() == DType::F32));
    let config = config(WeightTying::None);
    let of = |parameters| export(&config, Contents::Model, parameters, Layout::TorchNn, false);
    assert_eq!(of(&small).unwrap(), of(&exact).unwrap());

    let device = Device::flex().autodiff();
    let model = config.init_seeded(2, &device).unwrap();
    let read = with_parameters(&model, small).unwrap();
    for (name, data) in parameters(&read) {
        assert_eq!(data, exact[&name], "{name}");
    }
    let weight = read.decoder.layers[0].feed_forward.w_1.weight.val();
    assert!(weight.is_require_grad());
}

/// Returns the error of reading a file with one matrix of two columns.
///
/// `scales` holds the values and the shape of the matrix's scales; with `None`, the file has no
/// scales.
fn error_of(
    integers: &[i8],
    scales: Option<(&[f32], &[usize])>,
    scales_dtype: FileDtype,
) -> String {
    let name = "encoder.layers.0.feed_forward.w_1.weight";
    let integers: Vec<u8> = integers.iter().map(|w| w.cast_unsigned()).collect();
    let shape = vec![integers.len() / 2, 2];
    let matrix = TensorView::new(FileDtype::I8, shape, &integers).unwrap();
    let mut tensors = vec![(name.to_string(), matrix)];
    let bytes: Vec<u8> = scales
        .iter()
        .flat_map(|(scales, _)| scales.iter().flat_map(|scale| scale.to_le_bytes()))
        .collect();
    if let Some((_, shape)) = scales {
        let scales = TensorView::new(scales_dtype, shape.to_vec(), &bytes).unwrap();
        tensors.push((format!("{name}.scales"), scales));
    }
    let bytes = safetensors::serialize(tensors, None).unwrap();
    from_bytes(&bytes).unwrap_err().to_string()
}

#[test]
fn damaged_matrices_are_named() {
    let good: &[f32] = &[0.5, 0.5];
    let f32 = FileDtype::F32;
    for (integers, scales, dtype, expected) in [
        (&[1, 2, 3, -128][..], Some((good, &[1, 2][..])), f32, "-128"),
        (&[1; 4], None, f32, "is i8, but must be f32"),
        (
            &[1; 4],
            Some((good, &[1, 2])),
            FileDtype::I32,
            "i8 with scales in f32",
        ),
        (&[1; 4], Some((good, &[2])), f32, "shape [2]"),
        (&[1; 6], Some((good, &[2, 1])), f32, "shape [2, 1]"),
        (&[1; 258], Some((good, &[1, 2])), f32, "at most 128"),
        (&[1; 4], Some((&[0.5], &[1, 1])), f32, "shape [1, 1]"),
        (
            &[1; 4],
            Some((&[0.5, f32::NAN], &[1, 2])),
            f32,
            "not finite",
        ),
        (&[1; 4], Some((&[0.5, -0.5], &[1, 2])), f32, "-0.5"),
        // 127 times the scale is infinite.
        (&[1; 4], Some((&[0.5, 3e38], &[1, 2])), f32, "not finite"),
    ] {
        let error = error_of(integers, scales, dtype);
        assert!(error.contains(expected), "{error}: {expected}");
        assert!(error.contains("w_1.weight"), "{error}");
    }
}

#[test]
fn damaged_files_never_panic() {
    let [model, _] = models(WeightTying::None);
    let about = metadata(&config(WeightTying::None));
    let good = to_bytes_with(&parameters(&model), Dtype::Int8, &about).unwrap();
    let mut state = 1u64;
    let mut draw = |below: usize| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 33) as usize % below
    };
    let mut n_rejected = 0;
    for round in 0..600 {
        let mut bytes = good.clone();
        // In two of three rounds, the changed byte is in the header.
        let below = if round % 3 == 0 { good.len() } else { 4000 };
        bytes[draw(below)] = draw(256) as u8;
        if round % 5 == 0 {
            bytes.truncate(draw(good.len()));
        }
        let _ = from_bytes(&bytes);
        match import_bytes(&bytes) {
            Ok(imported) => assert!(
                imported
                    .stacks
                    .config()
                    .is_none_or(|config| config.validate().is_ok())
            ),
            Err(_) => n_rejected += 1,
        }
    }
    assert!(n_rejected > 100, "{n_rejected}");
}

#[test]
fn burns_quantiser_takes_tables_of_positions() {
    let device = Device::flex();
    let scheme = device.settings().quantization.scheme;
    for positions in [Positions::Learned, Positions::Relative] {
        let config = config(WeightTying::None).with_positions(positions);
        let model = config.with_dropout(0.0).init_seeded(1, &device).unwrap();
        let mut quantizer = Quantizer::new(Calibration::MinMax, scheme.with_value(QuantValue::Q8S));
        let matrices = ParamGroup::from_regex("weight$").unwrap();
        quantizer.set_param_group(matrices);
        let small = logits(&model.clone().quantize_weights(&mut quantizer));
        let exact = logits(&model);
        let differs = small.iter::<f32>().zip(exact.iter::<f32>());
        let most = differs.map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
        assert!(most > 0.0 && most < 0.1, "{positions}: {most}");
    }
}
