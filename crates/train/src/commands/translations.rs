//! `train eval` for texts: translate a corpus, and score the translations by its targets.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use training::data::parallel::{Corpus, Pair, ReadOptions, TextConfig};
use training::data::{Codec, Example};
use training::error::UsageError;
use training::evaluation;
use transformer::generate::{GenerateConfig, Method};

use super::score::{Scores, TextScorer};
use super::trained::{Trained, beam_width};
use crate::args::{EvalArgs, check_generation};
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
    /// Step of the checkpoint.
    step: usize,
    seconds: f64,
}

/// Translates and scores a corpus, a part of it at a time.
pub(super) fn run(
    args: &EvalArgs,
    trained: &Trained,
    config: &TextConfig,
    method: Method,
) -> Result<()> {
    let Trained { run, device, .. } = trained;
    let corpus = match (&args.source, &args.pairs) {
        (None, None) => config.valid.clone(),
        (None, Some(pairs)) => Corpus {
            source: pairs.clone(),
            target: None,
            fields: args.fields.clone().or(config.train.fields.clone()),
        },
        (Some(source), _) => Corpus {
            source: source.clone(),
            target: args.target.clone(),
            fields: None,
        },
    };
    let dataset = run.dataset.as_ref();
    let (codec, limits) = (dataset.codec(), dataset.limits());
    let vocabularies = codec.vocabularies();
    // The longest target has a begin symbol, which is not generated.
    let longest = limits.source;
    let generation = GenerateConfig::new(vocabularies.bos_id, longest)
        .with_eos_id(vocabularies.eos_id)
        .with_method(method)
        .with_length_limit(limits.output);
    check_generation(&generation, &run.config.model, args.batch_size.unwrap_or(1))?;

    let begun = Instant::now();
    let mut pairs = corpus.read(ReadOptions {
        lossy: config.lossy || args.lossy,
        ..config.read_options()
    })?;
    let mut scorer = TextScorer::new(args.metric);
    let mut progress = LineProgress::new("pairs");
    let (mut loss, mut correct, mut tokens, mut truncated) = (0.0, 0.0, 0, 0);
    loop {
        let chunk: Vec<Pair> = pairs.by_ref().take(CHUNK).collect::<Result<_, _>>()?;
        if chunk.is_empty() {
            break;
        }
        let examples = chunk.iter().map(|pair| example(codec, pair, longest));
        let (examples, cut): (Vec<Example>, Vec<bool>) = examples.unzip();
        truncated += cut.into_iter().filter(|is_truncated| *is_truncated).count();
        let size = args.batch_size;
        let decoded = evaluation::decode(&run.model, dataset, &examples, size, &generation);
        for (decoded, pair) in decoded.iter().zip(&chunk) {
            scorer.add(&codec.decode_target(&decoded.output), &pair.target);
        }
        let score = evaluation::teacher_forced(&run.model, dataset, &examples, size, device);
        loss += score.loss * score.tokens as f64;
        correct += score.token_accuracy * score.tokens as f64;
        tokens += score.tokens;
        progress.add(chunk.len());
    }
    drop(progress);
    for note in pairs.stats().notes() {
        output::note(&format!("{}: {note}", corpus.source.display()));
    }
    if truncated > 0 {
        output::note(&format!(
            "{truncated} pairs have a side longer than the model can take: truncated"
        ));
    }
    if tokens == 0 {
        let what = "has no pair with text on both sides";
        return Err(UsageError::new("corpus", corpus.source.display(), what).into());
    }
    let loss = loss / tokens as f64;
    let evaluation = Evaluation {
        scores: scorer.scores(),
        loss,
        perplexity: loss.exp(),
        token_accuracy: correct / tokens as f64,
        beam: beam_width(method),
        step: run.step,
        seconds: begun.elapsed().as_secs_f64(),
    };
    output::json_or(args.json, &evaluation, || {
        format!(
            "{}\nloss {loss:.4}, perplexity {:.2} a token, token accuracy {:.4}\nbeam {}, step {}, {:.1} s",
            evaluation.scores.text(),
            evaluation.perplexity,
            evaluation.token_accuracy,
            evaluation.beam,
            run.step,
            evaluation.seconds
        )
    })
}

/// Returns a pair as token ids, and whether it had to be truncated.
fn example(codec: &dyn Codec, pair: &Pair, longest: usize) -> (Example, bool) {
    let valid = "every text has tokens";
    let mut source = codec.encode_source(&pair.source).expect(valid);
    let output = codec.encode_target(&pair.target).expect(valid);
    let vocabularies = codec.vocabularies();
    let is_truncated = source.len() > longest || output.len() + 1 > longest;
    if source.len() > longest {
        source.truncate(longest - 1);
        source.extend(vocabularies.eos_id);
    }
    let mut target = vec![vocabularies.bos_id];
    target.extend(output.into_iter().take(longest - 1));
    target.extend(vocabularies.eos_id);
    (Example { source, target }, is_truncated)
}
