//! Scores with several references, and paired bootstraps, agree with sacreBLEU on the corpora
//! `fixtures/scores/paired.*`.

use std::path::Path;

use serde_json::Value;
use training::metrics::{BleuCounts, ChrfCounts, Counts, Tokenizer, paired_bootstrap};

const SYSTEMS: [&str; 4] = ["base", "equal", "near", "far"];

fn lines(name: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/scores");
    let text = std::fs::read_to_string(folder.join(format!("paired.{name}"))).unwrap();
    text.lines().map(String::from).collect()
}

fn cases() -> Vec<Value> {
    let cases: Vec<Value> = serde_json::from_str(&lines("json").join("\n")).unwrap();
    assert!(cases.len() >= 3);
    cases
}

/// Calls `count` with each segment of the output of `system` and with the segment's references.
/// Returns the results of all segments.
fn segments<T>(
    case: &Value,
    system: &str,
    lower_case: bool,
    count: impl Fn(&str, &[&str]) -> T,
) -> Vec<T> {
    let cased = |name: &str| -> Vec<String> {
        let case = |line: String| {
            if lower_case {
                line.to_lowercase()
            } else {
                line
            }
        };
        lines(name).into_iter().map(case).collect()
    };
    let names = case["references"].as_array().unwrap().iter();
    let references: Vec<Vec<String>> = names.map(|name| cased(name.as_str().unwrap())).collect();
    let hypotheses = cased(system);
    let segments = hypotheses.iter().enumerate().map(|(index, hypothesis)| {
        let of_segment: Vec<&str> = references.iter().map(|lines| &lines[index][..]).collect();
        count(hypothesis, &of_segment)
    });
    segments.collect()
}

fn sum<C: Counts>(segments: &[C]) -> C {
    let mut sum = C::default();
    segments.iter().for_each(|counts| sum.add(counts));
    sum
}

fn numbers(value: &Value) -> Vec<f64> {
    let numbers = value.as_array().unwrap().iter();
    numbers.map(|number| number.as_f64().unwrap()).collect()
}

#[test]
fn scores_with_several_references_agree_with_sacrebleu() {
    for case in cases() {
        for (tokenizer, lower_case) in [
            (Tokenizer::Mteval13a, false),
            (Tokenizer::Mteval13a, true),
            (Tokenizer::None, false),
            (Tokenizer::None, true),
        ] {
            let name = if lower_case { "lc" } else { "mixed" };
            let expected = &case[format!("{name}.{}", tokenizer.name())];
            for system in SYSTEMS {
                let bleu = segments(&case, system, lower_case, |hypothesis, references| {
                    BleuCounts::of_segment(hypothesis, references, tokenizer)
                });
                let bleu = sum(&bleu).score();
                let mut found = vec![bleu.score];
                found.extend(bleu.precisions);
                found.push(bleu.brevity_penalty);
                found.extend([bleu.hypothesis, bleu.reference].map(|length| length as f64));
                let numbers = numbers(&expected[system]["bleu"]);
                assert_eq!(found.len(), numbers.len());
                for (found, expected) in found.iter().zip(numbers) {
                    assert!((found - expected).abs() < 1e-9, "{system} {expected}");
                }
                let chrf = segments(&case, system, lower_case, ChrfCounts::of_segment);
                let (found, expected) = (sum(&chrf).score(), &expected[system]["chrf"]);
                assert!(
                    (found - expected.as_f64().unwrap()).abs() < 1e-9,
                    "{system}"
                );
            }
        }
    }
}

#[test]
fn paired_bootstraps_agree_with_sacrebleu() {
    for case in cases() {
        let bleu = SYSTEMS.map(|system| {
            segments(&case, system, false, |hypothesis, references| {
                BleuCounts::of_segment(hypothesis, references, Tokenizer::Mteval13a)
            })
        });
        let chrf = SYSTEMS.map(|system| segments(&case, system, false, ChrfCounts::of_segment));
        for paired in case["paired"].as_array().unwrap() {
            let samples = paired["samples"].as_u64().unwrap() as usize;
            let seed = paired["seed"].as_u64().unwrap();
            let found = [
                ("bleu", paired_bootstrap(&bleu, samples, seed)),
                ("chrf", paired_bootstrap(&chrf, samples, seed)),
            ];
            for (metric, found) in found {
                assert_eq!(found.len(), SYSTEMS.len());
                for (system, found) in SYSTEMS.iter().zip(found) {
                    let expected = &paired["systems"][system][metric];
                    let near = |found: f64, key: &str, tolerance: f64| {
                        let expected = expected[key].as_f64().unwrap();
                        assert!(
                            (found - expected).abs() < tolerance,
                            "{metric} {system} {key}: {found}, {expected}"
                        );
                    };
                    near(found.score, "score", 1e-9);
                    // sacreBLEU computes the scores of bootstrap samples in single precision, so
                    // the mean and the interval have a larger tolerance than the score.
                    near(found.mean, "mean", 1e-4);
                    near(found.interval, "interval", 1e-4);
                    match found.p_value {
                        Some(p_value) => near(p_value, "p_value", 1e-12),
                        None => assert!(expected["p_value"].is_null() && *system == "base"),
                    }
                }
            }
        }
    }
}
