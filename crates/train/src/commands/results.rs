//! Results that `fit` and `resume` print at the end of a run.

use std::path::Path;

use anyhow::Result;
use burn::module::Module;
use console::{StyledObject, style};
use training::data::{Dataset, Decoded};
use training::evaluation::{ByLength, TestResult};
use training::run::layout::PICTURES;
use training::run::{LengthsOf, RunData, Summary, TrainingState, add_lengths, quoted};
use training::trainer::Finished;

use super::lengths;
use crate::args::flags::describe_usage;
use crate::metric;
use crate::number::{counted, grouped};
use crate::plot::attention::{attention_maps, check_size, example_source};
use crate::plot::{self, Plot};
use crate::terminal::output;

/// Maximum number of decoded sequences that are printed.
const SHOWN: usize = 3;

/// Reports a finished run: prints some outputs (unless the program is quiet) and the scores,
/// evaluates by length if the settings ask for it, and plots curves and attention.
///
/// # Errors
///
/// If stdout or a file of the run cannot be written, or generation fails.
pub(super) fn report(finished: &Finished, test: &TestResult, summary: &Summary) -> Result<()> {
    let (config, dataset, group) = (finished.config, finished.dataset, finished.group);
    let samples = if output::is_quiet() { 0 } else { SHOWN };
    let (step, sequences) = (grouped(summary.model_step), summary.sequences);
    let (steps, seconds) = (grouped(config.optimization.steps), summary.train_seconds);
    let took = format!("step {step} of {steps}, {seconds:.1} s of training");
    for (index, decoded) in test.decoded.iter().enumerate().take(samples) {
        // A good translation is rarely the same as its reference.
        let mark = test.scores.texts.is_none().then_some(if decoded.is_exact {
            style("(right)").green()
        } else {
            style("(wrong)").red()
        });
        print_sample(dataset, index, decoded, mark)?;
    }
    if let Some(scores) = test.scores.texts {
        output::results(&format!(
            "BLEU {:.2}, chrF {:.2}, perplexity {:.2} on {}, {took}, {:.2} % of it waiting for data",
            scores.bleu,
            scores.chrf,
            summary.valid_loss.exp(),
            counted(sequences, "validation pair"),
            100.0 * summary.data_wait
        ))?;
    } else {
        let exact_match = metric::named("exact_match", summary.exact_match);
        let sequences = counted(sequences, "unseen sequence");
        output::results(&format!("{exact_match} on {sequences}, {took}"))?;
    }
    let folder = finished.folder.path();
    let settings = lengths::at_end(config, Some(dataset))?;
    if let (Some(asked), Some(settings)) = (&config.evaluation.by_length, settings) {
        let lengths = &asked.lengths;
        let by_length = ByLength::new(&finished.model, &config.model, dataset, lengths, group)?;
        let measured = lengths::report(&by_length, lengths, &settings, false)?;
        let of = LengthsOf::new(&settings, finished.model_step, 1);
        if group.is_first() {
            add_lengths(folder, of, measured, true)?;
        }
    }
    if !group.is_first() {
        return Ok(());
    }
    output::note("plotting curves and attention ...");
    plot::draw_run(folder)?;
    draw_attention(finished)
}

/// Plots the attention weights for one source of the test split. The plots are written to the
/// folder of the run.
fn draw_attention(finished: &Finished) -> Result<()> {
    let dataset = finished.dataset;
    let Some(source) = example_source(dataset, finished.config.seed) else {
        return Ok(());
    };
    let folder = finished.folder.path();
    let name = RunData::summary(folder)?.name;
    let run = format!("{name}, step {}", finished.model_step);
    let all = attention_maps(&finished.model.valid(), dataset, &source, &run)?;
    if let Err(error) = check_size(&all) {
        output::note(&format!("no attention maps: {}", describe_usage(&error)));
        return Ok(());
    }
    for maps in all {
        maps.save(&folder.join(PICTURES), &maps.file_name())?;
    }
    Ok(())
}

/// Prints the source, the reference and the output of an example. `index` is its index in the
/// split, which only the references of texts need.
fn print_sample(
    dataset: &dyn Dataset,
    index: usize,
    decoded: &Decoded,
    mark: Option<StyledObject<&str>>,
) -> Result<()> {
    let source = dataset.codec().decode_source(&decoded.example.source);
    output::result(&format!("source   {source}"))?;
    let reference = dataset.reference(index, &decoded.example);
    output::result(&format!("expected {reference}"))?;
    let text = dataset.codec().decode_target(&decoded.output);
    output::marked(&format!("decoded  {text}"), mark)
}

/// Prints the best evaluation of a finished run, the folder of the run, and the commands that the
/// user may run next. `model_step` is the step of the run's model.
pub(super) fn say_what_next(folder: &Path, state: &TrainingState, model_step: usize) {
    if let Some(best) = state.best.filter(|best| best.step == model_step) {
        let value = metric::named(best.field(), best.value);
        let (best, last) = (best.step, state.step);
        let chosen = format!("best evaluation: {value} at step {best}, which is the run's model");
        output::note(&if best == last {
            chosen
        } else {
            format!("{chosen}; --checkpoint last is step {last}")
        });
    }
    let run = quoted(&folder.display().to_string());
    output::note(&format!("everything about this run: {}", folder.display()));
    output::note("next:");
    for command in ["generate", "report", "plot"] {
        output::note(&format!("  train {command} {run}"));
    }
}
