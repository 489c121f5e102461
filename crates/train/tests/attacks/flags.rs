//! The flags of all commands, read from the output of `train markdown-help`.

use std::path::Path;

use super::program::Program;

/// A command: its name, flags and positional arguments.
#[derive(Debug, Default)]
pub struct CommandOf {
    pub name: String,
    pub flags: Vec<Flag>,
    /// Number of positional arguments.
    pub positional: usize,
}

/// A flag of a command.
#[derive(Debug, Default)]
pub struct Flag {
    /// Name, with its hyphens.
    pub name: String,
    pub takes_value: bool,
    /// The values that the flag accepts; empty if the help does not list them.
    pub values: Vec<String>,
}

/// Returns all commands, read from `train markdown-help`.
pub fn commands() -> Vec<CommandOf> {
    let page = Program::new(Path::new("."), "markdown-help")
        .succeed()
        .stdout;
    let mut commands: Vec<CommandOf> = Vec::new();
    let mut is_argument = false;
    for line in page.lines() {
        if let Some(name) = line.strip_prefix("## `train") {
            let name = name.trim_end_matches('`').trim().into();
            commands.push(CommandOf {
                name,
                ..CommandOf::default()
            });
            continue;
        }
        let Some(command) = commands.last_mut() else {
            continue;
        };
        let quoted: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        if line.starts_with("###### ") {
            is_argument = line.contains("Arguments");
        } else if line.starts_with("* `-") {
            let (heads, _) = line.split_once(" — ").unwrap_or((line, ""));
            let heads: Vec<&str> = heads.split('`').skip(1).step_by(2).collect();
            let long = heads.last().expect("there is a name");
            let (name, value) = long.split_once(' ').unwrap_or((long, ""));
            command.flags.push(Flag {
                name: name.into(),
                takes_value: !value.is_empty(),
                values: Vec::new(),
            });
        } else if line.starts_with("* `<") {
            command.positional += usize::from(is_argument);
        } else if let Some(flag) = command.flags.last_mut()
            && flag.takes_value
            && !is_argument
        {
            if line.starts_with("  Possible values: `") {
                flag.values.extend(quoted.into_iter().map(String::from));
            } else if line.starts_with("  - `") {
                flag.values.push(quoted[0].into());
            }
        }
    }
    commands
}

#[test]
fn the_page_has_the_flags_of_all_commands() {
    let commands = commands();
    assert!(commands.len() >= 20, "{commands:?}");
    let of = |name: &str| {
        commands
            .iter()
            .find(|command| command.name == name)
            .unwrap()
    };
    let flag = |command: &str, name: &str| {
        let flags = &of(command).flags;
        let flag = flags.iter().find(|flag| flag.name == name).unwrap();
        (flag.takes_value, flag.values.len())
    };
    assert!(of("fit").flags.len() > 70);
    assert_eq!(flag("fit", "--d-model"), (true, 0));
    assert_eq!(flag("fit", "--no-fused"), (false, 0));
    assert_eq!(flag("fit", "--norm"), (true, 2));
    assert_eq!(flag("", "--quiet"), (false, 0));
    assert_eq!(flag("import", "--scale-embeddings"), (true, 2));
    assert_eq!((of("export").positional, of("score").positional), (1, 2));
}
