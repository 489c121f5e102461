//! Flags made from the declarations of settings. A flag is applied as `--set PATH=VALUE` is.

use std::collections::HashSet;
use std::sync::LazyLock;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use serde_json::Value;
use training::config::differences::{Settings, with_sides};
use training::config::{LengthsConfig, RunConfig, all_settings};
use training::data::parallel::{TrainSettings, ValidSettings};
use training::data::{DataConfig, Preset, SYNTHETIC_TASKS, TASK};
use training::error::{UsageError, check_bounds};
use training::setting::{Flag, Kind, Section, Setting, Tasks, shown};

use super::check::{needs, reject};
use super::parse::{choice_names, recorded_path};

/// The headings of the help, in its order, each with the paths that its settings begin with. The
/// longest of these beginnings counts.
const HEADINGS: &[(&str, &str)] = &[
    ("Task", "data."),
    ("Model", "model."),
    ("Optimisation", "optimization. data.batch_tokens seed"),
    ("Evaluation and stopping", "evaluation."),
    ("Run folder", "checkpointing."),
    ("Speed and memory", "execution."),
    (
        "Text data (for --task text)",
        "data.train. data.valid data.overlong data.cache",
    ),
    ("Tokeniser (for --task text)", "data.tokenizer."),
];

/// Settings that a flag sets besides its own: the flag's setting, the other one, and its value if
/// that is not the value of the flag.
const ALSO: &[(&str, &str, Option<&str>)] = &[
    ("model.n_encoder_layers", "model.n_decoder_layers", None),
    (
        "data.tokenizer.vocab_size",
        "data.tokenizer.or_fewer",
        Some("false"),
    ),
    ("data.train.source", "data.train.target", Some("null")),
    ("data.valid.source", "data.valid.target", Some("null")),
    ("data.train.fields", "data.valid.fields", None),
];

/// The settings of the model that weights do not show, and that have a flag of `import`.
const UNSHOWN: &str = "model.n_heads model.norm_placement model.activation model.positions \
    model.dropout model.weight_tying";

/// Returns whether a setting names a file of the corpora.
fn is_corpus(setting: &Setting) -> bool {
    let sections = [TrainSettings::SETTINGS, ValidSettings::SETTINGS];
    sections.concat().contains(&setting) && setting.key() != TrainSettings::fields.key()
}

/// Returns the settings that the flags of the settings in `given` set besides their own.
pub fn implied(given: &Settings) -> Settings {
    let implied = ALSO.iter().filter_map(|(flag, also, theirs)| {
        let given = given.get(*flag)?.clone();
        let value = theirs.map_or(given, |text| text.parse().expect("it is JSON"));
        Some(((*also).into(), value))
    });
    implied.collect()
}

/// The flags that are given, in the order of the settings, each with its value.
#[derive(Clone, Debug, Default)]
pub struct Given(Vec<(&'static Setting, String)>);

impl Given {
    /// Returns the settings whose flags are given, each with its value.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Setting, &str)> {
        self.0.iter().map(|(setting, value)| (*setting, &value[..]))
    }

    /// Returns the value of the flag of a setting; `None` if it is not given.
    pub fn of(&self, setting: &Setting) -> Option<&str> {
        let (_, value) = self.iter().find(|(known, _)| *known == setting)?;
        Some(value)
    }

    /// Returns the default settings of the task that is given. Without one, it is text if a corpus
    /// is given.
    pub fn defaults(&self) -> RunConfig {
        let of_corpus = self.iter().any(|(it, _)| is_corpus(it)).then_some("text");
        let task = self.of(TASK).or(of_corpus).unwrap_or("copy");
        RunConfig::of_task(task).expect("the flag has tasks only")
    }

    /// Rejects flags, and settings of `--set`, that need another setting, which `config` does not have,
    /// or that another one replaces.
    ///
    /// # Errors
    ///
    /// The first such flag.
    pub fn check_needs<'a>(
        &'a self,
        config: &RunConfig,
        set: impl Iterator<Item = (&'static Setting, &'a str)>,
    ) -> Result<(), UsageError> {
        let settings = with_sides(&serde_json::to_value(config).expect("it is plain data"));
        let given: Vec<_> = self.iter().chain(set).collect();
        for &(setting, value) in &given {
            let by = setting.replaced_by.and_then(|by| {
                let by = |(other, theirs): &&(&Setting, &str)| *other == by && *theirs != "null";
                given.iter().find(by)
            });
            if let Some((by, theirs)) = by {
                let expected = format!("cannot be set with {} {theirs}", by.name());
                reject(setting.name(), Some(value), &expected)?;
            }
            let Some((other, wanted)) = setting.needs else {
                continue;
            };
            let text = settings.get(other.path).map(shown).unwrap_or_default();
            let is_set = !["", "-", "0"].contains(&&*text);
            let is_given = is_set && (wanted.is_empty() || text == wanted);
            let other = format!("{} {wanted}", other.name());
            needs(setting.name(), Some(value), other.trim_end(), is_given)?;
        }
        Ok(())
    }

    /// Returns the settings in `config`, with those of the flags.
    ///
    /// # Errors
    ///
    /// A value that is not valid, or a setting that the task does not have.
    pub fn apply(&self, mut config: RunConfig) -> Result<RunConfig, UsageError> {
        for (setting, value) in self.iter().filter(|(setting, _)| *setting != TASK) {
            config = config.with(setting.path, value)?;
            for (_, other, theirs) in ALSO.iter().filter(|(known, ..)| *known == setting.path) {
                config = config.with(other, theirs.unwrap_or(value))?;
            }
        }
        Ok(config)
    }
}

/// Returns the settings with flags that `is_wanted` accepts, each flag once, in the order of the help.
fn with_flags(is_wanted: impl Fn(&Setting) -> bool) -> Vec<(&'static Setting, Flag)> {
    let all = all_settings().into_iter();
    let mut found = Vec::from_iter(all.filter_map(|setting| Some((setting, setting.flag?))));
    found.sort_by_key(|(setting, _)| heading(setting));
    let mut names = HashSet::new();
    found.retain(|(setting, flag)| names.insert(flag.name) && is_wanted(setting));
    found
}

/// Returns the index of a setting's heading.
fn heading(setting: &Setting) -> Option<usize> {
    let length = |begin: &str| setting.path.starts_with(begin).then_some(begin.len());
    let longest = |begins: &str| begins.split(' ').filter_map(length).max();
    let headings = HEADINGS.iter().enumerate();
    let headings = headings.filter_map(|(at, (_, begins))| Some((longest(begins)?, at)));
    headings.max().map(|(_, at)| at)
}

/// Adds the flags of the settings that `is_wanted` accepts to a command, with their defaults in a
/// new run if these apply.
fn add_flags(
    mut command: Command,
    has_defaults: bool,
    is_wanted: impl Fn(&Setting) -> bool,
) -> Command {
    for (setting, flag) in with_flags(is_wanted) {
        let [copy, text] = &*DEFAULTS;
        let default = match (default_of(copy, setting), default_of(text, setting)) {
            _ if !has_defaults => String::new(),
            _ if setting == TASK => " [default: text if a corpus is given, else copy]".into(),
            _ if setting == TrainSettings::source => " [required]".into(),
            (Some(copy), Some(text)) if copy != text => {
                format!(" [default: {copy}; text: {text}]")
            }
            (None, Some(text)) if is_of_all(setting) => format!(" [default for text: {text}]"),
            (None, Some(default)) | (Some(default), _) => format!(" [default: {default}]"),
            (None, None) => String::new(),
        };
        let name = flag.name.trim_start_matches("--");
        let arg = Arg::new(id(flag))
            .long(name)
            .value_name(flag.value)
            .help(setting.help() + &default)
            .help_heading(heading(setting).map(|at| HEADINGS[at].0))
            .hide_short_help(flag.is_rare);
        let arg = match name {
            "train-source" => arg.visible_alias("train"),
            "valid-source" => arg.visible_alias("valid"),
            _ => arg,
        };
        let arg = match setting.kind {
            Kind::Switch => arg.action(ArgAction::SetTrue),
            Kind::Choice(choices) => arg.value_parser(choice_names(choices)),
            _ => arg
                .allow_negative_numbers(true)
                .value_parser(recorded_path()),
        };
        let by = setting.replaced_by.and_then(|by| by.flag);
        command = command.arg(arg.conflicts_with_all(by.map(id)));
    }
    command
}

/// Default settings of the copy task and of texts.
static DEFAULTS: LazyLock<[Vec<(&Setting, Value)>; 2]> =
    LazyLock::new(|| [RunConfig::copy(), RunConfig::text("small")].map(|config| config.settings()));

fn is_of_all(setting: &Setting) -> bool {
    let mut of_copy = DEFAULTS[0].iter();
    setting.tasks == Tasks::All && of_copy.any(|(known, _)| *known == setting)
}

/// Returns the value of a setting in a preset, as the help shows it.
fn default_of(settings: &[(&Setting, Value)], setting: &Setting) -> Option<String> {
    let mut settings = settings.iter();
    let (_, value) = settings.find(|(known, _)| *known == setting)?;
    let text = setting.shown(value);
    let is_shown = !value.is_null() && !value.is_boolean() && !text.is_empty();
    is_shown.then_some(text)
}

/// Returns the name by which clap knows a flag, which is that of a field.
fn id(flag: Flag) -> String {
    flag.name.trim_start_matches("--").replace('-', "_")
}

fn read(matches: &ArgMatches, is_wanted: impl Fn(&Setting) -> bool) -> Given {
    let wanted = with_flags(is_wanted).into_iter();
    let given = wanted.filter_map(|(setting, flag)| {
        let value = if let Kind::Switch = setting.kind {
            let is_set = matches.try_get_one(&id(flag)).ok()? == Some(&true);
            is_set.then(|| "true".into())
        } else {
            matches.try_get_one(&id(flag)).ok()?.cloned()
        };
        Some((setting, value?))
    });
    Given(given.collect())
}

/// Defines the flags of some settings.
macro_rules! args {
    ($(#[$meta:meta])* $name:ident, has_defaults: $has_defaults:literal, $is_wanted:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default)]
        pub struct $name(Given);

        impl std::ops::Deref for $name {
            type Target = Given;

            fn deref(&self) -> &Given {
                &self.0
            }
        }

        impl FromArgMatches for $name {
            fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
                Ok(Self(read(matches, $is_wanted)))
            }

            fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
                self.0 = read(matches, $is_wanted);
                Ok(())
            }
        }

        impl Args for $name {
            fn augment_args(command: Command) -> Command {
                add_flags(command, $has_defaults, $is_wanted)
            }

            fn augment_args_for_update(command: Command) -> Command {
                Self::augment_args(command)
            }
        }
    };
}

args! {
    /// The flags of the settings of all tasks.
    SettingArgs, has_defaults: true, |_| true
}

args! {
    /// The flags of the settings of the synthetic tasks.
    TaskArgs, has_defaults: true, |setting| {
        let of = |data: &DataConfig| data.settings().contains(&setting);
        let is_of_task = |task: &Preset| of(&(task.data)());
        setting == TASK || SYNTHETIC_TASKS.iter().any(is_of_task)
    }
}

args! {
    /// The flags that name the files of the corpora, and the fields of their texts.
    CorpusArgs, has_defaults: false, |setting| {
        is_corpus(setting) || setting == TrainSettings::fields
    }
}

args! {
    /// The flags of an evaluation by length.
    LengthArgs, has_defaults: true, |setting| LengthsConfig::SETTINGS.contains(&setting)
}

impl LengthArgs {
    /// Returns the settings of the evaluation by length; `None` without its flags.
    ///
    /// # Errors
    ///
    /// Wrong lengths, a number of sequences that is out of range, or `--sequences` without
    /// `--eval-lengths`.
    pub fn config(&self) -> Result<Option<LengthsConfig>, UsageError> {
        let config = self.apply(RunConfig::copy())?;
        self.check_needs(&config, std::iter::empty())?;
        let by_length = config.evaluation.by_length;
        by_length.as_ref().map_or(Ok(()), check_bounds)?;
        Ok(by_length)
    }
}

args! {
    /// The flags of the settings that weights do not show.
    WeightArgs, has_defaults: false, |setting| UNSHOWN.split(' ').any(|path| path == setting.path)
}
