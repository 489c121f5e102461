//! Tests that reading damaged or malicious files of weights never panics.
//!
//! The folder `fuzz` has similar checks for a fuzzer.

use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use transformer::weights::{ImportOptions, WeightsFile, import, recognise};

const FILES: [&str; 8] = [
    "torch_nn.safetensors",
    "marian.safetensors",
    "torch_nn_bf16.safetensors",
    "paper.pt",
    "paper_checkpoint.pt",
    "torch_nn_pre.pt",
    "marian_f16.pt",
    "evil_system.pt",
];

fn read(bytes: &[u8]) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bytes).unwrap();
    let Ok(file) = WeightsFile::open(file.path()) else {
        return;
    };
    for allow_unused in [false, true] {
        let options = ImportOptions {
            n_heads: Some(3),
            allow_unused,
            ..Default::default()
        };
        let _ = recognise(&file, &options);
        if let Ok(imported) = import(&file, &options) {
            // A file that is accepted must hold a valid model.
            assert!(
                imported
                    .stacks
                    .config()
                    .is_none_or(|config| config.validate().is_ok())
            );
            assert!(!imported.parameters.is_empty());
        }
    }
}

fn fixture(index: usize) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/layouts");
    std::fs::read(folder.join(FILES[index])).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..Default::default() })]

    #[test]
    fn files_with_changed_bytes_never_panic(
        index in 0..FILES.len(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        // Where bytes change: anywhere (0), near the beginning, where safetensors files have their
        // header (1), or near the end, where archives have their directory (2).
        at in 0..3,
    ) {
        let mut bytes = fixture(index);
        for (place, value) in changes {
            let length = bytes.len();
            let place = match at {
                0 => place.index(length),
                1 => place.index(length.min(4000)),
                _ => length - 1 - place.index(length.min(6000)),
            };
            bytes[place] = value;
        }
        read(&bytes);
    }

    #[test]
    fn truncated_files_never_panic(index in 0..FILES.len(), end in any::<prop::sample::Index>()) {
        let bytes = fixture(index);
        read(&bytes[..end.index(bytes.len())]);
    }

    #[test]
    fn headers_with_any_offsets_never_panic(
        shape in prop::collection::vec(any::<u64>(), 0..4),
        from in any::<u64>(),
        to in any::<u64>(),
        data in 0usize..64,
    ) {
        let header = format!(
            r#"{{"encoder.layers.0.self_attn.w_q.weight":{{"dtype":"F32","shape":{shape:?},"data_offsets":[{from},{to}]}}}}"#
        );
        let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
        bytes.extend(header.as_bytes());
        bytes.extend(vec![1; data]);
        read(&bytes);
    }

    #[test]
    fn pickles_of_any_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut pickle = vec![0x80, 2];
        pickle.extend(bytes);
        read(&pickle);
    }
}
