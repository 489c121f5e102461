//! Tests that reading or writing weights does not hold a second copy of the parameters in memory.
#![allow(unsafe_code)] // The allocator that counts implements an unsafe trait.

use std::fs::File;

use burn::tensor::Device;
use transformer::weights::{
    Contents, Dtype, ImportOptions, Layout, Parameters, WeightsFile, export, import, parameters,
    read_file, write,
};
use transformer::{TransformerConfig, WeightTying};

#[path = "../../fused/tests/common/allocations.rs"]
#[allow(dead_code)]
mod allocations;

use allocations::peak_of;

/// Maximum number of bytes in addition to the parameters, for chunks of tensors, names, and small
/// tensors of layers.
const BESIDE: usize = 2 << 20;

fn write_to(folder: &tempfile::TempDir, parameters: &Parameters) -> std::path::PathBuf {
    let path = folder.path().join("model.safetensors");
    let mut file = File::create(&path).unwrap();
    write(&mut file, parameters, Dtype::F32, &Default::default()).unwrap();
    path
}

// This file has only one test, so that no other test allocates at the same time.
#[test]
fn a_model_is_in_memory_once() {
    let device = Device::flex();
    let config = TransformerConfig::new(60_000, 60_000)
        .with_d_model(64)
        .with_n_heads(4)
        .with_d_ff(4096)
        .with_n_encoder_layers(4)
        .with_n_decoder_layers(4)
        .with_weight_tying(WeightTying::All);
    let model = config.init_seeded(1, &device).unwrap();
    let own = parameters(&model);
    let bytes = |parameters: &Parameters| -> usize {
        let sizes = parameters.values().map(|data| data.as_bytes().len());
        sizes.sum()
    };
    let size = bytes(&own);
    drop(model);

    let folder = tempfile::tempdir().unwrap();
    let mut path = Default::default();
    let peak = peak_of(|| path = write_to(&folder, &own));
    assert!(peak < BESIDE, "writing takes {peak} bytes");
    let mut read = Parameters::new();
    let peak = peak_of(|| read = read_file(&File::open(&path).unwrap()).unwrap());
    assert!(read == own && peak < size + BESIDE, "reading: {peak} bytes");
    drop(read);

    // The native file holds the shared matrix once. The file of `torch.nn` holds two copies of the
    // shared embedding table, and a separate generator. The file of T5 holds the matrix once, too,
    // but two rules of this layout read it for the decoder. All other tensors of this T5 are small,
    // so that a second copy of the matrix would be the peak.
    let t5 = TransformerConfig::new(60_000, 60_000)
        .with_d_model(64)
        .with_n_heads(4)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1);
    let t5 = Layout::T5.choices(t5).unwrap();
    for (layout, tying, config) in [
        (Layout::Native, WeightTying::All, &config),
        (Layout::TorchNn, WeightTying::Embeddings, &config),
        (Layout::T5, WeightTying::All, &t5),
    ] {
        let config = config.clone().with_weight_tying(tying);
        let mut tensors = parameters(&config.init_zeros(&device).unwrap());
        if layout != Layout::T5 {
            tensors.extend(own.clone());
        }
        let mut tensors = export(&config, Contents::Model, &tensors, layout, true).unwrap();
        // For T5, `transformers` writes the matrix only as `shared.weight`.
        tensors.retain(|name, _| !name.contains("embed_tokens") && name != "lm_head.weight");
        let path = write_to(&folder, &tensors);
        drop(tensors);
        let options = ImportOptions {
            n_heads: Some(4),
            ..Default::default()
        };
        let mut model = None;
        let peak = peak_of(|| {
            let file = WeightsFile::open(&path).unwrap();
            let imported = import(&file, &options).unwrap();
            assert_eq!(imported.config().unwrap().weight_tying, tying);
            model = Some(imported.transformer(&device).unwrap());
        });
        let size = bytes(&parameters(&model.unwrap()));
        // Each thread has a chunk of its own, as bytes and as elements.
        let threads = std::thread::available_parallelism().unwrap().get();
        assert!(
            peak < size + BESIDE + threads * (1 << 19),
            "{layout}: {peak} bytes for a model of {size}"
        );
    }
}
