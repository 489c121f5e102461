//! Writes the initial weights and the batches of 100 training steps, with which PyTorch can take
//! the same steps.
//!
//! Without the argument RUN, the steps are those of `crates/training/tests/torch_losses.rs`. With RUN, they are the
//! first steps of the run on texts in that folder, which must begin with random parameters and have
//! one batch per step.
//!
//!     cargo run --release -p examples --example torch_losses -- FOLDER [RUN]
//!     python crates/training/tests/fixtures/torch_losses/torch_losses.py FOLDER [RUN/metrics.jsonl]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use burn::tensor::Device;
use serde_json::{Value, json};
use training::config::RunConfig;
use training::data::{self, Dataset, Example};
use training::run::{RunFolder, read_config};
use transformer::weights::{self, Contents, Layout};

#[path = "../crates/training/tests/fixtures/torch_losses/small.rs"]
mod small;

use small::{STEPS, small};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1).map(PathBuf::from);
    let folder = arguments.next().ok_or("name a folder to write to")?;
    fs::create_dir_all(&folder)?;
    let (config, dataset) = match arguments.next() {
        None => small(&folder),
        Some(run) => {
            let (config, _) = read_config(&run)?;
            let dataset = data::reload(&config.data, &run, &RunFolder::caches(Some(&run)), 5)?;
            (config, dataset)
        }
    };
    write(&folder, &config, dataset.as_ref())
}

/// Writes the initial weights, the settings, and the batches and learning rates of the first 100
/// steps to `folder`. With these files, PyTorch can take the same steps.
fn write(folder: &Path, config: &RunConfig, dataset: &dyn Dataset) -> Result<(), Box<dyn Error>> {
    let model = config.model.init_seeded(config.seed, &Device::flex())?;
    let parameters = weights::parameters(&model);
    let layout = Layout::TorchNn;
    let theirs = weights::export(&config.model, Contents::Model, &parameters, layout, true)?;
    let bytes = weights::to_bytes(&theirs)?;
    fs::write(folder.join("model.safetensors"), bytes)?;
    fs::write(folder.join("config.json"), serde_json::to_string(config)?)?;
    let optimization = &config.optimization;
    let step = |step: usize| {
        let examples = dataset.batch(config.seed, step, optimization.batch_size);
        let side = |of: fn(&Example) -> &Vec<u32>| -> Value {
            examples.iter().map(|example| json!(of(example))).collect()
        };
        let schedule = &optimization.schedule;
        let rate = schedule.rate(step, optimization.steps, config.model.d_model);
        json!({
            "learning_rate": rate,
            "source": side(|example| &example.source),
            "target": side(|example| &example.target),
        })
    };
    let steps: Value = (1..=STEPS).map(step).collect();
    fs::write(folder.join("steps.json"), steps.to_string())?;
    Ok(())
}
