use std::collections::HashSet;

use super::*;

fn tasks() -> [Box<dyn SyntheticTask>; 5] {
    [
        Box::new(SequenceTask::new(Rule::Copy, 30, 1, 2).unwrap()),
        Box::new(SequenceTask::new(Rule::Reverse, 9, 1, 4).unwrap()),
        Box::new(SequenceTask::new(Rule::Sort, 9, 1, 4).unwrap()),
        Box::new(AddTask::new(2).unwrap()),
        Box::new(AnnotatedCopy::default()),
    ]
}

#[test]
fn examples_depend_on_seed_split_and_index_alone() {
    for task in tasks() {
        let one = task.example(3, Split::Train, 5);
        assert_eq!(one, task.example(3, Split::Train, 5));
        assert_ne!(one, task.example(4, Split::Train, 5));
        assert_ne!(one, task.example(3, Split::Train, 6));
        assert_ne!(one, task.example(3, Split::Test, 5));
    }
}

#[test]
fn batches_take_one_example_after_the_other() {
    for task in tasks() {
        let examples = (10..20).map(|index| task.example(3, Split::Train, index));
        assert!(task.batch(3, 2, 10).into_iter().eq(examples));
    }
}

#[test]
fn splits_share_no_sequence() {
    for task in tasks() {
        let sources = |seed, split| -> HashSet<Vec<u32>> {
            (0..3000)
                .map(|index| task.example(seed, split, index).source)
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
fn targets_have_room_and_begin_and_end() {
    for task in tasks() {
        for length in [1, 2, 4, 9] {
            for example in examples_of_length(task.as_ref(), 0, Split::Train, length, 50) {
                let room = task.max_tokens(length);
                assert!(example.source.len() <= room && example.target.len() <= room);
                assert_eq!(example.target[0], task.bos_id());
                let output = expected(task.as_ref(), &example);
                assert!(output.iter().all(|&id| task.is_symbol(id)));
                assert!(example.source.iter().all(|&id| task.is_symbol(id)));
                assert!(task.is_right(&example, output));
                assert!(!task.is_right(&example, &[output, output, &[5]].concat()));
                if let Some(eos_id) = task.eos_id() {
                    assert_eq!(example.target.last(), Some(&eos_id));
                }
            }
        }
    }
}

#[test]
fn distinct_examples_are_distinct_and_as_many_as_there_are() {
    let task = SequenceTask::new(Rule::Copy, 32, 1, 16).unwrap();
    let examples = task.held_out(0, Split::Test, 1000);
    let sources: HashSet<_> = examples.iter().map(|example| &example.source).collect();
    assert_eq!(sources.len(), 1000);

    let small = SequenceTask::new(Rule::Copy, 12, 1, 2).unwrap();
    let few = small.held_out(0, Split::Test, 1000);
    assert!((1..40).contains(&few.len()), "{}", few.len());
}

#[test]
fn examples_of_a_length_have_it_and_are_held_out() {
    let task = SequenceTask::new(Rule::Copy, 9, 1, 4).unwrap();
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
    // Of nine sequences of one symbol, the test split has few, or none.
    let all = (4..13).filter(|&id| Split::of(&[id]) == Split::Test);
    let short = examples_of_length(&task, 0, Split::Test, 1, 100);
    assert_eq!(short.len(), all.count());
}

#[test]
fn what_is_shown_can_be_parsed() {
    for task in tasks() {
        for index in 0..50 {
            let source = task.example(0, Split::Test, index).source;
            assert_eq!(task.parse(&task.show(&source)).unwrap(), source);
        }
        assert_eq!(task.parse(" \t").unwrap(), [0; 0]);
        assert_eq!(
            task.parse(" 2\t 3\u{a0}").unwrap(),
            task.parse("2 3").unwrap()
        );
    }
}
