//! `train score`: score texts against references.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;
use training::error::{UsageError, quote};
use training::metrics::{BleuCounts, ChrfCounts, EditCounts};

use crate::args::{MetricArgs, ScoreArgs};
use crate::terminal::output;

/// Scores of texts.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scores {
    segments: u64,
    bleu: f64,
    precisions: [f64; 4],
    brevity_penalty: f64,
    hypothesis_tokens: u64,
    reference_tokens: u64,
    bleu_signature: String,
    chrf: f64,
    chrf_signature: String,
    word_error_rate: Option<f64>,
    character_error_rate: Option<f64>,
    exact_match: f64,
}

/// Runs the command.
///
/// # Errors
///
/// Files that cannot be read, or that have different numbers of lines.
pub(super) fn run(args: &ScoreArgs) -> Result<()> {
    let hypotheses = lines("HYPOTHESES", &args.hypotheses)?;
    let references = lines("REFERENCES", &args.references)?;
    if hypotheses.len() != references.len() {
        let expected = format!(
            "has {} lines, but {} has {}; the same line of both must be the same segment",
            hypotheses.len(),
            args.references.display(),
            references.len()
        );
        return Err(UsageError::new("HYPOTHESES", args.hypotheses.display(), expected).into());
    }
    if references.is_empty() {
        return Err(UsageError::new("REFERENCES", args.references.display(), "is empty").into());
    }
    let mut scorer = TextScorer::new(args.metric);
    for (hypothesis, reference) in hypotheses.iter().zip(&references) {
        scorer.add(hypothesis, reference);
    }
    let scores = scorer.scores();
    output::json_or(args.json, &scores, || scores.text())
}

/// Counts from which scores of texts are computed.
#[derive(Default)]
pub(super) struct TextScorer {
    metric: MetricArgs,
    bleu: BleuCounts,
    chrf: ChrfCounts,
    words: EditCounts,
    characters: EditCounts,
    same: u64,
    segments: u64,
}

impl TextScorer {
    /// Starts without segments.
    pub(super) fn new(metric: MetricArgs) -> Self {
        Self {
            metric,
            ..Self::default()
        }
    }

    /// Adds a segment.
    pub(super) fn add(&mut self, hypothesis: &str, reference: &str) {
        let case = |text: &str| match self.metric.lower_case {
            true => text.to_lowercase(),
            false => text.into(),
        };
        let [hypothesis, reference] = [hypothesis, reference].map(case);
        self.bleu.add(&hypothesis, &reference, self.metric.tokenize);
        self.chrf.add(&hypothesis, &reference);
        self.words.add_words(&hypothesis, &reference);
        self.characters.add_characters(&hypothesis, &reference);
        self.same += u64::from(hypothesis == reference);
        self.segments += 1;
    }

    /// Returns the scores of all segments so far.
    pub(super) fn scores(&self) -> Scores {
        let found = self.bleu.score();
        let is_lower = self.metric.lower_case;
        let case = if is_lower { "lc" } else { "mixed" };
        Scores {
            segments: self.segments,
            bleu: found.score,
            precisions: found.precisions,
            brevity_penalty: found.brevity_penalty,
            hypothesis_tokens: found.hypothesis,
            reference_tokens: found.reference,
            bleu_signature: format!(
                "nrefs:1|case:{case}|eff:no|tok:{}|smooth:exp|version:2.6.0",
                self.metric.tokenize.name()
            ),
            chrf: self.chrf.score(),
            chrf_signature: format!("nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:2.6.0"),
            word_error_rate: self.words.rate(),
            character_error_rate: self.characters.rate(),
            exact_match: self.same as f64 / self.segments as f64,
        }
    }
}

/// Reads the lines of a file, or of stdin for `-`.
fn lines(argument: &str, path: &Path) -> Result<Vec<String>, UsageError> {
    let wrong = |what: String| UsageError::new(argument, path.display(), what);
    let unreadable = |error| wrong(format!("cannot be read ({error})"));
    let reader: Box<dyn Read> = match path.to_str() {
        Some("-") => Box::new(std::io::stdin()),
        _ if path.is_dir() => return Err(wrong("is a folder, but must be a file".into())),
        _ => Box::new(File::open(path).map_err(unreadable)?),
    };
    let lines = (1..).zip(BufReader::new(reader).split(b'\n'));
    let lines = lines.map(|(number, line)| {
        let mut line = String::from_utf8(line.map_err(unreadable)?).map_err(|error| {
            let start = quote(&String::from_utf8_lossy(error.as_bytes()));
            wrong(format!("line {number} is not UTF-8: {start}"))
        })?;
        line.truncate(line.strip_suffix('\r').unwrap_or(&line).len());
        Ok(line)
    });
    lines.collect()
}

impl Scores {
    /// Returns the scores in words.
    pub(super) fn text(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or("none".into(), |rate| format!("{rate:.4}"));
        let [one, two, three, four] = self.precisions;
        format!(
            "BLEU {:.2}  {one:.1}/{two:.1}/{three:.1}/{four:.1}, brevity penalty {:.3}, {} tokens against {}  {}\nchrF {:.2}  {}\nWER {}, CER {}, exact match {:.4} on {} segments",
            self.bleu,
            self.brevity_penalty,
            self.hypothesis_tokens,
            self.reference_tokens,
            self.bleu_signature,
            self.chrf,
            self.chrf_signature,
            rate(self.word_error_rate),
            rate(self.character_error_rate),
            self.exact_match,
            self.segments
        )
    }
}
