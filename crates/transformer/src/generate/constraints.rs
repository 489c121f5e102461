//! Constraints on the next token.

use std::collections::HashSet;

use super::config::GenerateConfig;

/// Applies the repetition penalty, the ban on repeated n-grams, the forbidden tokens and the
/// minimum length `min_length` to the logits of the token that follows `target`.
///
/// The begin symbol counts as the target's first token for the penalty and the ban.
///
/// The logits of banned tokens become minus infinity, so that their probability becomes 0.
pub(super) fn constrain(
    logits: &mut [f32],
    target: &[u32],
    config: &GenerateConfig,
    forbidden: &HashSet<u32>,
    min_length: usize,
) {
    if config.repetition_penalty != 1.0 {
        let penalty = config.repetition_penalty as f32;
        let seen: HashSet<u32> = config.bos_id.iter().chain(target).copied().collect();
        for token in seen {
            let logit = &mut logits[token as usize];
            *logit = if *logit < 0.0 {
                *logit * penalty
            } else {
                *logit / penalty
            };
        }
    }
    ban_repeated(logits, target, config);
    for &token in forbidden {
        logits[token as usize] = f32::NEG_INFINITY;
    }
    if target.len() < min_length {
        for id in config.end_ids() {
            logits[id as usize] = f32::NEG_INFINITY;
        }
    }
}

/// Bans the tokens that would repeat an n-gram of the target.
///
/// This ban never applies to an end symbol, even if it is also the begin symbol or occurs in a
/// forced prefix.
fn ban_repeated(logits: &mut [f32], target: &[u32], config: &GenerateConfig) {
    let n = config.no_repeat_ngram;
    let tokens: Vec<u32> = config
        .bos_id
        .into_iter()
        .chain(target.iter().copied())
        .collect();
    // With fewer than `n` tokens, there is no n-gram to repeat.
    if n == 0 || tokens.len() < n {
        return;
    }
    let last = &tokens[tokens.len() - (n - 1)..];
    for ngram in tokens.windows(n) {
        let token = ngram[n - 1];
        if ngram[..n - 1] == *last && !config.is_end(token) {
            logits[token as usize] = f32::NEG_INFINITY;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_repetition_penalty_makes_every_repeated_token_less_likely() {
        let mut logits = [3.0, -3.0, 0.5, -0.5];
        let config = GenerateConfig::new(9).with_repetition_penalty(1.5);
        constrain(&mut logits, &[1, 0, 1], &config, &HashSet::new(), 0);
        assert_eq!(logits, [2.0, -4.5, 0.5, -0.5]);

        // The library `transformers` counts the begin symbol, too.
        let config = config.with_bos_id(Some(3));
        constrain(&mut logits, &[1], &config, &HashSet::new(), 0);
        assert_eq!(logits, [2.0, -6.75, 0.5, -0.75]);
    }
}
