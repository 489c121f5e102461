//! Names settings and arguments by the flags of the program.

use training::config::setting_at;
use training::error::{Subject, UsageError};

/// Returns the flag of `fit` that sets the setting at a path of `config.json`; `None` if there is
/// none besides `--set`.
pub fn fit_flag_of(path: &str) -> Option<&'static str> {
    match path {
        "data.pretrained.source_language" => return Some("--source-lang"),
        "data.pretrained.target_language" => return Some("--target-lang"),
        _ => {}
    }
    let setting = setting_at(path).filter(|setting| setting.path == path)?;
    setting.flag.map(|flag| flag.name)
}

/// Returns the words that set a setting on the command line of `fit`: its flag, or `--set
/// PATH=VALUE`. `None` for a setting that follows from others.
pub fn fit_words(path: &str) -> Option<String> {
    let setting = setting_at(path).filter(|setting| !setting.is_derived)?;
    if let training::setting::Kind::Group(settings, _) = setting.kind {
        // A group that is not used begins with its first setting.
        return settings.first()?.flag.map(|flag| flag.name.into());
    }
    let flag = fit_flag_of(path).map(String::from);
    flag.or_else(|| Some(format!("--set {path}=VALUE")))
}

/// Describes an error and its causes in one line. Settings are named by their flags.
pub fn describe(error: &anyhow::Error) -> String {
    let causes = error.chain().map(|cause| match cause.downcast_ref() {
        Some(error) => describe_usage(error),
        None => cause.to_string(),
    });
    causes.collect::<Vec<_>>().join(": ")
}

/// Describes an error. The setting or argument that it is about is named by its flag.
pub fn describe_usage(error: &UsageError) -> String {
    match &error.subject {
        Subject::Setting(setting) => error.describe(setting.name()),
        Subject::Argument(name) => error.describe(flag_of_argument(name)),
        Subject::Other(subject) => error.describe(subject),
    }
}

/// Returns the flag for an argument of the library, or for a field of its `GenerateConfig`.
fn flag_of_argument(name: &str) -> String {
    match name {
        "run" => "RUN".into(),
        "width" => "--beam".into(),
        "forbidden" => "--forbid".into(),
        "method" => "--beam or --sample".into(),
        name => format!("--{}", name.replace('_', "-")),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context;
    use training::config::Schedule;

    use super::*;

    #[test]
    fn the_words_for_a_setting_can_be_given() {
        for (path, words) in [
            ("evaluation.by_length", Some("--eval-lengths")),
            ("optimization.lora", Some("--lora-rank")),
            ("data.lossy", Some("--set data.lossy=VALUE")),
            ("data.pretrained", None),
            ("model.max_len", None),
        ] {
            assert_eq!(fit_words(path).as_deref(), words, "{path}");
        }
    }

    #[test]
    fn causes_are_described_by_their_flags() {
        let wrong = UsageError::setting(Schedule::warmup, 9, "exceeds the steps");
        let error = Err::<(), _>(wrong).context("cannot begin").unwrap_err();
        assert_eq!(
            describe(&error),
            "cannot begin: --warmup 9: exceeds the steps"
        );
        assert!(error.is::<UsageError>());
        for (name, flag) in [
            ("run_dir", "--run-dir"),
            ("width", "--beam"),
            ("run", "RUN"),
        ] {
            let error = UsageError::argument(name, "a", "is wrong");
            assert_eq!(describe_usage(&error), format!("{flag} a: is wrong"));
        }
    }
}
