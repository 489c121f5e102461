use std::collections::HashSet;

use super::add::AddConfig;
use super::*;
use crate::data::SYNTHETIC_TASKS;
use crate::data::codec::Codec;
use crate::data::dataset::Dataset;
use crate::data::split::Split;

fn sequences(rule: Rule, symbols: usize, max_length: usize) -> SequenceTask {
    let config = SequenceConfig {
        symbols,
        min_length: 1,
        max_length,
    };
    SequenceTask::new(rule, &config).unwrap()
}

/// Returns all tasks of `SYNTHETIC_TASKS`, with their default settings.
fn tasks() -> Vec<Box<dyn Dataset>> {
    let tasks = SYNTHETIC_TASKS.iter();
    let checked = tasks.map(|task| (task.data)().check().unwrap());
    checked
        .map(|dataset| dataset.expect("it needs no file"))
        .collect()
}

#[test]
fn examples_depend_on_seed_split_and_index_alone() {
    for dataset in tasks() {
        let task = dataset.synthetic().unwrap();
        let example = |seed, split, index| example(task, seed, split, index);
        let one = example(3, Split::Train, 5);
        assert_eq!(one, example(3, Split::Train, 5));
        assert_ne!(one, example(4, Split::Train, 5));
        assert_ne!(one, example(3, Split::Train, 6));
        assert_ne!(one, example(3, Split::Test, 5));
    }
}

#[test]
fn batches_take_one_example_after_the_other() {
    fn check(task: &(impl SyntheticTask + 'static)) {
        let examples = (10..20).map(|index| example(task, 3, Split::Train, index));
        assert!(task.batch(3, 2, 10).into_iter().eq(examples));
    }
    check(&sequences(Rule::Copy, 30, 2));
    check(&sequences(Rule::Reverse, 9, 4));
    check(&sequences(Rule::Sort, 9, 4));
    check(&AddTask::new(&AddConfig { max_digits: 2 }).unwrap());
    check(&AnnotatedCopy::default());
}

#[test]
fn splits_share_no_sequence() {
    for dataset in tasks() {
        let task = dataset.synthetic().unwrap();
        let sources = |seed, split| -> HashSet<Vec<u32>> {
            (0..3000)
                .map(|index| example(task, seed, split, index).source)
                .collect()
        };
        let [train, validation, test] = Split::ALL.map(|split| sources(1, split));
        assert!(train.is_disjoint(&test) && train.is_disjoint(&validation));
        assert!(test.is_disjoint(&validation));
        assert!(train.is_disjoint(&sources(2, Split::Test)));
        assert!(test.len() > 20);
    }
}

#[test]
fn targets_fit_max_tokens_and_have_begin_and_end() {
    for dataset in tasks() {
        let task = dataset.synthetic().unwrap();
        let alphabet = task.alphabet();
        let symbols = alphabet.symbols();
        for length in [1, 2, 4, 9] {
            for example in examples_of_length(task, 0, Split::Train, length, 50) {
                let most = task.max_tokens(length);
                assert!(example.source.len() <= most && example.target.len() <= most);
                assert_eq!(example.target[0], alphabet.bos_id());
                let output = example.output(alphabet.eos_id().is_some());
                assert!(output.iter().all(|id| symbols.contains(id)));
                assert!(example.source.iter().all(|id| symbols.contains(id)));
                assert!(task.accepts(&example, output));
                assert!(!task.accepts(&example, &[output, output, &[5]].concat()));
                if let Some(eos_id) = alphabet.eos_id() {
                    assert_eq!(example.target.last(), Some(&eos_id));
                }
            }
        }
    }
}

#[test]
fn held_out_examples_are_different_and_as_many_as_possible() {
    let task = SequenceTask::new(Rule::Copy, &SequenceConfig::default()).unwrap();
    let examples = task.held_out(0, Split::Test, 1000);
    let sources: HashSet<_> = examples.iter().map(|example| &example.source).collect();
    assert_eq!(sources.len(), 1000);

    let few = sequences(Rule::Copy, 12, 2).held_out(0, Split::Test, 1000);
    assert!((1..40).contains(&few.len()), "{}", few.len());
}

#[test]
fn examples_of_a_length_have_it_and_are_held_out() {
    let task = sequences(Rule::Copy, 9, 4);
    let long = examples_of_length(&task, 0, Split::Test, 20, 100);
    let sources: HashSet<_> = long.iter().map(|example| &example.source).collect();
    assert_eq!((long.len(), sources.len()), (100, 100));
    for example in &long {
        assert_eq!(example.source.len(), 20);
        assert_eq!(Split::of(&example.source), Split::Test);
    }
    assert_eq!(long, examples_of_length(&task, 0, Split::Test, 20, 100));
    assert_ne!(long, examples_of_length(&task, 1, Split::Test, 20, 100));
    let other = examples_of_length(&task, 0, Split::Test, 21, 100);
    assert_ne!(long[0].source, other[0].source[..20]);
    // There are nine sequences of one symbol; few or none of them are in the test split.
    let all = (4..13).filter(|&id| Split::of(&[id]) == Split::Test);
    let short = examples_of_length(&task, 0, Split::Test, 1, 100);
    assert_eq!(short.len(), all.count());
}

#[test]
fn decoded_sources_can_be_encoded() {
    for dataset in tasks() {
        let task = dataset.synthetic().unwrap();
        let codec = task.alphabet();
        for index in 0..50 {
            let source = example(task, 0, Split::Test, index).source;
            let text = codec.decode_source(&source);
            assert_eq!(codec.encode_source(&text).unwrap(), source);
        }
        assert_eq!(codec.encode_source(" \t").unwrap(), [0; 0]);
        let name = codec.decode_source(&[codec.symbols().start]);
        assert_eq!(
            codec
                .encode_source(&format!(" {name}\t {name}\u{a0}"))
                .unwrap(),
            codec.encode_source(&format!("{name} {name}")).unwrap()
        );
    }
}

#[test]
fn references_and_scores_are_those_of_the_task() {
    let task = sequences(Rule::Reverse, 9, 4);
    let one = &task.held_out(0, Split::Test, 1)[0];
    let reversed: Vec<u32> = one.source.iter().rev().copied().collect();
    let dataset: &dyn Dataset = &task;
    assert!(dataset.accepts(0, one, &reversed) && !dataset.accepts(0, one, &[]));
    let text = task.alphabet().decode_target(&reversed);
    assert_eq!(dataset.reference(0, one), text);
    assert_eq!(dataset.text_scores(&[]), None);
}
