//! Makes a data set from the files of its corpora and tokenisers.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use anyhow::{Context, Result};

use super::cache_folder::lock;
use super::dataset::{Corpora, note_long, note_stats, warn_of_case};
use super::fingerprints::Fingerprints;
use super::held_out::HeldOut;
use super::lines::{check_regular, wrong};
use super::train_tokenizers::read_or_train;
use super::{BatchPlan, Overlong, ParallelDataset, TextConfig, TokenCache, TokenizerPair};
use crate::data::note_unknown;
use crate::error::UsageError;
use crate::notes;
use crate::number::{counted, grouped};

impl ParallelDataset {
    /// Makes the data set of a new run: trains or reads its tokenisers, tokenises its corpora, and
    /// plans its batches. Trained tokenisers and the tokenised training corpus are kept in the
    /// folder `caches`, unless the settings name another folder. `eval_size` limits the number of
    /// pairs for validation.
    ///
    /// # Errors
    ///
    /// If a setting is wrong, a corpus or tokeniser cannot be used, or a folder cannot be written.
    pub fn prepare(config: &TextConfig, caches: &Path, eval_size: usize) -> Result<Self> {
        config.check()?;
        let caches = caches_of(config, caches);
        // Quick checks come before the slow work.
        config.files().try_for_each(check_regular)?;
        let mut validation = HashSet::new();
        if config.has_validation_corpus() {
            for (index, pair) in config.valid.read(config.validation_options())?.enumerate() {
                let pair = pair?;
                if index < eval_size {
                    validation.insert(pair);
                }
            }
        }
        // The folder of caches is locked and unlocked again, to find out whether it can be written.
        drop(lock(&caches)?);
        let held_out = HeldOut::of(config)?;
        let fingerprints = Fingerprints::of(config)?;
        let mut pairs = held_out.as_ref().map_or(0, |chosen| chosen.of);
        if config.has_validation_corpus() {
            let (file, all) = (config.valid.source.display(), validation.len());
            for pair in config.train.read(config.read_options())? {
                pairs += 1;
                validation.remove(&pair?);
            }
            let shared = all - validation.len();
            // Short pairs may be in both by chance.
            if shared > all / 100 {
                let of = format!("{file}: {} of {}", grouped(shared), grouped(all));
                let what = "different pairs for validation are pairs of training, too";
                notes::warn(&format!("{of} {what}"));
            }
        }
        if pairs == 0 {
            return Err(wrong(&config.train.source, "has no pair with text on both sides").into());
        }
        // The settings may be those of an earlier run.
        if let Err(error) = fingerprints.check(config) {
            let error = config.name_file(error.into());
            notes::warn(&format!("{error}: this run differs"));
        }
        let held_out = held_out.as_ref();
        let tokenizers = read_or_train(config, &caches, &fingerprints.train, held_out)?;
        let then = config.tokenizer_sha256.iter().flatten();
        let mut sides = then.zip(tokenizers.sha256()).zip(config.tokenizer_files());
        let changed = sides.find_map(|((then, now), file)| file.filter(|_| *then != now));
        if let Some(file) = changed {
            let what = "has changed since the run began, or is another one: this run differs";
            notes::warn(&format!("tokeniser {}: {what}", file.display()));
        }
        warn_of_case(config, &tokenizers);
        let mut dataset = Self::new(config, tokenizers);
        dataset.load(&caches, eval_size, &fingerprints, held_out)?;
        Ok(dataset)
    }

    /// Opens the data set of a run's folder for inference, with its tokenisers but without its
    /// corpora.
    ///
    /// # Errors
    ///
    /// If a tokeniser cannot be used, or is not the one that the model was trained with.
    pub fn open(run: &Path, config: &TextConfig) -> Result<Self, UsageError> {
        let tokenizers = TokenizerPair::of_run(run, config)?;
        Ok(Self::new(config, tokenizers))
    }

    /// Reads the corpora to resume a run. `caches` and `eval_size` have the same meaning as in
    /// [`prepare`](Self::prepare).
    ///
    /// # Errors
    ///
    /// If a corpus cannot be used or has changed since the run began, if a folder cannot be
    /// written.
    pub fn reload(&mut self, caches: &Path, eval_size: usize) -> Result<()> {
        let config = &self.config;
        let moved =
            "if it has moved, `train resume RUN --train FILE` and flags like it name its new path";
        let files = config.files().try_for_each(check_regular);
        files.map_err(|error| error.and(moved))?;
        let fingerprints = Fingerprints::of(config)?;
        let changed =
            "put it back, or begin a new run (`fit --from` trains a model further on other texts)";
        let checked = fingerprints.check(config);
        checked.map_err(|error| error.and(changed))?;
        let caches = caches_of(config, caches);
        let held_out = HeldOut::of(config)?;
        self.load(&caches, eval_size, &fingerprints, held_out.as_ref())
    }

    /// Makes a data set without corpora, for inference.
    pub fn new(config: &TextConfig, tokenizers: TokenizerPair) -> Self {
        let mut config = config.clone();
        config.tokenizer_sha256 = Some(tokenizers.sha256());
        Self {
            config,
            tokenizers,
            corpora: None,
            validation: Mutex::default(),
        }
    }

    fn load(
        &mut self,
        caches: &Path,
        eval_size: usize,
        fingerprints: &Fingerprints,
        held_out: Option<&HeldOut>,
    ) -> Result<()> {
        self.validation = Mutex::new(self.validation(eval_size, held_out, true)?);
        let config = &self.config;
        let most = config.max_length.each();
        let tokenizers = [&*self.tokenizers.source, &*self.tokenizers.target];
        let (train, options) = (&config.train, config.read_options());
        let files = &fingerprints.train;
        let cache = TokenCache::open_or_make(caches, train, files, options, tokenizers)?;
        note_stats(&config.train, &cache.stats);
        note_unknown(cache.unknown, " for training");
        let pairs = u32::try_from(cache.pairs());
        let pairs = pairs.context("a corpus has at most 4294967295 pairs")?;
        let is_long = |pair: &u32| config.is_overlong(cache.lengths(*pair as usize));
        let is_held_out = |pair: u32| held_out.is_some_and(|chosen| chosen.has(pair.into()));
        let mine = || (0..pairs).filter(|pair| !is_held_out(*pair));
        let long = mine().filter(is_long).count();
        let of_pairs = format!("of {} pairs", grouped(mine().count()));
        let long_pairs = format!("{} {of_pairs}", grouped(long));
        note_long(config, config.overlong, long, &long_pairs);
        let is_empty = |pair: &u32| cache.lengths(*pair as usize).contains(&0);
        let empty = mine().filter(is_empty).count();
        if empty > 0 {
            let files = config.tokenizer_files().into_iter().flatten();
            let mut files: Vec<_> = files.map(|file| file.display().to_string()).collect();
            files.dedup();
            let (skipped, files) = (grouped(empty), files.join(", "));
            let what = format!("a side has no token of the tokeniser {files}");
            notes::warn(&format!("{skipped} {of_pairs} skipped: {what}"));
        }
        let ends = tokenizers[0].suffix().len();
        // Returns the numbers of tokens that the model reads: of the source with its suffix,
        // usually an end symbol, and of the target with its begin symbol.
        let lengths = |pair: u32| {
            let [source, target] = cache.lengths(pair as usize);
            [source.min(most[0]) + ends, target.min(most[1]) + 1]
        };
        let is_short = |pair: &u32| config.overlong == Overlong::Cut || !is_long(pair);
        let is_kept = |pair: &u32| is_short(pair) && !is_empty(pair);
        let kept = (0..pairs).filter(|pair| is_kept(pair) && !is_held_out(*pair));
        let plan = BatchPlan::new(kept, lengths, config.batch_tokens);
        if plan.batches() == 0 {
            let (name, most) = (TextConfig::max_length.name(), config.max_length);
            let expected = match pairs {
                n if n as usize == empty => "has no pair with tokens on both sides".into(),
                _ => format!("has no pair of at most {name} ({most}) tokens"),
            };
            return Err(wrong(&config.train.source, expected).into());
        }
        let [source_size, target_size] = tokenizers.map(|tokenizer| grouped(tokenizer.vocab_size));
        let kept = counted(plan.pairs(), "pair");
        let batches = counted(plan.batches(), "batch");
        let padding = 100.0 * plan.padding();
        notes::note(&format!(
            "{kept}, {source_size} and {target_size} tokens in the vocabularies, {batches} an epoch, {padding:.1} % padding",
        ));
        self.config.data = Some(fingerprints.keys(config));
        self.corpora = Some(Corpora {
            cache,
            plan,
            epoch: Mutex::new(None),
        });
        Ok(())
    }
}

fn caches_of(config: &TextConfig, caches: &Path) -> PathBuf {
    config.cache.clone().unwrap_or_else(|| caches.into())
}
