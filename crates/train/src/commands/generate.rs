//! `train generate`: generate an output for each input line.

use std::ops::ControlFlow;

use anyhow::Result;
use training::error::UsageError;
use training::inference::{Generation, Input, Predictor, Request, Unreadable, Work};

use super::dialog;
use super::trained::load;
use crate::args::GenerateArgs;
use crate::terminal::{LineProgress, output};

/// Default number of lines in a batch. At a terminal and with `--stream`, the default is 1.
const BATCH_SIZE: usize = 64;

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a run that cannot be read, a device that cannot be used, wrong lines, or a stdout
/// that cannot be written.
pub(super) fn run(args: &GenerateArgs) -> Result<()> {
    args.check()?;
    let trained = load(&args.trained, args.int8)?;
    let run = &trained.run;
    let mut input = Input::open(&args.input)?;
    // A user who types a line waits for its output, so each batch has one line.
    let is_interactive = args.stream || input.is_terminal();
    let default = if is_interactive { 1 } else { BATCH_SIZE };
    // `--stream` does not allow `--batch-size`, so its batch size is the default of 1.
    let batch_size = args.batch_size.unwrap_or(default);
    let config = args.config(run.dataset.as_ref(), &run.config.model, batch_size)?;
    let work = match args.score {
        true => Work::Score,
        false => Work::Generate(Generation {
            prefix: args.prefix(run.dataset.codec(), config.max_length)?,
            alignments: args.alignments,
            extends: args.max_length.is_none(),
            config,
        }),
    };
    let predictor = Predictor::new(run, work, args.json);
    if input.is_terminal() {
        // The prompt reads stdin itself.
        drop(input);
        return dialog::run(args, run, &predictor);
    }
    let progress = (!is_interactive).then(|| LineProgress::new("lines"));
    predict_all(args, &predictor, &mut input, batch_size, progress)
}

/// A line of the input: a request, or an output that needs no model.
enum Entry {
    Request(Request),
    /// The output for a blank or a wrong line.
    Output(String),
}

/// Lines of the input, in their order.
#[derive(Default)]
struct Batch {
    entries: Vec<Entry>,
    /// Number of wrong lines.
    wrong: usize,
    /// How reading ended: `Ok` at the end of the input, or the error that stopped it. `None` while
    /// there may be more lines.
    end: Option<Result<(), UsageError>>,
}

fn predict_all(
    args: &GenerateArgs,
    predictor: &Predictor,
    input: &mut Input,
    batch_size: usize,
    mut progress: Option<LineProgress>,
) -> Result<()> {
    let (mut lines, mut wrong) = (0, 0);
    loop {
        let batch = read(input, predictor, batch_size, args.keep_going)?;
        lines += batch.entries.len();
        wrong += batch.wrong;
        let written = if args.stream {
            stream(predictor, &batch.entries)?
        } else {
            let outputs = outputs(predictor, &batch.entries)?;
            if let Some(progress) = &mut progress {
                progress.add(batch.entries.len());
            }
            output::stream(&outputs)?
        };
        match batch.end {
            Some(Err(error)) => return Err(error.into()),
            None if written.is_continue() => {}
            _ => break,
        }
    }
    if wrong > 0 {
        let what = format!("{wrong} of {lines} lines were wrong, see the errors above");
        return Err(UsageError::new("--input", input.name(), what).into());
    }
    Ok(())
}

/// Reads up to `size` lines. Stops at the first wrong line. If `keep_going` is true, prints the
/// error of a wrong line instead, and continues.
fn read(input: &mut Input, predictor: &Predictor, size: usize, keep_going: bool) -> Result<Batch> {
    let mut batch = Batch::default();
    while batch.entries.len() < size && batch.end.is_none() {
        let (number, request) = match input.next() {
            Some(Ok(line)) => (line.number, predictor.request(&line)),
            Some(Err(Unreadable::Line(number, error))) => (number, Err(error)),
            Some(Err(Unreadable::Rest(error))) => {
                batch.end = Some(Err(error));
                break;
            }
            None => {
                batch.end = Some(Ok(()));
                break;
            }
        };
        match request {
            Ok(Some(request)) => batch.entries.push(Entry::Request(request)),
            Ok(None) => batch.entries.push(Entry::Output(predictor.blank(number)?)),
            Err(error) if keep_going => {
                output::error(&error.to_string());
                batch.wrong += 1;
                let rejected = predictor.rejected(number, &error)?;
                batch.entries.push(Entry::Output(rejected));
            }
            Err(error) => batch.end = Some(Err(error)),
        }
    }
    Ok(batch)
}

fn outputs(predictor: &Predictor, entries: &[Entry]) -> Result<String> {
    let requests = entries.iter().filter_map(|entry| match entry {
        Entry::Request(request) => Some(request.clone()),
        Entry::Output(_) => None,
    });
    let outputs = predictor.predict(&requests.collect::<Vec<_>>())?;
    let mut outputs = outputs.into_iter();
    let text = entries.iter().map(|entry| match entry {
        Entry::Request(_) => outputs.next().expect("each request has an output"),
        Entry::Output(text) => text.clone(),
    });
    Ok(text.collect())
}

fn stream(predictor: &Predictor, entries: &[Entry]) -> Result<ControlFlow<()>> {
    for entry in entries {
        let written = match entry {
            Entry::Request(request) => predictor.stream(request, output::stream)?,
            Entry::Output(text) => output::stream(text)?,
        };
        if written.is_break() {
            return Ok(written);
        }
    }
    Ok(ControlFlow::Continue(()))
}
