//! `train generate`: targets of a user's sources.

use std::ops::ControlFlow;

use anyhow::Result;

use crate::checkpoint::Trained;
use crate::cli::GenerateArgs;
use crate::device::DeviceName;
use crate::error::UsageError;
use crate::generate::{Answerer, Generation, Request, Work};
use crate::input::{Input, Unreadable};
use crate::output;
use crate::progress::LineProgress;

/// Lines that are worked on together.
const BATCH_SIZE: usize = 64;

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a run that cannot be read, a device that does not come up, wrong lines, a stdout
/// that cannot be written.
pub fn run(args: &GenerateArgs) -> Result<()> {
    args.check()?;
    let device = DeviceName::choose(args.backend.as_deref())?.open()?;
    let mut run = Trained::load_which(&args.run, args.checkpoint, &device)?;
    if args.int8 {
        run.model = transformer::weights::quantize_int8(run.model, &device);
    }
    let mut input = Input::open(&args.input)?;
    // Who types a line waits for its answer.
    let default = if input.is_terminal() { 1 } else { BATCH_SIZE };
    let batch_size = match args.stream {
        true => 1,
        false => args.batch_size.unwrap_or(default),
    };
    let work = work(args, &run, batch_size)?;
    let answerer = Answerer::new(&run, work, args.json);
    let mut progress = LineProgress::new(args.stream || input.is_terminal());
    let outcome = answer_all(args, &answerer, &mut input, batch_size, &mut progress);
    progress.finish();
    outcome
}

fn work(args: &GenerateArgs, run: &Trained, batch_size: usize) -> Result<Work, UsageError> {
    let task = run.task.as_ref();
    let config = args.config(task, &run.config.model, batch_size)?;
    if args.score {
        return Ok(Work::Score);
    }
    Ok(Work::Generate(Generation {
        prefix: args.prefix(task, config.max_length)?,
        alignments: args.alignments,
        config,
    }))
}

/// A line, and what is to be written for it.
enum Entry {
    Asked(Request),
    Blank(u64),
    Refused(u64, UsageError),
}

/// Some lines, in their order.
struct Batch {
    entries: Vec<Entry>,
    /// Why there are no more.
    end: Option<UsageError>,
    is_last: bool,
}

fn answer_all(
    args: &GenerateArgs,
    answerer: &Answerer,
    input: &mut Input,
    batch_size: usize,
    progress: &mut LineProgress,
) -> Result<()> {
    let (mut lines, mut wrong) = (0, 0);
    loop {
        let batch = read(input, answerer, batch_size, args.keep_going);
        lines += batch.entries.len();
        for entry in &batch.entries {
            if let Entry::Refused(_, error) = entry {
                progress.note(&format!("error: {error}"));
                wrong += 1;
            }
        }
        let written = if args.stream {
            stream(answerer, &batch.entries)?
        } else {
            let answers = answers(answerer, &batch.entries)?;
            progress.answer(batch.entries.len(), &answers)?
        };
        if let Some(error) = batch.end {
            return Err(error.into());
        }
        if batch.is_last || written.is_break() {
            break;
        }
    }
    if wrong > 0 {
        let what = format!("{wrong} of {lines} lines were wrong, each is named above");
        return Err(UsageError::new("--input", input.name(), what).into());
    }
    Ok(())
}

/// Reads up to so many lines; to the first wrong one, unless it is to go on.
fn read(input: &mut Input, answerer: &Answerer, size: usize, keep_going: bool) -> Batch {
    let mut batch = Batch {
        entries: Vec::new(),
        end: None,
        is_last: false,
    };
    while batch.entries.len() < size && !batch.is_last {
        let (number, request) = match input.next() {
            None => {
                batch.is_last = true;
                break;
            }
            Some(Err(Unreadable::Rest(error))) => {
                batch.end = Some(error);
                break;
            }
            Some(Err(Unreadable::Line(number, error))) => (number, Err(error)),
            Some(Ok(line)) => (line.number, answerer.request(&line)),
        };
        match request {
            Ok(Some(request)) => batch.entries.push(Entry::Asked(request)),
            Ok(None) => batch.entries.push(Entry::Blank(number)),
            Err(error) if keep_going => batch.entries.push(Entry::Refused(number, error)),
            Err(error) => {
                batch.end = Some(error);
                break;
            }
        }
    }
    batch
}

fn answers(answerer: &Answerer, entries: &[Entry]) -> Result<String> {
    let requests = entries.iter().filter_map(|entry| match entry {
        Entry::Asked(request) => Some(request.clone()),
        _ => None,
    });
    let mut answers = answerer.answer(&requests.collect::<Vec<_>>())?.into_iter();
    let text = entries.iter().map(|entry| match entry {
        Entry::Asked(_) => Ok(answers.next().expect("each request has an answer")),
        Entry::Blank(line) => answerer.blank(*line),
        Entry::Refused(line, error) => answerer.refused(*line, error),
    });
    text.collect()
}

fn stream(answerer: &Answerer, entries: &[Entry]) -> Result<ControlFlow<()>> {
    for entry in entries {
        let written = match entry {
            Entry::Asked(request) => answerer.stream(request, output::stream)?,
            Entry::Blank(line) => output::stream(&answerer.blank(*line)?)?,
            Entry::Refused(line, error) => output::stream(&answerer.refused(*line, error)?)?,
        };
        if written.is_break() {
            return Ok(written);
        }
    }
    Ok(ControlFlow::Continue(()))
}
