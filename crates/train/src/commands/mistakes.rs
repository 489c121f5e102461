//! Turns clap's errors about a command line into messages of one line.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};
use training::config::RunConfig;
use training::error::shortened;

use super::cli::{Cli, complete};
use crate::terminal::output::visible;

/// Names of flags in other programs, without leading dashes, and the flags of `train`.
const FLAGS: &str = "lr --learning-rate|wd --weight-decay|bs --batch-size|hidden-size --d-model|\
    nhead --heads|num-layers --layers|dim-feedforward --d-ff|max-steps --steps|\
    num-train-epochs --epochs|warmup-steps --warmup|grad-clip --clip-norm|\
    gradient-accumulation-steps --accumulate|fp16 --precision f16|bf16 --precision bf16|\
    wandb --tensorboard|source --train-source|output-dir --run-dir|output --run-dir|\
    output --hypotheses|out --output|lang --source-lang or --target-lang|\
    max-tokens --batch-tokens|max-tokens --max-length|num-beams --beam|beam-size --beam|\
    device --backend";

/// Names of commands in other programs, and the commands of `train`.
const COMMANDS: &str = "train fit|translate generate|predict generate|evaluate eval|test eval|\
    list runs|diff compare|convert import";

/// Returns the names in a table and what `train` has for them.
fn pairs(table: &'static str) -> impl Iterator<Item = (&'static str, &'static str)> {
    table.split('|').filter_map(|pair| pair.split_once(' '))
}

/// Describes a mistake in a command line in one line: the mistake, a suggestion if there is one,
/// and the help command to run. `words` is the command line without the program's name.
pub fn describe(error: &clap::Error, words: &[OsString]) -> String {
    // clap would leave out control characters.
    let shown = |word: &OsString| visible(&word.to_string_lossy()).into();
    let words: Vec<OsString> = words.iter().map(shown).collect();
    let again = Cli::parse_words(&words).err();
    let error = again.as_ref().unwrap_or(error);
    let cli = Cli::command();
    let (words, name) = complete(&words);
    let command = name.and_then(|name| cli.find_subcommand(name));
    let of = |command: &clap::Command| format!("train {} --help", command.get_name());
    let help = command.map_or("train --help".into(), of);
    let mut message = mistake(error);
    if let Some(hint) = hint(error, &cli, command, &words) {
        message += &format!("; {hint}");
    }
    shortened(format!("{message}; see `{help}`"))
}

/// Says what is wrong: the first paragraph of clap's message, in one line.
fn mistake(error: &clap::Error) -> String {
    let message = error.to_string();
    let paragraph = message.split("\n\n").next().unwrap_or_default();
    let lines: Vec<&str> = paragraph.lines().map(str::trim).collect();
    lines.join(" ").trim_start_matches("error: ").into()
}

/// Returns a suggestion that is better than clap's own; `None` if the program has none.
fn hint(
    error: &clap::Error,
    cli: &Command,
    command: Option<&Command>,
    words: &[OsString],
) -> Option<String> {
    let is = |name: &str| command.is_some_and(|command| command.get_name() == name);
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let given = context(error, ContextKind::InvalidArg)?;
            if let Some(flag) = known_flag(given, cli, command, words) {
                return Some(format!("use {flag}"));
            }
            // Flags of `fit` change settings, but a resumed run keeps its settings.
            let fit = cli.find_subcommand("fit").filter(|_| is("resume"));
            if let Some(flag) = fit.and_then(|fit| known_flag(given, cli, Some(fit), words)) {
                return Some(format!(
                    "a resumed run keeps its settings, all but --steps and those changed in its config.json; begin a new run with `train fit {flag}`"
                ));
            }
            if RunConfig::of_task(given).is_some() && is("fit") {
                return Some(format!("use --task {given}"));
            }
            let similar = context(error, ContextKind::SuggestedArg)?;
            is_near(given, similar).then(|| format!("similar: {similar}"))
        }
        ErrorKind::InvalidSubcommand => {
            let given = context(error, ContextKind::InvalidSubcommand)?.to_lowercase();
            if RunConfig::of_task(&given).is_some() {
                return Some(format!("use `train --task {given}`"));
            }
            if let Some((_, name)) = pairs(COMMANDS).find(|(known, _)| *known == given) {
                return Some(format!("use `train {name}`"));
            }
            match error.get(ContextKind::SuggestedSubcommand)? {
                // The last one is the most similar.
                ContextValue::Strings(names) => Some(format!("similar: {}", names.last()?)),
                _ => None,
            }
        }
        ErrorKind::MissingRequiredArgument => {
            // The usage has what is missing beside the flags that need it.
            let usage = error.get(ContextKind::Usage)?.to_string();
            Some(format!("as in `{}`", usage.trim_start_matches("Usage: ")))
        }
        ErrorKind::InvalidValue if context(error, ContextKind::InvalidValue) == Some("") => {
            // The value of a flag is missing. The help of the flag says what the value means.
            let given = context(error, ContextKind::InvalidArg)?;
            let flag = given.split([' ', '=']).next()?.trim_start_matches("--");
            let mut args = command?.get_arguments().chain(cli.get_arguments());
            let arg = args.find(|arg| arg.get_long() == Some(flag))?;
            Some(format!("--{flag}: {}", arg.get_help()?))
        }
        _ => None,
    }
}

/// Returns the flag of the command that differs from the unknown flag `given` only in case, in its
/// leading dashes, or in `_` or `.` for `-`, or else the command of this name, or the flag that
/// corresponds to this one of another program; `None` if there is none.
fn known_flag(
    given: &str,
    cli: &Command,
    command: Option<&Command>,
    words: &[OsString],
) -> Option<String> {
    let is_known = |flag: &str| {
        let name = flag.trim_start_matches("--");
        let of_command = command.into_iter().flat_map(Command::get_arguments);
        let mut args = of_command.chain(cli.get_arguments());
        args.any(|arg| arg.get_long() == Some(name))
    };
    // clap parses `-lr` as the short flags `-l` and `-r`, and reports only the first. The lookup
    // needs the whole word.
    let whole = words.iter().map(|word| word.to_string_lossy());
    let mut whole = whole.filter(|word| !given.starts_with("--") && word.starts_with(given));
    let given = whole.next().unwrap_or(given.into());
    let name = given.trim_start_matches('-').split('=').next()?;
    let name = name.to_lowercase().replace(['_', '.'], "-");
    let ours = format!("--{name}");
    if is_known(&ours) {
        return Some(ours);
    }
    if cli.find_subcommand(&name).is_some() {
        return Some(format!("`train {name}`"));
    }
    let is_ours = |flag: &str| is_known(flag.split(' ').next().unwrap_or(flag));
    let found = pairs(FLAGS).find(|(known, flag)| *known == name && is_ours(flag));
    found.map(|(_, flag)| flag.into())
}

/// Returns whether an unknown flag is likely to mean `flag`: at most a third of the letters differ, or
/// one name is the beginning or the end of the other.
fn is_near(given: &str, flag: &str) -> bool {
    let [given, flag] = [given, flag].map(|flag| flag.trim_start_matches('-'));
    let is_part = flag.starts_with(given) || flag.ends_with(given) || given.starts_with(flag);
    is_part || strsim::damerau_levenshtein(given, flag) <= flag.len() / 3
}

fn context(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_flags_and_commands_that_are_named_exist() {
        let cli = Cli::command();
        let args = cli
            .get_subcommands()
            .flat_map(|command| command.get_arguments());
        let flags: Vec<&str> = args.filter_map(|arg| arg.get_long()).collect();
        for (_, flag) in pairs(FLAGS) {
            let name = flag.split(' ').next().unwrap().trim_start_matches("--");
            assert!(flags.contains(&name), "{flag}");
        }
        for (name, command) in pairs(COMMANDS) {
            assert!(cli.find_subcommand(command).is_some(), "{command}");
            assert!(cli.find_subcommand(name).is_none(), "{name} is a command");
        }
    }
}
