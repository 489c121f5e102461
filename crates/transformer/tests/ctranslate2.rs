//! Tests that searches find the same targets as CTranslate2 with the same weights.
//!
//! `fixtures/export_search.py` wrote the results of CTranslate2 for 64 random sources.

mod common;

use burn::module::Module;
use common::{Fixture, cpu_backends};
use transformer::generate::{EarlyStopping, GenerateConfig, LengthPenalty, Method};
use transformer::{NormPlacement, Transformer, TransformerConfig};

const EOS: u32 = 2;

/// Maximum difference of a score from CTranslate2's score, relative to the score's absolute value,
/// or to 1 if this value is smaller.
///
/// CTranslate2 adds in f32 and in another order, so the scores are not equal.
const TOLERANCE: f64 = 2e-4;

fn sources(fixture: &Fixture) -> Vec<Vec<u32>> {
    let data = fixture.data("input.source");
    let ids: Vec<u32> = data.iter::<u32>().collect();
    let rows = ids.chunks(data.shape()[1]);
    rows.map(|row| row.iter().copied().filter(|&id| id != 0).collect())
        .collect()
}

/// Returns the targets that CTranslate2 found for each source and their scores, best first.
fn expected(fixture: &Fixture, case: &str) -> Vec<Vec<(Vec<u32>, f64)>> {
    let tokens = fixture.data(&format!("{case}.tokens"));
    let [_, n_best, length] = tokens.shape()[..] else {
        panic!("{case} is {:?}", tokens.shape());
    };
    let tokens: Vec<i64> = tokens.iter::<i64>().collect();
    let scores = fixture.data(&format!("{case}.scores"));
    let scores: Vec<f64> = scores.iter::<f64>().collect();
    let target = |(tokens, &score): (&[i64], &f64)| {
        let ids = tokens.iter().filter(|&&id| id >= 0).map(|&id| id as u32);
        (ids.collect(), score)
    };
    let targets: Vec<_> = tokens.chunks(length).zip(&scores).map(target).collect();
    targets.chunks(n_best).map(<[_]>::to_vec).collect()
}

fn check(
    model: &Transformer,
    fixture: &Fixture,
    case: &str,
    config: &GenerateConfig,
    prefix: &[u32],
    what: &str,
) {
    let sources = sources(fixture);
    let expected = expected(fixture, case);
    assert!(sources.len() >= 50 && expected.len() == sources.len());
    let prefixes = vec![prefix; sources.len()];
    let found = model.complete(&sources, &prefixes, config).unwrap();
    let mut same = 0;
    for (source, (found, expected)) in sources.iter().zip(found.iter().zip(&expected)) {
        assert_eq!(found.len(), expected.len());
        for (found, (tokens, score)) in found.iter().zip(expected) {
            let name = format!("{case} of {source:?} on {what}");
            let actual = found.score;
            assert!(
                (actual - score).abs() < TOLERANCE * score.abs().max(1.0),
                "{name}: {found:?}, but CTranslate2 has {tokens:?} with {score}"
            );
            // A few targets may differ, because targets of equal score may come in any order.
            same += usize::from(found.tokens == *tokens);
        }
    }
    let all = sources.len() * config.n_best;
    assert!(
        same * 100 >= all * 99,
        "{case} on {what}: {same} of {all} are the same"
    );
}

#[test]
fn searches_find_the_targets_and_scores_of_ctranslate2() {
    let fixture = Fixture::load("search");
    let config = TransformerConfig::new(31, 31)
        .with_d_model(24)
        .with_n_heads(3)
        .with_d_ff(40)
        .with_n_encoder_layers(2)
        .with_n_decoder_layers(2)
        .with_norm_placement(NormPlacement::Pre)
        .with_max_len(64);
    for backend in cpu_backends() {
        let device = &backend.device;
        let model = config.init_seeded(0, device).unwrap();
        let model = fixture.fill(model, device).valid();
        let greedy = GenerateConfig::new(24)
            .with_bos_id(Some(1))
            .with_eos_id(Some(EOS));
        let beam = |length_penalty| {
            let width = 5;
            greedy
                .clone()
                .with_early_stopping(EarlyStopping::Never)
                .with_method(Method::Beam {
                    width,
                    length_penalty,
                })
                .with_n_best(width)
        };
        let (none, average) = (beam(LengthPenalty::None), beam(LengthPenalty::Average));
        for (case, config, prefix) in [
            ("greedy", greedy.clone(), &[][..]),
            ("greedy_min", greedy.clone().with_min_length(8), &[]),
            (
                "greedy_repetition",
                // CTranslate2 does not count the begin symbol as a token of the target.
                (greedy.clone().with_repetition_penalty(1.3)).with_forbidden(vec![1]),
                &[],
            ),
            ("beam_none", none.clone(), &[]),
            ("beam_average", average.clone(), &[]),
            ("beam_min", average.with_min_length(8), &[]),
            ("beam_prefix", none.with_min_length(3), &[5, 9]),
        ] {
            check(&model, &fixture, case, &config, prefix, backend.name);
        }
    }
}
