//! A character-level language model: a decoder without cross-attention, with grouped-query
//! attention and rotary positions, trained for half a minute on pages of this project's
//! documentation.
//!
//!     cargo run --release --example language_model

use std::error::Error;

use burn::module::Module;
use burn::optim::{AdamWConfig, GradientsParams};
use burn::tensor::{Device, Int, Tensor, TensorData};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use transformer::generate::{GenerateConfig, Method};
use transformer::{Activation, CrossEntropy, DecoderConfig, NormKind, NormPlacement, Positions};

const TEXT: &str = concat!(
    include_str!("../docs/architecture.md"),
    include_str!("../docs/performance.md"),
    include_str!("../docs/text.md"),
    include_str!("../docs/weights.md"),
    include_str!("../docs/scaling.md"),
    include_str!("../docs/tutorial.md"),
);

/// Number of characters in a training sequence.
const LENGTH: usize = 96;
/// Number of sequences in a batch.
const BATCH: usize = 16;
const STEPS: usize = 300;

fn main() -> Result<(), Box<dyn Error>> {
    // The tokens are the different characters of the text, and nothing else.
    let mut characters: Vec<char> = TEXT.chars().collect();
    characters.sort_unstable();
    characters.dedup();
    let id = |c: char| characters.binary_search(&c).expect("it is in the text") as u32;
    let ids: Vec<u32> = TEXT.chars().map(id).collect();
    let (train, held_out) = ids.split_at(ids.len() * 19 / 20);

    // The choices are those of Llama: RMS normalisation before each sublayer, a gated activation,
    // no biases, and one key-value head for every four query heads.
    let mut config = DecoderConfig::new(characters.len(), 128, 344, 8, 3)
        .with_cross_attention(false)
        .with_positions(Positions::Rotary)
        .with_max_len(512)
        .with_norm(NormKind::Rms, 1e-5)
        .with_norm_placement(NormPlacement::Pre)
        .with_activation(Activation::Swiglu)
        .with_biases(false)
        .with_dropout(0.0);
    config.layer.attention.n_kv_heads = Some(2);
    config.generator.bias = false;
    let device = Device::flex().autodiff();
    device.seed(42);
    let mut model = config.init(&device)?;
    let criterion = CrossEntropy::new(0.0)?;
    let mut optimizer = AdamWConfig::new().init();

    // Returns the mean loss of the sequences of `text` that begin at the indices `places`.
    let loss = |model: &transformer::Decoder, text: &[u32], places: &[usize]| {
        let device = model.input.table().device();
        let tensor = |shift: usize| {
            let ids = places
                .iter()
                .flat_map(|place| &text[place + shift..][..LENGTH]);
            let ids: Vec<i64> = ids.map(|&id| i64::from(id)).collect();
            Tensor::<2, Int>::from_data(TensorData::new(ids, [places.len(), LENGTH]), &device)
        };
        let loss = model.loss(None, tensor(0), tensor(1), &criterion, None);
        loss.mean()
    };
    let places_held_out: Vec<usize> = (0..held_out.len() - LENGTH).step_by(LENGTH).collect();
    let evaluate = |model: &transformer::Decoder| {
        let loss = loss(&model.valid(), held_out, &places_held_out);
        loss.into_scalar::<f32>()
    };

    let mut rng = StdRng::seed_from_u64(1);
    println!(
        "before training: {:.2} nats per character",
        evaluate(&model)
    );
    for step in 1..=STEPS {
        let places: Vec<usize> = (0..BATCH)
            .map(|_| rng.random_range(0..train.len() - LENGTH))
            .collect();
        let loss = loss(&model, train, &places);
        let gradients = GradientsParams::from_grads(loss.backward(), &model);
        let learning_rate = 3e-3 * (1.0 - step as f64 / STEPS as f64).min(step as f64 / 30.0);
        model = optimizer.step(learning_rate, model, gradients);
        if step % 100 == 0 {
            println!("step {step}: {:.2} nats per character", evaluate(&model));
        }
    }

    // Continue a text, without a begin symbol, with characters drawn from the model's distribution at temperature 0.5.
    let prompt = "The model ";
    let search = GenerateConfig::new(120).with_method(Method::Sample {
        temperature: 0.5,
        top_k: None,
        top_p: None,
        seed: 1,
        first_source: 0,
    });
    let prefix: Vec<u32> = prompt.chars().map(id).collect();
    let tokens = &model.valid().complete(None, &[prefix], &search)?[0][0].tokens;
    let character = |&id: &u32| characters[id as usize];
    println!("{}", tokens.iter().map(character).collect::<String>());
    let last = evaluate(&model);
    assert!(
        last < 2.5,
        "the text was not learned: {last} nats per character"
    );
    Ok(())
}
