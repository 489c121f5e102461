//! Writes a corpus of sentences in an invented language and their translations into another one,
//! so that you can try `train fit --task text` without a download.
//!
//!     cargo run --release -p examples --example pseudo_language -- [FOLDER [PAIRS]]

use std::error::Error;
use std::fs;
use std::path::PathBuf;

#[path = "pseudo_language/language.rs"]
#[allow(dead_code)]
mod language;

use language::pseudo_corpus;

fn default_folder() -> PathBuf {
    std::env::temp_dir().join("pseudo-language")
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(default_folder, PathBuf::from);
    let pairs: u64 = args.next().map_or(Ok(5000), |n| n.parse())?;
    fs::create_dir_all(&folder)?;
    for (name, seed, pairs) in [("train", 0, pairs), ("valid", 1, 200), ("test", 2, 200)] {
        for (side, text) in ["source", "target"]
            .into_iter()
            .zip(pseudo_corpus(seed, pairs))
        {
            let path = folder.join(format!("{name}.{side}"));
            fs::write(&path, text)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}
