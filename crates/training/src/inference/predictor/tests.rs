use std::ops::ControlFlow;

use burn::tensor::Device;
use serde_json::{Value, json};
use transformer::generate::{GenerateConfig, LengthPenalty, Method};

use super::*;
use crate::config::RunConfig;

fn run() -> TrainedRun {
    let mut config = RunConfig::copy();
    config.model = config.model.with_d_model(8).with_d_ff(8);
    let dataset = config.check().unwrap().unwrap();
    let model = config.model.init_seeded(1, &Device::flex()).unwrap();
    TrainedRun {
        config,
        dataset,
        step: 0,
        model,
    }
}

fn line(number: u64, text: &str) -> Line {
    let text = text.into();
    Line { number, text }
}

#[test]
fn json_repeats_the_source_as_it_was_written() {
    let run = run();
    let vocabularies = run.dataset.codec().vocabularies();
    let generation = Generation {
        config: GenerateConfig::new(4).with_bos_id(Some(vocabularies.bos_id)),
        prefix: Vec::new(),
        alignments: true,
        extends: false,
    };
    let predictor = Predictor::new(&run, Work::Generate(generation), true);
    let request = predictor.request(&line(7, " 3  1")).unwrap().unwrap();
    let result: Value =
        serde_json::from_str(&predictor.predict(&[request], &mut |_| ()).unwrap().concat())
            .unwrap();
    assert_eq!(result["line"], 7);
    assert_eq!(result["source"], " 3  1");
    let output = &result["hypotheses"][0];
    assert_eq!(output["tokens"].as_array().unwrap().len(), 4);
    let alignment = output["alignment"].as_array().unwrap();
    assert_eq!(alignment.len(), 4);
    assert_eq!(alignment[0].as_array().unwrap().len(), 2);
    assert_eq!(
        predictor.blank(8, " "),
        "{\"line\":8,\"source\":\" \",\"hypotheses\":[]}\n"
    );
}

#[test]
fn scores_are_of_the_target_after_the_tab() {
    let run = run();
    let predictor = Predictor::new(&run, Work::Score, true);
    let request = |text| predictor.request(&line(1, text));
    let (one, two) = (request("3 1\t5").unwrap(), request("3  1\t5 6").unwrap());
    let requests = [one.unwrap(), two.unwrap()];
    let results = predictor.predict(&requests, &mut |_| ()).unwrap();
    let [one, two] = [0, 1].map(|i| serde_json::from_str::<Value>(&results[i]).unwrap());
    assert_eq!(one["source"], "3 1");
    assert_eq!(one["target"], "5");
    assert_eq!(two["source"], "3  1");
    assert_eq!(two["target"], "5 6");
    // Both targets begin with `5`, which is predicted from the same source and begin symbol.
    let first = |result: &Value| result["token_log_probabilities"][0].as_f64().unwrap();
    assert!((first(&one) - first(&two)).abs() < 1e-5);
    let long = format!("3\t{}", "1 ".repeat(10_000));
    for (text, what) in [
        ("3 1", "must be SOURCE<TAB>TARGET, with one tab"),
        ("3\t1\t1", "must be SOURCE<TAB>TARGET, with one tab"),
        ("\t1", "has no source before its tab"),
        (
            &long[..],
            "its target has 10000 symbols, more than the 9999 that this model can take",
        ),
    ] {
        let error = request(text).unwrap_err().to_string();
        assert!(error.ends_with(what), "{error}");
    }
    let error = request("3").unwrap_err();
    let rejected: Value = serde_json::from_str(&predictor.rejected(1, &error)).unwrap();
    assert_eq!(rejected, json!({"line": 1, "error": error.to_string()}));
}

#[test]
fn a_beam_search_is_streamed_as_a_whole() {
    let run = run();
    let bos_id = run.dataset.codec().vocabularies().bos_id;
    let method = Method::Beam {
        width: 3,
        length_penalty: LengthPenalty::None,
    };
    let config = GenerateConfig::new(4)
        .with_bos_id(Some(bos_id))
        .with_method(method)
        .with_n_best(2);
    let generation = Generation {
        config,
        prefix: Vec::new(),
        alignments: false,
        extends: false,
    };
    let predictor = Predictor::new(&run, Work::Generate(generation), false);
    let request = predictor.request(&line(1, "3 1 2")).unwrap().unwrap();
    let parts = std::cell::RefCell::new(Vec::new());
    let print = |part: &str| {
        parts.borrow_mut().push(part.to_owned());
        Ok(ControlFlow::Continue(()))
    };
    assert!(predictor.stream(&request, print).unwrap().is_continue());
    assert_eq!(
        parts.into_inner(),
        [predictor.predict(&[request], &mut |_| ()).unwrap().concat()]
    );
}
