//! Constraints on the next token.

use std::collections::HashSet;

use super::config::GenerateConfig;

/// Applies the repetition penalty, the forbidden tokens and the minimum length to a row's logits.
///
/// The logits of forbidden tokens become minus infinity, so that their probability becomes 0.
pub(super) fn constrain(
    logits: &mut [f32],
    target: &[u32],
    config: &GenerateConfig,
    forbidden: &HashSet<u32>,
) {
    if config.repetition_penalty != 1.0 {
        let penalty = config.repetition_penalty as f32;
        let seen: HashSet<u32> = target.iter().copied().collect();
        for token in seen {
            let logit = &mut logits[token as usize];
            *logit = if *logit < 0.0 {
                *logit * penalty
            } else {
                *logit / penalty
            };
        }
    }
    for &token in forbidden {
        logits[token as usize] = f32::NEG_INFINITY;
    }
    if let Some(eos) = config.eos_id
        && target.len() < config.min_length
    {
        logits[eos as usize] = f32::NEG_INFINITY;
    }
}
