//! Counts the kernels that a training step and a generated token launch on a GPU, with and without fast
//! paths, beside those of burn-nn's own modules.
//!
//! They are counts, so that a software driver gives those of a GPU. The model has the sizes that
//! `train bench` calls tiny: 2 layers in each stack. Run it with
//! `cargo run --release -p examples --features wgpu --example kernels`. With `operations` as its
//! argument, it counts those of each operation of `fused` that has a backward pass for GPUs.

#[path = "burn_nn/model.rs"]
mod model;

use std::collections::BTreeMap;
use std::error::Error;
use std::sync::{Arc, Mutex};

use burn::cubecl::logging::{LaunchObservation, LaunchObserver};
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};

use transformer::fused::{Activation, Function};
use transformer::generate::{GenerateConfig, LengthPenalty, Method};
use transformer::{
    AttentionConfig, AttentionMask, CrossEntropy, NormPlacement, TransformerConfig, fused,
};

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

/// Prints the kernels of a forward and a backward pass of each operation, with its own backward pass
/// and with that of Burn's autodiff.
fn operations(device: &Device) -> Result<(), Box<dyn Error>> {
    let [vocab_size, d_model, n_heads, _, d_ff] = SIZES;
    let rows = BATCH * LENGTH;
    let random = |shape: [usize; 2]| {
        Tensor::<2>::random(shape, Distribution::Normal(0.0, 1.0), device).require_grad()
    };
    let (x, y, wide) = (
        random([rows, d_model]),
        random([rows, d_model]),
        random([rows, d_ff]),
    );
    let [gamma, beta] = [
        Tensor::<1>::ones([d_model], device),
        Tensor::zeros([d_model], device),
    ];
    let [gamma, beta] = [gamma, beta].map(Tensor::require_grad);
    let (logits, target) = (
        random([rows, vocab_size]),
        Tensor::<1, Int>::arange(0..rows as i64, device) % 13,
    );
    let (weight, bias) = (
        random([d_model, vocab_size]),
        Tensor::<1>::zeros([vocab_size], device).require_grad(),
    );
    let attention = AttentionConfig::new(d_model, n_heads);
    let own = attention.init_self_attention(device)?;
    let cross = attention.init_cross_attention(device)?;
    let states = || x.clone().reshape([BATCH, LENGTH, d_model]);
    let mask = AttentionMask::causal(LENGTH, device);
    let activation = |function, is_gated| Activation { function, is_gated };
    let (gelu, swish) = (
        activation(Function::Gelu, false),
        activation(Function::Swish, true),
    );
    let work: [(&str, &dyn Fn() -> Tensor<1>); 13] = [
        ("relu", &|| fused::relu(wide.clone(), 0.0).sum()),
        ("relu and dropout", &|| fused::relu(wide.clone(), 0.1).sum()),
        ("gelu", &|| fused::activate(wide.clone(), gelu, 0.0).sum()),
        ("gated swish", &|| {
            fused::activate(wide.clone(), swish, 0.0).sum()
        }),
        ("layer norm", &|| {
            fused::layer_norm(x.clone(), gamma.clone(), beta.clone(), 1e-5).sum()
        }),
        ("residual and dropout", &|| {
            fused::residual(x.clone(), y.clone(), 0.1).sum()
        }),
        ("residual, dropout and norm", &|| {
            fused::residual_norm(x.clone(), y.clone(), gamma.clone(), beta.clone(), 0.1, 1e-5).sum()
        }),
        ("cross-entropy", &|| {
            fused::cross_entropy(logits.clone(), target.clone(), 0.0)
                .0
                .sum()
        }),
        ("cross-entropy, smoothed", &|| {
            fused::cross_entropy(logits.clone(), target.clone(), 0.1)
                .0
                .sum()
        }),
        ("linear and cross-entropy, in two parts", &|| {
            let (x, weight) = (x.clone(), weight.clone());
            let target = target.clone();
            fused::linear_cross_entropy(x, weight, bias.clone(), target, 0.0, rows / 2)
                .0
                .sum()
        }),
        ("self-attention", &|| {
            own.forward(states(), None, None).sum()
        }),
        ("self-attention, causal", &|| {
            own.forward(states(), Some(&mask), None).sum()
        }),
        ("cross-attention", &|| {
            cross.forward(states(), states(), None).sum()
        }),
    ];
    println!("{:44}{:>8}{:>8}", "kernels of", "own", "Burn's");
    for (name, work) in work {
        let count = |is_fused| {
            let _paths = fused::fast_paths(is_fused);
            launches(device, || drop(work().backward()))
        };
        println!("{name:44}{:8}{:8}", count(true), count(false));
    }
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let device = Device::wgpu(Default::default());
    let autodiff = device.clone().autodiff();
    if std::env::args()
        .nth(1)
        .is_some_and(|what| what == "operations")
    {
        return operations(&autodiff);
    }
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
