//! Beam search with a trained model, step by step.

use anyhow::Result;
use serde::Serialize;
use training::evaluation::generate_config;
use training::run::checkpoint::TrainedRun;
use training::run::single_file;
use transformer::generate::{LengthPenalty, Method};
use transformer::inspect::top_k;

use crate::maps::Maps;
use crate::source::{device, encode, inspect};

/// Number of likely tokens that are listed for each position.
const LIKELY: usize = 5;

/// A trained model, read from a file.
pub struct TrainedModel(TrainedRun);

/// A target that is being decoded, after one step of the search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beam {
    /// Tokens so far.
    pub tokens: Vec<String>,
    /// Probability of the newest token.
    pub probability: f32,
    /// Sum of the log-probabilities of all tokens, in nats.
    pub log_probability: f64,
    /// Whether the newest token is the end symbol.
    pub has_ended: bool,
}

/// A candidate for the token at a position, and its probability.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Likely {
    /// The token as text.
    pub text: String,
    /// Probability of the token.
    pub probability: f32,
}

/// A target that the search has found.
#[derive(Debug, Serialize)]
pub struct Found {
    /// Tokens that the decoder read: the begin symbol and the target.
    pub read: Vec<String>,
    /// Tokens that the decoder wrote: the target and, if it is finished, the end symbol.
    pub written: Vec<String>,
    /// Probability of each token of `written`.
    pub probabilities: Vec<f32>,
    /// Score by which targets are ranked: the log-probability divided by the length penalty.
    pub score: f64,
    /// The likeliest tokens after each token of `read`, the likeliest first.
    pub likely: Vec<Vec<Likely>>,
    /// Attention weights of every layer and head for this target.
    pub maps: Maps,
}

/// A beam search from its first step to its results.
#[derive(Debug, Serialize)]
pub struct Beams {
    /// Tokens of the source.
    pub source: Vec<String>,
    /// The targets after each step of the search, the likeliest first.
    pub steps: Vec<Vec<Beam>>,
    /// The targets that the search has found, the best first.
    pub found: Vec<Found>,
}

impl TrainedModel {
    /// Reads the bytes of a file that `train export --web` wrote.
    ///
    /// # Errors
    ///
    /// If the bytes are not such a file. The message does not name the file, so that you can write
    /// the name before the message.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        Ok(Self(single_file::from_bytes(bytes, &device())?))
    }

    /// Returns the configuration of the run as JSON.
    ///
    /// # Errors
    ///
    /// Never, because a configuration can always be written as JSON.
    pub fn config(&self) -> Result<String> {
        Ok(serde_json::to_string(&self.0.config)?)
    }

    /// Decodes a source by beam search of the given width, with the default length penalty of
    /// `train generate`.
    ///
    /// # Errors
    ///
    /// If a word of the source is not a symbol, the source is empty or too long, `width` is 0, or
    /// the model computes logits that are not finite.
    pub fn beams(&self, text: &str, width: usize) -> Result<Beams> {
        let TrainedRun { dataset, model, .. } = &self.0;
        let (dataset, codec) = (dataset.as_ref(), dataset.codec());
        let source = encode(dataset, text)?;
        let method = Method::Beam {
            width,
            length_penalty: LengthPenalty::Gnmt { alpha: 0.6 },
        };
        let mut config = generate_config(dataset, &[], method).with_n_best(width);
        config.length_limit = None;
        config.max_length = dataset.limits().target - 1;
        let name = |&id: &u32| codec.target_label(id);
        let eos_id = codec.vocabularies().eos_id;
        let mut search = model.stream(&[&source], &config)?;
        let mut rows: Vec<(Vec<u32>, f64)> = vec![(Vec::new(), 0.0)];
        let mut steps = Vec::new();
        for step in search.by_ref() {
            let mut beams = Vec::new();
            let mut next = Vec::new();
            for new in step? {
                let (tokens, before) = &rows[new.parent];
                let mut tokens = tokens.clone();
                tokens.push(new.token);
                let log_probability = before + f64::from(new.log_probability);
                let has_ended = Some(new.token) == eos_id;
                beams.push(Beam {
                    tokens: tokens.iter().map(name).collect(),
                    probability: new.log_probability.exp(),
                    log_probability,
                    has_ended,
                });
                if !has_ended {
                    next.push((tokens, log_probability));
                }
            }
            beams.sort_by(|a, b| b.log_probability.total_cmp(&a.log_probability));
            steps.push(beams);
            rows = next;
        }
        let found = search.stop().remove(0).into_iter().map(|hypothesis| {
            let inspection = inspect(model, dataset, &source, &hypothesis.tokens);
            let likely = top_k(inspection.logits.clone(), LIKELY).remove(0);
            let likely = likely.into_iter().map(|position| {
                let candidates = position.into_iter().map(|candidate| Likely {
                    text: name(&candidate.id),
                    probability: candidate.probability,
                });
                candidates.collect()
            });
            let vocabularies = codec.vocabularies();
            let end = hypothesis.end_id;
            Found {
                read: std::iter::once(&vocabularies.bos_id)
                    .chain(&hypothesis.tokens)
                    .map(name)
                    .collect(),
                written: hypothesis.tokens.iter().chain(&end).map(name).collect(),
                probabilities: hypothesis
                    .token_log_probabilities
                    .iter()
                    .map(|p| p.exp())
                    .collect(),
                score: hypothesis.score,
                likely: likely.collect(),
                maps: Maps::of(&inspection),
            }
        });
        Ok(Beams {
            source: source.iter().map(|&id| codec.source_label(id)).collect(),
            steps,
            found: found.collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use training::config::RunConfig;
    use training::run::single_file::to_bytes;

    use super::*;

    #[test]
    fn each_step_adds_a_symbol_to_every_beam() {
        let mut config = RunConfig::copy();
        config.model.d_model = 16;
        config.check().unwrap();
        let model = config.model.init_seeded(3, &device()).unwrap();
        let model = TrainedModel::from_bytes(&to_bytes(&config, &model).unwrap()).unwrap();
        let beams = model.beams("3 1 2", 3).unwrap();
        assert_eq!(beams.source, ["3", "1", "2"]);
        for (step, beams) in beams.steps.iter().enumerate() {
            assert!(!beams.is_empty() && beams.iter().filter(|beam| !beam.has_ended).count() <= 3);
            for beam in beams {
                assert_eq!(beam.tokens.len(), step + 1);
                assert_eq!(beam.has_ended, beam.tokens.last().unwrap() == "<eos>");
                assert!(beam.log_probability <= f64::from(beam.probability.ln()) + 1e-6);
            }
        }
        assert_eq!(beams.found.len(), 3);
        for found in &beams.found {
            assert_eq!(found.written.len(), found.probabilities.len());
            // The search and the inspection compute the same probabilities.
            for ((likely, written), p) in found
                .likely
                .iter()
                .zip(&found.written)
                .zip(&found.probabilities)
            {
                if let Some(same) = likely.iter().find(|likely| likely.text == *written) {
                    assert!((same.probability - p).abs() < 1e-4);
                }
            }
            // The step that wrote the last token of the target has the target among its beams.
            let last = &beams.steps[found.written.len() - 1];
            assert!(last.iter().any(|beam| beam.tokens == found.written));
        }
    }
}
