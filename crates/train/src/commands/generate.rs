//! `train generate`: generate an output for each input line.

use std::io::{self, BufWriter, IsTerminal, Seek, Write as _};
use std::ops::ControlFlow;
use std::path::Path;

use anyhow::Result;
use serde::{Deserialize, Serialize};
use training::collective::Collective;
use training::data::parallel::is_json_lines;
use training::data::{DataConfig, UnknownCounts, note_unknown};
use training::error::UsageError;
use training::files::write_whole_by;
use training::inference::{Generation, Input, Predictor, Request, Unreadable, Work};
use training::pretrained::{Languages, is_pretrained};

use super::dialog;
use super::hypotheses::check_outputs;
use super::trained::load;
use crate::args::{GenerateArgs, folder_of, needs, reject, unwritable_output, usual_batch_size};
use crate::group::Group;
use crate::number::grouped;
use crate::terminal::{LineProgress, output};

/// Default number of lines in a batch, unless these would need too much memory. At a terminal and
/// with `--stream`, the default is 1.
const BATCH_SIZE: usize = 64;

/// Number of batches whose lines are read from a file at once.
const BATCHES_AT_ONCE: usize = 16;

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, a run or an input that cannot be read, a device that cannot be used, wrong lines,
/// outputs that are not finite, or a stdout that cannot be written.
pub(super) fn run(args: &GenerateArgs, group: &Group) -> Result<()> {
    args.check()?;
    let languages = Languages::new(args.source_lang.clone(), args.target_lang.clone());
    let trained = load(&args.trained, Some(&languages), args.int8, group)?;
    let run = &trained.run;
    if let Some(path) = &args.output {
        let mut inputs = vec![&*args.input.input];
        if let DataConfig::Text(text) = &run.config.data {
            inputs.extend(text.inputs());
        }
        check_outputs("--output", path, inputs)?;
        let lines = Some(path.display()).filter(|_| is_json_lines(path));
        let name = "--json, because its name is that of JSON lines";
        needs("--output", lines, name, args.json)?;
    }
    let group = group.collective();
    // Rank 0 reads the input for all processes.
    let open = || args.input.open();
    let input = group.is_first().then(open).transpose()?;
    // At a terminal and with `--stream`, the user waits for each output, so a batch has one line.
    let is_interactive = args.stream || input.as_ref().is_some_and(Input::is_terminal);
    let default = if is_interactive { 1 } else { BATCH_SIZE };
    let model = &run.config.model;
    let config = args.config(run.dataset.as_ref(), model)?;
    // `--batch-size` cannot be combined with `--stream`, which therefore has the default of 1.
    let default = usual_batch_size(&config, model, default);
    let limit = args.max_length.or(run.dataset.search().max_length);
    let work = if args.score {
        Work::Score
    } else {
        Work::Generate(Generation {
            prefix: args.prefix(run.dataset.as_ref(), config.max_length)?,
            alignments: args.alignments,
            extends: limit.is_none(),
            config,
        })
    };
    let mut predictor = Predictor::new(run, work, args.json);
    predictor.batch_size = args.batch_size.unwrap_or(default);
    let Some(mut input) = input else {
        return follow(&predictor, group);
    };
    if input.is_terminal() && io::stdout().is_terminal() {
        // The prompt reads stdin itself.
        drop(input);
        let output = args.output.as_ref().map(|path| path.display());
        reject("--output", output, "needs a TEXT, --input or a pipe")?;
        dialog::run(args, run, &predictor)?;
    } else {
        let mut progress = (!is_interactive).then(|| LineProgress::new("lines", input.total()));
        let mut all = |write: &mut Write<'_>| {
            let progress = progress.as_mut();
            predict_all(args, &predictor, &mut input, progress, group, write)
        };
        let (lines, wrong, unknown) = match &args.output {
            None => all(&mut output::stream)?,
            Some(path) => to_file(path, &mut all)?,
        };
        drop(progress);
        note_unknown(unknown, "");
        if wrong > 0 {
            let [wrong, lines] = [wrong, lines].map(grouped);
            let what = format!("{wrong} of {lines} lines were wrong, see the errors above");
            return Err(args.input.wrong(what).into());
        }
    }
    if !is_pretrained(&args.trained.run) {
        output::note(&args.trained.checkpoint.describe(run.step));
    }
    // An empty window tells the other processes that the input has ended.
    Window::default().shared(group);
    Ok(())
}

/// Writes outputs, and returns `Break` if nobody reads them.
type Write<'a> = dyn FnMut(&str) -> Result<ControlFlow<()>> + 'a;

/// Writes the outputs of `all` to a file, whole or not at all. Returns what `all` returns.
fn to_file<T>(path: &Path, all: &mut dyn FnMut(&mut Write<'_>) -> Result<T>) -> Result<T> {
    let is_device = path.exists() && !path.is_file();
    let mut written = || -> Result<T> {
        // A file without a name leaves nothing behind if a signal ends the process.
        let mut whole = if is_device {
            tempfile::tempfile()?
        } else {
            tempfile::tempfile_in(folder_of(path))?
        };
        let mut file = BufWriter::new(&whole);
        let mut write = |text: &str| {
            file.write_all(text.as_bytes())?;
            Ok(ControlFlow::Continue(()))
        };
        let result = all(&mut write)?;
        file.flush()?;
        drop(file);
        whole.rewind()?;
        write_whole_by(path, |file| output::copy(&mut whole, file))?;
        Ok(result)
    };
    written().map_err(|error| unwritable_output(path, error))
}

/// The requests that are predicted next: a share for each process of the group, by rank. Empty at
/// the end of the input.
#[derive(Default, Serialize, Deserialize)]
struct Window(Vec<Vec<Request>>);

impl Window {
    /// Returns the window of rank 0 in every process. The other processes may pass any window.
    fn shared(self, group: &dyn Collective) -> Self {
        if group.size() == 1 {
            return self;
        }
        let bytes = serde_json::to_vec(&self).expect("it is plain data");
        let bytes = group.broadcast(bytes);
        serde_json::from_slice(&bytes).expect("rank 0 has written it")
    }

    /// Returns the outputs of all processes, in the order of the requests.
    fn predict(
        &self,
        predictor: &Predictor,
        group: &dyn Collective,
        report: &mut dyn FnMut(usize),
    ) -> Result<Vec<String>> {
        let own = predictor.predict(&self.0[group.rank()], report);
        if group.size() == 1 {
            return own;
        }
        let all = group.gather_values(&own.as_ref().cloned().map_err(|error| format!("{error:#}")));
        // An error of this process keeps its kind.
        own?;
        let parts: Result<Vec<Vec<String>>, String> = all.into_iter().collect();
        Ok(parts.map_err(anyhow::Error::msg)?.concat())
    }
}

/// Predicts this process's share of the requests that rank 0 reads, until the input has ended.
fn follow(predictor: &Predictor, group: &dyn Collective) -> Result<()> {
    loop {
        let window = Window::default().shared(group);
        if window.0.is_empty() {
            return Ok(());
        }
        window.predict(predictor, group, &mut |_| ())?;
    }
}

/// Lines of the input.
#[derive(Default)]
struct Batch {
    requests: Vec<Request>,
    /// The number of each blank or wrong line, and its output, which needs no model.
    others: Vec<(u64, String)>,
    /// Number of wrong lines among `others`.
    wrong: usize,
    /// How reading ended: `Ok` at the end of the input, or the error that stopped it. `None` while
    /// there may be more lines.
    end: Option<Result<(), UsageError>>,
}

impl Batch {
    fn len(&self) -> usize {
        self.requests.len() + self.others.len()
    }
}

/// Writes the outputs for all lines. Returns the number of lines, how many of them were wrong, and the
/// numbers of unknown tokens.
fn predict_all(
    args: &GenerateArgs,
    predictor: &Predictor,
    input: &mut Input,
    mut progress: Option<&mut LineProgress>,
    group: &dyn Collective,
    write: &mut Write<'_>,
) -> Result<(usize, usize, UnknownCounts)> {
    let (mut lines, mut wrong, mut unknown) = (0, 0, UnknownCounts::default());
    // Lines of similar lengths share a batch. Whoever writes to a pipe may wait for outputs.
    let waits = args.stream || !args.input.input.is_file();
    let share = predictor.batch_size * if waits { 1 } else { BATCHES_AT_ONCE };
    loop {
        let batch = read(input, predictor, share * group.size(), args.keep_going)?;
        let mut left = batch.len();
        lines += left;
        wrong += batch.wrong;
        for request in &batch.requests {
            predictor.count_unknown(request, &mut unknown);
        }
        let written = if args.stream {
            stream(predictor, &batch)?
        } else {
            let mut shares: Vec<_> = batch.requests.chunks(share).map(<[_]>::to_vec).collect();
            shares.resize(group.size(), Vec::new());
            let mut add = |count: usize| progress.iter_mut().for_each(|it| it.add(count));
            let window = Window(shares).shared(group);
            let outputs = window.predict(predictor, group, &mut |count| {
                left -= count;
                add(count);
            })?;
            add(left);
            let numbers = batch.requests.iter().map(|request| request.line);
            let mut outputs: Vec<_> = numbers.zip(outputs).chain(batch.others).collect();
            outputs.sort_unstable_by_key(|(number, _)| *number);
            let text: String = outputs.into_iter().map(|(_, text)| text).collect();
            write(&text)?
        };
        match batch.end {
            Some(Err(error)) => return Err(error.into()),
            None if written.is_continue() => {}
            _ => return Ok((lines, wrong, unknown)),
        }
    }
}

/// Reads up to `size` lines. Stops if the input cannot be read, and at the first wrong line. If
/// `keep_going` is true, prints the error of a wrong line instead, and continues.
fn read(input: &mut Input, predictor: &Predictor, size: usize, keep_going: bool) -> Result<Batch> {
    let mut batch = Batch::default();
    while batch.len() < size && batch.end.is_none() {
        let (number, request, text) = match input.next() {
            Some(Ok(line)) => (line.number, predictor.request(&line), line.text),
            Some(Err(Unreadable::Line(number, error))) => (number, Err(error), String::new()),
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
            Ok(Some(request)) => batch.requests.push(request),
            Ok(None) => batch.others.push((number, predictor.blank(number, &text))),
            Err(error) if keep_going => {
                output::error(&error.to_string());
                batch.wrong += 1;
                let text = predictor.rejected(number, &error);
                batch.others.push((number, text));
            }
            Err(error) => batch.end = Some(Err(error)),
        }
    }
    Ok(batch)
}

/// Writes the output of a batch of one line token by token.
fn stream(predictor: &Predictor, batch: &Batch) -> Result<ControlFlow<()>> {
    match (&batch.requests[..], &batch.others[..]) {
        ([request], _) => predictor.stream(request, output::stream),
        (_, [(_, text)]) => output::stream(text),
        _ => Ok(ControlFlow::Continue(())),
    }
}
