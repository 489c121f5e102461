//! BLEU and chrF agree with sacreBLEU on the corpora of `fixtures/scores`, with one reference and
//! with several.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;
use training::metrics::{BleuCounts, ChrfCounts, Tokenizer};

fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/scores")
        .join(name)
}

fn lines(name: &str, is_lower_case: bool) -> Vec<String> {
    let mut text = fs::read_to_string(path(name)).unwrap();
    if is_lower_case {
        text = text.to_lowercase();
    }
    let text = text.strip_suffix('\n').unwrap();
    text.split('\n').map(String::from).collect()
}

/// Checks the scores of a file of hypotheses against files of references. `bleu` and `chrf` have
/// sacreBLEU's results.
fn check(
    hypotheses: &str,
    references: &[String],
    tokenizer: Tokenizer,
    is_lower_case: bool,
    [bleu, chrf]: [&Value; 2],
) {
    let references: Vec<_> = references
        .iter()
        .map(|name| lines(name, is_lower_case))
        .collect();
    let texts = lines(hypotheses, is_lower_case);
    assert_eq!(texts.len(), references[0].len());
    let (mut of_bleu, mut of_chrf) = (BleuCounts::default(), ChrfCounts::default());
    for (index, text) in texts.iter().enumerate() {
        let references: Vec<&str> = references.iter().map(|lines| &*lines[index]).collect();
        of_bleu.add(&BleuCounts::of_segment(text, &references, tokenizer));
        of_chrf.add(&ChrfCounts::of_segment(text, &references));
    }
    let found = of_bleu.score();
    let [one, two, three, four] = found.precisions;
    let lengths = [found.hypothesis, found.reference].map(|length| length as f64);
    let found = [
        found.score,
        one,
        two,
        three,
        four,
        found.brevity_penalty,
        lengths[0],
        lengths[1],
        of_chrf.score(),
    ];
    let expected = bleu.as_array().unwrap().iter().chain([chrf]);
    let expected: Vec<f64> = expected.map(|number| number.as_f64().unwrap()).collect();
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(&expected) {
        assert!(
            (found - expected).abs() < 1e-9,
            "{hypotheses} {tokenizer:?} {is_lower_case}: {found}, {expected}"
        );
    }
}

/// Returns both tokenisations, each with case and without, and the name of each case.
fn ways() -> impl Iterator<Item = (Tokenizer, bool, &'static str)> {
    let both = |tokenizer| [(tokenizer, false, "mixed"), (tokenizer, true, "lc")];
    Tokenizer::ALL.into_iter().flat_map(both)
}

#[test]
fn scores_agree_with_sacrebleu() {
    let expected = fs::read(path("expected.json")).unwrap();
    let expected: BTreeMap<String, Value> = serde_json::from_slice(&expected).unwrap();
    assert!(expected.len() >= 5);
    for (name, expected) in &expected {
        for (tokenizer, is_lower_case, case) in ways() {
            let bleu = &expected[&format!("bleu.{case}.{}", tokenizer.name())];
            let chrf = &expected[&format!("chrf.{case}")][0];
            let (hypotheses, references) = (format!("{name}.hyp"), [format!("{name}.ref")]);
            check(
                &hypotheses,
                &references,
                tokenizer,
                is_lower_case,
                [bleu, chrf],
            );
        }
    }
}

#[test]
fn scores_with_several_references_agree_with_sacrebleu() {
    let cases = fs::read(path("several.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&cases).unwrap();
    assert!(cases.len() >= 3);
    for case in cases {
        let references = case["references"].as_array().unwrap().iter();
        let references: Vec<String> = references
            .map(|name| format!("several.{}", name.as_str().unwrap()))
            .collect();
        for (tokenizer, is_lower_case, name) in ways() {
            let expected = &case[format!("{name}.{}", tokenizer.name())];
            for system in ["base", "near", "far"] {
                let expected = &expected[system];
                check(
                    &format!("several.{system}"),
                    &references,
                    tokenizer,
                    is_lower_case,
                    [&expected["bleu"], &expected["chrf"]],
                );
            }
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
