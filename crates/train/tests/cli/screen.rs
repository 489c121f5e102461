//! The program on a terminal: the dashboard, its keys, colours, and the restored screen.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::task::{COPY, SIZE};
use super::{Folder, assert_has, notes, output, succeed, text};

/// Escape sequence that ends the alternate screen.
const LEAVE: &str = "\x1b[?1049l";

/// Maximum time that a test waits for something to appear.
const PATIENCE: Duration = Duration::from_secs(120);

/// Shell script that runs the program on a terminal of the given size.
///
/// It writes four files: the id of the process, the path of the terminal, and the modes of the
/// terminal before and after the program. Ctrl-C does not end the shell.
const SHELL: &str = r#"trap : INT
stty cols "$COLUMNS_WANTED" rows "$ROWS_WANTED"
tty > tty
stty -g > before
sh -c 'echo $$ > id; exec "$0" "$@"' $WORDS
code=$?
stty -g > after
exit $code"#;

/// A program on a terminal of its own.
///
/// The command `script` of util-linux creates the terminal.
struct OnTerminal<'a> {
    folder: &'a Path,
    script: Child,
    keyboard: ChildStdin,
    output: Arc<Mutex<Vec<u8>>>,
}

impl<'a> OnTerminal<'a> {
    fn start(
        folder: &'a Path,
        line: &str,
        (columns, rows): (u16, u16),
        variables: &[(&str, &str)],
    ) -> Self {
        let words = format!("{} {line}", env!("CARGO_BIN_EXE_train"));
        let mut command = Command::new("script");
        command
            .args(["--quiet", "--return", "--command", SHELL, "/dev/null"])
            .current_dir(folder)
            .env("SHELL", "/bin/sh")
            .env("WORDS", words)
            .env("COLUMNS_WANTED", columns.to_string())
            .env("ROWS_WANTED", rows.to_string())
            .env("TERM", "xterm-256color")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        for name in ["CI", "CLICOLOR", "CLICOLOR_FORCE", "NO_COLOR", "RUST_LOG"] {
            command.env_remove(name);
        }
        command.envs(variables.iter().copied());
        let mut script = command.spawn().expect("util-linux has the program script");
        let output = Arc::new(Mutex::new(Vec::new()));
        let mut screen = script.stdout.take().unwrap();
        let collected = Arc::clone(&output);
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut bytes) {
                collected.lock().unwrap().extend_from_slice(&bytes[..count]);
            }
        });
        Self {
            folder,
            keyboard: script.stdin.take().unwrap(),
            script,
            output,
        }
    }

    fn output(&self) -> String {
        String::from_utf8_lossy(&self.output.lock().unwrap()).into_owned()
    }

    /// Waits until the screen shows `part`, or no longer shows it if `is_there` is false.
    fn wait(&self, part: &str, is_there: bool) {
        let begun = Instant::now();
        while screen(&self.output()).contains(part) != is_there {
            let is_late = begun.elapsed() > PATIENCE;
            assert!(
                !is_late,
                "{part:?} {is_there} in {}",
                screen(&self.output())
            );
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        self.keyboard.flush().unwrap();
    }

    fn resize(&self, columns: u16, rows: u16) {
        let terminal = std::fs::read_to_string(self.folder.join("tty")).unwrap();
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let size = ["cols", &columns, "rows", &rows];
        let status = Command::new("stty")
            .args(["-F", terminal.trim()])
            .args(size)
            .status();
        assert!(status.unwrap().success());
    }

    fn signal(&self, name: &str) {
        let id = std::fs::read_to_string(self.folder.join("id")).unwrap();
        let status = Command::new("kill").args(["-s", name, id.trim()]).status();
        assert!(status.unwrap().success());
    }

    /// Waits for the end of the program, and checks that it has restored the modes of the terminal.
    ///
    /// Returns the exit code, the whole output, and the output after the dashboard.
    fn end(mut self) -> (i32, String, String) {
        let begun = Instant::now();
        let status = loop {
            if let Some(status) = self.script.try_wait().unwrap() {
                break status;
            }
            if begun.elapsed() > PATIENCE {
                self.script.kill().unwrap();
                panic!("the program does not end: {:?}", self.output());
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        // The thread that reads the output may need a moment.
        std::thread::sleep(Duration::from_millis(200));
        let modes = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap();
        assert_eq!(modes("after"), modes("before"));
        let output = self.output();
        let (shown, after) = output.rsplit_once(LEAVE).unwrap_or(("", &output));
        if !shown.is_empty() {
            assert!(shown.contains("\x1b[?1049h"), "{output:?}");
            assert!(
                shown.rfind("\x1b[?25h") > shown.rfind("\x1b[?25l"),
                "{output:?}"
            );
        }
        let after = after.replace("\r\n", "\n");
        (status.code().unwrap_or(-1), output, after)
    }
}

/// Returns the screen that a dashboard has drawn.
///
/// Only the escape sequences that the dashboard uses are interpreted.
fn screen(output: &str) -> String {
    let blank = || vec![vec![' '; 250]; 60];
    let (mut cells, mut row, mut column) = (blank(), 0, 0);
    let drawn = output
        .rsplit_once("\x1b[?1049h")
        .map_or("", |(_, drawn)| drawn);
    let mut rest = drawn;
    while let Some(letter) = rest.chars().next() {
        let sequence = rest.strip_prefix("\x1b[");
        let end = sequence.and_then(|text| text.find(|end: char| ('@'..='~').contains(&end)));
        let (Some(sequence), Some(end)) = (sequence, end) else {
            if let Some(cell) = cells.get_mut(row).and_then(|line| line.get_mut(column)) {
                *cell = letter;
            }
            column += 1;
            rest = &rest[letter.len_utf8()..];
            continue;
        };
        match &sequence[end..=end] {
            "H" => {
                let place = sequence[..end].split_once(';').unwrap_or(("1", "1"));
                row = place.0.parse::<usize>().unwrap() - 1;
                column = place.1.parse::<usize>().unwrap() - 1;
            }
            "J" => cells = blank(),
            _ => {}
        }
        rest = &sequence[end + 1..];
    }
    let lines = cells.iter().map(|line| line.iter().collect::<String>());
    lines.collect::<Vec<_>>().join("\n")
}

/// Arguments of a run that ends only if it is stopped.
fn long() -> String {
    format!("{SIZE} --steps 1000000 --eval-every 50 --run-dir run")
}

fn has_checkpoint(folder: &Path) -> bool {
    std::fs::read_dir(folder.join("run/checkpoints"))
        .is_ok_and(|mut entries| entries.next().is_some())
}

#[test]
fn the_dashboard_shows_a_run_and_stops_it_after_a_question() {
    let folder = &Folder::new();
    for size in [(80, 24), (120, 40), (200, 50), (40, 10)] {
        let _ = std::fs::remove_dir_all(folder.join("run"));
        let mut program = OnTerminal::start(folder, &long(), size, &[]);
        for part in ["copy on flex", "left", "exact match", "q stop"] {
            program.wait(part, true);
        }
        // After a cancelled question, the run continues.
        for cancel in ["\x1b", "n"] {
            program.press("q");
            program.wait("Esc cancel", true);
            program.press(cancel);
            program.wait("Esc cancel", false);
        }
        program.press("q");
        program.wait("Enter stop and save", true);
        program.press("\r");
        let (_, _, after) = program.end();
        let parts = ["evaluation loss", "stopped after step", "train resume run"];
        assert_has(&after, &parts);
        assert!(has_checkpoint(folder));
    }
}

#[test]
fn ctrl_c_and_signals_restore_the_terminal() {
    let folder = &Folder::new();
    for signal in ["\x03", "INT", "TERM", "HUP"] {
        if signal == "HUP" && super::ignores_hang_up() {
            continue;
        }
        let _ = std::fs::remove_dir_all(folder.join("run"));
        let mut program = OnTerminal::start(folder, &long(), (80, 24), &[]);
        program.wait("exact match", true);
        if signal == "\x03" {
            program.press(signal);
        } else {
            program.signal(signal);
        }
        let (_, _, after) = program.end();
        assert!(after.contains("stopped after step"), "{signal}: {after}");
        let is_key = after.contains(" by Ctrl-C; ");
        assert_eq!(is_key, signal == "\x03", "{signal}: {after}");
        assert!(has_checkpoint(folder));
    }
}

#[test]
fn a_resized_terminal_shows_more_charts() {
    let folder = &Folder::new();
    let mut program = OnTerminal::start(folder, &long(), (40, 10), &[]);
    program.wait("exact match", true);
    program.resize(200, 50);
    for part in ["Loss  ", "Accuracy on", "Learning rate"] {
        program.wait(part, true);
    }
    // A terminal that is too small does not end the run.
    for (columns, rows) in [(1, 1), (5, 2), (80, 24)] {
        program.resize(columns, rows);
        std::thread::sleep(Duration::from_millis(300));
    }
    program.press("q");
    program.wait("Enter stop and save", true);
    program.press("y");
    let (_, _, after) = program.end();
    assert_has(&after, &["train resume run"]);
}

#[test]
fn a_run_that_ends_prints_what_the_dashboard_held_back() {
    let folder = &Folder::new();
    let arguments = format!("{COPY} --eval-every 3");
    let program = OnTerminal::start(folder, &arguments, (80, 24), &[]);
    let (code, _, after) = program.end();
    assert_eq!(code, 0, "{after}");
    let position = |part: &str| {
        after
            .find(part)
            .unwrap_or_else(|| panic!("no {part:?}: {after}"))
    };
    assert!(position("step 3: evaluation loss") < position("step 12: evaluation loss"));
    assert!(position("step 12: evaluation loss") < position("unseen sequences"));
    assert!(after.contains("\x1b[31m(wrong)\x1b[0m"), "{after}");
}

#[test]
fn no_color_leaves_no_colours() {
    let folder = &Folder::new();
    let no_color = &[("NO_COLOR", "1")][..];
    for (variables, has_colors) in [(no_color, false), (&[], true)] {
        let arguments = format!("{COPY} --eval-every 3");
        let program = OnTerminal::start(folder, &arguments, (80, 24), variables);
        let (code, output, _) = program.end();
        assert_eq!(code, 0, "{output}");
        assert_eq!(has_color(&output), has_colors, "{variables:?}: {output:?}");
    }
}

/// Returns whether some text has a foreground colour other than the terminal's default.
fn has_color(output: &str) -> bool {
    let sequences = output.split("\x1b[").skip(1);
    let styles = sequences.filter_map(|text| text.split_once('m').map(|(codes, _)| codes));
    let mut codes = styles.flat_map(|codes| codes.split(';'));
    codes.any(|code| (30..38).contains(&code.parse().unwrap_or(0)) || code == "38")
}

#[test]
fn a_dumb_terminal_and_ci_get_plain_lines() {
    let folder = &Folder::new();
    for variable in [("TERM", "dumb"), ("CI", "true")] {
        let arguments = format!("{COPY} --eval-every 3");
        let program =
            OnTerminal::start(folder, &arguments, (80, 24), &[variable, ("NO_COLOR", "1")]);
        let (code, _, output) = program.end();
        assert_eq!(code, 0, "{output}");
        assert!(!output.contains(['\x1b', '\r']), "{variable:?}: {output:?}");
        assert!(output.contains("step 12: evaluation loss"), "{output}");
    }
}

#[test]
fn pipes_have_colours_only_if_they_are_forced() {
    let folder = &Folder::new();
    let run = |variables: &[(&str, &str)]| {
        let mut command = super::train(folder);
        command.env_remove("NO_COLOR").env_remove("CLICOLOR_FORCE");
        command
            .env("RUST_LOG", "info")
            .envs(variables.iter().copied());
        let output = command.args(COPY.split_whitespace()).output().unwrap();
        (succeed(&output), text(&output.stderr))
    };
    let (stdout, stderr) = run(&[]);
    assert!(
        !stdout.contains('\x1b') && !stderr.contains('\x1b'),
        "{stderr:?}"
    );
    let (stdout, _) = run(&[("CLICOLOR_FORCE", "1")]);
    assert!(stdout.contains("\x1b[31m(wrong)\x1b[0m"), "{stdout:?}");
    let (stdout, _) = run(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]);
    assert!(!stdout.contains('\x1b'), "{stdout:?}");
}

#[test]
fn a_new_run_describes_its_model_data_and_device() {
    let folder = &Folder::new();
    let stderr = notes(&output(folder, COPY));
    let row = |name: &str| {
        let line = stderr.lines().skip(1).find(|line| line.starts_with(name));
        line.unwrap_or_else(|| panic!("no {name}: {stderr}"))
    };
    let summary = super::json(&folder.join("runs/copy-1/summary.json"));
    let total = row("total").split_whitespace().nth(1).unwrap();
    assert_eq!(total.replace(',', ""), summary["parameters"].to_string());
    assert!(row("encoder").contains("d_model 16"));
    assert!(row("data").contains("batches of 8"));
    assert!(row("device").contains("flex"));
}
