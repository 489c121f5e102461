//! A custom task, trained for a few seconds: the model writes the vowels of a word, and then the
//! consonants. The vowels may be in any order, and so may the consonants.
//!
//!     cargo run --release --example custom_task

use std::error::Error;
use std::ops::RangeInclusive;

use burn::tensor::Device;
use rand::RngExt;
use training::config::RunConfig;
use training::data::{Alphabet, Codec, DataConfig, DataRng, Example, SyntheticTask};
use training::run::RunFolder;
use training::trainer::{Ending, Trainer};

struct VowelsFirst(Alphabet);

impl VowelsFirst {
    fn is_vowel(&self, id: u32) -> bool {
        ["a", "e", "i", "o", "u"].contains(&self.0.target_token(id).as_str())
    }

    /// Returns the number of vowels at the beginning of `ids`, and all ids in increasing order.
    fn letters(&self, ids: &[u32]) -> (usize, Vec<u32>) {
        let vowels = ids.iter().take_while(|&&id| self.is_vowel(id)).count();
        let mut sorted = ids.to_vec();
        sorted.sort();
        (vowels, sorted)
    }
}

impl SyntheticTask for VowelsFirst {
    fn alphabet(&self) -> &Alphabet {
        &self.0
    }

    fn lengths(&self) -> RangeInclusive<usize> {
        1..=5
    }

    fn pair(&self, length: usize, rng: &mut DataRng) -> (Vec<u32>, Vec<u32>) {
        let letter = |_| rng.random_range(self.0.symbols());
        let word: Vec<u32> = (0..length).map(letter).collect();
        let (vowels, consonants): (Vec<u32>, _) = word.iter().partition(|&&id| self.is_vowel(id));
        (word, [vowels, consonants].concat())
    }

    fn accepts(&self, example: &Example, output: &[u32]) -> bool {
        self.letters(output) == self.letters(example.output(true))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let task = VowelsFirst(Alphabet::new(('a'..='t').map(String::from))?);
    let device = Device::flex();
    let mut config = RunConfig::reverse();
    config.data = DataConfig::Custom {
        title: "vowels-first".into(),
    };
    config.optimization.steps = 600;
    config.optimization.batch_size = 32;
    config.execution.backend = "flex".into();
    config.fit_to(&task)?;

    let folder = RunFolder::create(None, &config)?;
    let trainer = Trainer::new(&config, &task, &device, folder)?;
    let Ending::Done(trained) = trainer.train(&mut ())? else {
        unreachable!("nothing stops the run");
    };
    let test = trained.test()?;
    let summary = trained.summary(&test);

    for decoded in &test.decoded[..3] {
        let word = task.0.decode_source(&decoded.example.source);
        println!("{word} -> {}", task.0.decode_target(&decoded.output));
    }
    trained.folder.finish(&summary)?;
    println!(
        "{:.3} of 1000 unseen words are correct",
        summary.exact_match
    );
    assert!(summary.exact_match > 0.9, "the task was not learned");
    Ok(())
}
