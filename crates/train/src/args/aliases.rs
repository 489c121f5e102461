//! The most common names that other programs have for flags and commands of `train`. The error about
//! such a name suggests the flag or command of `train`.

/// Names of flags in other programs, without leading dashes, and the flags of `train`.
const FLAGS: &[(&str, &str)] = &[
    ("lr", "--learning-rate"),
    ("wd", "--weight-decay"),
    ("bs", "--batch-size"),
    ("hidden-size", "--d-model"),
    ("nhead", "--heads"),
    ("num-layers", "--layers"),
    ("dim-feedforward", "--d-ff"),
    ("max-steps", "--steps"),
    ("num-train-epochs", "--epochs"),
    ("warmup-steps", "--warmup"),
    ("grad-clip", "--clip-norm"),
    ("gradient-accumulation-steps", "--accumulate"),
    ("fp16", "--precision f16"),
    ("bf16", "--precision bf16"),
    ("wandb", "--tensorboard"),
    ("output-dir", "--run-dir"),
    ("max-tokens", "--batch-tokens"),
    ("num-beams", "--beam"),
    ("beam-size", "--beam"),
    ("device", "--backend"),
];

/// Names of commands in other programs, and the commands of `train`.
const COMMANDS: &[(&str, &str)] = &[
    ("train", "fit"),
    ("translate", "generate"),
    ("predict", "generate"),
    ("evaluate", "eval"),
    ("test", "eval"),
    ("list", "runs"),
    ("diff", "compare"),
    ("convert", "import"),
    ("init", "presets"),
];

/// Returns the flag of `train` that corresponds to the flag `name` of another program; `None` if
/// there is none. `name` has no leading dashes. The result includes a value if the flag needs a
/// certain one, as in `--precision f16`. `is_known` says whether the command has a flag.
pub fn flag(name: &str, is_known: impl Fn(&str) -> bool) -> Option<&'static str> {
    let (_, flag) = FLAGS.iter().find(|(known, _)| *known == name)?;
    let ours = flag.split(' ').next().unwrap_or(flag);
    is_known(ours).then_some(*flag)
}

/// Returns the command of `train` that corresponds to the command `name` of another program; `None`
/// if there is none.
pub fn command(name: &str) -> Option<&'static str> {
    let found = COMMANDS.iter().find(|(known, _)| *known == name);
    found.map(|(_, command)| *command)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn all_flags_and_commands_that_are_named_exist() {
        let cli = Cli::command();
        let args = cli
            .get_subcommands()
            .flat_map(|command| command.get_arguments());
        let flags: Vec<&str> = args.filter_map(|arg| arg.get_long()).collect();
        for (_, flag) in FLAGS {
            let name = flag.split(' ').next().unwrap().trim_start_matches("--");
            assert!(flags.contains(&name), "{flag}");
        }
        for (name, command) in COMMANDS {
            assert!(cli.find_subcommand(command).is_some(), "{command}");
            assert!(cli.find_subcommand(name).is_none(), "{name} is a command");
        }
        assert_eq!(flag("max-tokens", |_| true), Some("--batch-tokens"));
        assert_eq!(flag("max-tokens", |_| false), None);
    }
}
