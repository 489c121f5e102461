//! `train eval`: evaluate a trained model on unseen sequences.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use training::config::LengthsConfig;
use training::data::{DataConfig, Split};
use training::evaluation::{self, ByLength};
use training::run::layout::LENGTHS;
use training::run::{LengthsOf, add_lengths, unusable};
use transformer::generate::Method;

use super::hypotheses::HypothesesFile;
use super::trained::{Trained, Which, load};
use super::{lengths, translations};
use crate::args::{EvalArgs, check_generation, reject, set};
use crate::group::Group;
use crate::metric;
use crate::number::{grouped, short};
use crate::terminal::output;

/// Scores of a model on a split.
#[derive(Clone, Debug, Serialize)]
struct Evaluation {
    task: String,
    backend: String,
    #[serde(flatten)]
    which: Which,
    split: &'static str,
    sequences: usize,
    exact_match: f64,
    token_accuracy: f64,
    loss: f64,
    beam: usize,
    seconds: f64,
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a run or a corpus that cannot be read, a device that cannot be used, outputs that
/// are not finite, or a file or a stdout that cannot be written.
pub(super) fn run(args: &EvalArgs, group: &Group) -> Result<()> {
    let mut by_length = args.lengths.config()?;
    let trained = load(&args.trained, None, args.int8, group)?;
    let method = args.beam.method_or(trained.run.dataset.search().method)?;
    if let (DataConfig::Text(config), None) = (&trained.run.config.data, &by_length) {
        let expected = "is not a split of a text run; name a test set with --source and --target, or with --pairs";
        let missing = args.split.filter(|&split| split == Split::Test);
        reject("--split", missing.map(|_| "test"), expected)?;
        return translations::run(args, &trained, config, method, group);
    }
    let own = &trained.run.config.evaluation.by_length;
    let given = args.lengths.of(LengthsConfig::sequences);
    if let (Some(asked), Some(own), None) = (&mut by_length, own, given) {
        asked.sequences = own.sequences;
    }
    let only_text = "is for runs of --task text; this one makes its sequences itself";
    for (flag, is_given) in [
        ("--pairs", args.pairs.is_some()),
        ("--source", args.source.is_some()),
        ("--tokenize", args.metric.tokenize.is_some()),
        ("--lower-case", args.metric.lower_case),
        ("--lossy", args.lossy),
    ] {
        reject(flag, is_given.then_some(""), only_text)?;
    }
    let Some(asked) = by_length else {
        return of_split(args, &trained, method, group);
    };
    let (run, group) = (&trained.run, group.collective());
    let (config, dataset, lengths) = (&run.config, run.dataset.as_ref(), &asked.lengths);
    let (split, size) = (args.split.unwrap_or(Split::Test), args.batch_size);
    let settings = lengths::length_settings(&asked, config, Some(dataset), split, method, size)?;
    let model = ByLength::new(&run.model, &config.model, dataset, lengths, group)?;
    let scores = lengths::report(&model, lengths, &settings, args.json)?;
    if !group.is_first() {
        return Ok(());
    }
    let of = LengthsOf::new(&settings, run.step, trained.which.checkpoints);
    add_lengths(&args.trained.run, of, scores, false)?;
    let file = args.trained.run.join(LENGTHS);
    output::note(&format!("written to {}", file.display()));
    Ok(())
}

/// Evaluates a model of a synthetic task on a split.
fn of_split(args: &EvalArgs, trained: &Trained, method: Method, group: &Group) -> Result<()> {
    let (run, group) = (&trained.run, group.collective());
    let (seed, evaluation) = (run.config.seed, &run.config.evaluation);
    let dataset = run.dataset.as_ref();
    let asked = args.split.unwrap_or(Split::Test);
    let (split, size) = match asked {
        Split::Test => ("test", evaluation.test_size),
        _ => ("validation", evaluation.validation_size),
    };
    let examples = dataset.held_out(seed, asked, size);
    if examples.is_empty() {
        let what = format!("must say that there are {split} sequences, at least 1");
        return Err(unusable(&args.trained.run.join("config.json"), what).into());
    }
    let batch_size = args.batch_size;
    let mut config = evaluation::generate_config(dataset, &examples, method);
    set(&mut config.no_repeat_ngram, args.no_repeat_ngram);
    let rows = batch_size.unwrap_or(1).min(examples.len());
    check_generation(&config, &run.config.model, rows)?;

    let path = args.hypotheses.as_deref().filter(|_| group.is_first());
    let file = HypothesesFile::of_flag(path, [])?;
    let begun = Instant::now();
    let outputs = evaluation::decode(&run.model, dataset, &examples, batch_size, &config, group)?;
    let decoded = evaluation::judge(dataset, &examples, outputs);
    if let Some(mut file) = file {
        let codec = dataset.codec();
        let has_eos = codec.vocabularies().eos_id.is_some();
        for decoded in &decoded {
            let source = codec.decode_source(&decoded.example.source);
            let reference = codec.decode_target(decoded.example.output(has_eos));
            file.add(&source, &reference, &codec.decode_target(&decoded.output));
        }
        file.close()?;
    }
    let score = evaluation::teacher_forced(&run.model, dataset, &examples, batch_size, group);
    let evaluation = Evaluation {
        task: run.config.data.name().into(),
        backend: trained.backend.to_string(),
        which: trained.which,
        split,
        sequences: examples.len(),
        exact_match: evaluation::exact_match(&decoded),
        token_accuracy: score.token_accuracy,
        loss: translations::finite(score.loss)?,
        beam: config.rows_per_source(),
        seconds: begun.elapsed().as_secs_f64(),
    };
    output::json_or(args.json, &evaluation, || {
        format!(
            "{}, {}, loss {} on {} {split} sequences, beam {}, {}, {:.1} s",
            metric::named("exact_match", evaluation.exact_match),
            metric::named("token_accuracy", score.token_accuracy),
            short(score.loss),
            grouped(examples.len()),
            evaluation.beam,
            trained.which,
            evaluation.seconds
        )
    })
}
