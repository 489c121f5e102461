//! `train fit`: train, decode, report. `train resume`: go on.

use std::path::Path;

use anyhow::Result;
use burn::tensor::Device;
use transformer::generate::Method;

use super::lengths;
use crate::checkpoint::{self, Checkpoints, Files};
use crate::cli::{FitArgs, ResumeArgs, length_settings, lengths_of_text, of_any_length};
use crate::config::{RunConfig, TaskConfig};
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::evaluate::{self, Decoded};
use crate::fit::{Ending, Outcome, fit};
use crate::lengths::{ByLength, LengthSettings, LengthsConfig};
use crate::plot;
use crate::run_folder::{RunFolder, read_config};
use crate::task::{AnnotatedCopy, Split, SyntheticTask, Task, expected};
use crate::text::{TextConfig, TextTask};
use crate::{monitor, output};

/// Decoded sequences that are printed, and wrong ones among the others that are printed besides.
const SHOWN: usize = 5;

/// Runs `train fit`.
///
/// # Errors
///
/// Wrong flags, a device that does not come up, a folder that cannot be written, a loss that is
/// not finite.
pub fn run(args: &FitArgs) -> Result<()> {
    if let Some(run) = &args.resume {
        return resume(&args.resume_args(run)?);
    }
    let mut config = args.config()?;
    let run_dir = args.run_dir.as_deref();
    if let TaskConfig::Text(text) = &config.task {
        if args.print_config {
            // What follows from the corpora is not known.
            return output::result(&serde_json::to_string_pretty(&config)?);
        }
        let text = text.clone().with_whole_paths()?;
        return fit_text(config, &text, run_dir, args.plain);
    }
    let task = config.resolve()?;
    if args.print_config {
        return output::result(&serde_json::to_string_pretty(&config)?);
    }
    by_length(&config, task.as_ref())?;
    let device = open_device(&config)?;
    let folder = RunFolder::create(run_dir, &config)?;
    let run = Run {
        config: &config,
        task: task.as_ref(),
        device: &device,
        is_plain: args.plain,
    };
    run.train(folder, None)
}

/// A run on texts, whose vocabularies and batches must be there before its settings can be checked.
fn fit_text(
    mut config: RunConfig,
    text: &TextConfig,
    run_dir: Option<&Path>,
    is_plain: bool,
) -> Result<()> {
    if config.eval_lengths.is_some() {
        return Err(lengths_of_text().into());
    }
    let device = open_device(&config)?;
    let caches = text.cache.clone().unwrap_or(RunFolder::caches(run_dir));
    if let Some(path) = run_dir
        && std::path::absolute(path).ok() == std::path::absolute(&caches).ok()
    {
        let what = "is where tokenised corpora are kept; name another folder";
        return Err(UsageError::new("--run-dir", path.display(), what).into());
    }
    RunFolder::check(run_dir)?;
    let task = TextTask::prepare(text, &caches, config.eval_size)?;
    config.task = TaskConfig::Text(Box::new(task.config().clone()));
    config.resolve_for(&task)?;
    let (_, warmup) = config.schedule.parts();
    if 2 * warmup > config.steps {
        let steps = config.steps;
        output::note(&format!(
            "warning: the learning rate rises for --warmup {warmup} of {steps} steps; with so few pairs, try --preset tiny, more --epochs or smaller --batch-tokens"
        ));
    }
    let folder = RunFolder::create_with(run_dir, &config, |folder| task.save_tokenizers(folder))?;
    let run = Run {
        config: &config,
        task: &task,
        device: &device,
        is_plain,
    };
    run.train(folder, None)
}

/// The task of a run that goes on, with what it learns from.
fn task_again(config: &mut RunConfig, run: &Path) -> Result<Box<dyn Task>> {
    let TaskConfig::Text(text) = &config.task else {
        return Ok(config.resolve()?);
    };
    let mut task = TextTask::open(run, text)?;
    task.reload(&RunFolder::caches(Some(run)), config.eval_size)?;
    config.resolve_for(&task)?;
    Ok(Box::new(task))
}

/// Runs `train resume`.
///
/// # Errors
///
/// A folder that is no run's or is in use, checkpoints that cannot be used, and what stops `fit`.
pub fn resume(args: &ResumeArgs) -> Result<()> {
    let (mut config, _) = read_config(&args.run)?;
    if let Some(backend) = &args.backend {
        config.backend = DeviceName::choose(Some(backend))?.to_string();
    }
    if let Some(steps) = args.steps {
        config.steps = steps;
        config.epochs = None;
    }
    let task = task_again(&mut config, &args.run)?;
    by_length(&config, task.as_ref())?;
    let device = open_device(&config)?;
    let folder = RunFolder::open(&args.run)?;
    let checkpoints = Checkpoints::of(&args.run);
    let is_new = checkpoints.is_new().map_err(|error| {
        let what = format!("cannot be read ({error})");
        UsageError::new("RUN", checkpoints.folder().display(), what)
    })?;
    let files = if is_new && folder.ended_at().is_none() {
        // Killed before the first one was written.
        output::note("the run has no checkpoint yet: it begins again");
        None
    } else {
        let (step, files) = checkpoint::newest(&checkpoints)?;
        let is_over = folder.ended_at() == Some(step) && args.steps.is_none_or(|n| n <= step);
        if is_over || step > config.steps {
            let what = match is_over {
                true => format!("has ended after step {step}; ask for more with --steps"),
                false => format!(
                    "is at step {step}, past --steps {}; ask for more",
                    config.steps
                ),
            };
            return Err(UsageError::new("RUN", args.run.display(), what).into());
        }
        Some(files)
    };
    let run = Run {
        config: &config,
        task: task.as_ref(),
        device: &device,
        is_plain: args.plain,
    };
    run.train(folder, files.as_ref())
}

fn open_device(config: &RunConfig) -> Result<Device> {
    let name: DeviceName = config.backend.parse()?;
    name.open_as(|device| config.precision.configure(device))
}

/// A run that is about to begin or to go on.
struct Run<'a> {
    config: &'a RunConfig,
    task: &'a dyn Task,
    device: &'a Device,
    is_plain: bool,
}

type AskedLengths<'a> = (&'a dyn SyntheticTask, &'a [usize], LengthSettings);

/// What is evaluated by length at the end.
fn by_length<'a>(
    config: &'a RunConfig,
    task: &'a dyn Task,
) -> Result<Option<AskedLengths<'a>>, UsageError> {
    let settings = |asked: &'a LengthsConfig| {
        let task = of_any_length(task)?;
        let settings = length_settings(asked, config, task, Split::Test, Method::Greedy, None)?;
        Ok((task, &asked.lengths[..], settings))
    };
    config.eval_lengths.as_ref().map(settings).transpose()
}

impl Run<'_> {
    fn train(self, folder: RunFolder, from: Option<&Files>) -> Result<()> {
        let config = self.config;
        let path = folder.path().to_owned();
        let first = from.map(checkpoint::read_state).transpose()?;
        let first = first.map_or(0, |state| state.step);
        let watch = || {
            let begins = match first {
                0 => "training".into(),
                step => format!("going on after step {step} with"),
            };
            output::note(&format!(
                "{begins} {} on {}, {} steps, in {}",
                config.task.name(),
                config.backend,
                config.steps,
                path.display()
            ));
            monitor::choose(self.is_plain, config.task.name(), first, config.steps)
        };
        match fit(config, self.task, self.device, folder, from, watch)? {
            Ending::Done(outcome) => {
                self.report(&outcome, &path)?;
                outcome.close()?;
                output::note(&format!("everything about this run: {}", path.display()));
                Ok(())
            }
            Ending::Interrupted { step, checkpoint } => {
                output::note(&format!(
                    "stopped after step {step}, which is saved in {}; go on with\n  train resume {}",
                    checkpoint.display(),
                    path.display()
                ));
                Ok(())
            }
        }
    }

    /// The last line of a run on texts.
    fn report_scores(&self, outcome: &Outcome, path: &Path) -> Result<()> {
        let summary = &outcome.summary;
        output::result(&format!(
            "BLEU {:.2}, chrF {:.2}, perplexity {:.2} on {} pairs, {} steps, {:.1} s of training, {:.2} % of it waiting for data",
            summary.bleu.unwrap_or(0.0),
            summary.chrf.unwrap_or(0.0),
            summary.valid_loss.exp(),
            summary.test_sequences,
            summary.steps,
            summary.train_seconds,
            100.0 * summary.data_wait
        ))?;
        plot::draw_run(path)?;
        Ok(())
    }

    /// Prints what came out.
    fn report(&self, outcome: &Outcome, path: &Path) -> Result<()> {
        let (config, task) = (self.config, self.task);
        if config.task == TaskConfig::AnnotatedCopy {
            let one_to_ten = [AnnotatedCopy::one_to_ten()];
            for decoded in evaluate::decode_greedily(&outcome.model, task, &one_to_ten) {
                print_decoded(task, &decoded)?;
            }
        }
        if task.is_text() {
            for (place, decoded) in outcome.decoded.iter().take(SHOWN).enumerate() {
                let Decoded {
                    example, output, ..
                } = decoded;
                output::result(&format!("source   {}", task.show_source(&example.source)))?;
                output::result(&format!("expected {}", task.reference(place, example)))?;
                output::result(&format!("decoded  {}", task.show(output)))?;
            }
            return self.report_scores(outcome, path);
        }
        let wrong = outcome.decoded[SHOWN.min(outcome.decoded.len())..]
            .iter()
            .filter(|decoded| !decoded.is_exact);
        let shown = outcome.decoded.iter().take(SHOWN);
        for decoded in shown.chain(wrong.take(SHOWN)) {
            print_decoded(task, decoded)?;
        }
        let summary = &outcome.summary;
        output::result(&format!(
            "exact match {:.4} on {} unseen sequences, {} steps, {:.1} s of training",
            summary.exact_match, summary.test_sequences, summary.steps, summary.train_seconds
        ))?;
        if let Some((task, lengths, settings)) = by_length(config, task)? {
            let model = ByLength::new(&outcome.model, &config.model, task, lengths, self.device)?;
            lengths::report(&model, lengths, &settings, false, path)?;
        }
        plot::draw_run(path)?;
        Ok(())
    }
}

fn print_decoded(task: &dyn Task, decoded: &Decoded) -> Result<()> {
    let mark = if decoded.is_exact { "right" } else { "wrong" };
    let right = task.show(expected(task, &decoded.example));
    output::result(&format!("expected {right}"))?;
    output::result(&format!(
        "decoded  {}  ({mark})",
        task.show(&decoded.output)
    ))
}
