//! `train score`: how good texts are, by references.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use anyhow::Result;
use serde::Serialize;

use crate::cli::ScoreArgs;
use crate::error::{UsageError, quote};
use crate::metric::{BleuCounts, ChrfCounts, EditCounts, Tokenizer};
use crate::output;

/// What comes out.
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
pub fn run(args: &ScoreArgs) -> Result<()> {
    let hypotheses = lines("HYPOTHESES", &args.hypotheses)?;
    let references = lines("REFERENCES", &args.references)?;
    if hypotheses.len() != references.len() {
        let expected = format!(
            "has {} lines, but {} has {}; each line must be of the same segment",
            hypotheses.len(),
            args.references.display(),
            references.len()
        );
        return Err(UsageError::new("HYPOTHESES", args.hypotheses.display(), expected).into());
    }
    if references.is_empty() {
        return Err(UsageError::new("REFERENCES", args.references.display(), "is empty").into());
    }
    let mut scorer = Scorer::new(args.tokenize, args.lower_case);
    for (hypothesis, reference) in hypotheses.iter().zip(&references) {
        scorer.add(hypothesis, reference);
    }
    output::result(&scorer.scores().text(args.json)?)
}

/// Counts segments.
pub(super) struct Scorer {
    tokenizer: Tokenizer,
    lower_case: bool,
    bleu: BleuCounts,
    chrf: ChrfCounts,
    words: EditCounts,
    characters: EditCounts,
    same: u64,
    segments: u64,
}

impl Scorer {
    /// Of no segments yet.
    pub(super) fn new(tokenizer: Tokenizer, lower_case: bool) -> Self {
        Self {
            tokenizer,
            lower_case,
            bleu: BleuCounts::default(),
            chrf: ChrfCounts::default(),
            words: EditCounts::default(),
            characters: EditCounts::default(),
            same: 0,
            segments: 0,
        }
    }

    /// Counts a segment.
    pub(super) fn add(&mut self, hypothesis: &str, reference: &str) {
        let case = |text: &str| match self.lower_case {
            true => text.to_lowercase(),
            false => text.into(),
        };
        let [hypothesis, reference] = [hypothesis, reference].map(case);
        self.bleu.add(&hypothesis, &reference, self.tokenizer);
        self.chrf.add(&hypothesis, &reference);
        self.words.add_words(&hypothesis, &reference);
        self.characters.add_characters(&hypothesis, &reference);
        self.same += u64::from(hypothesis == reference);
        self.segments += 1;
    }

    /// The scores of all segments so far.
    pub(super) fn scores(&self) -> Scores {
        let found = self.bleu.score();
        let case = if self.lower_case { "lc" } else { "mixed" };
        Scores {
            segments: self.segments,
            bleu: found.score,
            precisions: found.precisions,
            brevity_penalty: found.brevity_penalty,
            hypothesis_tokens: found.hypothesis,
            reference_tokens: found.reference,
            bleu_signature: format!(
                "nrefs:1|case:{case}|eff:no|tok:{}|smooth:exp|version:2.6.0",
                self.tokenizer.name()
            ),
            chrf: self.chrf.score(),
            chrf_signature: format!("nrefs:1|case:{case}|eff:yes|nc:6|nw:0|space:no|version:2.6.0"),
            word_error_rate: self.words.rate(),
            character_error_rate: self.characters.rate(),
            exact_match: self.same as f64 / self.segments as f64,
        }
    }
}

/// The lines of a file, or of stdin for `-`.
fn lines(argument: &str, path: &Path) -> Result<Vec<String>, UsageError> {
    let wrong = |what: String| UsageError::new(argument, path.display(), what);
    let is_stdin = path == Path::new("-");
    let reader: Box<dyn Read> = if is_stdin {
        Box::new(std::io::stdin())
    } else {
        if path.is_dir() {
            return Err(wrong("is a folder, but must be a file".into()));
        }
        Box::new(File::open(path).map_err(|error| wrong(format!("cannot be read ({error})")))?)
    };
    let mut lines = Vec::new();
    for (index, line) in BufReader::new(reader).split(b'\n').enumerate() {
        let line = line.map_err(|error| wrong(format!("cannot be read ({error})")))?;
        let line = String::from_utf8(line).map_err(|error| {
            let start = String::from_utf8_lossy(error.as_bytes());
            wrong(format!(
                "line {} is not UTF-8: {}",
                index + 1,
                quote(&start)
            ))
        })?;
        lines.push(line.strip_suffix('\r').map_or(line.clone(), String::from));
    }
    Ok(lines)
}

impl Scores {
    pub(super) fn text(&self, json: bool) -> Result<String> {
        if json {
            return Ok(serde_json::to_string(self)?);
        }
        let rate = |rate: Option<f64>| match rate {
            Some(rate) => format!("{rate:.4}"),
            None => "none".into(),
        };
        let [one, two, three, four] = self.precisions;
        Ok(format!(
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
        ))
    }
}
