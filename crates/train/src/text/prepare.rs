//! From files to a task: tokenisers, token ids, batches.

mod tokenizers;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};

use super::batches::BatchPlan;
use super::cache::{TokenCache, key, lock};
use super::corpus::{Corpus, Fingerprint, Met, Pair};
use super::task::{Data, TextTask};
use super::tokenizer::Tokenizer;
use super::{Overlong, TextConfig};
use crate::disk::write_whole;
use crate::error::UsageError;
use crate::output;
use crate::task::Example;
use tokenizers::tokenizers;

/// Files of a run's folder, or of a cache: both tokenisers, or the one for both.
const SOURCE: &str = "source.tokenizer.json";
const TARGET: &str = "target.tokenizer.json";
const JOINT: &str = "tokenizer.json";

impl TextTask {
    /// Trains or reads the tokenisers of a new run, and makes its data ready. What takes long is
    /// kept in the folder of caches.
    ///
    /// # Errors
    ///
    /// Corpora or tokenisers that cannot be used, or a folder that cannot be written.
    pub fn prepare(config: &TextConfig, caches: &Path, eval_size: usize) -> Result<Self> {
        check(config)?;
        let caches = caches_of(config, caches);
        // What is wrong with smaller things is told before anything that takes long.
        drop(lock(&caches)?);
        config.train.check()?;
        config.valid.check()?;
        for pair in config.valid.read(config.reading())? {
            pair?;
        }
        let files = Files::of(config)?;
        let [source, target] = tokenizers(config, &caches, &files)?;
        let mut task = Self::new(config, source, target)?;
        task.load(&caches, eval_size, &files)?;
        Ok(task)
    }

    /// The task of a run's folder, with its tokenisers and without its data.
    ///
    /// # Errors
    ///
    /// Tokenisers that are not there, or are not those of the run.
    pub fn open(run: &Path, config: &TextConfig) -> Result<Self, UsageError> {
        let is_joint = match &config.tokenizer_sha256 {
            Some([source, target]) => source == target,
            None => run.join(JOINT).exists(),
        };
        let read = |name| Tokenizer::read(&run.join(name)).map(Arc::new);
        let [source, target] = if is_joint {
            let both = read(JOINT)?;
            [both.clone(), both]
        } else {
            [read(SOURCE)?, read(TARGET)?]
        };
        if let Some(expected) = &config.tokenizer_sha256 {
            let names = if is_joint {
                [JOINT; 2]
            } else {
                [SOURCE, TARGET]
            };
            let tokenizers = [&source, &target];
            for ((name, found), expected) in names.iter().zip(tokenizers).zip(expected) {
                if found.sha256() != expected {
                    let what =
                        "is not the tokeniser that the model was trained with: put that back";
                    return Err(UsageError::new("RUN", run.join(name).display(), what));
                }
            }
        }
        Self::new(config, source, target)
    }

    /// Makes the data of a run ready that goes on.
    ///
    /// # Errors
    ///
    /// As [`prepare`](Self::prepare); or if the corpora have changed since.
    pub fn reload(&mut self, caches: &Path, eval_size: usize) -> Result<()> {
        let config = &self.config;
        config.train.check()?;
        config.valid.check()?;
        let files = Files::of(config)?;
        if let Some(then) = &config.data {
            let corpora = [&config.train, &config.valid];
            for ((then, now), corpus) in then.iter().zip(files.keys(config)).zip(corpora) {
                if *then != now {
                    let files = corpus.files().map(|file| file.display().to_string());
                    let files: Vec<String> = files.collect();
                    let what = "has changed since the run began: put it back, or begin a new run";
                    return Err(UsageError::new("corpus", files.join(", "), what).into());
                }
            }
        }
        let caches = caches_of(config, caches);
        self.load(&caches, eval_size, &files)
    }

    /// Writes the tokenisers into a run's folder.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn save_tokenizers(&self, run: &Path) -> Result<()> {
        let write = |name: &str, tokenizer: &Tokenizer| {
            let path = run.join(name);
            write_whole(&path, tokenizer.json())
                .with_context(|| format!("cannot write {}", path.display()))
        };
        // Of a run that was killed before it had begun.
        for name in [JOINT, SOURCE, TARGET] {
            let _ = fs::remove_file(run.join(name));
        }
        if self.source.sha256() == self.target.sha256() {
            return write(JOINT, &self.source);
        }
        write(SOURCE, &self.source)?;
        write(TARGET, &self.target)
    }

    fn new(
        config: &TextConfig,
        source: Arc<Tokenizer>,
        target: Arc<Tokenizer>,
    ) -> Result<Self, UsageError> {
        if source.pad_id() != target.pad_id() {
            let what = format!(
                "has padding id {}, but that of the sources has {}: a model has one",
                target.pad_id(),
                source.pad_id()
            );
            return Err(UsageError::new("tokeniser", "of the targets", what));
        }
        let mut config = config.clone();
        config.tokenizer_sha256 = Some([&source, &target].map(|one| one.sha256().into()));
        Ok(Self {
            config,
            source,
            target,
            data: None,
        })
    }

    fn load(&mut self, caches: &Path, eval_size: usize, files: &Files) -> Result<()> {
        let config = &self.config;
        let tokenizers = [&*self.source, &*self.target];
        let (validation, references) = self.validation(eval_size)?;
        let (corpus, reading) = (&config.train, config.reading());
        let cache = TokenCache::open_or_make(caches, corpus, &files.train, reading, tokenizers)?;
        tell(&config.train, &cache.met());
        let pairs = u32::try_from(cache.len()).context("a corpus has at most 4294967295 pairs")?;
        let is_long = |&pair: &u32| {
            let [source, target] = cache.lengths(pair as usize);
            source.max(target) > config.max_length
        };
        let long = (0..pairs).filter(is_long).count();
        let most = config.max_length;
        if long > 0 {
            let what = done_with(config.overlong);
            output::note(&format!(
                "{long} of {pairs} pairs have a side of more than {most} tokens: {what}"
            ));
        }
        let lengths = |pair: u32| {
            // The end token of a source, and the begin token of a target.
            cache.lengths(pair as usize).map(|n| n.min(most) + 1)
        };
        let is_kept = |pair: &u32| config.overlong == Overlong::Cut || !is_long(pair);
        let plan = BatchPlan::new((0..pairs).filter(is_kept), lengths, config.batch_tokens);
        if plan.is_empty() {
            let path = config.train.source.display();
            let what = match pairs {
                0 => "has no pair with something on both sides".into(),
                _ => format!("has no pair of at most --max-length ({most}) tokens"),
            };
            return Err(UsageError::new("corpus", path, what).into());
        }
        let sizes = tokenizers.map(Tokenizer::vocab_size);
        output::note(&format!(
            "{} pairs, {} and {} tokens in the vocabularies, {} batches an epoch, {:.1} % padding",
            plan.pairs(),
            sizes[0],
            sizes[1],
            plan.len(),
            100.0 * plan.padding()
        ));
        self.config.data = Some(files.keys(config));
        self.data = Some(Data {
            cache,
            plan,
            validation,
            references,
            epoch: Mutex::new(None),
        });
        Ok(())
    }

    /// The first pairs for validation, and their targets as they stand there.
    fn validation(&self, n: usize) -> Result<(Vec<Example>, Vec<String>), UsageError> {
        let corpus = &self.config.valid;
        let mut pairs = corpus.read(self.config.reading())?;
        let mut examples = Vec::new();
        let mut references = Vec::new();
        let (mut long, mut rest) = (0, 0);
        for pair in pairs.by_ref() {
            let Pair { source, target } = pair?;
            if examples.len() == n {
                rest += 1;
                continue;
            }
            let ids = [self.source.encode(&source), self.target.encode(&target)];
            if ids.iter().any(|ids| ids.len() > self.config.max_length) {
                long += 1;
                if self.config.overlong == Overlong::Drop {
                    continue;
                }
            }
            let [source, ids] = ids;
            let example = Example {
                source: self.source_of(source),
                target: self.target_of(ids),
            };
            references.push(target);
            examples.push(example);
        }
        tell(corpus, &pairs.met());
        if long > 0 {
            let most = self.config.max_length;
            let what = done_with(self.config.overlong);
            output::note(&format!(
                "{long} pairs for validation have a side of more than {most} tokens: {what}"
            ));
        }
        if rest > 0 {
            let all = pairs.met().pairs;
            output::note(&format!(
                "{}: the first {n} of {all} pairs are looked at during training",
                corpus.source.display()
            ));
        }
        if examples.is_empty() {
            let what = match long {
                0 => String::from("has no pair to validate with"),
                _ => {
                    let most = self.config.max_length;
                    format!("has no pair of at most --max-length ({most}) tokens to validate with")
                }
            };
            return Err(UsageError::new("corpus", corpus.source.display(), what));
        }
        Ok((examples, references))
    }
}

/// What the files of a run hold; reading them whole takes some time, so it is done once.
struct Files {
    train: Vec<Fingerprint>,
    valid: Vec<Fingerprint>,
}

impl Files {
    fn of(config: &TextConfig) -> Result<Self, UsageError> {
        Ok(Self {
            train: config.train.fingerprints()?,
            valid: config.valid.fingerprints()?,
        })
    }

    /// What tells the corpora from others.
    fn keys(&self, config: &TextConfig) -> [String; 2] {
        [
            key(&(&self.train, &config.train.fields)),
            key(&(&self.valid, &config.valid.fields)),
        ]
    }
}

fn done_with(overlong: Overlong) -> &'static str {
    match overlong {
        Overlong::Drop => "left out",
        Overlong::Cut => "cut",
    }
}

/// Tells what was met in a corpus.
fn tell(corpus: &Corpus, met: &Met) {
    for note in met.notes() {
        output::note(&format!("{}: {note}", corpus.source.display()));
    }
}

fn caches_of(config: &TextConfig, caches: &Path) -> PathBuf {
    config.cache.clone().unwrap_or_else(|| caches.into())
}

/// Refuses settings that no data can be made with.
fn check(config: &TextConfig) -> Result<(), UsageError> {
    for (flag, value, least, most) in [
        ("--max-length", config.max_length, 1, 100_000),
        ("--batch-tokens", config.batch_tokens, 1, 100_000_000),
        ("--vocab-size", config.tokenizer.vocab_size, 5, 10_000_000),
    ] {
        if !(least..=most).contains(&value) {
            let expected = format!("must be at least {least} and at most {most}");
            return Err(UsageError::new(flag, value, expected));
        }
    }
    for (corpus, flags) in [
        (
            &config.train,
            "--train-source and --train-target, or --train",
        ),
        (
            &config.valid,
            "--valid-source and --valid-target, or --valid",
        ),
    ] {
        if corpus.source.as_os_str().is_empty() {
            return Err(UsageError::new("--task", "text", format!("needs {flags}")));
        }
    }
    Ok(())
}
