//! Trains a model to reverse digits with burn-train: its data loader, metrics, learner and
//! checkpoints. Then loads the last checkpoint, and generates.
//!
//!     cargo run --release --example burn_train

use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::optim::AdamConfig;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{Learner, SupervisedTraining};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::sync::Arc;
use transformer::generate::GenerateConfig;
use transformer::supervised::{PairBatch, PairBatcher};
use transformer::{NormPlacement, TransformerConfig, weights};

/// Padding, begin and end symbol; digit `d` is token `3 + d`.
const PAD: u32 = 0;
const BOS: u32 = 1;
const EOS: u32 = 2;
const EPOCHS: usize = 5;

/// Returns `n` random numbers of three to seven digits, each with its reverse.
fn pairs(n: usize, seed: u64) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut pair = || {
        let length = rng.random_range(3..8);
        let source: Vec<u32> = (0..length).map(|_| rng.random_range(3..13)).collect();
        let target = source.iter().rev().copied().collect();
        (source, target)
    };
    (0..n).map(|_| pair()).collect()
}

fn loader(batcher: PairBatcher, n: usize, seed: u64) -> Arc<dyn DataLoader<PairBatch>> {
    DataLoaderBuilder::new(batcher)
        .batch_size(64)
        .shuffle(seed)
        .build(InMemDataset::new(pairs(n, seed)))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let config = TransformerConfig::new(13, 13)
        .with_d_model(64)
        .with_n_heads(4)
        .with_d_ff(128)
        .with_n_encoder_layers(1)
        .with_n_decoder_layers(1)
        .with_dropout(0.0)
        .with_max_len(32)
        .with_norm_placement(NormPlacement::Pre);
    let model = config.init(&device)?;

    let folder = std::env::temp_dir().join(format!("burn-train-{}", std::process::id()));
    let batcher = PairBatcher::new(BOS, EOS).with_pad_id(PAD);
    let smoothed = batcher.clone().with_label_smoothing(0.1)?;
    let accuracy = AccuracyMetric::new().with_pad_token(PAD as usize);
    let training =
        SupervisedTraining::new(&folder, loader(smoothed, 6000, 1), loader(batcher, 300, 2))
            .metrics((accuracy, LossMetric::new()))
            .with_default_checkpointers()
            .num_epochs(EPOCHS)
            .summary();
    let trained = training.launch(Learner::new(model, AdamConfig::new().init(), 3e-3));

    // The checkpoint of the last epoch is a record of the model, as of any Burn module.
    let inference = Device::flex();
    let checkpoint = folder.join(format!("checkpoint/model-{EPOCHS}"));
    let model = config.init_zeros(&inference)?.load_file(checkpoint);
    assert_eq!(
        weights::parameters(&model),
        weights::parameters(&trained.model)
    );

    let search = GenerateConfig::new(16)
        .with_bos_id(Some(BOS))
        .with_eos_id(Some(EOS));
    let (sources, targets): (Vec<_>, Vec<_>) = pairs(100, 3).into_iter().unzip();
    let found = model.generate(&sources, &search)?;
    let both = targets.iter().zip(&found);
    let right = both.filter(|(target, found)| found[0].tokens == **target);
    let right = right.count();
    println!("{right} of {} numbers are reversed", targets.len());
    assert!(right >= 70, "the model did not learn");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
