//! Maps the paths of settings to the command-line flags that set them.

use std::ffi::OsString;

use training::error::{DivergedError, UsageError};

/// Paths of settings, and the flag or flags that set each of them.
const FLAGS: &[(&str, &str)] = &[
    // These are not settings, but arguments of functions of the `training` library. Its errors name
    // them in the same way as settings.
    ("run", "RUN"),
    ("run_dir", "--run-dir"),
    ("checkpoint", "--checkpoint"),
    ("config", "--config"),
    ("input", "--input"),
    // Settings in `config.json` of a run.
    ("seed", "--seed"),
    ("data.task", "--task"),
    ("data.symbols", "--symbols"),
    ("data.min_length", "--min-length"),
    ("data.max_length", "--max-length"),
    ("data.max_length.source", "--source-max-length"),
    ("data.max_length.target", "--target-max-length"),
    ("data.max_digits", "--max-digits"),
    (
        "data.train",
        "--train-source and --train-target, or --train",
    ),
    ("data.train.source", "--train-source"),
    ("data.train.target", "--train-target"),
    ("data.train.fields", "--fields"),
    (
        "data.valid",
        "--valid-source and --valid-target, or --valid",
    ),
    ("data.valid.source", "--valid-source"),
    ("data.valid.target", "--valid-target"),
    ("data.valid.fields", "--fields"),
    ("data.valid_share", "--valid-share"),
    ("data.lossy", "--lossy"),
    ("data.tokenizer.kind", "--tokenizer"),
    ("data.tokenizer.vocab_size", "--vocab-size"),
    ("data.tokenizer.vocab_size.source", "--source-vocab-size"),
    ("data.tokenizer.vocab_size.target", "--target-vocab-size"),
    ("data.tokenizer.joint", "--joint-vocabulary"),
    ("data.tokenizer.lower_case", "--lower-case"),
    ("data.tokenizer.normalization", "--normalize"),
    ("data.tokenizer.source_file", "--source-tokenizer-file"),
    ("data.tokenizer.target_file", "--target-tokenizer-file"),
    ("data.pretrained", "--from"),
    ("data.pretrained.folder", "--from"),
    ("data.pretrained.source_language", "--source-lang"),
    ("data.pretrained.target_language", "--target-lang"),
    ("data.overlong", "--overlong"),
    ("data.batch_tokens", "--batch-tokens"),
    ("data.cache", "--cache"),
    ("model.d_model", "--d-model"),
    ("model.n_heads", "--heads"),
    ("model.n_encoder_layers", "--layers"),
    ("model.n_decoder_layers", "--layers"),
    ("model.d_ff", "--d-ff"),
    ("model.dropout", "--dropout"),
    ("model.activation", "--activation"),
    ("model.norm_placement", "--norm"),
    ("model.norm_epsilon", "--norm-epsilon"),
    ("model.norm_variance", "--norm-variance"),
    ("model.positions", "--positions"),
    ("model.max_len", "--max-len"),
    ("model.scale_embeddings", "--scale-embeddings"),
    ("model.weight_tying", "--weight-tying"),
    ("model.pad_id", "--pad-id"),
    ("optimization.steps", "--steps"),
    ("optimization.epochs", "--epochs"),
    ("optimization.batch_size", "--batch-size"),
    ("optimization.accumulate", "--accumulate"),
    ("optimization.optimizer.kind", "--optimizer"),
    ("optimization.optimizer.weight_decay", "--weight-decay"),
    ("optimization.optimizer.clip_norm", "--clip-norm"),
    ("optimization.schedule.kind", "--schedule"),
    ("optimization.schedule.learning_rate", "--learning-rate"),
    ("optimization.schedule.factor", "--factor"),
    ("optimization.schedule.warmup", "--warmup"),
    ("optimization.label_smoothing", "--label-smoothing"),
    ("optimization.ema", "--ema"),
    ("optimization.lora", "--lora-rank"),
    ("optimization.lora.rank", "--lora-rank"),
    ("optimization.lora.alpha", "--lora-alpha"),
    ("evaluation.every", "--eval-every"),
    ("evaluation.best_by", "--best-by"),
    ("evaluation.target", "--target"),
    ("evaluation.patience", "--patience"),
    ("evaluation.by_length", "--eval-lengths"),
    ("evaluation.by_length.lengths", "--eval-lengths"),
    ("evaluation.by_length.sequences", "--sequences"),
    ("checkpointing.every", "--checkpoint-every"),
    ("checkpointing.seconds", "--checkpoint-seconds"),
    ("checkpointing.keep", "--keep"),
    ("execution.backend", "--backend"),
    ("execution.precision", "--precision"),
    (
        "execution.gradient_checkpointing",
        "--gradient-checkpointing",
    ),
    ("execution.fused", "--no-fused"),
    ("execution.loss_chunk", "--loss-chunk"),
    // Settings of a generation.
    ("generation.max_length", "--max-length"),
    ("generation.min_length", "--min-length"),
    ("generation.n_best", "--n-best"),
    ("generation.repetition_penalty", "--repetition-penalty"),
    ("generation.no_repeat_ngram", "--no-repeat-ngram"),
    ("generation.forbidden", "--forbid"),
    ("generation.temperature", "--temperature"),
    ("generation.top_k", "--top-k"),
    ("generation.top_p", "--top-p"),
    ("generation.seed", "--seed"),
    ("generation.width", "--beam"),
    ("generation.method", "use --beam or --sample"),
    ("generation.length_penalty", "--length-penalty"),
    ("generation.alpha", "--alpha"),
];

/// Settings that have a flag in `import`, but not in `fit`. On the command line of `fit`, `--set`
/// sets those that do not follow from the data.
const OF_IMPORT: &[&str] = &[
    "model.max_len",
    "model.norm_epsilon",
    "model.norm_variance",
    "model.pad_id",
    "model.scale_embeddings",
];

/// Further flags that set a setting. If such a flag is on the command line, errors name it instead
/// of the flag in [`FLAGS`].
const OTHERS: &[(&str, &str)] = &[
    ("run", "--resume"),
    ("data.train.source", "--train"),
    ("data.valid.source", "--valid"),
    ("data.tokenizer.source_file", "--tokenizer-file"),
    ("data.tokenizer.target_file", "--tokenizer-file"),
];

/// Returns the flag or flags that set the setting at a path; `None` if there are none, or if only
/// `import` has a flag and `--set` is given instead. If there are alternatives, returns the one on
/// the command line of this process, or the one in [`FLAGS`] if none of them is given.
pub fn flag_of(path: &str) -> Option<&str> {
    let given: Vec<_> = std::env::args_os().skip(1).collect();
    flag_among(&given, path)
}

/// Returns the flag or flags of `fit` that set a setting; `None` if there is none besides `--set`.
pub fn fit_flag_of(path: &str) -> Option<&str> {
    flag_of(path).filter(|flag| flag.starts_with("--") && !OF_IMPORT.contains(&path))
}

/// Returns the words that set a setting on the command line of `fit`: its flag, or `--set
/// PATH=VALUE` if only `import` has a flag for it. `None` for a setting without a flag.
pub fn fit_words(path: &str) -> Option<String> {
    if OF_IMPORT.contains(&path) {
        Some(format!("--set {path}=VALUE"))
    } else {
        fit_flag_of(path).map(String::from)
    }
}

fn flag_among<'a>(given: &[OsString], path: &'a str) -> Option<&'a str> {
    let is_given = |name: &str| {
        let mut words = given.iter().map(|word| word.to_string_lossy());
        words.any(|word| word.trim_start_matches("--set=").split('=').next() == Some(name))
    };
    // On the command line of `fit`, a setting that only `import` has a flag for is given by `--set
    // PATH=VALUE`.
    if OF_IMPORT.contains(&path) && is_given(path) {
        return None;
    }
    let others = OTHERS.iter().filter(|(known, _)| *known == path);
    let mut given = others.filter(|(_, flag)| is_given(flag));
    let mut entries = FLAGS.iter().filter(|(known, _)| *known == path);
    let entry = given.next().or_else(|| entries.next());
    entry.map(|(_, flag)| *flag)
}

/// Describes an error and its causes in one line. Settings are named by their flags.
pub fn describe(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| {
        if let Some(error) = cause.downcast_ref::<UsageError>() {
            error.describe(flag_of)
        } else if let Some(error) = cause.downcast_ref::<DivergedError>() {
            error.describe(flag_of)
        } else {
            cause.to_string()
        }
    });
    causes.collect::<Vec<_>>().join(": ")
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use anyhow::Context;
    use clap::CommandFactory;
    use serde_json::Value;
    use training::config::{LengthsConfig, RunConfig, TextSize};
    use training::data::DataConfig;
    use training::data::parallel::Corpus;

    use super::*;
    use crate::args::Cli;

    /// Settings that no flag sets.
    const WITHOUT_FLAG: &[&str] = &[
        // These settings follow from the data.
        "data.data",
        "data.tokenizer_sha256",
        "model.source_vocab_size",
        "model.target_vocab_size",
        // No flag sets these two directly. The flags for vocabulary sizes switch them off.
        "data.tokenizer.or_fewer.source",
        "data.tokenizer.or_fewer.target",
        "evaluation.test_size",
        "evaluation.validation_size",
        "model.final_norm",
        // `--set` is enough for what the models of other programs need.
        "model.d_kv",
        "model.n_kv_heads",
        "model.norm",
        "model.embedding_norm",
        "model.biases",
        "model.logits_bias",
        "model.scale_attention",
        "model.relative_buckets",
        "model.relative_max_distance",
        "model.scale_logits",
        "optimization.optimizer.beta_1",
        "optimization.optimizer.beta_2",
        "optimization.optimizer.epsilon",
    ];

    fn paths(value: &Value, path: &str, found: &mut Vec<String>) {
        let Value::Object(keys) = value else {
            found.push(path.into());
            return;
        };
        for (key, value) in keys {
            let path = match path {
                "" => key.clone(),
                _ => format!("{path}.{key}"),
            };
            paths(value, &path, found);
        }
    }

    #[test]
    fn every_setting_has_a_flag_or_is_known_to_have_none() {
        let mut text = RunConfig::text(TextSize::Small);
        text.evaluation.by_length = Some(LengthsConfig {
            lengths: vec![1],
            sequences: 1,
        });
        let DataConfig::Text(data) = &mut text.data else {
            panic!("texts are text");
        };
        data.train = Corpus {
            source: PathBuf::from("a"),
            target: Some(PathBuf::from("b")),
            fields: None,
        };
        let mut known = WITHOUT_FLAG.to_vec();
        for config in [RunConfig::copy(), RunConfig::add(), text] {
            let mut found = Vec::new();
            paths(&serde_json::to_value(config).unwrap(), "", &mut found);
            assert!(found.len() > 40, "{found:?}");
            for path in &found {
                let has_none = WITHOUT_FLAG.contains(&path.as_str());
                assert!(flag_of(path).is_some() != has_none, "{path}");
                known.retain(|known| known != path);
            }
        }
        assert_eq!(known, [""; 0], "no such settings");
    }

    #[test]
    fn every_flag_exists() {
        let mut flags: Vec<String> = vec!["RUN".into()];
        for command in Cli::command().get_subcommands() {
            let names = command.get_arguments().filter_map(|arg| arg.get_long());
            flags.extend(names.map(|name| format!("--{name}")));
        }
        let mut paths = Vec::new();
        for (path, named) in FLAGS.iter() {
            assert!(!paths.contains(path), "{path} is there twice");
            paths.push(path);
            let words = named
                .split([' ', ','])
                .filter(|word| word.starts_with(['-', 'R']));
            for word in words {
                assert!(flags.iter().any(|flag| flag == word), "{path}: {word}");
            }
        }
    }

    #[test]
    fn settings_without_a_flag_of_fit_are_set_by_their_path() {
        let cli = Cli::command();
        let fit = cli.find_subcommand("fit").unwrap();
        let is_of_fit = |word: &str| {
            let mut flags = fit.get_arguments().filter_map(|arg| arg.get_long());
            flags.any(|flag| word.strip_prefix("--") == Some(flag))
        };
        let sections = ["data", "model", "optimization", "evaluation", "execution"];
        for (path, named) in FLAGS {
            let is_setting = sections.contains(&path.split('.').next().unwrap());
            if is_setting && path.contains('.') {
                let first = named.split(' ').next().unwrap();
                assert_eq!(is_of_fit(first), !OF_IMPORT.contains(path), "{path}");
                assert_eq!(fit_flag_of(path).is_some(), is_of_fit(first), "{path}");
            }
        }
        let words = fit_words("model.max_len");
        assert_eq!(words.as_deref(), Some("--set model.max_len=VALUE"));
        assert_eq!(fit_words("model.d_model").as_deref(), Some("--d-model"));
        assert_eq!(fit_words("model.final_norm"), None);
    }

    #[test]
    fn of_several_flags_the_given_one_is_named() {
        let flag = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(Into::into).collect();
            flag_among(&words, "data.valid.source").unwrap().to_owned()
        };
        assert_eq!(flag("fit --valid a.tsv"), "--valid");
        assert_eq!(flag("fit --valid=a.tsv"), "--valid");
        assert_eq!(
            flag("fit --valid-source a --valid-target b"),
            "--valid-source"
        );
        assert_eq!(flag("fit --config a.toml"), "--valid-source");
        for (line, expected) in [
            ("fit --set model.norm_variance=unbiased", None),
            ("fit --set=model.norm_variance=unbiased", None),
            ("import a --norm-variance unbiased", Some("--norm-variance")),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            assert_eq!(flag_among(&words, "model.norm_variance"), expected);
        }
        for (path, flag) in OTHERS {
            assert!(FLAGS.iter().any(|(known, _)| known == path), "{path}");
            let cli = Cli::command();
            let mut commands = cli.get_subcommands();
            let name = flag.trim_start_matches("--");
            assert!(commands.any(|command| {
                command
                    .get_arguments()
                    .any(|arg| arg.get_long() == Some(name))
            }));
        }
    }

    #[test]
    fn causes_are_described_by_their_flags() {
        let wrong = UsageError::setting("optimization.schedule.warmup", 9, "exceeds {}");
        let wrong = wrong.naming(["optimization.steps"]);
        let error = Err::<(), _>(wrong).context("cannot begin").unwrap_err();
        assert_eq!(
            describe(&error),
            "cannot begin: --warmup 9: exceeds --steps"
        );
        assert!(error.is::<UsageError>());
        let error = anyhow::Error::from(DivergedError {
            what: "the loss is NaN".into(),
            advice: "lower {}".into(),
            settings: vec!["optimization.schedule.factor".into()],
        });
        assert_eq!(describe(&error), "the loss is NaN: lower --factor");
    }
}
