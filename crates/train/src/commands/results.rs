//! Results that `fit` and `resume` print at the end of a run.

use anyhow::Result;
use burn::module::Module;
use burn::tensor::Device;
use training::config::RunConfig;
use training::data::synthetic::AnnotatedCopy;
use training::data::{DataConfig, Dataset, Decoded};
use training::evaluation::{ByLength, LengthSettings, TestResult, decode_greedily};
use training::run::Summary;
use training::trainer::Finished;
use transformer::Transformer;

use super::lengths;
use crate::plot::attention::{MapOptions, attention_maps, example_source};
use crate::plot::{self, Plot};
use crate::terminal::{Paint, output};

/// Maximum number of decoded sequences that are printed, and of wrong outputs among the others.
const SHOWN: usize = 5;

/// Prints some outputs, unless the program is quiet, and the scores; evaluates by length, and plots the
/// run's curves and attention.
///
/// # Errors
///
/// If stdout or a file of the run cannot be written.
pub(super) fn report(
    config: &RunConfig,
    dataset: &dyn Dataset,
    device: &Device,
    finished: &Finished<Transformer>,
    test: &TestResult,
    summary: &Summary,
    by_length: Option<LengthSettings>,
) -> Result<()> {
    let samples = if output::is_quiet() { 0 } else { SHOWN };
    if matches!(config.data, DataConfig::AnnotatedCopy(_)) && samples > 0 {
        let one_to_ten = [AnnotatedCopy::one_to_ten()];
        for decoded in decode_greedily(&finished.model, dataset, &one_to_ten) {
            print_decoded(dataset, 0, &decoded)?;
        }
    }
    let (steps, seconds) = (summary.steps, summary.train_seconds);
    let took = format!("{steps} steps, {seconds:.1} s of training");
    let shown = test.decoded.iter().enumerate();
    if let Some(scores) = test.texts {
        for (index, decoded) in shown.take(samples) {
            let source = dataset.codec().decode_source(&decoded.example.source);
            output::result(&format!("source   {source}"))?;
            print_pair(dataset, index, decoded, "")?;
        }
        output::result(&format!(
            "BLEU {:.2}, chrF {:.2}, perplexity {:.2} on {} pairs, {took}, {:.2} % of it waiting for data",
            scores.bleu,
            scores.chrf,
            summary.valid_loss.exp(),
            summary.test_sequences,
            100.0 * summary.data_wait
        ))?;
    } else {
        let others = shown.clone().skip(SHOWN);
        let wrong = others.filter(|(_, decoded)| !decoded.is_exact);
        for (index, decoded) in shown.take(samples).chain(wrong.take(samples)) {
            print_decoded(dataset, index, decoded)?;
        }
        output::result(&format!(
            "exact match {:.4} on {} unseen sequences, {took}",
            summary.exact_match, summary.test_sequences
        ))?;
    }
    let folder = finished.folder.path();
    if let (Some(asked), Some(settings)) = (&config.evaluation.by_length, by_length) {
        let lengths = &asked.lengths;
        let by_length = ByLength::new(&finished.model, &config.model, dataset, lengths, device)?;
        lengths::report(&by_length, lengths, &settings, false, folder)?;
    }
    plot::draw_run(folder)?;
    draw_attention(config, dataset, finished)
}

/// Plots the attention of a source of the test split into the run's folder.
fn draw_attention(
    config: &RunConfig,
    dataset: &dyn Dataset,
    finished: &Finished<Transformer>,
) -> Result<()> {
    let Some(source) = example_source(dataset, config.seed) else {
        return Ok(());
    };
    let folder = finished.folder.path();
    let run = plot::Run::read(folder)?.name;
    for maps in attention_maps(
        &finished.model.valid(),
        dataset,
        &source,
        &run,
        &MapOptions::default(),
    )? {
        maps.save(&folder.join("pictures").join(format!("{}.svg", maps.name)))?;
    }
    Ok(())
}

fn print_decoded(dataset: &dyn Dataset, index: usize, decoded: &Decoded) -> Result<()> {
    let (paint, mark) = match decoded.is_exact {
        true => (Paint::Good, "(right)"),
        false => (Paint::Bad, "(wrong)"),
    };
    let mark = format!("  {}", paint.on_stdout(mark));
    print_pair(dataset, index, decoded, &mark)
}

/// Prints the reference and the output of held-out example `index`.
fn print_pair(dataset: &dyn Dataset, index: usize, decoded: &Decoded, mark: &str) -> Result<()> {
    let reference = dataset.scorer().reference(index, &decoded.example);
    output::result(&format!("expected {reference}"))?;
    let text = dataset.codec().decode_target(&decoded.output);
    output::result(&format!("decoded  {text}{mark}"))
}
