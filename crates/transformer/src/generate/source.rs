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
    /// Minimum length of the targets of this source, in tokens before the end symbol.
    pub min_length: usize,
    /// Maximum length of the targets of this source, in tokens.
    pub max_length: usize,
    /// Number of tokens of the prefix that a length penalty does not count.
    pub uncounted: usize,
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

    /// Drops the continuations of `rows` that cannot become one of the hypotheses to return, or all of
    /// them if the search for this source ends.
    ///
    /// `continuing` has the best continuations whose token is not the end symbol, from best to worst,
    /// and `n_ended` of the best continuations have ended.
    pub fn prune(
        &self,
        config: &GenerateConfig,
        rows: &[Row],
        continuing: &mut Vec<Continuation>,
        n_ended: usize,
    ) {
        let Some(worst) = self.hypotheses.get(config.n_kept() - 1) else {
            return;
        };
        let (width, penalty) = (config.rows_per_source(), config.length_penalty());
        let length = rows[0].tokens.len() + 1;
        let log_probability =
            |next: &Continuation| rows[next.row].log_probability + f64::from(next.log_probability);
        let is_decided = match config.early_stopping {
            _ if width == 1 => true,
            // The bounds fall with the log-probabilities, so that what a dropped continuation leaves
            // room for is dropped as well: the hypotheses are those of a search without this.
            EarlyStopping::Never => {
                let most = self.max_length - self.uncounted;
                continuing.retain(|next| penalty.bound(log_probability(next), most) > worst.score);
                return;
            }
            EarlyStopping::Heuristic => continuing.first().is_some_and(|likeliest| {
                let divisor = penalty.divisor(length - self.uncounted);
                log_probability(likeliest) / divisor <= worst.score
            }),
            EarlyStopping::Full => true,
        };
        if is_decided {
            // At the maximum length, all of the best `width` continuations end and compete.
            let is_last = length == self.max_length && width > 1;
            continuing.truncate(if is_last { width - n_ended } else { 0 });
        }
    }
}
