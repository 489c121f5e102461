//! A hundred steps on the same batches from the same weights: the losses are PyTorch's.
//!
//! `fixtures/torch_losses/losses.json` is what `torch_losses.py` there computes with
//! `torch.nn.Transformer` and `torch.optim.Adam`. To compute it anew:
//!
//! ```sh
//! TORCH_LOSSES=/tmp/losses cargo test --release -p train --test torch_losses
//! python crates/train/tests/fixtures/torch_losses/torch_losses.py /tmp/losses
//! ```
//!
//! With `TORCH_LOSSES_RUN=RUN`, the batches and first weights of that run are written instead, and
//! `torch_losses.py /tmp/losses RUN/metrics.jsonl` compares its losses.

use std::fs;
use std::path::Path;

use burn::tensor::Device;
use serde_json::{Value, json};
use train::config::{RunConfig, TaskConfig};
use train::defaults::TextSize;
use train::fit::{Ending, fit};
use train::monitor::Nobody;
use train::optimizer::OptimizerConfig;
use train::run_folder::{RunFolder, read_config};
use train::schedule::Schedule;
use train::task::Task;
use train::text::{TextConfig, TextTask, TokenizerKind, pseudo_language};
use transformer::weights::{self, Contents, Layout};
use transformer::{NormPlacement, TransformerConfig};

const STEPS: usize = 100;

/// A run of a small model on a small corpus, in a folder.
fn small(folder: &Path) -> (RunConfig, TextTask) {
    let mut text = TextConfig::new(300, 400);
    text.tokenizer.kind = TokenizerKind::Char;
    for (corpus, name, pairs) in [
        (&mut text.train, "train", 1500),
        (&mut text.valid, "valid", 5),
    ] {
        let pairs = (0..pairs).map(|index| pseudo_language(0, index));
        let lines: String = pairs
            .map(|pair| format!("{}\t{}\n", pair.source, pair.target))
            .collect();
        corpus.source = folder.join(name);
        fs::write(&corpus.source, lines).unwrap();
    }
    let task = TextTask::prepare(&text, &folder.join("cache"), 5).unwrap();
    let mut config = RunConfig::text(TextSize::Tiny);
    config.task = TaskConfig::Text(Box::new(task.config().clone()));
    // All that the losses depend on, so that no default changes them.
    config.model = TransformerConfig::new(0, 0)
        .with_d_model(32)
        .with_n_heads(4)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_d_ff(64)
        .with_dropout(0.0)
        .with_norm_placement(NormPlacement::Pre);
    config.schedule = Schedule::Linear {
        factor: 0.5,
        warmup: 40,
    };
    config.optimizer = OptimizerConfig {
        clip_norm: Some(1.0),
        ..OptimizerConfig::default()
    };
    config.label_smoothing = 0.1;
    config.backend = "flex".into();
    config.epochs = None;
    config.steps = STEPS;
    config.resolve_for(&task).unwrap();
    (config, task)
}

/// What PyTorch needs to take the same steps.
fn write(folder: &Path, config: &RunConfig, task: &dyn Task) {
    fs::create_dir_all(folder).unwrap();
    let model = config
        .model
        .init_seeded(config.seed, &Device::flex())
        .unwrap();
    let parameters = weights::parameters(&model);
    let layout = Layout::TorchNn;
    let theirs =
        weights::export(&config.model, Contents::Model, &parameters, layout, true).unwrap();
    let bytes = weights::to_bytes(&theirs).unwrap();
    fs::write(folder.join("model.safetensors"), bytes).unwrap();
    fs::write(
        folder.join("config.json"),
        serde_json::to_string(config).unwrap(),
    )
    .unwrap();
    let step = |step: usize| {
        let examples = task.batch(config.seed, step, config.batch_size);
        let side = |of: fn(&train::task::Example) -> &Vec<u32>| -> Value {
            examples.iter().map(|example| json!(of(example))).collect()
        };
        let rate = config
            .schedule
            .learning_rate(step, config.steps, config.model.d_model);
        json!({
            "learning_rate": rate,
            "source": side(|example| &example.source),
            "target": side(|example| &example.target),
        })
    };
    let steps: Value = (1..=STEPS).map(step).collect();
    fs::write(folder.join("steps.json"), steps.to_string()).unwrap();
}

#[test]
fn losses_are_pytorchs() {
    let folder = tempfile::tempdir().unwrap();
    let (config, task) = small(folder.path());
    if let Some(path) = std::env::var_os("TORCH_LOSSES") {
        match std::env::var_os("TORCH_LOSSES_RUN") {
            None => write(Path::new(&path), &config, &task),
            Some(run) => {
                let run = Path::new(&run);
                let (config, _) = read_config(run).unwrap();
                let TaskConfig::Text(text) = &config.task else {
                    panic!("{} is no run on texts", run.display());
                };
                let mut task = TextTask::open(run, text).unwrap();
                task.reload(&RunFolder::caches(Some(run)), 5).unwrap();
                write(Path::new(&path), &config, &task);
            }
        }
        return;
    }
    let run = folder.path().join("run");
    let run_folder = RunFolder::create(Some(&run), &config).unwrap();
    let watch = || Box::new(Nobody) as _;
    let ending = fit(&config, &task, &Device::flex(), run_folder, None, watch).unwrap();
    assert!(matches!(ending, Ending::Done(_)));
    let metrics = fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let ours = metrics.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).unwrap();
        line.get("loss").map(|loss| loss.as_f64().unwrap())
    });
    let theirs: Vec<f64> =
        serde_json::from_str(include_str!("fixtures/torch_losses/losses.json")).unwrap();
    let mut steps = 0;
    for (step, (ours, theirs)) in ours.zip(&theirs).enumerate() {
        let difference = (ours - theirs).abs();
        assert!(
            difference < 1e-3,
            "step {}: {ours}, but PyTorch has {theirs}",
            step + 1
        );
        steps += 1;
    }
    assert_eq!((steps, theirs.len()), (STEPS, STEPS));
    // They learn, so that there is something to follow.
    assert!(theirs[STEPS - 1] < theirs[0] - 1.0);
}
