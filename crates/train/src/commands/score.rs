//! `train score`: score texts against references.

use std::iter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use training::data::parallel::is_json_lines;
use training::error::{UsageError, quote};
use training::files::LineReader;

use super::text_scorer::TextScorer;
use crate::args::MetricArgs;
use crate::number::{counted, grouped};
use crate::terminal::{LineProgress, output};

/// Flags of `score`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
With several references, BLEU counts the matches of an n-gram up to its largest count in any reference, and its brevity penalty uses the reference length closest to that of the output. chrF uses the reference with the best score, and the error rates use the one with the fewest edits. All files have the same number of lines.")]
pub struct ScoreArgs {
    /// File of a model's outputs, one segment per line; - for standard input
    pub hypotheses: PathBuf,
    /// File of the references, one segment per line; several files for several references of each
    /// segment
    #[arg(required = true, num_args = 1..)]
    pub references: Vec<PathBuf>,
    #[command(flatten)]
    pub metric: MetricArgs,
    /// Print a JSON object
    #[arg(long)]
    pub json: bool,
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, files that cannot be read, an empty file of references, files with different
/// numbers of lines, or a stdout that cannot be written.
pub(super) fn run(args: &ScoreArgs) -> Result<()> {
    let all = iter::once(&args.hypotheses).chain(&args.references);
    if all.filter(|file| *file == Path::new("-")).count() > 1 {
        let expected = "is standard input, which only one of the files can be";
        return Err(UsageError::new("-", "", expected).into());
    }
    let references = args.references.iter();
    let references = references.map(|file| lines("REFERENCES", file));
    let references: Vec<Vec<String>> = references.collect::<Result<_, _>>()?;
    let (first, count) = (args.references[0].display(), references[0].len());
    if count == 0 {
        return Err(UsageError::new("REFERENCES", first, "is empty").into());
    }
    let hypotheses = lines("HYPOTHESES", &args.hypotheses)?;
    let all = args.references.iter().zip(&references);
    let all = all.map(|(file, lines)| ("REFERENCES", file, lines));
    for (argument, file, lines) in all.chain([("HYPOTHESES", &args.hypotheses, &hypotheses)]) {
        if lines.len() != count {
            let found = counted(lines.len(), "line");
            let count = grouped(count);
            let expected = format!(
                "has {found}, but {first} has {count}; the same line of both must be the same segment"
            );
            return Err(UsageError::new(argument, file.display(), expected).into());
        }
    }
    let mut scorer = TextScorer::new(args.metric, references.len());
    let mut progress = LineProgress::new("lines scored", Some(hypotheses.len()));
    for (index, hypothesis) in hypotheses.iter().enumerate() {
        let references = references.iter().map(|lines| &lines[index][..]);
        scorer.add(hypothesis, &references.collect::<Vec<_>>());
        progress.add(1);
    }
    drop(progress);
    let scores = scorer.scores();
    output::json_or(args.json, &scores, || scores.text())
}

/// Reads the lines of a file, or of stdin for `-`.
fn lines(argument: &str, path: &Path) -> Result<Vec<String>, UsageError> {
    let wrong = |what: String| UsageError::new(argument, path.display(), what);
    let name = path.to_string_lossy().to_lowercase();
    if is_json_lines(path) || name.trim_end_matches(".gz").ends_with(".tsv") {
        let what = "has lines of several fields by its name, but a line must be a text to score: \
                    give the texts in a file such as hypotheses.txt, which `train eval` writes too";
        return Err(wrong(what.into()));
    }
    let unreadable = |error| wrong(format!("cannot be read ({error})"));
    let mut reader = LineReader::open(path).map_err(unreadable)?;
    let mut lines = Vec::new();
    while let Some(line) = reader.next_line().map_err(unreadable)? {
        let line = String::from_utf8(line).map_err(|error| {
            let number = reader.number();
            let start = quote(&String::from_utf8_lossy(error.as_bytes()));
            wrong(format!("line {number} is not UTF-8: {start}"))
        })?;
        lines.push(line);
    }
    Ok(lines)
}
