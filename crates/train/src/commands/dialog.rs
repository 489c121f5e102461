//! `train generate` at a terminal: asks for each line at a prompt, and asks again after a wrong
//! line.

use std::ops::ControlFlow;

use anyhow::Result;
use training::data::{DataConfig, Split, UnknownCounts, note_unknown};
use training::inference::{Line, Predictor};
use training::run::checkpoint::TrainedRun;

use crate::args::GenerateArgs;
use crate::terminal::{Prompt, Reply, output};

/// Asks for lines, and prints the result of each line until the user ends the input or stdout is
/// closed.
///
/// # Errors
///
/// A terminal that cannot be used, a model that fails, or a stdout that cannot be written.
pub(super) fn run(args: &GenerateArgs, run: &TrainedRun, predictor: &Predictor) -> Result<()> {
    let mut prompt = Prompt::open()?;
    output::note(&hint(args, run));
    let mut number = 0;
    loop {
        let text = match ask(&mut prompt, args.score)? {
            Reply::Line(text) => text,
            Reply::Left => {
                output::note("Ctrl-D ends");
                continue;
            }
            Reply::End => return Ok(()),
        };
        number += 1;
        if answer(args, predictor, &Line { number, text })?.is_break() {
            return Ok(());
        }
    }
}

/// Asks for a source and, if `has_target`, for its target. A source with a tab already includes its
/// target.
fn ask(prompt: &mut Prompt, has_target: bool) -> Result<Reply> {
    let source = match prompt.ask("source> ")? {
        Reply::Line(text) => text,
        other => return Ok(other),
    };
    if !has_target || source.trim().is_empty() || source.contains('\t') {
        return Ok(Reply::Line(source));
    }
    Ok(match prompt.ask("target> ")? {
        Reply::Line(target) => Reply::Line(format!("{source}\t{target}")),
        other => other,
    })
}

/// Prints the result for a line, or the error that the line causes.
fn answer(args: &GenerateArgs, predictor: &Predictor, line: &Line) -> Result<ControlFlow<()>> {
    match predictor.request(line) {
        Ok(Some(request)) => {
            let mut unknown = UnknownCounts::default();
            predictor.count_unknown(&request, &mut unknown);
            note_unknown(unknown, "");
            if args.stream {
                return predictor.stream(&request, output::stream);
            }
            output::stream(&predictor.predict(&[request], &mut |_| ())?.concat())
        }
        Ok(None) => Ok(ControlFlow::Continue(())),
        Err(error) => {
            output::error(&error.to_string());
            let kept = args.keep_going.then_some(line.number);
            let rejected = kept.map(|number| predictor.rejected(number, &error));
            output::stream(&rejected.unwrap_or_default())
        }
    }
}

/// Returns a note that tells the user what to type.
fn hint(args: &GenerateArgs, run: &TrainedRun) -> String {
    let source = match run.config.data {
        DataConfig::Text(_) => "a text".into(),
        _ => {
            let examples = run.dataset.held_out(run.config.seed, Split::Test, 1);
            let example = examples.first().map(|example| {
                let source = run.dataset.codec().decode_source(&example.source);
                format!("a source, such as \"{source}\",")
            });
            example.unwrap_or_else(|| "a source".into())
        }
    };
    if args.score {
        format!("Type {source} and press Enter, and then the target to score. Ctrl-D ends.")
    } else {
        format!("Type {source} and press Enter. Ctrl-D ends.")
    }
}
