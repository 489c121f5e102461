//! `train score`: score texts against references.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::iter;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde::Serialize;
use training::error::{UsageError, quote};
use training::files::LineReader;
use training::metrics::{BleuCounts, BootstrapScore, ChrfCounts, paired_bootstrap};

use super::text_scorer::{Scores, Signatures, TextScorer};
use crate::args::{Bootstrap, ScoreArgs};
use crate::terminal::{LineProgress, output};

/// Significance level: a difference with a smaller p-value is marked as significant.
const SIGNIFICANT: f64 = 0.05;

/// The outputs of a model: the name of their file, their scores, and the counts of each segment.
struct System {
    name: String,
    scores: Scores,
    bleu: Vec<BleuCounts>,
    chrf: Vec<ChrfCounts>,
}

/// Scores of a system in the form of their JSON output, if there are several systems.
#[derive(Serialize)]
struct Record<'a> {
    system: &'a str,
    #[serde(flatten)]
    scores: &'a Scores,
    #[serde(skip_serializing_if = "Option::is_none")]
    bleu_bootstrap: Option<Resampled>,
    #[serde(skip_serializing_if = "Option::is_none")]
    chrf_bootstrap: Option<Resampled>,
}

/// Statistics of a score over the samples of a bootstrap.
#[derive(Serialize)]
struct Resampled {
    mean: f64,
    /// Half the width of the 95 % confidence interval.
    interval: f64,
    /// P-value of the difference from the baseline; `None` for the baseline itself.
    p_value: Option<f64>,
}

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, files that cannot be read, an empty file of references, files with different
/// numbers of lines, or a stdout that cannot be written.
pub(super) fn run(args: &ScoreArgs) -> Result<()> {
    let bootstrap = args.bootstrap()?;
    let files = iter::once(("HYPOTHESES", &args.hypotheses));
    let files = files.chain(args.compare.iter().map(|file| ("--compare", file)));
    let files: Vec<(&str, &PathBuf)> = files.collect();
    let all = files.iter().map(|(_, file)| *file).chain(&args.references);
    if all.filter(|file| is_stdin(file)).count() > 1 {
        let expected = "is standard input, which only one of the files can be";
        return Err(UsageError::new("-", "", expected).into());
    }
    let references = read_all(&args.references)?;
    let mut systems = Vec::with_capacity(files.len());
    for (argument, file) in files {
        let hypotheses = lines(argument, file)?;
        check_length(argument, file, &hypotheses, args, &references)?;
        systems.push(system(args, file, &hypotheses, &references));
    }
    match (&systems[..], bootstrap) {
        ([only], _) => output::json_or(args.json, &only.scores, || only.scores.text()),
        (_, Some(bootstrap)) => report_bootstrap(args, &systems, bootstrap),
        _ => report_scores(args, &systems),
    }
}

/// Reads the files of references, and checks that they have the same number of lines, at least 1.
fn read_all(files: &[PathBuf]) -> Result<Vec<Vec<String>>, UsageError> {
    let mut references: Vec<Vec<String>> = Vec::with_capacity(files.len());
    for file in files {
        let found = lines("REFERENCES", file)?;
        if found.is_empty() {
            return Err(UsageError::new("REFERENCES", file.display(), "is empty"));
        }
        if let Some(first) = references
            .first()
            .filter(|first| first.len() != found.len())
        {
            let expected = differs(found.len(), &files[0], first.len());
            return Err(UsageError::new("REFERENCES", file.display(), expected));
        }
        references.push(found);
    }
    Ok(references)
}

fn check_length(
    argument: &str,
    file: &Path,
    hypotheses: &[String],
    args: &ScoreArgs,
    references: &[Vec<String>],
) -> Result<(), UsageError> {
    let expected = references[0].len();
    if hypotheses.len() == expected {
        return Ok(());
    }
    let expected = differs(hypotheses.len(), &args.references[0], expected);
    Err(UsageError::new(argument, file.display(), expected))
}

fn differs(found: usize, file: &Path, expected: usize) -> String {
    format!(
        "has {found} lines, but {} has {expected}; the same line of both must be the same segment",
        file.display()
    )
}

/// Scores the outputs of a model.
fn system(
    args: &ScoreArgs,
    file: &Path,
    hypotheses: &[String],
    references: &[Vec<String>],
) -> System {
    let mut scorer = TextScorer::new(args.metric, references.len());
    let mut progress = LineProgress::new("lines scored");
    let counts = hypotheses.iter().enumerate().map(|(index, hypothesis)| {
        let references = references.iter().map(|lines| &lines[index][..]);
        let counts = scorer.add(hypothesis, &references.collect::<Vec<_>>());
        progress.add(1);
        counts
    });
    let (bleu, chrf) = counts.unzip();
    System {
        name: file.display().to_string(),
        scores: scorer.scores(),
        bleu,
        chrf,
    }
}

fn report_scores(args: &ScoreArgs, systems: &[System]) -> Result<()> {
    for (index, system) in systems.iter().enumerate() {
        let record = Record {
            system: &system.name,
            scores: &system.scores,
            bleu_bootstrap: None,
            chrf_bootstrap: None,
        };
        let gap = if index == 0 { "" } else { "\n" };
        let text = || format!("{gap}{}\n{}", system.name, system.scores.text());
        output::json_or(args.json, &record, text)?;
    }
    Ok(())
}

/// Prints the scores of all systems, and whether they differ significantly from the scores of the
/// first system.
fn report_bootstrap(args: &ScoreArgs, systems: &[System], bootstrap: Bootstrap) -> Result<()> {
    let Bootstrap { samples, seed } = bootstrap;
    let bleu: Vec<Vec<BleuCounts>> = systems.iter().map(|one| one.bleu.clone()).collect();
    let chrf: Vec<Vec<ChrfCounts>> = systems.iter().map(|one| one.chrf.clone()).collect();
    let bleu = paired_bootstrap(&bleu, samples, seed);
    let chrf = paired_bootstrap(&chrf, samples, seed);
    if args.json {
        for (system, (bleu, chrf)) in systems.iter().zip(bleu.iter().zip(&chrf)) {
            let record = Record {
                system: &system.name,
                scores: &system.scores,
                bleu_bootstrap: Some(resampled(bleu)),
                chrf_bootstrap: Some(resampled(chrf)),
            };
            output::result(&serde_json::to_string(&record)?)?;
        }
        return Ok(());
    }
    let mut names: Vec<String> = systems.iter().map(|system| system.name.clone()).collect();
    names[0] += " (baseline)";
    let width = names.iter().map(|name| name.chars().count()).max();
    let width = width.unwrap_or(0);
    let header = |metric: &str| format!("{metric:>5}  mean ± 95% CI  p-value ");
    let headers = format!("{}  {}", header("BLEU"), header("chrF"));
    output::result(format!("{:width$}  {headers}", "").trim_end())?;
    for (name, (bleu, chrf)) in names.iter().zip(bleu.iter().zip(&chrf)) {
        let line = format!("{name:width$}  {}  {}", columns(bleu), columns(chrf));
        output::result(line.trim_end())?;
    }
    let signatures = Signatures::new(args.metric, args.references.len(), Some((samples, seed)));
    output::result(&format!(
        "* differs from the baseline with p < {SIGNIFICANT}, by a paired bootstrap of {samples} samples\nBLEU {}\nchrF {}",
        signatures.bleu, signatures.chrf
    ))
}

/// Returns the columns of one metric in the row of a system.
fn columns(found: &BootstrapScore) -> String {
    let p_value = found.p_value.map_or(String::new(), |p_value| {
        let mark = if p_value < SIGNIFICANT { "*" } else { " " };
        format!("{p_value:.4} {mark}")
    });
    format!(
        "{:5.2}  {:6.2} ± {:4.2}  {p_value:8}",
        found.score, found.mean, found.interval
    )
}

fn resampled(found: &BootstrapScore) -> Resampled {
    Resampled {
        mean: found.mean,
        interval: found.interval,
        p_value: found.p_value,
    }
}

fn is_stdin(file: &Path) -> bool {
    file == Path::new("-")
}

/// Reads the lines of a file, or of stdin for `-`.
fn lines(argument: &str, path: &Path) -> Result<Vec<String>, UsageError> {
    let wrong = |what: String| UsageError::new(argument, path.display(), what);
    let unreadable = |error| wrong(format!("cannot be read ({error})"));
    let reader: Box<dyn BufRead> = if is_stdin(path) {
        Box::new(std::io::stdin().lock())
    } else if path.is_dir() {
        return Err(wrong("is a folder, but must be a file".into()));
    } else {
        Box::new(BufReader::new(File::open(path).map_err(unreadable)?))
    };
    let mut reader = LineReader::new(reader);
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
