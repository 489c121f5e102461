//! Fine-tunes a model from a Hugging Face folder on pairs of texts, writes the model as a folder
//! that `from_pretrained` loads, reads this folder again and deletes it. Without arguments, it uses
//! a tiny model with random parameters from this project's tests, which learns to copy the first
//! word of a text.
//!
//!     cargo run --release --example fine_tune -- [FOLDER PAIRS.tsv]
//!
//! `train fit --from FOLDER --train PAIRS.tsv` fine-tunes such a model, too, with a dashboard and
//! an evaluation at the end.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use burn::tensor::Device;
use training::config::LoraConfig;
use training::data::{self, DataConfig, Sides};
use training::pretrained::{Languages, PretrainedModel, write_folder};
use training::run::RunFolder;
use training::trainer::{Ending, Trainer, device_of};
use transformer::weights::{self, Contents, Dtype};

const TINY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/transformer/tests/fixtures/families/t5"
);

fn main() -> Result<(), Box<dyn Error>> {
    let work = std::env::temp_dir().join(format!("fine-tune-{}", std::process::id()));
    fs::create_dir_all(&work)?;
    let arguments: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    let (folder, pairs) = match &arguments[..] {
        [folder, pairs] => (folder.clone(), pairs.clone()),
        _ => {
            let word = |i: usize| format!("w{}", 10 + i * 7 % 13);
            let line = |i: usize| format!("{} {}\t{}\n", word(i), word(i / 13), word(i));
            let pairs = work.join("pairs.tsv");
            fs::write(&pairs, (0..169).map(line).collect::<String>())?;
            (PathBuf::from(TINY), pairs)
        }
    };

    // The folder has the model, its tokeniser and settings, but no training data.
    let pretrained = PretrainedModel::open(&folder, &Languages::default())?;
    let layout = pretrained.imported.layout;
    let mut config = pretrained.config.clone();
    if let DataConfig::Text(text) = &mut config.data {
        text.train.source = pairs;
        text.max_length = Sides::both(30);
        text.batch_tokens = 256;
    }
    config.execution.backend = "flex".into();
    if arguments.is_empty() {
        // Random parameters need larger and more steps than trained ones.
        config.optimization.epochs = Some(600);
        config.optimization.schedule.learning_rate = Some(0.005);
    } else {
        // With LoRA, only low-rank matrices beside the weights of the linear layers are trained.
        config.optimization.lora = Some(LoraConfig {
            rank: 8,
            alpha: None,
        });
    }
    let dataset = data::prepare(&mut config.data, &work.join("cache"), 100)?;
    config.fit_to(dataset.as_ref())?;

    let device = device_of(&config, &Device::flex());
    let model = pretrained.transformer(&device)?;
    let run = RunFolder::create_with(Some(&work.join("run")), &config, |run| dataset.save(run))?;
    let trainer = Trainer::of_model(&config, dataset.as_ref(), model, run)?;
    let Ending::Done(trained) = trainer.train(&mut ())? else {
        unreachable!("nothing stops the run");
    };
    let best = trained
        .state
        .best
        .expect("each epoch ends with an evaluation");
    println!("validation loss {:.3} after step {}", best.loss, best.step);

    // Write the trained model as a Hugging Face folder.
    let written = work.join("trained");
    fs::create_dir_all(&written)?;
    let parameters = weights::parameters(&trained.model);
    let theirs = weights::export(&config.model, Contents::Model, &parameters, layout, true)?;
    let metadata = [("format".into(), "pt".into())].into();
    let bytes = weights::to_bytes_with(&theirs, Dtype::F32, &metadata)?;
    fs::write(written.join("model.safetensors"), bytes)?;
    let tokenizer = fs::read(folder.join("tokenizer.json"))?;
    write_folder(
        &written,
        layout,
        &config,
        dataset.as_ref(),
        Some(&tokenizer),
    )?;

    let again = PretrainedModel::open(&written, &Languages::default())?.run(&Device::flex())?;
    let codec = again.dataset.codec();
    let prefix = again.dataset.search().prefix;
    let search = again.dataset.search_config();
    for example in dataset.held_out(0, data::Split::Validation, 3) {
        let output = &again
            .model
            .complete(&[&example.source], &[&prefix], &search)?[0][0]
            .tokens;
        let (source, output) = (
            codec.decode_source(&example.source),
            codec.decode_target(output),
        );
        println!("{source} -> {output}");
    }
    fs::remove_dir_all(&work)?;
    Ok(())
}
