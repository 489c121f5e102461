//! An encoder in a module of one's own: a classifier of signals, trained by burn-train. A signal is
//! a sequence of vectors with two pulses, and its class says which of them comes first, so that
//! positions matter.
//!
//!     cargo run --release --example classifier

use burn::data::dataloader::{DataLoaderBuilder, batcher::Batcher};
use burn::data::dataset::InMemDataset;
use burn::module::Module;
use burn::nn::loss::CrossEntropyLossConfig;
use burn::nn::{Linear, LinearConfig};
use burn::optim::AdamConfig;
use burn::tensor::{Device, Int, Tensor, TensorData};
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{
    ClassificationOutput, InferenceStep, Learner, SupervisedTraining, TrainOutput, TrainStep,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use transformer::{AttentionMask, ConfigError, Encoder, EncoderConfig, NormPlacement};

/// Values of a frame of a signal.
const CHANNELS: usize = 3;

#[derive(Clone, Debug)]
struct Signal {
    frames: Vec<[f32; CHANNELS]>,
    class: i64,
}

fn signals(n: usize, seed: u64) -> Vec<Signal> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut signal = || {
        let length = rng.random_range(6..16);
        let noise = |_| std::array::from_fn(|_| rng.random_range(-0.5..0.5));
        let mut frames: Vec<[f32; CHANNELS]> = (0..length).map(noise).collect();
        let [first, second] = [rng.random_range(0..3), rng.random_range(3..length)];
        let class = rng.random_range(0..2);
        frames[first][class] += 3.0;
        frames[second][1 - class] += 3.0;
        Signal {
            frames,
            class: class as i64,
        }
    };
    (0..n).map(|_| signal()).collect()
}

#[derive(Clone, Debug)]
struct Batch {
    /// `[B, S, CHANNELS]`
    frames: Tensor<3>,
    lengths: Vec<usize>,
    classes: Tensor<1, Int>,
}

#[derive(Clone)]
struct SignalBatcher;

impl Batcher<Signal, Batch> for SignalBatcher {
    fn batch(&self, signals: Vec<Signal>, device: &Device) -> Batch {
        let lengths: Vec<usize> = signals.iter().map(|signal| signal.frames.len()).collect();
        let longest = lengths.iter().copied().max().unwrap_or(0);
        let padded = signals.iter().flat_map(|signal| {
            let padding = std::iter::repeat_n([0.0; CHANNELS], longest - signal.frames.len());
            signal.frames.iter().copied().chain(padding).flatten()
        });
        let frames = TensorData::new(padded.collect(), [signals.len(), longest, CHANNELS]);
        let classes: Vec<i64> = signals.iter().map(|signal| signal.class).collect();
        Batch {
            frames: Tensor::from_data(frames, device),
            lengths,
            classes: Tensor::from_data(classes.as_slice(), device),
        }
    }
}

/// Any Burn module may hold an encoder, which is then saved, moved and trained with it.
#[derive(Module, Debug)]
struct Classifier {
    input: Linear,
    encoder: Encoder,
    output: Linear,
}

impl Classifier {
    fn new(device: &Device) -> Result<Self, ConfigError> {
        let config = EncoderConfig::new(32, 64, 4, 2)
            .with_norm_placement(NormPlacement::Pre)
            .with_max_len(64);
        Ok(Self {
            input: LinearConfig::new(CHANNELS, 32).init(device),
            encoder: config.init(device)?,
            output: LinearConfig::new(32, 2).init(device),
        })
    }

    /// Returns the logits of the classes, `[B, 2]`, from the state of the first frame.
    fn forward(&self, frames: Tensor<3>, lengths: &[usize]) -> Tensor<2> {
        let mask = AttentionMask::of_lengths(lengths, &frames.device());
        let states = self.input.forward(frames);
        let states = self.encoder.forward_vectors(states, Some(&mask));
        self.output.forward(states.narrow(1, 0, 1).squeeze_dim(1))
    }
}

impl InferenceStep for Classifier {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> ClassificationOutput {
        let logits = self.forward(batch.frames, &batch.lengths);
        let criterion = CrossEntropyLossConfig::new().init(&logits.device());
        let loss = criterion.forward(logits.clone(), batch.classes.clone());
        ClassificationOutput::new(loss, logits, batch.classes)
    }
}

impl TrainStep for Classifier {
    type Input = Batch;
    type Output = ClassificationOutput;

    fn step(&self, batch: Batch) -> TrainOutput<ClassificationOutput> {
        let output = InferenceStep::step(self, batch);
        TrainOutput::new(self, output.loss.backward(), output)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let device = Device::flex().autodiff();
    device.seed(7);
    let folder = std::env::temp_dir().join(format!("classifier-{}", std::process::id()));
    let loader = |n, seed| {
        let builder = DataLoaderBuilder::new(SignalBatcher).batch_size(32);
        builder
            .shuffle(seed)
            .build(InMemDataset::new(signals(n, seed)))
    };
    let training = SupervisedTraining::new(&folder, loader(2000, 1), loader(300, 2))
        .metrics((AccuracyMetric::new(), LossMetric::new()))
        .num_epochs(4)
        .summary();
    let model = Classifier::new(&device)?;
    let trained = training.launch(Learner::new(model, AdamConfig::new().init(), 3e-3));

    let batch = SignalBatcher.batch(signals(200, 3), &Device::flex());
    let classes = trained
        .model
        .forward(batch.frames, &batch.lengths)
        .argmax(1);
    let right = classes.squeeze_dim::<1>(1).equal(batch.classes).float();
    let right: f32 = right.mean().into_scalar();
    println!("{:.1} % of new signals are classified", 100.0 * right);
    assert!(right > 0.95, "the classifier did not learn");
    std::fs::remove_dir_all(&folder)?;
    Ok(())
}
