//! `train eval`: how well a trained model does on sequences that no run trains on.

use std::time::Instant;

use anyhow::Result;
use serde::Serialize;
use transformer::generate::Method;

use super::{lengths, texts};
use crate::checkpoint::Trained;
use crate::cli::{
    EvalArgs, HeldOut, check_batch_size, check_generation, length_settings, of_any_length,
};
use crate::config::TaskConfig;
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::evaluate;
use crate::lengths::ByLength;
use crate::output;

/// What comes out.
#[derive(Clone, Debug, Serialize)]
struct Evaluation {
    task: String,
    backend: String,
    /// Of the checkpoint.
    step: usize,
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
/// Wrong flags, a run that cannot be read, a device that does not come up.
pub fn run(args: &EvalArgs) -> Result<()> {
    check_batch_size(args.batch_size)?;
    let method = args.beam.method()?;
    let name = DeviceName::choose(args.backend.as_deref())?;
    let device = name.open()?;
    let mut run = Trained::load_which(&args.run, args.checkpoint, &device)?;
    if args.int8 {
        run.model = transformer::weights::quantize_int8(run.model, &device);
    }
    let task = run.task.as_ref();
    let split = args.split.into();
    if let TaskConfig::Text(config) = &run.config.task
        && args.lengths.eval_lengths.is_none()
    {
        return texts::run(args, &run, config, &method, &device);
    }
    if let Some(path) = args.source.as_ref().or(args.pairs.as_ref()) {
        let flag = if args.pairs.is_some() {
            "--pairs"
        } else {
            "--source"
        };
        let expected = "is for runs of --task text; this one makes its sequences itself";
        return Err(UsageError::new(flag, path.display(), expected).into());
    }
    if let Some(asked) = args.lengths.config()? {
        let size = args.batch_size;
        let task = of_any_length(task)?;
        let settings = length_settings(&asked, &run.config, task, split, method, size)?;
        let lengths = &asked.lengths;
        let model = ByLength::new(&run.model, &run.config.model, task, lengths, &device)?;
        return lengths::report(&model, lengths, &settings, args.json, &args.run);
    }
    let (split, n) = match args.split {
        HeldOut::Validation => ("validation", run.config.eval_size),
        HeldOut::Test => ("test", run.config.test_size),
    };
    let examples = task.held_out(run.config.seed, args.split.into(), n);
    if examples.is_empty() {
        let what = format!("must say that there are {split} sequences, at least 1");
        let path = args.run.join("config.json");
        return Err(UsageError::new("RUN", path.display(), what).into());
    }
    let batch_size = args.batch_size;
    let config = evaluate::decoding(task, &examples, method);
    let rows = batch_size.unwrap_or(1).min(examples.len());
    check_generation(&config, &run.config.model, rows)?;

    let begun = Instant::now();
    let decoded = evaluate::decode(&run.model, task, &examples, batch_size, &config);
    let score = evaluate::teacher_forced(&run.model, task, &examples, batch_size, &device);
    let evaluation = Evaluation {
        task: run.config.task.name().into(),
        backend: name.to_string(),
        step: run.step,
        split,
        sequences: examples.len(),
        exact_match: evaluate::exact_match(&decoded),
        token_accuracy: score.token_accuracy,
        loss: score.loss,
        beam: match config.method {
            Method::Beam { width, .. } => width,
            _ => 1,
        },
        seconds: begun.elapsed().as_secs_f64(),
    };
    output::result(&evaluation.line(args.json)?)
}

impl Evaluation {
    fn line(&self, json: bool) -> Result<String> {
        if json {
            return Ok(serde_json::to_string(self)?);
        }
        Ok(format!(
            "exact match {:.4}, token accuracy {:.4}, loss {:.4} on {} {} sequences, beam {}, step {}, {:.1} s",
            self.exact_match,
            self.token_accuracy,
            self.loss,
            self.sequences,
            self.split,
            self.beam,
            self.step,
            self.seconds
        ))
    }
}
