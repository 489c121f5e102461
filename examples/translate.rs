//! A translation model, from text files to a translation and its alignment, in about a minute: of a
//! language that nobody speaks, so that nothing must be downloaded.
//!
//!     cargo run --release -p examples --example translate

use std::error::Error;
use std::fs;

use burn::module::Module;
use burn::tensor::Device;
use train::config::{RunConfig, TaskConfig};
use train::defaults::TextSize;
use train::fit::{Ending, fit};
use train::monitor::Plain;
use train::run_folder::RunFolder;
use train::task::Task;
use train::text::{TextConfig, TextTask, TokenizerKind, pseudo_language};
use transformer::generate::{GenerateConfig, LengthPenalty, Method};

fn main() -> Result<(), Box<dyn Error>> {
    // Two corpora, lines SOURCE<TAB>TARGET.
    let folder = std::env::temp_dir().join(format!("translate-{}", std::process::id()));
    fs::create_dir_all(&folder)?;
    let mut text = TextConfig::new(1000, 2048);
    text.tokenizer.kind = TokenizerKind::Word;
    for (corpus, seed, pairs) in [(&mut text.train, 0, 4000), (&mut text.valid, 1, 100)] {
        let pairs = (0..pairs).map(|index| pseudo_language(seed, index));
        let lines: String = pairs
            .map(|pair| format!("{}\t{}\n", pair.source, pair.target))
            .collect();
        corpus.source = folder.join(format!("{seed}.tsv"));
        fs::write(&corpus.source, lines)?;
    }

    // Vocabularies, token ids, batches.
    let task = TextTask::prepare(&text, &folder.join("cache"), 100)?;

    // A small model, and what it is trained with.
    let mut config = RunConfig::text(TextSize::Tiny);
    config.task = TaskConfig::Text(Box::new(task.config().clone()));
    config.model = config.model.with_d_model(64).with_dropout(0.0);
    config.backend = "flex".into();
    config.epochs = Some(20);
    config.resolve_for(&task)?;
    let run = RunFolder::create_with(Some(&folder.join("run")), &config, |run| {
        task.save_tokenizers(run)
    })?;
    let watch = || Box::new(Plain::new(0, config.steps)) as _;
    let ending = fit(&config, &task, &Device::flex(), run, None, watch)?;
    let Ending::Done(trained) = ending else {
        println!("stopped, and saved");
        return Ok(());
    };

    // A sentence that it has not seen.
    let pair = pseudo_language(2, 8);
    let source = task.parse_source(&pair.source)?;
    let beam = Method::Beam {
        width: 5,
        length_penalty: LengthPenalty::Gnmt { alpha: 0.6 },
    };
    let search = GenerateConfig::new(task.bos_id(), 50)
        .with_eos_id(task.eos_id())
        .with_method(beam);
    let model = trained.model.valid();
    let target = &model.generate(&[&source], &search)?[0][0].tokens;
    println!("\n{}\n{}", pair.source, task.show(target));
    println!("(should be: {})\n", pair.target);

    // What each word was made from: the cross-attention of the last layer, in tenths.
    let last_layer = config.model.n_decoder_layers - 1;
    let alignment = &model.align(&[&source], &[target], task.bos_id(), last_layer)?[0];
    let words: Vec<String> = source.iter().map(|&id| task.source_token(id)).collect();
    let cells = |cells: Vec<String>| cells.join(" ");
    let header = cells(words.iter().map(|word| format!("{word:>7}")).collect());
    println!("{:12} {header}", "");
    for (&id, weights) in target.iter().zip(alignment) {
        let tenths = weights.iter().zip(&words).map(|(weight, word)| {
            let width = word.chars().count().max(7);
            let text = match (10.0 * weight).round() as u32 {
                0 => String::from("."),
                tenths => tenths.to_string(),
            };
            format!("{text:>width$}")
        });
        println!("{:12} {}", task.token(id), cells(tenths.collect()));
    }

    let bleu = trained.close()?.bleu.unwrap_or(0.0);
    println!("\nBLEU {bleu:.1} on 100 unseen sentences");
    fs::remove_dir_all(&folder)?;
    assert!(bleu > 60.0, "the language was not learned");
    Ok(())
}
