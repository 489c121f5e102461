//! Limits on the number of tokens that a model can process, for sequences longer than in training.

use std::borrow::Cow;

use transformer::{Positions, Transformer, TransformerConfig};

use crate::config::MAX_LENGTH;
use crate::data::Limits;

/// Returns the maximum number of tokens of a source, or of a target with its begin symbol.
///
/// For learned positions, the maximum is the number of rows of their table, `config.max_len`. Other
/// positions extend to any length, but the memory for attention weights grows with the square of
/// the length. Their maximum is therefore [`MAX_LENGTH`], or `config.max_len` if that is larger.
pub fn max_tokens(config: &TransformerConfig) -> usize {
    match config.positions {
        Positions::Learned => config.max_len,
        _ => config.max_len.max(MAX_LENGTH),
    }
}

/// Returns the model with positions for at least `tokens` tokens.
///
/// A model with learned positions is returned unchanged, because its table cannot grow.
pub fn with_room(model: &Transformer, tokens: usize) -> Cow<'_, Transformer> {
    match model.encoder.max_len() {
        Some(max_len) if max_len < tokens => Cow::Owned(model.clone().with_max_len(tokens)),
        _ => Cow::Borrowed(model),
    }
}

/// Returns the maximum number of tokens of an output for a source of `source_len` tokens.
///
/// The maximum is `max_length` if `source_len + 2` is at most `limits.sequence()`. For a longer
/// source, it is `max_length` or `source_len + 1`, whichever is larger, but at most the model's
/// [`max_tokens`].
pub fn max_output(
    source_len: usize,
    max_length: usize,
    limits: &Limits,
    config: &TransformerConfig,
) -> usize {
    // A target as long as the source has `source_len + 2` tokens with its begin and end symbol. An
    // output has no begin symbol, so it has one token less.
    if source_len + 2 > limits.sequence() {
        max_length.max(source_len + 1).min(max_tokens(config))
    } else {
        max_length
    }
}

/// Truncates a source to `max_tokens` tokens, and returns whether it was longer. Keeps the last
/// token of the source, which may be an end symbol.
///
/// # Panics
///
/// If `max_tokens` is 0 and the source is not empty.
pub fn truncate_source(ids: &mut Vec<u32>, max_tokens: usize) -> bool {
    let is_longer = ids.len() > max_tokens;
    if is_longer {
        ids.drain(max_tokens - 1..ids.len() - 1);
    }
    is_longer
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::config::RunConfig;

    #[test]
    fn computed_positions_extend_and_learned_ones_do_not() {
        for (mut config, expected) in [(RunConfig::copy(), MAX_LENGTH), (RunConfig::reverse(), 18)]
        {
            config.check().unwrap();
            assert_eq!(max_tokens(&config.model), expected);
            let model = config.model.init_seeded(0, &Device::flex()).unwrap();
            for (tokens, enough) in [(5, 18), (18, 18), (40, 40.min(expected))] {
                let found = with_room(&model, tokens);
                assert_eq!(found.decoder.max_len(), Some(enough));
            }
        }
    }

    #[test]
    fn outputs_of_longer_sources_may_be_longer() {
        let mut config = RunConfig::copy();
        let limits = config.check().unwrap().unwrap().limits();
        let most = |source_len| max_output(source_len, 17, &limits, &config.model);
        assert_eq!([1, 16, 17, 30].map(most), [17, 17, 18, 31]);
        assert_eq!(most(20_000), MAX_LENGTH);
    }

    #[test]
    fn truncated_sources_keep_their_last_token() {
        let mut ids = vec![5, 6, 7, 2];
        assert!(!truncate_source(&mut ids, 4));
        assert!(truncate_source(&mut ids, 3));
        assert_eq!(ids, [5, 6, 2]);
    }
}
