//! The implementation of `Dataset` for all synthetic tasks.

use super::task::distinct;
use super::{SyntheticTask, example};
use crate::data::{Codec, Dataset, Example, Limits, Split};

impl<T: SyntheticTask> Dataset for T {
    fn codec(&self) -> &dyn Codec {
        self.alphabet()
    }

    fn limits(&self) -> Limits {
        let longest = self.max_tokens(*self.lengths().end());
        Limits {
            source: longest,
            target: longest,
            truncates: false,
            output: None,
        }
    }

    fn batch(&self, seed: u64, index: usize, size: usize) -> Vec<Example> {
        let first = (index as u64 - 1) * size as u64;
        let example = |index| example(self, seed, Split::Train, index);
        (first..first + size as u64).map(example).collect()
    }

    /// Returns up to `n` examples with different sources.
    fn held_out(&self, seed: u64, split: Split, n: usize) -> Vec<Example> {
        let examples = (0..100 * n as u64).map(|index| example(self, seed, split, index));
        distinct(examples, n)
    }

    fn accepts(&self, _: usize, example: &Example, output: &[u32]) -> bool {
        SyntheticTask::accepts(self, example, output)
    }

    fn reference(&self, _: usize, example: &Example) -> String {
        let has_eos = self.alphabet().eos_id().is_some();
        self.alphabet().decode_target(example.output(has_eos))
    }

    fn synthetic(&self) -> Option<&dyn SyntheticTask> {
        Some(self)
    }
}
