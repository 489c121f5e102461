//! A custom module that contains the encoder: a classifier of sequences. It is trained for a few
//! steps to tell whether a sequence contains token 7.
//!
//!     cargo run --release -p examples --example custom_module

use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::{AdamConfig, GradientsParams};
use burn::tensor::{Device, Distribution, Int, Tensor};
use transformer::{AttentionMask, ConfigError, Encoder, TransformerConfig};

/// A classifier that holds an encoder. Any Burn module may hold an encoder, which is then saved,
/// moved and trained together with the module.
#[derive(Module, Debug)]
struct Classifier {
    encoder: Encoder,
    output: Linear,
}

impl Classifier {
    fn new(device: &Device) -> Result<Self, ConfigError> {
        let config = TransformerConfig::new(20, 20)
            .with_d_model(32)
            .with_n_heads(4)
            .with_d_ff(64)
            .with_n_encoder_layers(1)
            .with_dropout(0.0)
            .with_max_len(16);
        Ok(Self {
            encoder: config.init_encoder(device)?,
            output: LinearConfig::new(32, 2).init(device),
        })
    }

    /// Returns the logits of the two classes, `[B, 2]`, for token ids `[B, S]`. The logits are
    /// computed from the mean of the encoder's output over the positions that are not padding.
    fn forward(&self, ids: Tensor<2, Int>) -> Tensor<2> {
        let mask = AttentionMask::padding(&ids, 0);
        let is_token = ids.clone().not_equal_elem(0).float().unsqueeze_dim::<3>(2);
        let memory = self.encoder.forward(ids, Some(&mask));
        let mean = (memory * is_token.clone()).sum_dim(1) / is_token.sum_dim(1);
        self.output.forward(mean.squeeze_dim::<2>(1))
    }
}

fn main() -> Result<(), ConfigError> {
    let device = Device::flex().autodiff();
    device.seed(42);
    let mut model = Classifier::new(&device)?;
    let mut optimizer = AdamConfig::new().init();
    let criterion = CrossEntropyLossConfig::new().init(&device);
    println!("parameters: {}", model.num_params());

    let mut last = f32::INFINITY;
    for step in 0..=150 {
        let ids = Tensor::<2, Int>::random([64, 12], Distribution::Uniform(1.0, 20.0), &device);
        let has_7 = ids
            .clone()
            .equal_elem(7)
            .any_dim(1)
            .int()
            .squeeze_dim::<1>(1);
        let loss = criterion.forward(model.forward(ids), has_7);
        last = loss.clone().into_scalar::<f32>();
        if step % 50 == 0 {
            println!("step {step:3}: loss {last:.4}");
        }
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        model = optimizer.step(3e-3, model, gradients);
    }
    assert!(last < 0.3, "the classifier did not learn: loss {last}");
    Ok(())
}
