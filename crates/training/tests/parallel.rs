//! Tests a parallel corpus as the data set of a new run, of a resumed run, and for inference.

use std::fs;
use std::path::Path;

use training::config::RunConfig;
use training::data::parallel::{TextConfig, TokenizerKind};
use training::data::{DataConfig, Dataset, Decoded, Split, open, prepare, reload};
use training::trainer::Prefetcher;

#[path = "../../../examples/pseudo_language/language.rs"]
#[allow(dead_code)]
mod language;

use language::pseudo_language;

fn config(folder: &Path) -> DataConfig {
    let mut config = TextConfig::new(300, 400);
    config.tokenizer.kind = TokenizerKind::Char;
    for (corpus, seed, pairs) in [(&mut config.train, 0, 200), (&mut config.valid, 1, 20)] {
        let pairs = (0..pairs).map(|index| pseudo_language(seed, index));
        let lines: String = pairs
            .map(|pair| format!("{}\t{}\n", pair.source, pair.target))
            .collect();
        corpus.source = folder.join(format!("{seed}.tsv"));
        fs::write(&corpus.source, lines).unwrap();
    }
    DataConfig::Text(Box::new(config))
}

fn batches(dataset: &dyn Dataset) -> Vec<Vec<String>> {
    let codec = dataset.codec();
    let texts = |index| {
        let examples = dataset.batch(3, index, 0);
        let texts = examples.iter().map(|e| codec.decode_source(&e.source));
        texts.collect()
    };
    (1..=dataset.batches_per_epoch().unwrap())
        .map(texts)
        .collect()
}

#[test]
fn a_resumed_run_has_the_same_data() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let (caches, eval_size) = (&path.join("cache"), 10);
    let mut config = config(path);
    let dataset = prepare(&mut config, caches, eval_size).unwrap();
    let DataConfig::Text(text) = &config else {
        unreachable!("it is text");
    };
    assert!(text.tokenizer_sha256.is_some() && text.data.is_some());
    let all = batches(dataset.as_ref());
    let mut sources: Vec<String> = all.concat();
    sources.sort();
    let mut expected: Vec<String> = (0..200)
        .map(|index| pseudo_language(0, index).source)
        .collect();
    expected.sort();
    assert!(sources == expected, "an epoch has every pair once");

    dataset.save(path).unwrap();
    let resumed = reload(&mut config, path, caches, eval_size).unwrap();
    assert_eq!(batches(resumed.as_ref()), all);

    let trained = open(&config, path).unwrap();
    assert_eq!(
        trained.codec().vocabularies(),
        dataset.codec().vocabularies()
    );
    let held_out = |dataset: &dyn Dataset| dataset.held_out(0, Split::Test, 10);
    assert_eq!(held_out(trained.as_ref()), held_out(dataset.as_ref()));
    fs::rename(path.join("1.tsv"), path.join("away.tsv")).unwrap();
    let without = open(&config, path).unwrap();
    assert_eq!(held_out(without.as_ref()), []);
    fs::rename(path.join("away.tsv"), path.join("1.tsv")).unwrap();

    let mut lines = fs::read_to_string(path.join("0.tsv")).unwrap();
    lines += "a\tb\n";
    fs::write(path.join("0.tsv"), lines).unwrap();
    let error = reload(&mut config, path, caches, eval_size);
    let error = error.err().unwrap().to_string();
    assert!(
        error.contains("0.tsv: has changed since the run began"),
        "{error}"
    );
}

#[test]
fn references_are_the_texts_of_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let dataset = prepare(&mut config, &folder.path().join("cache"), 10).unwrap();
    let examples = dataset.held_out(0, Split::Test, 1000);
    assert_eq!(examples.len(), 10);
    let mut decoded = Vec::new();
    for (index, example) in examples.into_iter().enumerate() {
        let pair = pseudo_language(1, index as u64);
        assert_eq!(dataset.reference(index, &example), pair.target);
        let ids = dataset.codec().encode_source(&pair.source).unwrap();
        assert_eq!(ids, example.source);
        let output = dataset.codec().encode_target(&pair.target).unwrap();
        assert!(dataset.accepts(index, &example, &output));
        assert!(!dataset.accepts(index, &example, &output[..output.len() - 1]));
        decoded.push(Decoded {
            example,
            output,
            is_exact: true,
        });
    }
    let scores = dataset.text_scores(&decoded).unwrap();
    assert!((scores.bleu - 100.0).abs() < 1e-9 && (scores.chrf - 100.0).abs() < 1e-9);
    decoded[0].output.clear();
    assert!(dataset.text_scores(&decoded).unwrap().chrf < 99.0);
}

#[test]
fn the_prefetcher_gives_the_batches_in_order_and_each_epoch_a_smaller_last_step() {
    let folder = tempfile::tempdir().unwrap();
    let mut config = config(folder.path());
    let dataset = prepare(&mut config, &folder.path().join("cache"), 10).unwrap();
    let dataset = dataset.as_ref();
    let batches = dataset.batches_per_epoch().unwrap();
    assert!(batches > 4);
    let mut run = RunConfig::text("tiny");
    run.seed = 3;
    run.optimization.batch_size = 7;
    for accumulate in [1, 2, batches - 1, batches, batches + 1, 3 * batches + 1] {
        let steps = batches.div_ceil(accumulate);
        let begin = steps / 2;
        run.optimization.accumulate = accumulate;
        let mut index = begin * accumulate;
        std::thread::scope(|scope| {
            let all = begin..3 * steps;
            let prefetcher = Prefetcher::start(scope, dataset, &run, all.clone());
            for step in all {
                let left = batches - index % batches;
                let here = (index + 1..).take(left.min(accumulate));
                let expected: Vec<_> = here.map(|index| dataset.batch(3, index, 7)).collect();
                assert_eq!(prefetcher.next_step().unwrap(), expected, "step {step}");
                index += expected.len();
            }
        });
        assert_eq!(index, 3 * batches, "three epochs");
    }
    // A cache that another process truncates ends the steps with an error.
    let caches = std::fs::read_dir(folder.path().join("cache")).unwrap();
    let tokens = caches.map(|entry| entry.unwrap().path().join("tokens"));
    let tokens = tokens.filter(|path| path.exists()).collect::<Vec<_>>();
    let file = std::fs::OpenOptions::new()
        .write(true)
        .open(&tokens[0])
        .unwrap();
    file.set_len(0).unwrap();
    run.optimization.accumulate = 2;
    let error = std::thread::scope(|scope| {
        Prefetcher::start(scope, dataset, &run, 5..100)
            .next_step()
            .unwrap_err()
    });
    let error = error.to_string();
    assert!(error.contains("tokens cannot be read"), "{error}");
}
