//! BLEU and chrF agree with sacreBLEU on the corpora of `fixtures/scores`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use training::metrics::{BleuCounts, ChrfCounts, Counts, Tokenizer};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scores")
}

fn lines(name: &str) -> Vec<String> {
    let text = std::fs::read_to_string(folder().join(name)).unwrap();
    text.strip_suffix('\n')
        .unwrap()
        .split('\n')
        .map(String::from)
        .collect()
}

#[test]
fn scores_agree_with_sacrebleu() {
    let expected = std::fs::read(folder().join("expected.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_slice(&expected).unwrap();
    assert!(expected.len() >= 5);
    for (name, expected) in &expected {
        let hypotheses = lines(&format!("{name}.hyp"));
        let references = lines(&format!("{name}.ref"));
        assert_eq!(hypotheses.len(), references.len());
        for lower in [false, true] {
            let case = |text: &str| {
                if lower {
                    text.to_lowercase()
                } else {
                    text.into()
                }
            };
            let named = if lower { "lc" } else { "mixed" };
            let numbers = |key: String| -> Vec<f64> {
                let numbers = expected[&key].as_array().unwrap();
                numbers.iter().map(|x| x.as_f64().unwrap()).collect()
            };
            let pairs: Vec<(String, String)> = hypotheses
                .iter()
                .zip(&references)
                .map(|(hypothesis, reference)| (case(hypothesis), case(reference)))
                .collect();
            for tokenizer in [Tokenizer::Mteval13a, Tokenizer::None] {
                let mut counts = BleuCounts::default();
                for (hypothesis, reference) in &pairs {
                    counts.add(&BleuCounts::of_segment(hypothesis, &[reference], tokenizer));
                }
                let bleu = counts.score();
                let mut found = vec![bleu.score];
                found.extend(bleu.precisions);
                found.extend([
                    bleu.brevity_penalty,
                    bleu.hypothesis as f64,
                    bleu.reference as f64,
                ]);
                let key = format!("bleu.{named}.{}", tokenizer.name());
                for (found, expected) in found.iter().zip(numbers(key.clone())) {
                    assert!(
                        (found - expected).abs() < 1e-9,
                        "{name} {key}: {found}, {expected}"
                    );
                }
            }
            let mut counts = ChrfCounts::default();
            for (hypothesis, reference) in &pairs {
                counts.add(&ChrfCounts::of_segment(hypothesis, &[reference]));
            }
            let (found, expected) = (counts.score(), numbers(format!("chrf.{named}"))[0]);
            assert!(
                (found - expected).abs() < 1e-9,
                "{name} chrF {named}: {found}, {expected}"
            );
        }
    }
}

#[test]
fn of_references_with_equal_scores_the_first_counts() {
    // sacreBLEU 2 computed the expected scores as
    // `CHRF(word_order=0).corpus_score(hypotheses, references).score`.
    for (first, second, expected) in [
        ("cccccc", "dd", 38.96577755410166),
        ("dd", "cccccc", 87.17547000895254),
    ] {
        let mut counts = ChrfCounts::of_segment("x", &[first, second]);
        counts.add(&ChrfCounts::of_segment("ab cd", &["abcd"]));
        assert!((counts.score() - expected).abs() < 1e-9);
    }
}
