//! A task of your own, trained by the `train` library for some seconds: the vowels of a word, and
//! then its consonants. Within both, any order is right.
//!
//!     cargo run --release -p examples --example custom_task

use std::error::Error;
use std::ops::RangeInclusive;

use burn::module::Module;
use burn::tensor::Device;
use rand::RngExt;
use train::config::{RunConfig, TaskConfig};
use train::fit::{Ending, fit};
use train::monitor::Plain;
use train::run_folder::RunFolder;
use train::task::{Alphabet, Example, SyntheticTask, Task, TaskRng, expected};
use transformer::generate::GenerateConfig;

struct VowelsFirst(Alphabet);

impl VowelsFirst {
    fn is_vowel(&self, id: u32) -> bool {
        ["a", "e", "i", "o", "u"].contains(&self.show(&[id]).as_str())
    }

    /// Number of vowels, and the letters in alphabetical order.
    fn letters(&self, ids: &[u32]) -> (usize, Vec<u32>) {
        let vowels = ids.iter().take_while(|&&id| self.is_vowel(id)).count();
        let mut sorted = ids.to_vec();
        sorted.sort();
        (vowels, sorted)
    }
}

impl SyntheticTask for VowelsFirst {
    /// The vocabulary.
    fn alphabet(&self) -> &Alphabet {
        &self.0
    }

    /// What is trained on.
    fn lengths(&self) -> RangeInclusive<usize> {
        1..=5
    }

    /// A word of this length, and what should be made of it.
    fn pair(&self, length: usize, rng: &mut TaskRng) -> (Vec<u32>, Vec<u32>) {
        let letters = self.0.symbols();
        let letter = |_| rng.random_range(letters.clone());
        let word: Vec<u32> = (0..length).map(letter).collect();
        let (vowels, consonants): (Vec<u32>, _) = word.iter().partition(|&&id| self.is_vowel(id));
        (word, [vowels, consonants].concat())
    }

    /// What counts as right.
    fn accepts(&self, example: &Example, output: &[u32]) -> bool {
        self.letters(output) == self.letters(expected(self, example))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let task = VowelsFirst(Alphabet::new(('a'..='t').map(String::from))?);
    let mut config = RunConfig {
        task: TaskConfig::Custom {
            title: "vowels-first".into(),
        },
        backend: "flex".into(),
        steps: 600,
        batch_size: 32,
        ..RunConfig::reverse()
    };
    config.resolve_for(&task)?;
    let folder = RunFolder::create(None, &config)?;
    let watch = || Box::new(Plain::new(0, config.steps)) as _;
    let ending = fit(&config, &task, &Device::flex(), folder, None, watch)?;
    let Ending::Done(trained) = ending else {
        println!("stopped, and saved");
        return Ok(());
    };

    let decoding = GenerateConfig::new(task.bos_id(), task.max_len()).with_eos_id(task.eos_id());
    for word in ["c r a t e", "b r e a d", "p i a n o"] {
        let found = trained
            .model
            .valid()
            .generate(&[task.parse(word)?], &decoding)?;
        println!("{word} -> {}", task.show(&found[0][0].tokens));
    }
    let exact_match = trained.close()?.exact_match;
    println!("{exact_match:.3} of 1000 unseen words are right");
    assert!(exact_match > 0.9, "the task was not learned");
    Ok(())
}
