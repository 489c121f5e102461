//! Writes a corpus of a language that nobody speaks, to try `train fit --task text` on.
//!
//!     cargo run --release -p examples --example pseudo_language -- [FOLDER [PAIRS]]

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use train::text::pseudo_language;

fn default_folder() -> PathBuf {
    std::env::temp_dir().join("pseudo-language")
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let folder = args.next().map_or_else(default_folder, PathBuf::from);
    let pairs: u64 = args.next().map_or(Ok(5000), |n| n.parse())?;
    fs::create_dir_all(&folder)?;
    for (name, seed, pairs) in [("train", 0, pairs), ("valid", 1, 200), ("test", 2, 200)] {
        let (mut sources, mut targets) = (String::new(), String::new());
        for index in 0..pairs {
            let pair = pseudo_language(seed, index);
            sources += &(pair.source + "\n");
            targets += &(pair.target + "\n");
        }
        for (side, text) in [("source", sources), ("target", targets)] {
            let path = folder.join(format!("{name}.{side}"));
            fs::write(&path, text)?;
            println!("{}", path.display());
        }
    }
    Ok(())
}
