//! Translates or summarises texts with a pretrained model, read from its Hugging Face folder: T5,
//! BART, mBART, M2M100, NLLB, Pegasus or Marian. The folder needs `config.json`, the weights and
//! `tokenizer.json`, and `hf download t5-small --local-dir t5-small` makes one. These files also set the source and target languages of multilingual models.
//! Without arguments, the program uses a tiny model with random parameters from this project's
//! tests.
//!
//!     cargo run --release --example hugging_face -- FOLDER [TEXT ...]

use std::error::Error;
use std::path::PathBuf;

use burn::tensor::Device;
use training::pretrained::{Languages, PretrainedModel};

const TINY: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../crates/transformer/tests/fixtures/families/m2m_100"
);

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let (folder, languages) = match arguments.next() {
        Some(folder) => (PathBuf::from(folder), Languages::default()),
        None => {
            let languages = Languages {
                source: Some("eng_Latn".into()),
                target: Some("deu_Latn".into()),
            };
            (PathBuf::from(TINY), languages)
        }
    };
    let mut texts: Vec<String> = arguments.collect();
    if texts.is_empty() {
        texts = vec!["w10 w11 w12".into(), "w20".into()];
    }
    let run = PretrainedModel::open(&folder, &languages)?.run(&Device::flex())?;
    println!(
        "{}: {} layers of width {}",
        folder.display(),
        run.config.model.n_decoder_layers,
        run.config.model.d_model
    );

    // The generation settings also come from the folder.
    let (codec, config) = (run.dataset.codec(), run.dataset.search_config());
    let sources = texts.iter().map(|text| codec.encode_source(text));
    let sources = sources.collect::<Result<Vec<_>, _>>()?;
    let prefixes = vec![run.dataset.search().prefix; sources.len()];
    let outputs = run.model.complete(&sources, &prefixes, &config)?;
    for (text, hypotheses) in texts.iter().zip(outputs) {
        println!("{text} -> {}", codec.decode_target(&hypotheses[0].tokens));
    }
    Ok(())
}
