//! `train eval` for texts: translate the sources of a corpus, and score the translations against
//! its targets.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use training::collective::Collective;
use training::data::parallel::{self, Corpus, Pair, ParallelDataset, ReadOptions, TextConfig};
use training::data::{Codec, Example, UnknownCounts, note_unknown};
use training::error::{Subject, UsageError};
use training::evaluation;
use training::files::count_lines;
use training::positions::{max_output, max_tokens, truncate_source, with_room};
use training::run::checkpoint::TrainedRun;
use training::run::unusable;
use transformer::generate::{GenerateConfig, GenerateError, Method};

use super::hypotheses::HypothesesFile;
use super::text_scorer::{Scores, TextScorer};
use super::trained::{Trained, Which};
use crate::args::{EvalArgs, check_generation, needs, set};
use crate::group::Group;
use crate::metric;
use crate::number::{counted, short};
use crate::terminal::{LineProgress, output};

/// Number of pairs that are held in memory at a time.
const CHUNK: usize = 2000;

/// Scores of translations.
#[derive(Serialize)]
struct Evaluation {
    #[serde(flatten)]
    scores: Scores,
    /// Mean cross-entropy per token, in nats.
    loss: f64,
    perplexity: f64,
    token_accuracy: f64,
    beam: usize,
    #[serde(flatten)]
    which: Which,
    seconds: f64,
}

/// Translates and scores a corpus, [`CHUNK`] pairs at a time.
pub(super) fn run(
    args: &EvalArgs,
    trained: &Trained,
    config: &TextConfig,
    method: Method,
    group: &Group,
) -> Result<()> {
    let (run, group) = (&trained.run, group.collective());
    let file = args.source.as_ref().or(args.pairs.as_ref());
    if file.is_none() && !config.has_corpora() {
        let what = "was imported, and has no validation pairs: name some with --source and --target, \
                    or with --pairs";
        return Err(unusable(&args.trained.run, what).into());
    }
    let lossy = args.lossy.then_some("");
    needs("--lossy", lossy, "--source or --pairs", file.is_some())?;
    let is_json = args.pairs.as_deref().is_some_and(parallel::is_json_lines);
    let fields = args.fields.as_ref().map(|fields| fields.join(","));
    needs("--fields", fields, "--pairs of JSON Lines", is_json)?;
    let fields = args.fields.as_ref().or(config.train.fields.as_ref());
    let fields = fields.or(config.valid.fields.as_ref());
    let corpus = match file {
        None => config.validated_corpus().clone(),
        Some(file) => Corpus {
            source: file.clone(),
            target: args.target.clone(),
            fields: fields.cloned(),
        },
    };
    let shown = corpus.source.display();
    let dataset = run.dataset.as_ref();
    let codec = dataset.codec();
    let longest = max_tokens(&run.config.model);
    let mut generation = dataset.search_config().with_method(method);
    set(&mut generation.no_repeat_ngram, args.no_repeat_ngram);
    check_generation(&generation, &run.config.model, args.batch_size.unwrap_or(1))?;

    let name = |error: UsageError| name_flag(args, error);
    let is_stream = |file: &&Path| group.size() > 1 && !file.is_file();
    if let Some(file) = corpus.files().find(is_stream) {
        let expected = "must be a regular file, because each process reads it";
        return Err(name(UsageError::new("corpus", file.display(), expected)).into());
    }
    let path = args.hypotheses.as_deref().filter(|_| group.is_first());
    let mut hypotheses = HypothesesFile::of_flag(path, corpus.files().chain(config.inputs()))?;
    let begun = Instant::now();
    // A run's own pairs are those that training validates with. All lines of a test set are scored.
    let (mut own, mut read) = (Vec::new(), None);
    let extends = file.is_some() && dataset.search().max_length.is_none();
    let count = if file.is_none() {
        let size = run.config.evaluation.validation_size;
        let opened = ParallelDataset::open(&args.trained.run, config)?;
        let others = "--pairs, or --source and --target, name others";
        let read = opened.validation_pairs(size);
        own = read.map_err(|error| error.and(others))?;
        Some(own.len())
    } else {
        let options = ReadOptions {
            lossy: config.lossy || args.lossy,
            truncates: true,
            keeps_empty: true,
        };
        read = Some(corpus.read(options).map_err(name)?);
        count_lines(&corpus.source)
    };
    let own = own.into_iter();
    let own = own.map(|(pair, example)| Ok((pair, Some(example))));
    let named = |pair: Result<Pair, UsageError>| Ok((pair.map_err(name)?, None));
    let mut pairs = own.chain(read.iter_mut().flatten().map(named));
    let mut metric = args.metric;
    metric.lower_case |= config.tokenizer.lower_case;
    if !metric.lower_case {
        parallel::warn_of_case(config, codec);
    }
    let mut scorer = TextScorer::new(metric, 1);
    let mut progress = LineProgress::new("pairs", count);
    let (mut loss, mut correct, mut tokens, mut truncated, mut blank) = (0.0, 0.0, 0, 0, 0);
    let mut unknown = UnknownCounts::default();
    loop {
        let chunk = pairs.by_ref().take(CHUNK);
        let chunk: Vec<(Pair, Option<Example>)> = chunk.collect::<Result<_, UsageError>>()?;
        if chunk.is_empty() {
            break;
        }
        // As in `train generate`, a blank source has a blank output.
        let has_source = |pair: &Pair| !pair.source.trim().is_empty();
        let with_source = chunk.iter().filter(|(pair, _)| has_source(pair));
        let examples = with_source.map(|(pair, own)| {
            let own = own.clone().map(|own| (own, false));
            own.unwrap_or_else(|| example(codec, pair, longest))
        });
        let (examples, cut): (Vec<Example>, Vec<bool>) = examples.unzip();
        for example in &examples {
            codec.count_unknown([&example.source, &example.target], &mut unknown);
        }
        truncated += cut.into_iter().filter(|is_truncated| *is_truncated).count();
        blank += chunk.len() - examples.len();
        let size = args.batch_size;
        let outputs = decode(run, &examples, extends, size, &generation, group)?;
        let mut outputs = outputs.iter();
        for (pair, _) in &chunk {
            let output = has_source(pair).then(|| outputs.next()).flatten();
            let hypothesis = output.map_or(String::new(), |output| codec.decode_target(output));
            scorer.add(&hypothesis, &[&config.tokenizer.normalized(&pair.target)]);
            if let Some(file) = &mut hypotheses {
                file.add(&pair.source, &pair.target, &hypothesis);
            }
        }
        let tokens_of = |example: &Example| example.source.len().max(example.target.len() - 1);
        let longest = examples.iter().map(tokens_of).max().unwrap_or(0);
        let model = with_room(&run.model, longest);
        let score = evaluation::teacher_forced(&model, dataset, &examples, size, group);
        if score.tokens > 0 {
            loss += score.loss * score.tokens as f64;
            correct += score.token_accuracy * score.tokens as f64;
            tokens += score.tokens;
        }
        progress.add(chunk.len());
    }
    drop(progress);
    hypotheses.map_or(Ok(()), HypothesesFile::close)?;
    if let Some(read) = read {
        parallel::note_stats(&corpus, &read.stats());
    }
    note_unknown(unknown, "");
    if blank > 0 {
        let blank = counted(blank, "blank source");
        let what = "with a blank output, and no part in the loss";
        output::note(&format!("{shown}: {blank} {what}"));
    }
    if truncated > 0 {
        let limit = format!("more tokens than the {longest} that this model can take");
        let pairs = counted(truncated, "pair");
        output::warn(&format!(
            "{shown}: {pairs} with a side of {limit}: truncated"
        ));
    }
    if tokens == 0 {
        return Err(name(UsageError::new("corpus", shown, "has no source with text")).into());
    }
    let loss = finite(loss / tokens as f64)?;
    let evaluation = Evaluation {
        scores: scorer.scores(),
        loss,
        perplexity: loss.exp(),
        token_accuracy: correct / tokens as f64,
        beam: generation.rows_per_source(),
        which: trained.which,
        seconds: begun.elapsed().as_secs_f64(),
    };
    output::json_or(args.json, &evaluation, || {
        format!(
            "{}\nloss {}, perplexity {:.2} a token, {}\nbeam {}, {}, {:.1} s",
            evaluation.scores.text(),
            short(loss),
            evaluation.perplexity,
            metric::named("token_accuracy", evaluation.token_accuracy),
            evaluation.beam,
            trained.which,
            evaluation.seconds
        )
    })
}

/// Rejects the loss of a model whose logits are beyond f32.
pub(super) fn finite(loss: f64) -> Result<f64> {
    anyhow::ensure!(
        loss.is_finite(),
        "the loss is {loss}: the logits are too large"
    );
    Ok(loss)
}

/// Changes the subject of an error about a corpus to the flag that names the file.
fn name_flag(args: &EvalArgs, mut error: UsageError) -> UsageError {
    let files = [
        ("--source", &args.source),
        ("--target", &args.target),
        ("--pairs", &args.pairs),
    ];
    for (flag, file) in files {
        let is_it = |file: &PathBuf| file.display().to_string() == error.value;
        if error.subject == Subject::Other("corpus".into()) && file.as_ref().is_some_and(is_it) {
            error.subject = Subject::Other(flag.into());
            error.expected = error.expected.replace("--set data.lossy=true", "--lossy");
        }
    }
    error
}

/// Decodes the sources of examples. If `extends`, a source that is longer than those of training may
/// have a longer output, as in `train generate`.
fn decode(
    run: &TrainedRun,
    examples: &[Example],
    extends: bool,
    batch_size: Option<usize>,
    generation: &GenerateConfig,
    processes: &dyn Collective,
) -> Result<Vec<Vec<u32>>, GenerateError> {
    let (dataset, config) = (run.dataset.as_ref(), &run.config.model);
    let limits = dataset.limits();
    let mut groups = BTreeMap::<usize, Vec<usize>>::new();
    for (index, example) in examples.iter().enumerate() {
        let length = example.source.len();
        let most = if extends {
            max_output(length, generation.max_length, &limits, config)
        } else {
            generation.max_length
        };
        groups.entry(most).or_default().push(index);
    }
    let mut all = vec![Vec::new(); examples.len()];
    for (max_length, indices) in groups {
        let group = Vec::from_iter(indices.iter().map(|&index| examples[index].clone()));
        let longest = group.iter().map(|example| example.source.len()).max();
        let model = with_room(&run.model, max_length.max(longest.unwrap_or(0)));
        let mut generation = generation.clone();
        generation.max_length = max_length;
        let outputs =
            evaluation::decode(&model, dataset, &group, batch_size, &generation, processes)?;
        for (index, output) in indices.into_iter().zip(outputs) {
            all[index] = output;
        }
    }
    Ok(all)
}

/// Converts a pair to token ids. Also returns whether a side had to be truncated to `longest`
/// tokens.
fn example(codec: &dyn Codec, pair: &Pair, longest: usize) -> (Example, bool) {
    let valid = "every text has tokens";
    let mut source = codec.encode_source(&pair.source).expect(valid);
    let output = codec.encode_target(&pair.target).expect(valid);
    let vocabularies = codec.vocabularies();
    let is_truncated = truncate_source(&mut source, longest) || output.len() + 1 > longest;
    let mut target = vec![vocabularies.bos_id];
    target.extend(output.into_iter().take(longest - 1));
    target.extend(vocabularies.eos_id);
    (Example { source, target }, is_truncated)
}
