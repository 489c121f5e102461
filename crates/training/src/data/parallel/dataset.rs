//! A parallel corpus as a data set.

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use transformer::generate::{GenerateDefaults, LengthLimit};

use super::fingerprints::Fingerprints;
use super::held_out::HeldOut;
use super::lines::wrong;
use super::{
    BatchPlan, Corpus, CorpusStats, EpochOrder, Overlong, Pair, TextConfig, TokenCache,
    TokenizerPair,
};
use crate::data::{
    Codec, Dataset, Decoded, Example, Limits, Split, TextScores, UnknownCounts, note_unknown,
};
use crate::error::UsageError;
use crate::metrics::{BleuCounts, ChrfCounts, Tokenizer};
use crate::notes;
use crate::number::counted;

/// A data set for translation: sources and targets are texts, with a tokeniser each.
///
/// A source ends with the end symbol, or has the special tokens that the tokeniser of a pretrained
/// model adds before and after a text. A target has begin and end symbol; for a pretrained model,
/// special tokens such as the language may follow the begin symbol.
pub struct ParallelDataset {
    /// Settings, including the hashes of tokenisers and corpora.
    pub config: TextConfig,
    /// Tokenisers of sources and targets.
    pub tokenizers: TokenizerPair,
    /// Training pairs of the run; `None` if the data set was opened for inference.
    pub(super) corpora: Option<Corpora>,
    /// Validation pairs that have been read, and their examples.
    pub(super) validation: Mutex<Vec<(Pair, Example)>>,
}

/// The training pairs of a run.
pub(super) struct Corpora {
    pub(super) cache: TokenCache,
    pub(super) plan: BatchPlan,
    /// Seed, number and order of the epoch that was used last.
    pub(super) epoch: Mutex<Option<(u64, u64, Arc<EpochOrder>)>>,
}

impl Corpora {
    fn epoch(&self, seed: u64, number: u64) -> Arc<EpochOrder> {
        let mut last = self.epoch.lock().expect("no holder panics");
        let known = last.take().filter(|(s, n, _)| (*s, *n) == (seed, number));
        let new = || (seed, number, Arc::new(self.plan.epoch(seed, number)));
        last.insert(known.unwrap_or_else(new)).2.clone()
    }
}

impl ParallelDataset {
    /// Returns the example of a source and a target, given as token ids. Truncates both to their
    /// maximum lengths, and adds the tokeniser's suffix (usually an end symbol) to the source, and
    /// a begin and an end symbol to the target.
    pub(super) fn example(&self, [mut source, mut target]: [Vec<u32>; 2]) -> Example {
        let (limits, suffix) = (self.limits(), self.tokenizers.source.suffix());
        source.truncate(limits.source - suffix.len());
        source.extend(suffix);
        target.truncate(limits.target - 2);
        target.insert(0, self.tokenizers.target.bos_id);
        target.push(self.tokenizers.target.eos_id);
        Example { source, target }
    }

    /// Reads the pairs of the run for validation, as training did, and their examples. Warns if their
    /// files have changed since the run began.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or has no pair to validate with.
    pub fn validation_pairs(&self, n: usize) -> Result<Vec<(Pair, Example)>, UsageError> {
        let config = &self.config;
        if let Err(error) = Fingerprints::of_validation(config)?.check(config) {
            notes::warn(&error.describe("corpus"));
        }
        self.validation(n, HeldOut::of(config)?.as_ref(), false)
    }

    /// Returns the first `n` pairs for validation and their examples. Long ones are truncated, never
    /// skipped, so that runs with other lengths or tokenisers are scored on the same references. If
    /// `is_new`, says which pairs are not used.
    pub(super) fn validation(
        &self,
        n: usize,
        held_out: Option<&HeldOut>,
        is_new: bool,
    ) -> Result<Vec<(Pair, Example)>, UsageError> {
        let (config, corpus) = (&self.config, self.config.validated_corpus());
        let read = || corpus.read(config.validation_options());
        let mut file = held_out.is_none().then(read).transpose()?;
        let held_out_pairs = held_out.into_iter().flat_map(|chosen| chosen.pairs.clone());
        let mut pairs = held_out_pairs.map(Ok).chain(file.iter_mut().flatten());
        let (mut chosen, mut long) = (Vec::new(), 0);
        let mut unknown = UnknownCounts::default();
        while chosen.len() < n
            && let Some(mut pair) = pairs.next().transpose()?
        {
            pair.target = config.tokenizer.normalized(&pair.target);
            let ids = self.tokenizers.encode(&pair);
            let texts = ids.each_ref().map(Vec::as_slice);
            self.tokenizers.count_unknown(texts, &mut unknown);
            long += usize::from(config.is_overlong(ids.each_ref().map(Vec::len)));
            chosen.push((pair, self.example(ids)));
        }
        if is_new {
            let rest = pairs.try_fold(0, |count, pair| pair.map(|_| count + 1))?;
            if let Some(held_out) = held_out {
                notes::note(&held_out.description());
            }
            if let Some(file) = &file {
                note_stats(corpus, &file.stats());
            }
            note_unknown(unknown, " for validation");
            if rest > 0 {
                let (path, all) = (corpus.source.display(), chosen.len() + rest);
                let what = format!("only the first {n} of {all} pairs are used for validation");
                notes::note(&format!("{path}: {what}"));
            }
        }
        let of_pairs = counted(long, "pair") + " for validation";
        note_long(config, Overlong::Cut, long, &of_pairs);
        if chosen.is_empty() {
            return Err(wrong(&corpus.source, "has no pair to validate with"));
        }
        Ok(chosen)
    }
}

impl Dataset for ParallelDataset {
    fn codec(&self) -> &dyn Codec {
        &self.tokenizers
    }

    fn limits(&self) -> Limits {
        let model = self.config.pretrained.as_ref();
        let most = model.map_or(usize::MAX, |model| model.max_tokens);
        let suffix = self.tokenizers.source.suffix().len();
        Limits {
            source: (self.config.max_length.source + suffix).min(most),
            target: (self.config.max_length.target + 2).min(most),
            truncates: true,
            // An output has at most three tokens per source token, plus 20. Translations are
            // shorter.
            output: Some(LengthLimit {
                per_token: 3.0,
                more: 20,
            }),
        }
    }

    /// Returns the examples of training batch `index`, counted from 1. Ignores the batch size.
    ///
    /// # Panics
    ///
    /// If the data set was opened for inference.
    fn batch(&self, seed: u64, index: usize, _: usize) -> Vec<Example> {
        let corpora = self.corpora.as_ref();
        let corpora = corpora.expect("a run that trains has its corpora");
        let plan = &corpora.plan;
        let (number, index) = ((index - 1) / plan.batches(), (index - 1) % plan.batches());
        let epoch = corpora.epoch(seed, number as u64);
        let example = |&pair: &u32| self.example(corpora.cache.pair(pair as usize));
        plan.batch(&epoch, index).iter().map(example).collect()
    }

    /// Returns the first validation examples, at most `n`, for every split, because a parallel
    /// corpus has no other held-out examples.
    ///
    /// A data set that was opened for inference reads the examples from their files. If it cannot
    /// read them, it warns and returns none.
    fn held_out(&self, _: u64, _: Split, n: usize) -> Vec<Example> {
        let mut validation = self.validation.lock().expect("no holder panics");
        if self.corpora.is_none() && validation.len() < n && self.config.has_corpora() {
            *validation = self.validation_pairs(n).unwrap_or_else(|error| {
                notes::warn(&error.to_string());
                Vec::new()
            });
        }
        let examples = validation.iter().map(|(_, example)| example.clone());
        examples.take(n).collect()
    }

    /// Returns whether the text of `output` is the reference. Token ids are not compared, because all
    /// unknown words have the same.
    fn accepts(&self, index: usize, example: &Example, output: &[u32]) -> bool {
        self.tokenizers.decode_target(output) == self.reference(index, example)
    }

    fn reference(&self, index: usize, example: &Example) -> String {
        let validation = self.validation.lock().expect("no holder panics");
        let text = validation.get(index).map(|(pair, _)| pair.target.clone());
        text.unwrap_or_else(|| self.tokenizers.decode_target(&example.target))
    }

    fn text_scores(&self, decoded: &[Decoded]) -> Option<TextScores> {
        let mut bleu = BleuCounts::default();
        let mut chrf = ChrfCounts::default();
        for (index, decoded) in decoded.iter().enumerate() {
            let hypothesis = self.tokenizers.decode_target(&decoded.output);
            let reference = self.reference(index, &decoded.example);
            let (text, references) = (&hypothesis[..], [&reference[..]]);
            let tokenizer = Tokenizer::default();
            bleu.add(&BleuCounts::of_segment(text, &references, tokenizer));
            chrf.add(&ChrfCounts::of_segment(text, &references));
        }
        let (bleu, chrf) = (bleu.score().score, chrf.score());
        Some(TextScores { bleu, chrf })
    }

    fn batches_per_epoch(&self) -> Option<usize> {
        self.corpora.as_ref().map(|corpora| corpora.plan.batches())
    }

    fn batch_tokens(&self) -> Option<usize> {
        Some(self.config.batch_tokens)
    }

    fn search(&self) -> GenerateDefaults {
        let target = &self.tokenizers.target;
        match &self.config.pretrained {
            Some(model) => model.search.clone(),
            None => GenerateDefaults::new(target.bos_id, Some(target.eos_id)),
        }
    }

    fn save(&self, run: &Path) -> Result<()> {
        self.tokenizers.save(run)
    }
}

pub(super) fn note_long(config: &TextConfig, overlong: Overlong, long: usize, pairs: &str) {
    if long > 0 {
        let is_cut = overlong == Overlong::Cut;
        let done = if is_cut { "truncated" } else { "skipped" };
        let [source, target] = config.max_length.each();
        let tokens = counted(source, "token");
        let most = if source == target {
            format!("a side of more than {tokens}")
        } else {
            format!("a source of more than {tokens} or a target of more than {target}")
        };
        notes::note(&format!("{pairs} with {most}: {done}"));
    }
}

/// Warns if outputs have no capital letters because of a tokeniser that was not trained here, while
/// references have them.
#[doc(hidden)]
pub fn warn_of_case(config: &TextConfig, codec: &dyn Codec) {
    let lowers = |letter: char| {
        let ids = codec.encode_target(&letter.to_string());
        ids.is_ok_and(|ids| codec.decode_target(&ids) == letter.to_lowercase().to_string())
    };
    let [_, file] = config.tokenizer_files();
    if let Some(file) = file.filter(|_| !config.tokenizer.lower_case && ('A'..='Z').any(lowers)) {
        let what = "converts texts to lower case, while capital letters of references count as errors of outputs; `train eval RUN --lower-case` ignores case";
        notes::warn(&format!("tokeniser {}: {what}", file.display()));
    }
}

/// Says which pairs of a corpus were skipped, changed or probably read wrongly.
#[doc(hidden)]
pub fn note_stats(corpus: &Corpus, stats: &CorpusStats) {
    let file = corpus.source.display();
    if let Some(warning) = stats.warning() {
        notes::warn(&format!("{file}: {warning}"));
    }
    for note in stats.notes() {
        notes::note(&format!("{file}: {note}"));
    }
}
