//! Scores of texts against references, for `score` and `eval`.

use serde::Serialize;
use training::metrics::{BleuCounts, ChrfCounts, EditCounts};

use crate::args::MetricArgs;
use crate::number::{counted, grouped};
use crate::terminal::output;

/// Scores of texts against their references. BLEU, its precisions and chrF are from 0 to 100. The
/// other scores are fractions, but an error rate can exceed 1.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Scores {
    segments: u64,
    pub(super) bleu: f64,
    precisions: [f64; 4],
    brevity_penalty: f64,
    hypothesis_tokens: u64,
    reference_tokens: u64,
    /// Description of how BLEU was computed, in the format of sacreBLEU.
    bleu_signature: String,
    pub(super) chrf: f64,
    chrf_signature: String,
    word_error_rate: Option<f64>,
    character_error_rate: Option<f64>,
    exact_match: f64,
}

/// Collects the counts from which scores of texts are computed.
#[derive(Default)]
pub(super) struct TextScorer {
    metric: MetricArgs,
    n_references: usize,
    bleu: BleuCounts,
    chrf: ChrfCounts,
    words: EditCounts,
    characters: EditCounts,
    same: u64,
    segments: u64,
}

impl TextScorer {
    /// Returns a scorer without segments.
    pub(super) fn new(metric: MetricArgs, n_references: usize) -> Self {
        Self {
            metric,
            n_references,
            ..Self::default()
        }
    }

    /// Adds a segment.
    pub(super) fn add(&mut self, hypothesis: &str, references: &[&str]) {
        let is_lower = self.metric.lower_case;
        let lower = |text: &str| is_lower.then(|| text.to_lowercase());
        let case = |text: &str| lower(text).unwrap_or_else(|| text.into());
        let hypothesis = &case(hypothesis)[..];
        let references: Vec<String> = references.iter().map(|text| case(text)).collect();
        let references: Vec<&str> = references.iter().map(String::as_str).collect();
        let tokenizer = self.metric.tokenize.unwrap_or_default();
        self.bleu
            .add(&BleuCounts::of_segment(hypothesis, &references, tokenizer));
        self.chrf
            .add(&ChrfCounts::of_segment(hypothesis, &references));
        self.same += u64::from(references.contains(&hypothesis));
        self.segments += 1;
        let (words, characters) = (self.words.is_complete(), self.characters.is_complete());
        self.words.add_words(hypothesis, &references);
        self.characters.add_characters(hypothesis, &references);
        let (segment, most) = (self.segments, EditCounts::MAX_LENGTH);
        let has_more = format!("segment {segment} has more than {most}");
        if words && !self.words.is_complete() {
            output::warn(&format!("there is no WER: {has_more} words"));
        }
        if characters && !self.characters.is_complete() {
            output::warn(&format!("there is no CER: {has_more} characters"));
        }
    }

    /// Returns the scores of all segments so far.
    pub(super) fn scores(&self) -> Scores {
        let found = self.bleu.score();
        let MetricArgs { lower_case, .. } = self.metric;
        let case = if lower_case { "lc" } else { "mixed" };
        let begin = format!("nrefs:{}|case:{case}", self.n_references);
        let tokenizer = self.metric.tokenize.unwrap_or_default().name();
        Scores {
            segments: self.segments,
            bleu: found.score,
            precisions: found.precisions,
            brevity_penalty: found.brevity_penalty,
            hypothesis_tokens: found.hypothesis,
            reference_tokens: found.reference,
            bleu_signature: format!("{begin}|eff:no|tok:{tokenizer}|smooth:exp|version:2.6.0"),
            chrf: self.chrf.score(),
            chrf_signature: format!("{begin}|eff:yes|nc:6|nw:0|space:no|version:2.6.0"),
            word_error_rate: self.words.rate(),
            character_error_rate: self.characters.rate(),
            exact_match: self.same as f64 / self.segments as f64,
        }
    }
}

impl Scores {
    pub(super) fn text(&self) -> String {
        let rate = |rate: Option<f64>| rate.map_or("none".into(), |rate| format!("{rate:.4}"));
        let [one, two, three, four] = self.precisions;
        format!(
            "BLEU {:.2}  {one:.1}/{two:.1}/{three:.1}/{four:.1}, brevity penalty {:.3}, {} against {}  {}\nchrF {:.2}  {}\nWER {}, CER {}, exact match {:.4} on {}",
            self.bleu,
            self.brevity_penalty,
            counted(self.hypothesis_tokens as usize, "token"),
            grouped(self.reference_tokens),
            self.bleu_signature,
            self.chrf,
            self.chrf_signature,
            rate(self.word_error_rate),
            rate(self.character_error_rate),
            self.exact_match,
            counted(self.segments as usize, "segment")
        )
    }
}
