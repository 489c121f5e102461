//! `train fit`: train, decode, report.

use anyhow::Result;
use transformer::generate::Method;

use super::lengths;
use crate::cli::FitArgs;
use crate::config::TaskConfig;
use crate::device::DeviceName;
use crate::evaluate::{self, Decoded};
use crate::fit::fit;
use crate::lengths::ByLength;
use crate::output;
use crate::run_folder::RunFolder;
use crate::task::{AnnotatedCopy, Split, Task, expected};

/// Decoded sequences that are printed, and wrong ones among the others that are printed besides.
const SHOWN: usize = 5;

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a device that does not come up, a folder that cannot be written, a loss that is
/// not finite.
pub fn run(args: &FitArgs) -> Result<()> {
    let mut config = args.config()?;
    let task = config.resolve()?;
    let by_length =
        args.lengths
            .settings(&config, task.as_ref(), Split::Test, Method::Greedy, None)?;
    let name: DeviceName = config.backend.parse()?;
    let device = name.open()?;
    let folder = RunFolder::create(args.run_dir.as_deref(), &config)?;
    let path = folder.path().to_owned();
    output::note(&format!(
        "training {} on {name}, {} steps, in {}",
        config.task.name(),
        config.steps,
        path.display()
    ));
    let outcome = fit(&config, task.as_ref(), &device, folder)?;

    if config.task == TaskConfig::AnnotatedCopy {
        let one_to_ten = [AnnotatedCopy::one_to_ten()];
        for decoded in evaluate::decode_greedily(&outcome.model, task.as_ref(), &one_to_ten) {
            print_decoded(task.as_ref(), &decoded)?;
        }
    }
    let wrong = outcome.decoded[SHOWN.min(outcome.decoded.len())..]
        .iter()
        .filter(|decoded| !decoded.is_exact);
    let shown = outcome.decoded.iter().take(SHOWN);
    for decoded in shown.chain(wrong.take(SHOWN)) {
        print_decoded(task.as_ref(), decoded)?;
    }
    let summary = &outcome.summary;
    output::result(&format!(
        "exact match {:.4} on {} unseen sequences, {} steps, {:.1} s of training",
        summary.exact_match, summary.test_sequences, summary.steps, summary.train_seconds
    ))?;
    if let Some((lengths, settings)) = by_length {
        let task = task.as_ref();
        let model = ByLength::new(&outcome.model, &config.model, task, lengths, &device)?;
        lengths::report(&model, lengths, &settings, false, &path)?;
    }
    output::note(&format!("everything about this run: {}", path.display()));
    Ok(())
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
