//! Trains a model to translate between two invented languages, which takes about a minute.
//!
//! The example writes text files, trains a model on them, and prints a translation and its
//! alignment. Nothing has to be downloaded.
//!
//!     cargo run --release --example translate

use std::error::Error;
use std::fs;

use burn::tensor::Device;
use training::config::RunConfig;
use training::data::parallel::{TextConfig, TokenizerKind};
use training::data::{self, DataConfig};
use training::run::RunFolder;
use training::trainer::{Ending, Trainer};
use transformer::generate::{GenerateConfig, LengthPenalty, Method};

#[path = "pseudo_language/language.rs"]
#[allow(dead_code)]
mod language;

use language::pseudo_language;

fn main() -> Result<(), Box<dyn Error>> {
    // Write two corpora, for training and validation, with lines SOURCE<TAB>TARGET.
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

    // Configure a small model and its training.
    let mut config = RunConfig::text("tiny");
    config.data = DataConfig::Text(Box::new(text));
    config.model = config.model.with_d_model(64).with_dropout(0.0);
    config.optimization.epochs = Some(20);
    config.evaluation.validation_size = 100;
    config.execution.backend = "flex".into();

    // Prepare the data: vocabularies, token ids and batches.
    let size = config.evaluation.validation_size;
    let dataset = data::prepare(&mut config.data, &folder.join("cache"), size)?;
    config.fit_to(dataset.as_ref())?;

    let device = Device::flex();
    let run = RunFolder::create_with(Some(&folder.join("run")), &config, |run| dataset.save(run))?;
    let trainer = Trainer::new(&config, dataset.as_ref(), &device, run)?;
    let Ending::Done(trained) = trainer.train(&mut ())? else {
        unreachable!("nothing stops the run");
    };
    let model = &trained.model;

    // Translate a sentence that the model has not seen.
    let codec = dataset.codec();
    let vocabularies = codec.vocabularies();
    let pair = pseudo_language(2, 8);
    let source = codec.encode_source(&pair.source)?;
    let beam = Method::Beam {
        width: 5,
        length_penalty: LengthPenalty::Gnmt { alpha: 0.6 },
    };
    let search = GenerateConfig::new(50)
        .with_bos_id(Some(vocabularies.bos_id))
        .with_eos_id(vocabularies.eos_id)
        .with_method(beam);
    let target = &model.generate(&[&source], &search)?[0][0].tokens;
    println!("\n{}\n{}", pair.source, codec.decode_target(target));
    println!("(reference: {})\n", pair.target);

    // Print the alignment of the words: the cross-attention weights of the last layer, in tenths.
    let last_layer = config.model.n_decoder_layers - 1;
    let alignment = &model.align(&[&source], &[target], vocabularies.bos_id, last_layer)?[0];
    let words: Vec<String> = source.iter().map(|&id| codec.source_token(id)).collect();
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
        println!("{:12} {}", codec.target_token(id), cells(tenths.collect()));
    }

    let test = trained.test()?;
    let bleu = test.scores.texts.map_or(0.0, |scores| scores.bleu);
    println!("\nBLEU {bleu:.1} on 100 unseen sentences");
    fs::remove_dir_all(&folder)?;
    assert!(bleu > 60.0, "the language was not learned");
    Ok(())
}
