//! Tests of searches without repeated n-grams, which are compared with simple reference searches on
//! small vocabularies.

use std::collections::HashSet;

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use serde::Deserialize;
use transformer::generate::{
    Autoregressive, GenerateConfig, Hypothesis, LengthPenalty, Method, Search,
};

const EOS: u32 = 0;
const BOS: u32 = 1;

/// A model whose logits are a hash of the last two tokens, so that it repeats itself.
#[derive(Clone)]
struct Toy {
    vocab_size: usize,
    seed: u64,
    rows: Vec<Vec<u32>>,
}

impl Toy {
    fn new(vocab_size: usize, seed: u64) -> Self {
        let rows = vec![Vec::new()];
        Self {
            vocab_size,
            seed,
            rows,
        }
    }

    fn logits(&self, row: &[u32]) -> Vec<f32> {
        let mix = |x: u64| {
            let x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^ (x >> 29)
        };
        let last = &row[row.len().saturating_sub(2)..];
        let state = last
            .iter()
            .fold(self.seed, |state, &token| mix(state ^ u64::from(token + 1)));
        (0..self.vocab_size as u64)
            .map(|token| (mix(state.wrapping_add(token * 7919)) % 4001) as f32 / 1000.0 - 2.0)
            .collect()
    }

    /// Returns the tokens that may follow `row`, and their log-probabilities.
    ///
    /// The probabilities of these tokens sum to 1. `row` begins with the begin symbol.
    fn allowed(&self, row: &[u32], n: usize, min_length: usize) -> Vec<(u32, f64)> {
        let is_allowed = |&token: &u32| {
            if token == EOS {
                return row.len() > min_length;
            }
            let mut longer = row.to_vec();
            longer.push(token);
            let (last, earlier) = ngrams(&longer, n).split_last().map_or_else(
                || (None, Vec::new()),
                |(last, earlier)| (Some(last.clone()), earlier.to_vec()),
            );
            last.is_none_or(|last| !earlier.contains(&last))
        };
        let logits = self.logits(row);
        let tokens: Vec<u32> = (0..self.vocab_size as u32).filter(is_allowed).collect();
        let logit = |token: u32| f64::from(logits[token as usize]);
        let sum: f64 = tokens.iter().map(|&token| logit(token).exp()).sum();
        let log_probability = |token: u32| (token, logit(token) - sum.ln());
        tokens.into_iter().map(log_probability).collect()
    }
}

impl Autoregressive for Toy {
    fn vocab_size(&self) -> usize {
        self.vocab_size
    }

    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
        let row = |(&parent, &token): (&usize, &u32)| {
            let mut row = self.rows[parent].clone();
            row.push(token);
            row
        };
        self.rows = parents.iter().zip(tokens).map(row).collect();
        self.rows.iter().flat_map(|row| self.logits(row)).collect()
    }
}

/// Returns the n-grams of `tokens` in their order; an empty list if `n` is 0.
fn ngrams(tokens: &[u32], n: usize) -> Vec<Vec<u32>> {
    match n {
        0 => Vec::new(),
        _ => tokens.windows(n).map(<[u32]>::to_vec).collect(),
    }
}

/// Returns whether a target, with the begin symbol before it, has an n-gram twice.
fn repeats(target: &[u32], n: usize) -> bool {
    let tokens: Vec<u32> = [BOS].into_iter().chain(target.iter().copied()).collect();
    let all = ngrams(&tokens, n);
    let different: HashSet<&Vec<u32>> = all.iter().collect();
    different.len() < all.len()
}

fn config(n: usize, max_length: usize) -> GenerateConfig {
    GenerateConfig::new(max_length)
        .with_bos_id(Some(BOS))
        .with_eos_id(Some(EOS))
        .with_no_repeat_ngram(n)
}

fn beam(width: usize) -> Method {
    Method::Beam {
        width,
        length_penalty: LengthPenalty::Average,
    }
}

fn sample(seed: u64) -> Method {
    Method::Sample {
        temperature: 1.5,
        top_k: None,
        top_p: None,
        seed,
        first_source: 0,
    }
}

fn search(toy: &Toy, prefix: &[u32], config: GenerateConfig) -> Vec<Hypothesis> {
    let search = Search::new(toy.clone(), vec![prefix.to_vec()], config).unwrap();
    search.run().unwrap().remove(0)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(200) })]

    #[test]
    fn no_output_has_a_repeated_ngram(
        seed: u64, vocab_size in 2..7usize, n in 1..4usize, method in 0..3usize,
        max_length in 1..25usize,
    ) {
        let toy = Toy::new(vocab_size, seed);
        let method = [Method::Greedy, sample(seed), beam(4)][method];
        let n_best = if method == Method::Greedy { 1 } else { 4 };
        let config = config(n, max_length).with_method(method).with_n_best(n_best);
        for found in search(&toy, &[], config) {
            prop_assert!(!repeats(&found.tokens, n), "{:?}", found);
            // The end symbol is allowed at every step, so no target ends for lack of a token.
            prop_assert!(found.end_id.is_some() || found.tokens.len() == max_length);
            let mut row = vec![BOS];
            let end = found.end_id;
            let labels = found.tokens.iter().copied().chain(end);
            for (label, log_probability) in labels.zip(&found.token_log_probabilities) {
                let allowed = toy.allowed(&row, n, 0);
                let expected = allowed.iter().find(|(token, _)| *token == label).unwrap().1;
                prop_assert!((f64::from(*log_probability) - expected).abs() < 1e-5);
                row.push(label);
            }
        }
    }

    #[test]
    fn greedy_decoding_takes_the_likeliest_allowed_token(
        seed: u64, vocab_size in 2..7usize, n in 1..4usize, max_length in 1..25usize,
        min_length in 0..25usize,
    ) {
        let min_length = min_length.min(max_length);
        let toy = Toy::new(vocab_size, seed);
        let found = search(&toy, &[], config(n, max_length).with_min_length(min_length)).remove(0);
        let (mut row, mut is_finished) = (vec![BOS], false);
        while row.len() <= max_length && !is_finished {
            let allowed = toy.allowed(&row, n, min_length);
            // If several tokens have the same logit, the first is chosen.
            let best = allowed.into_iter().reduce(|a, b| if b.1 > a.1 { b } else { a });
            match best {
                None => break,
                Some((EOS, _)) => is_finished = true,
                Some((token, _)) => row.push(token),
            }
        }
        prop_assert_eq!(&found.tokens[..], &row[1..]);
        prop_assert_eq!(found.end_id.is_some(), is_finished);
    }

    /// A beam with room for every target is an exhaustive search.
    #[test]
    fn a_wide_beam_finds_the_best_targets(
        seed: u64, vocab_size in 2..5usize, n in 1..4usize, max_length in 1..6usize,
        min_length in 0..4usize,
    ) {
        let min_length = min_length.min(max_length);
        let toy = Toy::new(vocab_size, seed);
        let (mut complete, mut open, mut dead) = (Vec::new(), vec![(vec![BOS], 0.0)], Vec::new());
        while !open.is_empty() {
            let mut longer = Vec::new();
            dead.clear();
            for (row, sum) in open {
                let allowed = toy.allowed(&row, n, min_length);
                if allowed.is_empty() {
                    dead.push((row[1..].to_vec(), sum / (row.len() - 1).max(1) as f64));
                }
                for (token, log_probability) in allowed {
                    let sum = sum + log_probability;
                    let average = sum / row.len() as f64;
                    let mut next = row.clone();
                    next.push(token);
                    if token == EOS {
                        complete.push((row[1..].to_vec(), average));
                    } else if next.len() - 1 == max_length {
                        complete.push((next[1..].to_vec(), average));
                    } else {
                        longer.push((next, sum));
                    }
                }
            }
            open = longer;
        }
        // Targets that cannot be continued are results only if no target was completed.
        if complete.is_empty() {
            complete.clone_from(&dead);
        }
        complete.sort_by(|a, b| b.1.total_cmp(&a.1));
        let config = config(n, max_length)
            .with_min_length(min_length)
            .with_method(beam(2000))
            .with_n_best(5);
        let found = search(&toy, &[], config);
        prop_assert_eq!(found.len(), complete.len().min(5));
        for (found, (tokens, score)) in found.iter().zip(&complete) {
            // Only scores are compared, because targets of equal score may come in any order.
            prop_assert!((found.score - score).abs() < 1e-5, "{:?}, {:?}", found, tokens);
            prop_assert!(!repeats(&found.tokens, n));
        }
    }

    #[test]
    fn a_prefix_may_repeat_itself_but_is_not_repeated(
        seed: u64, n in 1..4usize, method in 0..3usize,
        prefix in proptest::collection::vec(1..6u32, 0..6),
    ) {
        let toy = Toy::new(6, seed);
        let method = [Method::Greedy, sample(seed), beam(3)][method];
        for found in search(&toy, &prefix, config(n, 20).with_method(method)) {
            prop_assert!(found.tokens.starts_with(&prefix));
            let tokens: Vec<u32> = [BOS].into_iter().chain(found.tokens.iter().copied()).collect();
            for end in prefix.len() + 2..=tokens.len() {
                let all = ngrams(&tokens[..end], n);
                let Some((last, earlier)) = all.split_last() else { continue };
                prop_assert!(!earlier.contains(last), "{:?} {:?}", prefix, found);
            }
        }
    }
}

#[test]
fn a_target_without_an_allowed_token_ends_unfinished() {
    // With n = 1, no token is repeated, not even the begin symbol. If the end symbol is not allowed
    // either, a target can only have the tokens 2 and 3, once each.
    let toy = Toy::new(4, 5);
    for method in [Method::Greedy, sample(3), beam(2)] {
        let config = config(1, 9).with_method(method);
        let found = search(&toy, &[], config.clone().with_min_length(5));
        let mut tokens = found[0].tokens.clone();
        tokens.sort_unstable();
        assert_eq!((tokens, found[0].end_id), (vec![2, 3], None));
        // From the minimum length on, the end symbol is allowed.
        let found = search(&toy, &[], config.with_min_length(2));
        assert_eq!(
            (found[0].tokens.len(), found[0].end_id.is_some()),
            (2, true)
        );
    }
}

#[test]
fn the_banned_tokens_are_those_of_hugging_face() {
    #[derive(Deserialize)]
    struct Case {
        n: usize,
        tokens: Vec<u32>,
        banned: Vec<u32>,
    }
    let cases = include_str!("fixtures/no_repeat.json");
    let cases: Vec<Case> = serde_json::from_str(cases).unwrap();
    assert!(cases.iter().any(|case| case.banned.len() > 2));
    for Case { n, tokens, banned } in cases {
        // A beam as wide as the vocabulary continues the prefix with every allowed token.
        let prefix = &tokens[1..];
        let config = GenerateConfig::new(tokens.len())
            .with_bos_id(Some(BOS))
            .with_no_repeat_ngram(n)
            .with_method(beam(6))
            .with_n_best(6);
        let found = search(&Toy::new(6, 0), prefix, config);
        let continued = found.iter().filter(|one| one.tokens.len() == tokens.len());
        let mut allowed: Vec<u32> = continued.map(|one| one.tokens[prefix.len()]).collect();
        allowed.sort_unstable();
        let expected: Vec<u32> = (0..6).filter(|token| !banned.contains(token)).collect();
        assert_eq!(allowed, expected, "{n} {tokens:?}");
    }
}

#[test]
fn an_end_symbol_that_is_the_begin_symbol_is_allowed() {
    let toy = Toy::new(5, 1);
    let config = GenerateConfig::new(30)
        .with_bos_id(Some(EOS))
        .with_eos_id(Some(EOS))
        .with_no_repeat_ngram(1);
    let found = search(&toy, &[], config);
    assert!(found[0].end_id.is_some(), "{found:?}");
}
