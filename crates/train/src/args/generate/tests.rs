use clap::FromArgMatches;
use training::config::RunConfig;
use training::data::synthetic::{Rule, SequenceConfig, SequenceTask};
use transformer::generate::LengthPenalty;

use super::*;
use crate::args::flags::describe_usage;
use crate::args::usual_batch_size;

fn args(flags: &str) -> GenerateArgs {
    let words = ["generate", "runs/copy-1"].into_iter();
    let command = GenerateArgs::augment_args(clap::Command::new("generate"));
    let matches = command.try_get_matches_from(words.chain(flags.split_whitespace()));
    GenerateArgs::from_arg_matches(&matches.unwrap()).unwrap()
}

fn config(flags: &str) -> Result<GenerateConfig, UsageError> {
    let mut run = RunConfig::copy();
    let dataset = run.check().unwrap().unwrap();
    let args = args(flags);
    args.check()?;
    args.config(dataset.as_ref(), &run.model)
}

#[test]
fn the_default_is_greedy_with_room_for_the_longest_target() {
    let config = config("").unwrap();
    assert_eq!(
        config,
        GenerateConfig::new(17)
            .with_bos_id(Some(1))
            .with_eos_id(Some(2))
    );
}

#[test]
fn the_usual_batch_fits_into_memory() {
    let run = RunConfig::copy();
    let size = |layers, beam, default| {
        let model = run
            .model
            .clone()
            .with_n_decoder_layers(layers)
            .with_d_model(1024);
        let generation = GenerateConfig::new(10_000)
            .with_bos_id(Some(1))
            .with_method(Method::Beam {
                width: beam,
                length_penalty: LengthPenalty::None,
            });
        usual_batch_size(&generation, &model, default)
    };
    // At most 4e9 elements fit into memory, and a target takes 2 * layers * 1024 * 10,000.
    assert_eq!(size(12, 1, 64), 16);
    assert_eq!(size(12, 5, 64), 3);
    assert_eq!(size(12, 5, 1), 1);
    assert_eq!(size(1000, 5, 64), 1);
    assert_eq!(size(1, 1, 64), 64);
}

#[test]
fn each_flag_has_its_field() {
    let beam = |width, length_penalty| Method::Beam {
        width,
        length_penalty,
    };
    let method = |flags| config(flags).unwrap().method;
    let gnmt = |alpha| LengthPenalty::Gnmt { alpha };
    assert_eq!(method("--beam 1"), Method::Greedy);
    assert_eq!(method("--beam 4"), beam(4, gnmt(0.6)));
    assert_eq!(method("--beam 4 --alpha 1"), beam(4, gnmt(1.0)));
    assert_eq!(
        method("--beam 1 --length-penalty none"),
        beam(1, LengthPenalty::None)
    );
    assert_eq!(
        method("--beam 2 --length-penalty average"),
        beam(2, LengthPenalty::Average)
    );
    assert_eq!(
        method("--sample --temperature 0.5 --top-k 3 --top-p 0.9 --seed 7"),
        Method::Sample {
            temperature: 0.5,
            top_k: Some(3),
            top_p: Some(0.9),
            seed: 7,
            first_source: 0,
        }
    );
    let flags = "--beam 3 --n-best 2 --min-length 1 --max-length 9 --repetition-penalty 1.5 \
                 --forbid 3 --forbid <unk>";
    let config = config(flags).unwrap();
    assert_eq!(
        (config.n_best, config.min_length, config.max_length),
        (2, 1, 9)
    );
    assert_eq!(
        (config.repetition_penalty, config.forbidden),
        (1.5, vec![6, 3])
    );
}

#[test]
fn wrong_values_are_named_by_their_flags() {
    let error = |flags| describe_usage(&config(flags).unwrap_err());
    let table = r#"
        --max-length 10001 | --max-length 10001: must be at most what the model can take (10000)
        --max-length 0 | --max-length 0: must be at least 1
        --min-length 18 | --min-length 18: must be at most --max-length (17)
        --beam 0 | --beam 0: must be at least 1
        --beam 2 --n-best 3 | --n-best 3: must be at most --beam (2)
        --beam 2 --alpha -1 | --alpha -1: must be a number from 0 to 10
        --alpha 1 | --alpha 1: needs --beam
        --beam 2 --length-penalty none --alpha 1 | --alpha 1: needs --length-penalty gnmt or power
        --length-penalty gnmt | --length-penalty gnmt: needs --beam
        --sample --top-k 0 | --top-k 0: must be at least 1
        --sample --top-p 1.5 | --top-p 1.5: must be above 0 and at most 1
        --forbid 33 | --forbid "33": must be one of 1 to 32"#;
    for line in table.lines().skip(1) {
        let (flags, expected) = line.trim().split_once(" | ").unwrap();
        assert_eq!(error(flags), expected);
    }
    assert!(error("--n-best 2").ends_with("use a beam, or sampling"));
}

#[test]
fn searches_beyond_any_memory_are_rejected() {
    for value in [usize::MAX, 1_000_000_000] {
        for (before, flag, expected) in [
            ("", "--beam", "must be at most"),
            ("--sample", "--n-best", "must be"),
            ("", "--batch-size", "must be"),
        ] {
            let error = config(&format!("{before} {flag} {value}")).unwrap_err();
            let error = describe_usage(&error);
            let expected = format!("{flag} {value}: {expected}");
            assert!(error.starts_with(&expected), "{error}");
        }
    }
}

#[test]
fn a_prefix_has_room_in_its_target() {
    let config = SequenceConfig {
        symbols: 9,
        min_length: 1,
        max_length: 4,
    };
    let task = SequenceTask::new(Rule::Copy, &config).unwrap();
    let data: &dyn Dataset = &task;
    let mut args = args("");
    assert_eq!(args.prefix(data, 2).unwrap(), [0; 0]);
    args.prefix = Some(" 1  9".into());
    assert_eq!(args.prefix(data, 2).unwrap(), [4, 12]);
    let error = args.prefix(data, 1).unwrap_err().to_string();
    assert!(
        error.contains("has 2 symbols, must have at most --max-length (1)"),
        "{error}"
    );
    args.prefix = Some("1 <eos>".into());
    assert!(args.prefix(data, 5).is_err());
    (args.prefix, args.forbid) = (Some("1 9".into()), vec!["9".into()]);
    let error = args.prefix(data, 5).unwrap_err().to_string();
    assert_eq!(error, "--prefix \"1 9\": has 9, which --forbid rules out");
}
