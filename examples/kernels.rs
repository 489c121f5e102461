//! Counts the kernels that a training step and a generated token launch on a GPU, with and without fast
//! paths, beside those of burn-nn's own modules.
//!
//! They are counts, so that a software driver gives those of a GPU. The model has the sizes that
//! `train bench` calls tiny: 2 layers in each stack. Run it with
//! `cargo run --release -p examples --features wgpu --example kernels`.

#[path = "burn_nn/model.rs"]
mod model;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use burn::cubecl::logging::{LaunchObservation, LaunchObserver};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor};
use transformer::generate::{GenerateConfig, LengthPenalty, Method};
use transformer::{CrossEntropy, NormPlacement, TransformerConfig, fused};

use model::Model;

const SIZES: [usize; 5] = [16, 64, 4, 2, 256];
const BATCH: usize = 4;
const LENGTH: usize = 16;

/// How often each kernel was launched.
#[derive(Default)]
struct Launches(Mutex<BTreeMap<&'static str, usize>>);

impl LaunchObserver for Launches {
    fn launched(&self, kernel: &'static str) {
        *self.0.lock().unwrap().entry(kernel).or_default() += 1;
    }
}

/// Returns the number of kernels that `work` launches. The first runs of `work` tune kernels, which
/// launches others.
fn launches(device: &Device, mut work: impl FnMut()) -> usize {
    let mut run = || {
        let launches = Arc::new(Launches::default());
        let watching = LaunchObservation::new(launches.clone());
        work();
        device.sync().expect("the device works");
        drop(watching);
        let launches = launches.0.lock().unwrap();
        if std::env::var_os("KERNELS").is_some() {
            println!("{launches:#?}");
        }
        launches.values().sum()
    };
    for _ in 0..2 {
        run();
    }
    run()
}

/// Takes training steps with a model and a function that returns its loss.
fn training<M: Module>(device: &Device, model: M, loss: impl Fn(&M) -> Tensor<1>) -> usize {
    let mut model = Some(model);
    let mut adam = AdamConfig::new().init();
    launches(device, || {
        let before = model.take().expect("it was put back");
        let gradients = GradientsParams::from_grads(loss(&before).backward(), &before);
        model = Some(adam.step(1e-4, before, gradients));
    })
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::wgpu(Default::default());
    let autodiff = device.clone().autodiff();
    let [vocab_size, d_model, n_heads, n_layers, d_ff] = SIZES;
    let ids = Tensor::<1, Int>::arange(0..(BATCH * LENGTH) as i64, &autodiff) % 13 + 3;
    let ids = ids.reshape([BATCH, LENGTH]);

    println!("{:44}{:>8}", "kernels of", "");
    let burn_nn = CrossEntropyLossConfig::new().init(&autodiff);
    let step = training(&autodiff, Model::new(SIZES, &autodiff), |model| {
        let logits = model.forward(ids.clone(), ids.clone());
        burn_nn.forward(
            logits.reshape([-1, vocab_size as i32]),
            ids.clone().reshape([-1]),
        )
    });
    println!("{:44}{step:8}", "a training step of burn-nn");

    let config = TransformerConfig::new(vocab_size, vocab_size)
        .with_d_model(d_model)
        .with_n_heads(n_heads)
        .with_n_encoder_layers(n_layers)
        .with_n_decoder_layers(n_layers)
        .with_d_ff(d_ff)
        .with_norm_placement(NormPlacement::Pre);
    for (paths, is_fused) in [("", true), (", fast paths off", false)] {
        let _paths = fused::fast_paths(is_fused);
        let criterion = CrossEntropy::new(0.0)?;
        let step = training(&autodiff, config.init_seeded(0, &autodiff)?, |model| {
            let ids = || ids.clone();
            model
                .loss(ids(), None, ids(), ids(), &criterion, None)
                .mean()
        });
        println!("{:44}{step:8}", format!("a training step{paths}"));

        let model = config.init_seeded(0, &device)?;
        let source = [3, 4, 5, 6, 7, 8, 9, 10];
        for width in [1, 5] {
            let length_penalty = LengthPenalty::Average;
            let method = match width {
                1 => Method::Greedy,
                _ => Method::Beam {
                    width,
                    length_penalty,
                },
            };
            // Eight tokens more, without what happens once.
            let [less, more] = [8, 16].map(|length| {
                let config = GenerateConfig::new(length)
                    .with_bos_id(Some(1))
                    .with_method(method);
                launches(&device, || drop(model.generate(&[source; BATCH], &config)))
            });
            let token = (more - less) as f64 / 8.0;
            println!(
                "{:44}{token:8}",
                format!("a step of a beam of {width}{paths}")
            );
        }
    }
    Ok(())
}
