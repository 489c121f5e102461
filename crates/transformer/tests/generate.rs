//! Tests of searches, with toy models whose best targets are known and with this crate's model.

mod common;

use std::cell::Cell;
use std::collections::HashMap;

use burn::module::Module;
use burn::tensor::{Device, Tensor, TensorData};
use common::cpu_backends;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use transformer::generate::{
    Autoregressive, EarlyStopping, GenerateConfig, GenerateError, Hypothesis, LengthLimit,
    LengthPenalty, Method, Search,
};
use transformer::{
    AttentionMask, Memory, NormPlacement, Positions, Transformer, TransformerConfig, WeightTying,
    pad_sequences, weights,
};

const EOS: u32 = 0;
const BOS: u32 = 1;

/// A model whose logits are a hash of the source and the tokens so far.
struct Toy {
    vocab_size: usize,
    seed: u64,
    rows: Vec<Vec<u32>>,
}

impl Toy {
    fn new(vocab_size: usize, seed: u64, n_sources: usize) -> Self {
        Self {
            vocab_size,
            seed,
            // A row begins with the index of its source, so that sources have different logits.
            rows: (0..n_sources as u32).map(|source| vec![source]).collect(),
        }
    }

    fn logits(&self, row: &[u32]) -> Vec<f32> {
        let mix = |x: u64| {
            let x = (x ^ (x >> 31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            x ^ (x >> 29)
        };
        let state = row
            .iter()
            .fold(self.seed, |state, &token| mix(state ^ u64::from(token + 1)));
        (0..self.vocab_size as u64)
            .map(|token| (mix(state.wrapping_add(token * 7919)) % 4001) as f32 / 1000.0 - 2.0)
            .collect()
    }

    fn log_probabilities(&self, row: &[u32]) -> Vec<f64> {
        let logits: Vec<f64> = self.logits(row).iter().map(|&x| x.into()).collect();
        let sum: f64 = logits.iter().map(|x| x.exp()).sum();
        logits.iter().map(|x| x - sum.ln()).collect()
    }

    /// Returns every target of one source with its log-probability and its number of tokens,
    /// including the end symbol.
    fn all(&self, source: u32, max_length: usize) -> Vec<(Vec<u32>, f64, usize)> {
        let mut found = Vec::new();
        let mut open = vec![(vec![source, BOS], 0.0)];
        while let Some((row, sum)) = open.pop() {
            for (token, log_probability) in self.log_probabilities(&row).into_iter().enumerate() {
                let (token, sum) = (token as u32, sum + log_probability);
                let length = row.len() - 1;
                if token == EOS {
                    found.push((row[2..].to_vec(), sum, length));
                } else {
                    let mut row = row.clone();
                    row.push(token);
                    if length == max_length {
                        found.push((row[2..].to_vec(), sum, length));
                    } else {
                        open.push((row, sum));
                    }
                }
            }
        }
        found
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

fn config(max_length: usize) -> GenerateConfig {
    GenerateConfig::new(max_length)
        .with_bos_id(Some(BOS))
        .with_eos_id(Some(EOS))
}

fn beam(width: usize, length_penalty: LengthPenalty) -> Method {
    Method::Beam {
        width,
        length_penalty,
    }
}

fn search(toy: Toy, config: GenerateConfig) -> Vec<Vec<Hypothesis>> {
    let n_sources = toy.rows.len();
    Search::new(toy, vec![Vec::new(); n_sources], config)
        .unwrap()
        .run()
        .unwrap()
}

fn penalties() -> impl Strategy<Value = LengthPenalty> {
    prop_oneof![
        Just(LengthPenalty::None),
        Just(LengthPenalty::Average),
        (0.0..2.0).prop_map(|alpha| LengthPenalty::Gnmt { alpha }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, rng_seed: RngSeed::Fixed(1), ..ProptestConfig::with_cases(200) })]

    /// A beam with room for every target is an exhaustive search.
    #[test]
    fn a_wide_beam_finds_the_best_targets(
        seed: u64, vocab_size in 2..5usize, max_length in 1..5usize, n_best in 1..6usize,
        penalty in penalties(),
    ) {
        let toy = Toy::new(vocab_size, seed, 2);
        let mut expected: Vec<Vec<(Vec<u32>, f64)>> = Vec::new();
        for source in 0..2 {
            let divided = |(tokens, sum, length)| (tokens, sum / penalty.divisor(length));
            let mut all: Vec<_> = toy.all(source, max_length).into_iter().map(divided).collect();
            all.sort_by(|a, b| b.1.total_cmp(&a.1));
            expected.push(all);
        }
        let width = expected[0].len().max(n_best);
        let config = config(max_length)
            .with_method(beam(width, penalty))
            .with_n_best(n_best);
        let found = search(toy, config);
        for (found, expected) in found.iter().zip(&expected) {
            prop_assert_eq!(found.len(), n_best.min(expected.len()));
            for (found, expected) in found.iter().zip(expected) {
                // Only scores are compared, because targets of equal score may come in any order.
                prop_assert!((found.score - expected.1).abs() < 1e-5, "{:?} {:?}", found, expected);
            }
        }
    }

    /// A search that ends early finds the same targets as a search that runs to the last step.
    #[test]
    fn early_stopping_is_exact(
        seed: u64, vocab_size in 2..8usize, max_length in 1..9usize, width in 2..6usize,
        penalty in penalties(),
    ) {
        let n_best = 1 + (seed % width as u64) as usize;
        let early = config(max_length).with_method(beam(width, penalty)).with_n_best(n_best);
        let early = early.with_early_stopping(EarlyStopping::Never);
        // With `n_best` as large as the width of the beam, fewer searches end early.
        let late = early.clone().with_n_best(width);
        let early = search(Toy::new(vocab_size, seed, 3), early);
        let late = search(Toy::new(vocab_size, seed, 3), late);
        for (early, late) in early.iter().zip(&late) {
            prop_assert_eq!(&early[..], &late[..early.len()]);
        }
        // The reference search never ends early.
        for source in 0..3 {
            let exact = never_early(&Toy::new(vocab_size, seed, 3), source, max_length, width, penalty);
            let scores: Vec<f64> = early[source as usize].iter().map(|h| h.score).collect();
            prop_assert_eq!(scores.len(), n_best.min(exact.len()));
            for (score, exact) in scores.iter().zip(&exact) {
                prop_assert!((score - exact).abs() < 1e-5, "{:?}, not {:?}", scores, exact);
            }
        }
    }

    #[test]
    fn a_beam_of_width_1_is_greedy_decoding(seed: u64, vocab_size in 2..9usize, penalty in penalties()) {
        let greedy = search(Toy::new(vocab_size, seed, 3), config(8));
        let one = config(8).with_method(beam(1, penalty));
        let one = search(Toy::new(vocab_size, seed, 3), one);
        for (greedy, one) in greedy.iter().zip(&one) {
            prop_assert_eq!(&greedy[0].tokens, &one[0].tokens);
            prop_assert_eq!(greedy[0].log_probability, one[0].log_probability);
            prop_assert_eq!(greedy[0].end_id, one[0].end_id);
        }
    }

    #[test]
    fn the_n_best_are_sorted_and_different_and_have_their_true_scores(
        seed: u64, vocab_size in 2..9usize, width in 1..7usize, penalty in penalties(),
    ) {
        let toy = Toy::new(vocab_size, seed, 2);
        let config = config(6).with_method(beam(width, penalty)).with_n_best(width);
        let found = search(Toy::new(vocab_size, seed, 2), config);
        for (source, found) in found.iter().enumerate() {
            prop_assert!(found.windows(2).all(|pair| pair[0].score >= pair[1].score));
            for (index, one) in found.iter().enumerate() {
                prop_assert!(found[..index].iter().all(|other| other.tokens != one.tokens));
                let mut row = vec![source as u32, BOS];
                let mut sum = 0.0;
                let end = one.end_id;
                for (&token, &log_probability) in
                    one.tokens.iter().chain(&end).zip(&one.token_log_probabilities)
                {
                    let expected = toy.log_probabilities(&row)[token as usize];
                    prop_assert!((f64::from(log_probability) - expected).abs() < 1e-5);
                    sum += expected;
                    row.push(token);
                }
                prop_assert_eq!(row.len() - 2, one.token_log_probabilities.len());
                prop_assert!((one.log_probability - sum).abs() < 1e-5);
                let length = one.token_log_probabilities.len();
                prop_assert!((one.score - sum / penalty.divisor(length)).abs() < 1e-5);
            }
        }
    }

    /// Checks the length limits and the forbidden tokens for every method.
    #[test]
    fn constraints_hold(
        seed: u64, method in 0..3usize, min_length in 0..5usize, more in 0..4usize,
        forbidden in proptest::collection::vec(2..6u32, 0..3),
        first in proptest::collection::vec(2..6u32, 0..2),
    ) {
        let method = [
            Method::Greedy,
            Method::Sample { temperature: 1.5, top_k: None, top_p: None, seed, first_source: 0 },
            beam(3, LengthPenalty::None),
        ][method];
        let max_length = (min_length + more).max(1);
        let config = config(max_length)
            .with_method(method)
            .with_min_length(min_length)
            .with_forbidden(forbidden.clone())
            .with_forbidden_first(first.clone());
        for found in search(Toy::new(7, seed, 4), config).iter().flatten() {
            prop_assert!(found.tokens.len() >= min_length, "{:?}", found);
            prop_assert!(found.token_log_probabilities.len() <= max_length);
            prop_assert!(found.tokens.iter().all(|token| !forbidden.contains(token)));
            prop_assert!(found.tokens.first().is_none_or(|token| !first.contains(token)));
            prop_assert!(!found.tokens.contains(&EOS));
            prop_assert!(found.end_id.is_some() || found.tokens.len() == max_length);
        }
    }
}

/// Returns the scores, best first, of a simple beam search that sorts all candidates and always
/// runs to the last step.
fn never_early(
    toy: &Toy,
    source: u32,
    max_length: usize,
    width: usize,
    penalty: LengthPenalty,
) -> Vec<f64> {
    let mut rows = vec![(vec![source, BOS], 0.0)];
    let mut scores = Vec::new();
    for length in 1..=max_length {
        let mut candidates = Vec::new();
        for (row, sum) in &rows {
            for (token, log_probability) in toy.log_probabilities(row).into_iter().enumerate() {
                let mut row = row.clone();
                row.push(token as u32);
                candidates.push((row, sum + log_probability));
            }
        }
        candidates.sort_by(|a, b| b.1.total_cmp(&a.1));
        let ends = |row: &[u32]| row.last() == Some(&EOS);
        for (row, sum) in candidates.iter().take(width) {
            if ends(row) || length == max_length {
                scores.push(sum / penalty.divisor(length));
            }
        }
        rows = candidates
            .into_iter()
            .filter(|(row, _)| !ends(row))
            .take(width)
            .collect();
    }
    scores.sort_by(|a, b| b.total_cmp(a));
    scores
}

#[test]
fn a_beam_finds_what_greedy_misses() {
    /// A model whose likeliest first token, 2, does not begin the likeliest target.
    struct Trap(Vec<Vec<u32>>);
    impl Autoregressive for Trap {
        fn vocab_size(&self) -> usize {
            4
        }
        fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
            let row = |(&parent, &token): (&usize, &u32)| {
                let mut row = self.0[parent].clone();
                row.push(token);
                row
            };
            self.0 = parents.iter().zip(tokens).map(row).collect();
            let next = |row: &Vec<u32>| match row.last() {
                Some(2) => [0.3f32, 0.1, 0.3, 0.3],
                Some(3) => [0.97, 0.01, 0.01, 0.01],
                _ => [0.05, 0.05, 0.5, 0.4],
            };
            self.0.iter().flat_map(next).map(f32::ln).collect()
        }
    }
    let run = |method| {
        let config = config(5).with_method(method);
        Search::new(Trap(vec![Vec::new()]), vec![Vec::new()], config)
            .unwrap()
            .run()
            .unwrap()
    };
    assert_eq!(run(Method::Greedy)[0][0].tokens, [2]);
    let found = run(beam(2, LengthPenalty::None));
    assert_eq!(found[0][0].tokens, [3]);
    assert!((found[0][0].log_probability - (0.4f64 * 0.97).ln()).abs() < 1e-6);
}

#[test]
fn a_search_ends_as_soon_as_nothing_better_can_follow() {
    /// A model whose tokens always have the probabilities 0.9, 0.06 and 0.04.
    struct Constant;
    impl Autoregressive for Constant {
        fn vocab_size(&self) -> usize {
            3
        }
        fn step(&mut self, _: &[usize], tokens: &[u32]) -> Vec<f32> {
            [0.9f32, 0.06, 0.04].map(f32::ln).repeat(tokens.len())
        }
    }
    let steps = |length_penalty| {
        let config = config(40)
            .with_method(beam(2, length_penalty))
            .with_early_stopping(EarlyStopping::Never);
        let mut search = Search::new(Constant, vec![Vec::new()], config).unwrap();
        let steps = search.by_ref().count();
        assert!(search.stop()[0][0].tokens.is_empty());
        steps
    };
    // The empty target has the score ln 0.9 = -0.105. Any other target has at most ln 0.06 = -2.81,
    // so the search ends after one step.
    assert_eq!(steps(LengthPenalty::None), 1);
    // A target that begins with the token of probability 0.06 and has the maximum length could have
    // the average ln 0.06 / 40 = -0.07. With two such tokens, the average is at most -0.14, which
    // is less than -0.105, so the search ends after two steps.
    assert_eq!(steps(LengthPenalty::Average), 2);
}

/// As in `transformers` with `early_stopping=True`.
#[test]
fn unfinished_targets_of_the_last_step_compete_with_finished_ones() {
    /// A model whose first token is 0 (the end), 2 or 3, and whose second one is 2 or the end.
    struct Two(usize);
    impl Autoregressive for Two {
        fn vocab_size(&self) -> usize {
            4
        }
        fn step(&mut self, _: &[usize], tokens: &[u32]) -> Vec<f32> {
            self.0 += 1;
            let next = match self.0 {
                1 => [0.3f32, 0.01, 0.6, 0.09],
                _ => [0.4, 0.05, 0.5, 0.05],
            };
            next.map(f32::ln).repeat(tokens.len())
        }
    }
    let config = config(2)
        .with_method(beam(2, LengthPenalty::Average))
        .with_early_stopping(EarlyStopping::Full);
    let search = Search::new(Two(0), vec![Vec::new()], config).unwrap();
    // Two targets have ended: the empty one, and the token 2 at the last step. `2 2` does not end,
    // but is likelier than `2` and the end.
    let best = &search.run().unwrap()[0][0];
    assert_eq!((&best.tokens[..], best.end_id), (&[2, 2][..], None));
    assert!((best.score - (0.6f64 * 0.5).ln() / 2.0).abs() < 1e-6);
}

#[test]
fn generation_never_drops_out() {
    for backend in cpu_backends() {
        let config = model_config().with_dropout(0.5);
        let model = config.init_seeded(8, &backend.device).unwrap();
        let decoder = model_config().with_dropout(0.5);
        let decoder = decoder
            .decoder()
            .with_cross_attention(false)
            .init(&backend.device)
            .unwrap();
        let inference = model.valid();
        let settings = GenerateConfig::new(6).with_bos_id(Some(1));
        let targets = [[5, 6], [7, 8], [9, 10], [11, 12], [13, 14]];
        for _ in 0..2 {
            let name = backend.name;
            let found = model.generate(&sources(), &settings).unwrap();
            assert_same(
                name,
                &found,
                &inference.generate(&sources(), &settings).unwrap(),
            );
            let of = |model: &Transformer| model.score(&sources(), &targets, 1, Some(2)).unwrap();
            assert_eq!(of(&model), of(&inference), "{name}");
            let of = |model: &Transformer| model.align(&sources(), &targets, 1, 1).unwrap();
            assert_eq!(of(&model), of(&inference), "{name}");
            let continued = decoder.complete(None, &targets, &settings).unwrap();
            let inference = decoder.valid();
            let expected = inference.complete(None, &targets, &settings).unwrap();
            assert_same(name, &continued, &expected);
            // The memory of a model with autodiff has it, too.
            let ids = pad_sequences(&sources(), 0, &backend.device);
            let mask = AttentionMask::padding(&ids, 0);
            let memory = model.encode(ids, Some(&mask));
            let none: [[u32; 0]; 5] = [[]; 5];
            model.decoder.complete(&memory, &none, &settings).unwrap();
        }
    }
}

#[test]
fn logits_that_are_not_finite_end_the_search() {
    /// A model whose third step returns the logits `x` and `y` for tokens 3 and 4 of the last row,
    /// and minus infinity for all other tokens of this row.
    ///
    /// The fields are `x`, `y` and the number of steps so far.
    struct Broken(f32, f32, usize);
    impl Autoregressive for Broken {
        fn vocab_size(&self) -> usize {
            5
        }
        fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
            let mut logits = [f32::NEG_INFINITY, -9.0, -9.0, 1.0, 0.5].repeat(parents.len());
            if self.2 == 2 {
                let end = 5 * tokens.len();
                logits[end - 5..].copy_from_slice(&[f32::NEG_INFINITY; 5]);
                logits[end - 2..].copy_from_slice(&[self.0, self.1]);
            }
            self.2 += 1;
            logits
        }
    }
    let sample = Method::Sample {
        temperature: 1.0,
        top_k: Some(2),
        top_p: None,
        seed: 1,
        first_source: 0,
    };
    let (inf, nan) = (f32::INFINITY, f32::NAN);
    for method in [Method::Greedy, beam(2, LengthPenalty::None), sample] {
        let search = |x, y| {
            let config = config(6).with_method(method);
            Search::new(Broken(x, y, 0), vec![Vec::new(); 2], config).unwrap()
        };
        for (x, y) in [(nan, 1.0), (1.0, nan), (inf, 1.0), (-inf, -inf)] {
            let error = search(x, y).run().unwrap_err();
            let (sequence, position) = (1, 2);
            assert_eq!(
                error,
                GenerateError::NotFinite { sequence, position },
                "{x} {y}"
            );
            assert!(
                error.to_string().starts_with(
                    "the model's outputs for sequence 1 are not finite at position 2:"
                )
            );
            let mut steps = search(x, y);
            assert_eq!(
                steps.by_ref().map(|step| step.is_ok()).collect::<Vec<_>>(),
                [true, true, false]
            );
            assert!(steps.next().is_none());
        }
        // Minus infinity forbids a token; it is not an error.
        assert_eq!(search(1.0, -inf).run().unwrap()[1][0].tokens.len(), 6);
    }
}

#[test]
fn a_model_with_a_parameter_that_is_not_finite_answers_nothing() {
    let config = TransformerConfig::new(9, 9)
        .with_d_model(8)
        .with_n_heads(2)
        .with_d_ff(8);
    let model = config.init_seeded(3, &Device::flex()).unwrap();
    let mut parameters = weights::parameters(&model);
    let (name, table) = parameters
        .iter_mut()
        .find(|(name, _)| name.starts_with("encoder.") && name.contains("gamma"))
        .unwrap();
    let mut values: Vec<f32> = table.iter::<f32>().collect();
    values[0] = f32::NAN;
    *table = TensorData::new(values, table.shape().clone());
    let name = name.clone();
    let model = weights::with_parameters(&model, parameters).unwrap();
    let is_not_finite = |error| {
        matches!(
            error,
            GenerateError::NotFinite {
                sequence: 0,
                position: 0
            }
        )
    };
    let generated = model.generate(&[[4, 5]], &GenerateConfig::new(5).with_bos_id(Some(1)));
    assert!(generated.is_err_and(is_not_finite), "{name}");
    let scored = model.score(&[[4, 5]], &[[3]], 1, Some(2));
    assert!(scored.is_err_and(is_not_finite), "{name}");
    let aligned = model.align(&[[4, 5]], &[[3]], 1, 0);
    assert!(aligned.is_err_and(is_not_finite), "{name}");
}

#[test]
fn finished_rows_are_not_decoded_further() {
    let greedy = |n_sources| {
        let mut search = Search::new(
            Toy::new(4, 5, n_sources),
            vec![Vec::new(); n_sources],
            config(50),
        )
        .unwrap();
        let tokens: usize = search.by_ref().map(|step| step.unwrap().len()).sum();
        (tokens, search.stop())
    };
    let (tokens, found) = greedy(40);
    let lengths: Vec<usize> = found
        .iter()
        .map(|f| f[0].token_log_probabilities.len())
        .collect();
    assert_eq!(tokens, lengths.iter().sum::<usize>());
    assert!(lengths.iter().min() < lengths.iter().max());
}

#[test]
fn the_steps_of_a_search_are_the_tokens_of_its_targets() {
    let methods = [Method::Greedy, beam(3, LengthPenalty::None)];
    for (method, seed) in methods
        .into_iter()
        .flat_map(|m| (0..10).map(move |seed| (m, seed)))
    {
        let mut search = Search::new(
            Toy::new(6, seed, 3),
            vec![Vec::new(); 3],
            config(7).with_method(method),
        )
        .unwrap();
        // `rows` holds the source and the tokens of each row of the latest step.
        let mut rows: Vec<(usize, Vec<u32>)> = (0..3).map(|source| (source, Vec::new())).collect();
        let mut ended = Vec::new();
        for step in search.by_ref() {
            let mut next = Vec::new();
            for token in step.unwrap() {
                let (source, mut row) = rows[token.parent].clone();
                assert_eq!(source, token.source);
                row.push(token.token);
                if token.token == EOS || row.len() == 7 {
                    ended.push((source, row));
                } else {
                    next.push((source, row));
                }
            }
            rows = next;
        }
        for (source, found) in search.stop().into_iter().enumerate() {
            let mut tokens = found[0].tokens.clone();
            tokens.extend(found[0].end_id);
            assert!(ended.contains(&(source, tokens)), "{method:?}");
        }
    }
}

#[test]
fn a_stopped_search_returns_unfinished_targets() {
    let mut search = Search::new(
        Toy::new(6, 3, 2),
        vec![Vec::new(); 2],
        config(9).with_min_length(9),
    )
    .unwrap();
    search.next().unwrap().unwrap();
    search.next().unwrap().unwrap();
    for found in search.stop() {
        assert_eq!(found[0].tokens.len(), 2);
        assert!(found[0].end_id.is_none());
    }
}

#[test]
fn a_prefix_is_kept_and_continued() {
    for method in [Method::Greedy, beam(4, LengthPenalty::Average)] {
        let prefixes = vec![vec![3, 4, 2], vec![], vec![5]];
        let toy = Toy::new(6, 21, 3);
        let found = Search::new(toy, prefixes.clone(), config(8).with_method(method))
            .unwrap()
            .run()
            .unwrap();
        for (prefix, found) in prefixes.iter().zip(&found) {
            assert!(found[0].tokens.starts_with(prefix));
        }
        // The prefix of a source does not affect other sources.
        let alone = search(Toy::new(6, 21, 3), config(8).with_method(method));
        assert_eq!(found[1], alone[1]);
        // If the prefix is the beginning of the target that greedy decoding finds, greedy decoding
        // finds the same target again.
        if method == Method::Greedy {
            let prefix = alone[0][0].tokens[..2].to_vec();
            let again = Search::new(Toy::new(6, 21, 1), vec![prefix], config(8)).unwrap();
            let (again, alone) = (&again.run().unwrap()[0][0], &alone[0][0]);
            assert_eq!(again.tokens, alone.tokens);
            let rest = &alone.token_log_probabilities[2..];
            assert_eq!(again.token_log_probabilities, [&[0.0, 0.0], rest].concat());
        }
    }
}

/// The ban holds for the token after each prefix, and for no later one.
#[test]
fn first_tokens_can_be_banned() {
    let prefixes = vec![vec![3, 4], vec![]];
    let found = |first: Vec<u32>| {
        let config = config(8).with_forbidden_first(first);
        let toy = Toy::new(6, 21, 2);
        Search::new(toy, prefixes.clone(), config)
            .unwrap()
            .run()
            .unwrap()
    };
    let free = found(Vec::new());
    let firsts: Vec<u32> = (free.iter().zip(&prefixes))
        .filter_map(|(found, prefix)| found[0].tokens.get(prefix.len()).copied())
        .collect();
    assert_eq!(firsts.len(), 2);
    for (index, prefix) in prefixes.iter().enumerate() {
        let banned = found(vec![firsts[index]]);
        let tokens = &banned[index][0].tokens;
        assert!(tokens.starts_with(prefix));
        assert_ne!(tokens.get(prefix.len()), Some(&firsts[index]));
    }
    // A token that is no first one is not banned.
    let later = free[0][0].tokens[3..].iter();
    let later = *later.clone().find(|&&token| token != firsts[0]).unwrap();
    assert_eq!(found(vec![later])[0][0].tokens, free[0][0].tokens);
}

#[test]
fn a_prefix_must_fit_into_the_target() {
    let error = Search::new(Toy::new(6, 21, 2), vec![vec![5], vec![3; 9]], config(8)).err();
    let error = error.unwrap().to_string();
    let expected =
        "max_length is 8, but must be at least the length of the longest prefix (9 tokens)";
    assert_eq!(error, expected);
}

#[test]
fn scores_and_alignments_check_every_token() {
    let model = transformer::TransformerConfig::new(8, 8)
        .with_d_model(8)
        .with_n_heads(2)
        .init_seeded(1, &Device::flex())
        .unwrap();
    let (sources, targets) = ([[4, 5], [6, 7]], [vec![3, 5], vec![9]]);
    for eos_id in [None, Some(2)] {
        let error = model.score(&sources, &targets, 1, eos_id).unwrap_err();
        assert!(error.to_string().contains('9'), "{error}");
    }
    let error = model.align(&sources, &targets, 1, 0).unwrap_err();
    assert!(error.to_string().contains('9'), "{error}");
    let error = model.score(&sources, &[[3], [5]], 1, Some(8)).unwrap_err();
    let expected = "eos_id is 8, but must be less than the vocabulary size (8)";
    assert_eq!(error.to_string(), expected);
}

#[test]
fn samples_are_a_function_of_seed_and_source() {
    let sample = |seed, first_source| Method::Sample {
        temperature: 1.0,
        top_k: None,
        top_p: Some(0.95),
        seed,
        first_source,
    };
    let run = |n_sources, seed| {
        let config = config(12).with_method(sample(seed, 0)).with_n_best(3);
        search(Toy::new(9, 2, n_sources), config)
    };
    let all = run(5, 7);
    assert_eq!(all, run(5, 7));
    assert_ne!(all, run(5, 8));
    // The samples of a source do not depend on the other sources.
    assert_eq!(all[..2], run(2, 7)[..]);
    assert!(all.iter().any(|found| found[0].tokens != found[1].tokens));
    // The second source alone, with its index as `first_source`, has the same samples.
    let config = config(12).with_method(sample(7, 1)).with_n_best(3);
    let mut toy = Toy::new(9, 2, 2);
    toy.rows.remove(0);
    assert_eq!(
        all[1],
        Search::new(toy, vec![Vec::new()], config)
            .unwrap()
            .run()
            .unwrap()[0]
    );
}

#[test]
fn samples_have_the_frequencies_of_their_probabilities() {
    let toy = Toy::new(3, 4, 1);
    let expected: HashMap<Vec<u32>, f64> = toy
        .all(0, 2)
        .into_iter()
        .map(|(tokens, sum, _)| (tokens, sum.exp()))
        .collect();
    let n = 20_000;
    let method = Method::Sample {
        temperature: 1.0,
        top_k: None,
        top_p: None,
        seed: 1,
        first_source: 0,
    };
    let found = search(toy, config(2).with_method(method).with_n_best(n));
    let mut frequencies: HashMap<Vec<u32>, f64> = HashMap::new();
    for hypothesis in &found[0] {
        *frequencies.entry(hypothesis.tokens.clone()).or_default() += 1.0 / n as f64;
    }
    for (tokens, p) in expected {
        let frequency = frequencies.get(&tokens).copied().unwrap_or(0.0);
        let tolerance = 5.0 * (p * (1.0 - p) / n as f64).sqrt();
        assert!(
            (frequency - p).abs() <= tolerance,
            "{tokens:?}: {frequency}, not {p}"
        );
    }
}

#[test]
fn the_repetition_penalty_lowers_the_logits_of_repeated_tokens() {
    /// A model whose logits are always the same.
    struct Constant;
    impl Autoregressive for Constant {
        fn vocab_size(&self) -> usize {
            5
        }
        fn step(&mut self, _: &[usize], tokens: &[u32]) -> Vec<f32> {
            [-9.0, -9.0, 3.0, 2.9, -0.1].repeat(tokens.len())
        }
    }
    let run = |penalty| {
        let config = config(4).with_repetition_penalty(penalty);
        Search::new(Constant, vec![Vec::new()], config)
            .unwrap()
            .run()
            .unwrap()
            .remove(0)
            .remove(0)
    };
    assert_eq!(run(1.0).tokens, [2, 2, 2, 2]);
    // At the second step, the penalty lowers the logit of token 2 to 3 / 1.5 = 2, below 2.9. At the
    // third step, it also lowers the logit of token 3 to 2.9 / 1.5, below 2.
    let found = run(1.5);
    assert_eq!(found.tokens, [2, 3, 2, 2]);
    let second: f64 = [-9.0f64, -9.0, 2.0, 2.9, -0.1]
        .iter()
        .map(|x| x.exp())
        .sum();
    assert!((f64::from(found.token_log_probabilities[1]) - (2.9 - second.ln())).abs() < 1e-5);
}

#[test]
fn invalid_settings_are_rejected() {
    let error = |config: GenerateConfig| {
        Search::new(Toy::new(5, 0, 1), vec![Vec::new()], config)
            .err()
            .map(|error| error.to_string())
            .unwrap_or_default()
    };
    let sample = |temperature, top_k, top_p| {
        config(5).with_method(Method::Sample {
            temperature,
            top_k,
            top_p,
            seed: 0,
            first_source: 0,
        })
    };
    for (config, message) in [
        (config(0), "max_length is 0, but must be at least 1"),
        (
            config(5).with_min_length(6),
            "min_length is 6, but must be at most max_length (5)",
        ),
        (
            config(5).with_min_new_tokens(6),
            "min_new_tokens is 6, but must be at most max_new_tokens or max_length (5)",
        ),
        (
            config(5).with_method(beam(0, LengthPenalty::None)),
            "width is 0, but must be at least 1",
        ),
        (
            config(5)
                .with_method(beam(2, LengthPenalty::None))
                .with_n_best(3),
            "n_best is 3, but must be at most the beam's width (2)",
        ),
        (
            config(5).with_method(beam(2, LengthPenalty::Gnmt { alpha: -1.0 })),
            "alpha is -1, but must be a number from 0 to 10",
        ),
        (
            config(5).with_length_limit(Some(LengthLimit {
                per_token: f64::NAN,
                more: 10,
            })),
            "length_limit is NaN, but must be a number of at least 0",
        ),
        (config(5).with_n_best(0), "n_best is 0"),
        (
            config(5).with_n_best(2),
            "n_best is 2, but must be 1 for greedy",
        ),
        (
            sample(0.0, None, None),
            "temperature is 0, but must be a positive number",
        ),
        (sample(-1.0, None, None), "temperature is -1"),
        (sample(f64::NAN, None, None), "temperature is NaN"),
        (
            sample(1.0, Some(0), None),
            "top_k is 0, but must be at least 1",
        ),
        (
            sample(1.0, None, Some(0.0)),
            "top_p is 0, but must be above 0 and at most 1",
        ),
        (sample(1.0, None, Some(1.1)), "top_p is 1.1"),
        (
            config(5).with_repetition_penalty(0.0),
            "repetition_penalty is 0",
        ),
        (
            config(5).with_forbidden(vec![5]),
            "forbidden is 5, but must be tokens",
        ),
        (
            config(5).with_forbidden_first(vec![5]),
            "forbidden_first is 5, but must be tokens",
        ),
        (
            config(5).with_forbidden(vec![0, 1, 2, 3, 4]),
            "forbidden is every token",
        ),
        (
            GenerateConfig::new(3).with_bos_id(Some(5)),
            "bos_id is 5, but must be less than",
        ),
        (
            GenerateConfig::new(3)
                .with_bos_id(Some(1))
                .with_eos_id(Some(9)),
            "eos_id is 9, but must be less than",
        ),
    ] {
        assert!(error(config).starts_with(message), "{message}");
    }
    let prefix = |prefix: Vec<u32>| {
        let search = Search::new(Toy::new(5, 0, 1), vec![prefix], config(3));
        search.err().expect("the prefix is rejected").to_string()
    };
    assert!(prefix(vec![2, 2, 2, 2]).contains("4 tokens"));
    assert!(prefix(vec![7]).contains("token id 7 is outside the vocabulary"));
}

fn model_config() -> TransformerConfig {
    TransformerConfig::new(23, 29)
        .with_d_model(24)
        .with_n_heads(3)
        .with_d_ff(37)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_max_len(20)
}

fn models() -> Vec<(String, Transformer)> {
    let mut models = Vec::new();
    for backend in cpu_backends() {
        let device = backend.device.without_autodiff();
        for (name, config) in [
            ("post", model_config()),
            (
                "pre, learned",
                model_config()
                    .with_norm_placement(NormPlacement::Pre)
                    .with_positions(Positions::Learned),
            ),
            (
                "rotary, tied",
                model_config()
                    .with_positions(Positions::Rotary)
                    .with_weight_tying(WeightTying::Decoder),
            ),
        ] {
            let model = config.init_seeded(8, &device).unwrap().valid();
            models.push((format!("{name} on {}", backend.name), model));
        }
    }
    models
}

fn sources() -> Vec<Vec<u32>> {
    vec![
        vec![3, 4, 5, 6],
        vec![7, 8],
        vec![9],
        vec![22, 21, 20, 19, 18, 3],
        vec![4, 4],
    ]
}

/// A model without a cache: every step is a full pass over all rows.
///
/// A row holds the tokens of its source, and of its target so far.
struct NoCache<'a> {
    model: &'a Transformer,
    rows: Vec<(Vec<u32>, Vec<u32>)>,
    device: Device,
}

impl Autoregressive for NoCache<'_> {
    fn vocab_size(&self) -> usize {
        29
    }

    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
        let row = |(&parent, &token): (&usize, &u32)| {
            let (source, mut target) = self.rows[parent].clone();
            target.push(token);
            (source, target)
        };
        self.rows = parents.iter().zip(tokens).map(row).collect();
        let (sources, targets): (Vec<_>, Vec<_>) = self.rows.iter().cloned().unzip();
        let source = pad_sequences(&sources, 0, &self.device);
        let target = pad_sequences(&targets, 0, &self.device);
        let length = targets[0].len();
        let mask = AttentionMask::padding(&source, 0);
        let logits = self.model.forward(source, Some(&mask), target);
        let logits = logits.narrow(1, length - 1, 1);
        logits.into_data().iter::<f32>().collect()
    }
}

fn methods() -> Vec<(Method, usize)> {
    let sample = Method::Sample {
        temperature: 0.9,
        top_k: Some(9),
        top_p: Some(0.9),
        seed: 3,
        first_source: 0,
    };
    vec![
        (Method::Greedy, 1),
        (beam(5, LengthPenalty::Average), 5),
        (beam(2, LengthPenalty::Gnmt { alpha: 0.6 }), 1),
        (sample, 3),
    ]
}

fn assert_same(name: &str, actual: &[Vec<Hypothesis>], expected: &[Vec<Hypothesis>]) {
    assert_eq!(actual.len(), expected.len());
    for (actual, expected) in actual.iter().zip(expected) {
        assert_eq!(actual.len(), expected.len(), "{name}");
        for (actual, expected) in actual.iter().zip(expected) {
            assert_eq!(actual.tokens, expected.tokens, "{name}");
            assert!((actual.score - expected.score).abs() < 1e-4, "{name}");
        }
    }
}

#[test]
fn the_cache_does_not_affect_the_targets() {
    for (name, model) in models() {
        for (method, n_best) in methods() {
            let config = GenerateConfig::new(11)
                .with_bos_id(Some(1))
                .with_eos_id(Some(2))
                .with_method(method)
                .with_n_best(n_best);
            let found = model.generate(&sources(), &config).unwrap();
            let reference = NoCache {
                model: &model,
                rows: sources()
                    .into_iter()
                    .map(|source| (source, Vec::new()))
                    .collect(),
                device: model.decoder.input.table().device(),
            };
            let prefixes = vec![Vec::new(); sources().len()];
            let expected = Search::new(reference, prefixes, config)
                .unwrap()
                .run()
                .unwrap();
            assert_same(&format!("{name}, {method:?}"), &found, &expected);
        }
    }
}

#[test]
fn the_sources_of_a_batch_do_not_affect_each_other() {
    for (name, model) in models() {
        for (method, n_best) in methods() {
            let config = GenerateConfig::new(11)
                .with_bos_id(Some(1))
                .with_eos_id(Some(2))
                .with_method(method)
                .with_n_best(n_best);
            let found = model.generate(&sources(), &config).unwrap();
            for (index, source) in sources().into_iter().enumerate() {
                let mut config = config.clone();
                if let Method::Sample { first_source, .. } = &mut config.method {
                    *first_source = index as u64;
                }
                let alone = model.generate(&[source], &config).unwrap();
                assert_same(
                    &format!("{name}, {method:?}"),
                    &alone,
                    &found[index..=index],
                );
            }
        }
    }
}

#[test]
fn each_source_has_its_own_length_limit() {
    let limit = LengthLimit {
        per_token: 1.5,
        more: 1,
    };
    for (name, model) in models() {
        for (method, n_best) in methods() {
            let config = GenerateConfig::new(9)
                .with_bos_id(Some(1))
                .with_method(method)
                .with_n_best(n_best)
                .with_length_limit(Some(limit));
            let found = model.generate(&sources(), &config).unwrap();
            // Without an end symbol, every target reaches the maximum length for its source.
            let lengths = found.iter().map(|found| found[0].tokens.len());
            assert!(lengths.eq([7, 4, 2, 9, 4]), "{name}");
            for (index, source) in sources().into_iter().enumerate() {
                let mut config = config.clone();
                if let Method::Sample { first_source, .. } = &mut config.method {
                    *first_source = index as u64;
                }
                let alone = model.generate(&[source], &config).unwrap();
                assert_same(&name, &alone, &found[index..=index]);
            }
            // A limit below `min_length` is raised to `min_length`.
            let config = config.with_min_length(8);
            let found = model.generate(&sources(), &config).unwrap();
            let mut lengths = found.iter().map(|found| found[0].tokens.len());
            assert!(lengths.all(|length| length >= 8), "{name}");
        }
    }
}

#[test]
fn a_length_limit_leaves_room_for_the_prefix_and_one_more_token() {
    let limit = LengthLimit {
        per_token: 0.0,
        more: 1,
    };
    let model = model_config().init_seeded(1, &Device::flex()).unwrap();
    let config = GenerateConfig::new(9)
        .with_bos_id(Some(1))
        .with_length_limit(Some(limit));
    let prefixes = vec![vec![5, 6, 7], vec![], vec![8]];
    let sources = [[3u32], [4], [5]];
    let found = model.complete(&sources, &prefixes, &config).unwrap();
    let lengths = found.iter().map(|found| found[0].tokens.len());
    assert!(lengths.eq([4, 1, 2]));
}

#[test]
fn targets_may_be_as_long_as_the_model_allows() {
    let model = model_config().init_seeded(1, &Device::flex()).unwrap();
    let length = |config| {
        model.generate(&[[3u32, 4]], &config).unwrap()[0][0]
            .tokens
            .len()
    };
    assert_eq!(length(GenerateConfig::new(20).with_bos_id(Some(1))), 20);
    // A `max_length` above the model's `max_len` of 20 is valid if the length limit is lower.
    let limit = LengthLimit {
        per_token: 1.0,
        more: 5,
    };
    let config = GenerateConfig::new(50)
        .with_bos_id(Some(1))
        .with_length_limit(Some(limit));
    assert_eq!(length(config), 7);
}

#[test]
fn scores_of_found_targets_are_those_of_the_search() {
    for (name, model) in models() {
        let config = GenerateConfig::new(7)
            .with_bos_id(Some(1))
            .with_eos_id(Some(2))
            .with_method(beam(3, LengthPenalty::None));
        let found = model
            .complete(&sources(), &vec![vec![5]; 5], &config)
            .unwrap();
        for finished in [true, false] {
            let pairs = sources().into_iter().zip(&found);
            let pairs = pairs.filter(|(_, found)| found[0].end_id.is_some() == finished);
            let (sources, targets): (Vec<_>, Vec<_>) = pairs
                .map(|(source, found)| (source, found[0].clone()))
                .unzip();
            if sources.is_empty() {
                continue;
            }
            let tokens: Vec<&[u32]> = targets.iter().map(|target| &target.tokens[..]).collect();
            let scores = model
                .score(&sources, &tokens, 1, finished.then_some(2))
                .unwrap();
            for (score, target) in scores.iter().zip(&targets) {
                // The search does not score its prefix.
                let prefix = f64::from(score.token_log_probabilities[0]);
                let log_probability = score.log_probability - prefix;
                assert!(
                    (log_probability - target.log_probability).abs() < 1e-4,
                    "{name}"
                );
                let each = score.token_log_probabilities.iter();
                for (a, b) in each.zip(&target.token_log_probabilities).skip(1) {
                    assert!((a - b).abs() < 1e-4, "{name}");
                }
            }
        }
    }
}

#[test]
fn alignments_are_distributions_over_the_source() {
    for (name, model) in models() {
        let targets = vec![vec![5, 6], vec![7], vec![], vec![8; 20], vec![9, 10, 11]];
        for layer in 0..2 {
            let alignments = model.align(&sources(), &targets, 1, layer).unwrap();
            for ((rows, source), target) in alignments.iter().zip(sources()).zip(&targets) {
                assert_eq!(rows.len(), target.len(), "{name}");
                for row in rows {
                    assert_eq!(row.len(), source.len());
                    assert!((row.iter().sum::<f32>() - 1.0).abs() < 1e-5, "{name}");
                }
            }
        }
    }
}

#[test]
fn a_decoder_alone_generates() {
    let device = Device::flex();
    let _guard = common::seed(&device, 1);
    let decoder = model_config()
        .decoder()
        .with_cross_attention(false)
        .init(&device)
        .unwrap();
    let config = GenerateConfig::new(9)
        .with_bos_id(Some(1))
        .with_method(beam(4, LengthPenalty::None))
        .with_n_best(2);
    let prefixes = [vec![5, 6], vec![], vec![7, 8, 9]];
    let found = decoder.complete(None, &prefixes, &config).unwrap();
    for (prefix, found) in prefixes.iter().zip(&found) {
        assert!(found[0].tokens.starts_with(prefix));
        assert_eq!(found[0].tokens.len(), 9);
        let alone = decoder.complete(None, &[prefix], &config).unwrap();
        assert_same("decoder", &alone, std::slice::from_ref(found));
    }
    // Greedy decoding must choose the likeliest token of a full pass.
    let greedy = decoder
        .complete(
            None,
            &[[5, 6]],
            &GenerateConfig::new(3).with_bos_id(Some(1)),
        )
        .unwrap();
    let ids = pad_sequences(&[[1, 5, 6]], 0, &device);
    let logits = decoder.forward(ids, None, &mut decoder.new_cache());
    let best = logits
        .narrow(1, 2, 1)
        .argmax(2)
        .into_data()
        .iter::<u32>()
        .next();
    assert_eq!(Some(greedy[0][0].tokens[2]), best);
    // A begin symbol may be the first token of the prompt instead.
    let config = GenerateConfig::new(4);
    let prompted = decoder.complete(None, &[[1, 5, 6]], &config).unwrap();
    assert_eq!(prompted[0][0].tokens[1..], greedy[0][0].tokens);
    let error = decoder.complete(None, &[vec![1], vec![]], &config);
    assert_eq!(
        error.unwrap_err().to_string(),
        "bos_id is none, but must be an id of the vocabulary, because a target has no prefix or prompt"
    );
}

#[test]
fn a_generation_that_is_stopped_at_once_has_its_prompt() {
    let decoder = model_config().decoder().with_cross_attention(false);
    let decoder = decoder.init_seeded(1, &Device::flex()).unwrap();
    let config = GenerateConfig::new(6);
    let mut steps = decoder.stream(None, &[[5, 6, 7]], &config).unwrap();
    steps.next().unwrap().unwrap();
    let found = &steps.stop()[0][0];
    assert_eq!((&found.tokens[..], found.score), (&[5, 6, 7][..], 0.0));
}

#[test]
fn new_tokens_are_limited_for_each_prompt() {
    let device = Device::flex();
    let decoder = model_config().decoder().with_cross_attention(false);
    let decoder = decoder.init_seeded(1, &device).unwrap();
    let prompts = [vec![5, 6], vec![7, 8, 9, 10], vec![3]];
    let config = GenerateConfig::new(6).with_max_new_tokens(Some(3));
    // The model's `max_len` limits targets, too.
    let most = GenerateConfig::new(usize::MAX).with_max_new_tokens(Some(usize::MAX));
    let longest = decoder.complete(None, &[[5, 6]], &most).unwrap();
    assert_eq!(Some(longest[0][0].tokens.len()), decoder.max_len());
    let full = vec![3; decoder.max_len().unwrap()];
    let error = decoder.complete(None, &[vec![5], full], &most).unwrap_err();
    assert!(error.to_string().contains("sequence 1"), "{error}");
    for method in [Method::Greedy, beam(3, LengthPenalty::Average)] {
        let config = config.clone().with_method(method);
        let found = decoder.complete(None, &prompts, &config).unwrap();
        let lengths: Vec<usize> = found.iter().map(|found| found[0].tokens.len()).collect();
        assert_eq!(lengths, [5, 6, 4]);
    }
    let limit = LengthLimit {
        per_token: 1.5,
        more: 2,
    };
    let error = decoder.complete(None, &prompts, &config.with_length_limit(Some(limit)));
    assert_eq!(
        error.unwrap_err().to_string(),
        "length_limit is 1.5 tokens for each of the source and 2 more, but must be none for prompts, which max_new_tokens limits"
    );
}

#[test]
fn a_decoder_continues_prompts_for_a_memory() {
    for backend in cpu_backends() {
        let model = model_config()
            .init_seeded(8, &backend.device)
            .unwrap()
            .valid();
        let sources = sources();
        let prompts: Vec<Vec<u32>> = (0..sources.len()).map(|n| vec![7; n % 3]).collect();
        let ids = pad_sequences(&sources, 0, &model.devices()[0]);
        let lengths: Vec<usize> = sources.iter().map(Vec::len).collect();
        let mask = AttentionMask::of_lengths(&lengths, &ids.device());
        let memory = model.encode(ids, Some(&mask));
        for method in [Method::Greedy, beam(4, LengthPenalty::Average)] {
            let config = GenerateConfig::new(9)
                .with_bos_id(Some(1))
                .with_method(method);
            let expected = model.complete(&sources, &prompts, &config).unwrap();
            let found = model.decoder.complete(&memory, &prompts, &config).unwrap();
            assert_same(backend.name, &found, &expected);
        }
    }
}

#[test]
#[should_panic(expected = "the memory has 2 sources, but there are 1 prompts")]
fn each_source_of_a_memory_has_a_prompt() {
    let device = Device::flex();
    let decoder = model_config().init_seeded(8, &device).unwrap().decoder;
    let d_model = decoder.input.table().dims()[1];
    let memory = Memory::from(Tensor::<3>::ones([2, 3, d_model], &device));
    let _ = decoder.complete(&memory, &[[1]], &GenerateConfig::new(5));
}

/// A toy that reads prefixes in one pass, and counts its passes.
struct Reading<'a>(Toy, &'a Cell<usize>);

impl Autoregressive for Reading<'_> {
    fn vocab_size(&self) -> usize {
        self.0.vocab_size
    }

    fn step(&mut self, parents: &[usize], tokens: &[u32]) -> Vec<f32> {
        self.0.step(parents, tokens)
    }

    fn read(&mut self, parents: &[usize], tokens: &[&[u32]]) -> Vec<f32> {
        self.1.set(self.1.get() + 1);
        self.0.read(parents, tokens)
    }
}

#[test]
fn prefixes_are_read_in_one_pass() {
    for method in [
        Method::Greedy,
        beam(4, LengthPenalty::Average),
        Method::Sample {
            temperature: 1.0,
            top_k: None,
            top_p: None,
            seed: 3,
            first_source: 0,
        },
    ] {
        // The pass ends with the shorter prefix; the longer one goes on token by token.
        for (prefixes, passes) in [
            (vec![vec![3; 20], vec![4; 20]], 1),
            (vec![vec![3; 20], vec![4; 17]], 4),
        ] {
            let config = config(21).with_method(method);
            let calls = Cell::new(0);
            let reading = Reading(Toy::new(6, 21, 2), &calls);
            let mut steps = Search::new(reading, prefixes.clone(), config.clone()).unwrap();
            for (index, step) in steps.by_ref().take(17).enumerate() {
                let step: Vec<_> = step.unwrap().iter().map(|t| (t.parent, t.token)).collect();
                assert_eq!(step, [(0, 3), (1, 4)], "step {index}");
                assert_eq!(calls.get(), 0);
            }
            let found = steps.run().unwrap();
            // A target that ends early leaves the rest of the other prefix to one pass.
            assert!((1..=passes).contains(&calls.get()));
            // Each source alone has the same targets.
            if !matches!(method, Method::Sample { .. }) {
                let toy = Toy::new(6, 21, 1);
                let alone = Search::new(toy, vec![prefixes[0].clone()], config).unwrap();
                assert_eq!(alone.run().unwrap()[0], found[0]);
            }
        }
    }
}

#[test]
fn sources_that_the_model_cannot_process_are_rejected() {
    let model = model_config().init_seeded(1, &Device::flex()).unwrap();
    let error = |sources: &[Vec<u32>], max_length| {
        let config = GenerateConfig::new(max_length).with_bos_id(Some(1));
        model.generate(sources, &config).unwrap_err().to_string()
    };
    assert!(error(&[], 5).contains("no sequences"));
    assert!(error(&[vec![3], vec![23]], 5).contains("sequence 1, position 0: token id 23"));
    assert!(error(&[vec![3; 21]], 5).contains("needs 21 positions, but the model's max_len is 20"));
    assert_eq!(
        error(&[vec![3]], 21),
        "max_length is 21, but must be at most the model's max_len (20)"
    );
}
