//! `train eval` of texts: translations of a corpus, scored by its targets.

use std::time::Instant;

use anyhow::Result;
use burn::tensor::Device;
use serde::Serialize;
use transformer::generate::{GenerateConfig, Method};

use super::score::{Scorer, Scores};
use crate::checkpoint::Trained;
use crate::cli::{EvalArgs, Fields, check_generation};
use crate::error::UsageError;
use crate::evaluate;
use crate::output;
use crate::progress::LineProgress;
use crate::task::{Example, Task};
use crate::text::{Corpus, Pair, Reading, TextConfig};

/// Pairs that are held at a time.
const CHUNK: usize = 2000;

/// What comes out.
#[derive(Serialize)]
struct Evaluation {
    #[serde(flatten)]
    scores: Scores,
    /// Mean cross-entropy a token, in nats.
    loss: f64,
    perplexity: f64,
    token_accuracy: f64,
    beam: usize,
    /// Of the checkpoint.
    step: usize,
    seconds: f64,
}

/// Translates and scores, a part of the corpus at a time.
pub(super) fn run(
    args: &EvalArgs,
    run: &Trained,
    config: &TextConfig,
    method: &Method,
    device: &Device,
) -> Result<()> {
    let corpus = match (&args.source, &args.pairs) {
        (Some(source), _) => Corpus {
            source: source.clone(),
            target: args.target.clone(),
            fields: None,
        },
        (None, Some(pairs)) => Corpus {
            source: pairs.clone(),
            target: None,
            fields: match &args.fields {
                Some(Fields(fields)) => Some(fields.clone()),
                None => config.train.fields.clone(),
            },
        },
        (None, None) => config.valid.clone(),
    };
    let task = run.task.as_ref();
    // A target of all of `max_len` has a begin symbol, which is not generated.
    let longest = task.max_source();
    let generation = GenerateConfig::new(task.bos_id(), longest)
        .with_eos_id(task.eos_id())
        .with_method(*method)
        .with_length_limit(task.length_limit());
    check_generation(&generation, &run.config.model, args.batch_size.unwrap_or(1))?;

    let begun = Instant::now();
    let mut pairs = corpus.read(Reading {
        lossy: config.lossy || args.lossy,
        ..config.reading()
    })?;
    let mut scorer = Scorer::new(args.tokenize, args.lower_case);
    let mut progress = LineProgress::new(false);
    let (mut loss, mut right, mut tokens) = (0.0, 0.0, 0);
    let mut cut = 0;
    loop {
        let chunk: Vec<Pair> = pairs.by_ref().take(CHUNK).collect::<Result<_, _>>()?;
        if chunk.is_empty() {
            break;
        }
        let mut examples = Vec::with_capacity(chunk.len());
        for pair in &chunk {
            let (example, is_cut) = example(task, pair, longest);
            cut += u64::from(is_cut);
            examples.push(example);
        }
        let size = args.batch_size;
        let decoded = evaluate::decode(&run.model, task, &examples, size, &generation);
        for (decoded, pair) in decoded.iter().zip(&chunk) {
            scorer.add(&task.show(&decoded.output), &pair.target);
        }
        let score = evaluate::teacher_forced(&run.model, task, &examples, size, device);
        loss += score.loss * score.tokens as f64;
        right += score.token_accuracy * score.tokens as f64;
        tokens += score.tokens;
        progress.count("pairs", chunk.len());
    }
    progress.finish();
    for note in pairs.met().notes() {
        output::note(&format!("{}: {note}", corpus.source.display()));
    }
    if cut > 0 {
        let what = "have a side longer than the model can take: cut";
        output::note(&format!("{cut} pairs {what}"));
    }
    if tokens == 0 {
        let what = "has no pair with something on both sides";
        return Err(UsageError::new("corpus", corpus.source.display(), what).into());
    }
    let loss = loss / tokens as f64;
    let evaluation = Evaluation {
        scores: scorer.scores(),
        loss,
        perplexity: loss.exp(),
        token_accuracy: right / tokens as f64,
        beam: match method {
            Method::Beam { width, .. } => *width,
            _ => 1,
        },
        step: run.step,
        seconds: begun.elapsed().as_secs_f64(),
    };
    output::result(&evaluation.text(args.json)?)
}

/// A pair as tokens, and whether it had to be cut.
fn example(task: &dyn Task, pair: &Pair, longest: usize) -> (Example, bool) {
    let nothing_is_wrong = "every text has tokens";
    let mut source = task.parse_source(&pair.source).expect(nothing_is_wrong);
    let output = task.parse(&pair.target).expect(nothing_is_wrong);
    let is_cut = source.len() > longest || output.len() + 1 > longest;
    if source.len() > longest {
        source.truncate(longest - 1);
        source.extend(task.eos_id());
    }
    let mut target = vec![task.bos_id()];
    target.extend(output.into_iter().take(longest - 1));
    target.extend(task.eos_id());
    (Example { source, target }, is_cut)
}

impl Evaluation {
    fn text(&self, json: bool) -> Result<String> {
        if json {
            return Ok(serde_json::to_string(self)?);
        }
        Ok(format!(
            "{}\nloss {:.4}, perplexity {:.2} a token, token accuracy {:.4}\nbeam {}, step {}, {:.1} s",
            self.scores.text(false)?,
            self.loss,
            self.perplexity,
            self.token_accuracy,
            self.beam,
            self.step,
            self.seconds
        ))
    }
}
