//! Text as a task.

use std::sync::{Arc, Mutex};

use transformer::generate::LengthLimit;

use super::TextConfig;
use super::batches::{BatchPlan, Epoch};
use super::cache::TokenCache;
use super::tokenizer::Tokenizer;
use crate::task::{Example, ParseError, Split, Task, expected};

/// A translation: sources and targets are texts, by a tokeniser each.
///
/// A source ends with the end token; a target stands between begin and end.
pub struct TextTask {
    pub(super) config: TextConfig,
    pub(super) source: Arc<Tokenizer>,
    pub(super) target: Arc<Tokenizer>,
    /// What is learned from; none where the model is only used.
    pub(super) data: Option<Data>,
}

/// What a run learns from.
pub(super) struct Data {
    pub(super) cache: TokenCache,
    pub(super) plan: BatchPlan,
    pub(super) validation: Vec<Example>,
    /// The targets of `validation` as they stand in the file.
    pub(super) references: Vec<String>,
    /// The order of the epoch that was asked for last, with its seed and number.
    pub(super) epoch: Mutex<Option<(u64, u64, Arc<Epoch>)>>,
}

impl Data {
    fn epoch(&self, seed: u64, number: u64) -> Arc<Epoch> {
        let mut last = self.epoch.lock().expect("nobody panics with it");
        match &*last {
            Some((s, n, epoch)) if (*s, *n) == (seed, number) => epoch.clone(),
            _ => {
                let epoch = Arc::new(self.plan.epoch(seed, number));
                *last = Some((seed, number, epoch.clone()));
                epoch
            }
        }
    }
}

impl TextTask {
    /// The tokenisers of sources and targets.
    pub fn tokenizers(&self) -> [&Tokenizer; 2] {
        [&self.source, &self.target]
    }

    /// Its settings.
    pub fn config(&self) -> &TextConfig {
        &self.config
    }

    /// What the encoder reads, of a source's ids.
    pub(super) fn source_of(&self, mut ids: Vec<u32>) -> Vec<u32> {
        ids.truncate(self.config.max_length);
        ids.push(self.source.eos_id());
        ids
    }

    /// From begin to end, of a target's ids.
    pub(super) fn target_of(&self, mut ids: Vec<u32>) -> Vec<u32> {
        ids.truncate(self.config.max_length);
        ids.insert(0, self.target.bos_id());
        ids.push(self.target.eos_id());
        ids
    }

    fn data(&self) -> &Data {
        self.data.as_ref().expect("a run that learns has its data")
    }
}

impl Task for TextTask {
    fn source_vocab_size(&self) -> usize {
        self.source.vocab_size()
    }

    fn target_vocab_size(&self) -> usize {
        self.target.vocab_size()
    }

    fn pad_id(&self) -> u32 {
        self.target.pad_id()
    }

    fn bos_id(&self) -> u32 {
        self.target.bos_id()
    }

    fn eos_id(&self) -> Option<u32> {
        Some(self.target.eos_id())
    }

    fn max_len(&self) -> usize {
        self.config.max_length + 2
    }

    fn max_source(&self) -> usize {
        self.config.max_length + 1
    }

    fn max_bytes(&self) -> Option<usize> {
        Some(self.config.reading().most_bytes)
    }

    /// # Panics
    ///
    /// If the task was read from a run's folder without its data.
    fn batch(&self, seed: u64, index: usize, _: usize) -> Vec<Example> {
        let data = self.data();
        let (number, index) = ((index - 1) / data.plan.len(), (index - 1) % data.plan.len());
        let epoch = data.epoch(seed, number as u64);
        let pairs = data.plan.batch(&epoch, index).iter();
        pairs
            .map(|&pair| {
                let [source, target] = data.cache.pair(pair as usize);
                Example {
                    source: self.source_of(source),
                    target: self.target_of(target),
                }
            })
            .collect()
    }

    /// Pairs for validation, in their order, whichever of the two is asked for.
    fn held_out(&self, _: u64, _: Split, n: usize) -> Vec<Example> {
        match &self.data {
            Some(data) => data.validation.iter().take(n).cloned().collect(),
            None => Vec::new(),
        }
    }

    fn is_right(&self, example: &Example, output: &[u32]) -> bool {
        output == expected(self, example)
    }

    fn show_source(&self, ids: &[u32]) -> String {
        self.source.decode(ids)
    }

    fn show(&self, ids: &[u32]) -> String {
        self.target.decode(ids)
    }

    fn source_token(&self, id: u32) -> String {
        self.source.token(id)
    }

    fn token(&self, id: u32) -> String {
        self.target.token(id)
    }

    fn token_id(&self, name: &str) -> Option<u32> {
        self.target.id(name)
    }

    fn symbols(&self) -> String {
        format!("a vocabulary of {}", self.target_vocab_size())
    }

    fn parse_source(&self, text: &str) -> Result<Vec<u32>, ParseError> {
        let mut ids = self.source.encode(text);
        ids.push(self.source.eos_id());
        Ok(ids)
    }

    fn parse(&self, text: &str) -> Result<Vec<u32>, ParseError> {
        Ok(self.target.encode(text))
    }

    fn is_text(&self) -> bool {
        true
    }

    fn reference(&self, place: usize, example: &Example) -> String {
        let known = self
            .data
            .as_ref()
            .and_then(|data| data.references.get(place));
        known.cloned().unwrap_or_else(|| self.show(&example.target))
    }

    /// No translation has three times the tokens of its source, and twenty more.
    fn length_limit(&self) -> Option<LengthLimit> {
        Some(LengthLimit {
            per_token: 3.0,
            more: 20,
        })
    }

    fn batches_per_epoch(&self) -> Option<usize> {
        self.data.as_ref().map(|data| data.plan.len())
    }
}
