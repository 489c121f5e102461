//! The search for one source: its hypotheses, and the test whether they are final.

use super::beam::Continuation;
use super::config::{EarlyStopping, GenerateConfig};
use super::hypothesis::Hypothesis;
use super::row::Row;

/// The search for one source.
#[derive(Debug)]
pub(super) struct Source {
    /// Tokens with which the targets of this source must begin.
    pub prefix: Vec<u32>,
    /// Maximum length of the targets of this source, in tokens.
    pub max_length: usize,
    /// Best hypotheses so far, best first.
    pub hypotheses: Vec<Hypothesis>,
}

impl Source {
    /// Adds a hypothesis. Drops the worst hypothesis if there are then more than `most`.
    pub fn record(&mut self, hypothesis: Hypothesis, most: usize) {
        let place = self
            .hypotheses
            .partition_point(|h| h.score >= hypothesis.score);
        self.hypotheses.insert(place, hypothesis);
        self.hypotheses.truncate(most);
    }

    /// Returns whether the hypotheses are final, so that the search for this source ends.
    ///
    /// `likeliest` is the likeliest continuation of `rows` whose token is not the end symbol. The
    /// hypotheses are final if there are `n_kept` of them and `likeliest` is not expected to end
    /// with a better score than the worst one. If `early_stopping` is `Full` or the beam has width
    /// 1, the score does not matter. If `likeliest` is `None`, the result is false.
    pub fn is_decided(
        &self,
        config: &GenerateConfig,
        rows: &[Row],
        likeliest: Option<&Continuation>,
        width: usize,
    ) -> bool {
        let kept = config.n_kept();
        let (Some(worst), Some(likeliest)) = (self.hypotheses.get(kept - 1), likeliest) else {
            return false;
        };
        let row = &rows[likeliest.row];
        let log_probability = row.log_probability + f64::from(likeliest.log_probability);
        let penalty = config.length_penalty();
        let best = match config.early_stopping {
            EarlyStopping::Never => penalty.bound(log_probability, self.max_length),
            EarlyStopping::Heuristic => log_probability / penalty.divisor(row.tokens.len() + 1),
            EarlyStopping::Full => return true,
        };
        width == 1 || best <= worst.score
    }
}
