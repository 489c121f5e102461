//! The prompt of `train generate`, at a pseudo-terminal.

use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use nix::pty::openpty;

use super::task::COPY;
use super::text_task::{corpus, fit};
use super::{Folder, answer, run, succeed, text};

/// Time after which a test fails, long enough for slow machines.
const LONGEST: Duration = Duration::from_secs(60);

const UP: &str = "\x1b[A";
const CTRL_C: &str = "\x03";
const CTRL_D: &str = "\x04";

/// A program that runs at a pseudo-terminal.
struct Terminal {
    keyboard: File,
    child: Child,
    parts: Receiver<Vec<u8>>,
    /// Output of the program after the last text that `wait_for` has found.
    shown: String,
}

impl Terminal {
    /// Runs `train` at a terminal, which is also its stdout unless the file `stdout` is given.
    fn open(folder: &Path, arguments: &[&str], stdout: Option<File>) -> Self {
        let pty = openpty(None, None).unwrap();
        let side = || Stdio::from(pty.slave.try_clone().unwrap());
        let stdout = stdout.map_or_else(side, Stdio::from);
        let child = Command::new(assert_cmd::cargo::cargo_bin("train"))
            .current_dir(folder)
            .env("TERM", "xterm")
            .env("NO_COLOR", "1")
            .env("XDG_STATE_HOME", folder.join("state"))
            .env_remove("RUST_LOG")
            .args(arguments)
            .stdin(side())
            .stdout(stdout)
            .stderr(side())
            .spawn()
            .unwrap();
        let keyboard = File::from(pty.master);
        let mut screen = keyboard.try_clone().unwrap();
        let (sender, parts) = channel();
        thread::spawn(move || {
            let mut part = [0; 4096];
            // The read fails when the program has ended.
            while let Ok(n @ 1..) = screen.read(&mut part) {
                if sender.send(part[..n].to_vec()).is_err() {
                    break;
                }
            }
        });
        Self {
            keyboard,
            child,
            parts,
            shown: String::new(),
        }
    }

    fn send(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the program writes `expected` after the last text that was waited for.
    ///
    /// A test must wait for the prompt before it sends a key that has a special meaning at the
    /// prompt. Between prompts, the terminal itself handles such keys.
    fn wait_for(&mut self, expected: &str) {
        let deadline = Instant::now() + LONGEST;
        loop {
            if let Some(at) = self.shown.find(expected) {
                self.shown.drain(..at + expected.len());
                return;
            }
            match self.parts.recv_timeout(Duration::from_millis(100)) {
                Ok(part) => self.shown += &String::from_utf8_lossy(&part),
                Err(RecvTimeoutError::Timeout) if Instant::now() < deadline => {}
                Err(_) => panic!("no {expected:?} in {:?}", self.shown),
            }
        }
    }

    /// Waits for the prompt, types a source, and waits for its output.
    fn ask(&mut self, source: &str, output: &str) {
        self.wait_for("source> ");
        self.send(&format!("{source}\r"));
        self.wait_for(&format!("\n{output}\r\n"));
    }

    /// Waits for the prompt, presses Ctrl-D, and checks that the program succeeds.
    fn end_at_prompt(mut self) {
        self.wait_for("source> ");
        self.send(CTRL_D);
        assert_eq!(self.end(), Some(0));
    }

    /// Waits for the end of the program, and returns its exit code.
    fn end(mut self) -> Option<i32> {
        let deadline = Instant::now() + LONGEST;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(
                Instant::now() < deadline,
                "it does not end: {:?}",
                self.shown
            );
            thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // A failed test must not leave a running program behind.
        let _ = self.child.kill();
    }
}

/// Trains `runs/copy-1`, and returns its outputs for `lines` that come from a pipe.
fn trained(folder: &Path, lines: &str) -> Vec<String> {
    run(folder, COPY);
    let output = succeed(&answer(folder, "generate runs/copy-1", lines));
    output.lines().map(String::from).collect()
}

#[test]
fn a_terminal_has_a_prompt_that_goes_on_after_a_wrong_line() {
    let folder = &Folder::new();
    let expected = trained(folder, "1 2 3\n4 5\n");
    let arguments = ["generate", "runs/copy-1"];
    let mut terminal = Terminal::open(folder, &arguments, None);
    terminal.wait_for("Type a source, such as \"");
    terminal.wait_for("and press Enter. Ctrl-D ends.");
    // Tab types a blank.
    terminal.ask("1 2\t3", &expected[0]);
    terminal.wait_for("source> ");
    terminal.send("1 99\r");
    terminal
        .wait_for("error: line 2 \"1 99\": \"99\" is not a symbol, which are 1 to 9 in this run");
    terminal.wait_for("source> ");
    terminal.send("7 7");
    terminal.wait_for("7 7");
    terminal.send(CTRL_C);
    terminal.wait_for("Ctrl-D ends");
    terminal.ask("4 5", &expected[1]);
    terminal.wait_for("source> ");
    // The wrong line is in the history, and the line that Ctrl-C abandoned is not. The third line
    // back is thus the first line.
    terminal.send(&UP.repeat(3));
    terminal.wait_for("1 2 3");
    terminal.send("\r");
    terminal.wait_for(&format!("\n{}\r\n", expected[0]));
    terminal.end_at_prompt();

    // The history is kept in a file, so a second process has it, too.
    let mut terminal = Terminal::open(folder, &arguments, None);
    terminal.wait_for("source> ");
    terminal.send(&UP.repeat(2));
    terminal.wait_for("4 5");
    terminal.send("\r");
    terminal.wait_for(&format!("\n{}\r\n", expected[1]));
    terminal.end_at_prompt();
}

#[test]
fn a_byte_that_is_not_utf_8_does_not_end_the_prompt() {
    let folder = &Folder::new();
    let expected = trained(folder, "1 2 3\n");
    let mut terminal = Terminal::open(folder, &["generate", "runs/copy-1"], None);
    terminal.wait_for("source> ");
    terminal.keyboard.write_all(b"4 \xff").unwrap();
    terminal.wait_for("error: the line is not UTF-8");
    terminal.ask("1 2 3", &expected[0]);
    terminal.end_at_prompt();
}

#[test]
fn a_history_that_cannot_be_written_is_mentioned_once() {
    let folder = &Folder::new();
    trained(folder, "1\n");
    // The history cannot be written, because its folder cannot be created: a file has the name of a
    // parent folder.
    std::fs::write(folder.join("state"), "").unwrap();
    let mut terminal = Terminal::open(folder, &["generate", "runs/copy-1"], None);
    terminal.wait_for("the history ");
    terminal.wait_for("source> ");
    // Keys that are typed before the prompt appears are kept.
    terminal.send(&format!("1 2\r3\r{CTRL_D}"));
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_score_asks_for_source_and_target() {
    let folder = &Folder::new();
    run(folder, COPY);
    let arguments = ["generate", "runs/copy-1", "--score"];
    let expected = answer(folder, &arguments.join(" "), "1 2\t3 4\n");
    let expected = succeed(&expected);
    let mut terminal = Terminal::open(folder, &arguments, None);
    terminal.wait_for("and then the target to score. Ctrl-D ends.");
    terminal.wait_for("source> ");
    terminal.send("1 2\r");
    terminal.wait_for("target> ");
    terminal.send("3 4\r");
    terminal.wait_for(&format!("\n{}\r\n", expected.trim()));
    terminal.end_at_prompt();
}

#[test]
fn a_terminal_gets_the_control_characters_of_a_model_escaped() {
    let folder = &Folder::new();
    let model =
        r#"{"type":"WordLevel","vocab":{"<unk>":0,"\u001b[2Jred\t":1},"unk_token":"<unk>"}"#;
    let json = format!(r#"{{"version":"1.0","added_tokens":[],"model":{model}}}"#);
    std::fs::write(folder.join("tokenizer.json"), json).unwrap();
    let arguments = ["tokenize", "tokenizer.json", "--decode", "--ids"];
    let output = answer(folder, &arguments.join(" "), "1\n");
    assert_eq!(succeed(&output), "\u{1b}[2Jred\t\n");
    let mut terminal = Terminal::open(folder, &arguments, None);
    // A wrong line does not end the session.
    terminal.send(&format!("9\n1\n{CTRL_D}"));
    terminal.wait_for("\"9\" is not the id of a token");
    terminal.wait_for("\n\\u001b[2Jred");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn a_signal_at_the_prompt_leaves_the_terminal_as_it_was() {
    use nix::sys::termios::{LocalFlags, tcgetattr};
    let folder = &Folder::new();
    run(folder, COPY);
    let mut terminal = Terminal::open(folder, &["generate", "runs/copy-1"], None);
    let is_usual = |terminal: &Terminal| {
        let flags = tcgetattr(&terminal.keyboard).unwrap().local_flags;
        flags.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    };
    terminal.wait_for("source> ");
    assert!(!is_usual(&terminal));
    let process = rustix::process::Pid::from_child(&terminal.child);
    rustix::process::kill_process(process, rustix::process::Signal::TERM).unwrap();
    terminal.wait_for("\x1b[?2004l");
    assert_eq!(terminal.child.wait().unwrap().code(), None);
    assert!(is_usual(&terminal));
}

#[test]
fn a_terminal_that_is_an_output_gets_control_characters_escaped() {
    let folder = &Folder::new();
    succeed(&fit(folder, "run", 1, &corpus(folder, 50)));
    let line = "generate run der --output /dev/stdout --prefix \u{1b}[2J";
    let mut terminal = Terminal::open(folder, &line.split(' ').collect::<Vec<_>>(), None);
    terminal.wait_for("\\u001b[2J");
    assert_eq!(terminal.end(), Some(0));
}

#[test]
fn the_prompt_counts_the_unknown_words_of_a_line() {
    let folder = &Folder::new();
    let flags = corpus(folder, 50) + " --tokenizer word";
    succeed(&fit(folder, "run", 1, &flags));
    let mut terminal = Terminal::open(folder, &["generate", "run"], None);
    terminal.wait_for("source> ");
    terminal.send("nowhere else\r");
    terminal.wait_for("2 of 2 source tokens are unknown to the vocabulary");
    terminal.end_at_prompt();
}

#[test]
fn a_redirected_stdout_has_the_outputs_alone() {
    let folder = &Folder::new();
    let expected = trained(folder, "1 2 3\n4 5\n");
    let file = folder.join("outputs");
    let stdout = File::create(&file).unwrap();
    let mut terminal = Terminal::open(folder, &["generate", "runs/copy-1"], Some(stdout));
    terminal.send(&format!("1 2 3\n4 5\n{CTRL_D}"));
    assert_eq!(terminal.end(), Some(0));
    assert_eq!(
        text(&std::fs::read(file).unwrap()),
        expected.join("\n") + "\n"
    );
}

#[test]
fn a_history_that_is_not_a_small_file_is_not_read() {
    let folder = &Folder::new();
    run(folder, COPY);
    std::fs::create_dir_all(folder.join("state/train")).unwrap();
    super::make_pipe(&folder.join("state/train/history"));
    let mut terminal = Terminal::open(folder, &["generate", "runs/copy-1"], None);
    terminal.wait_for("it is not a regular file");
    terminal.wait_for("source> ");
    // A pasted control character is shown, not sent to the terminal.
    terminal.send("\x1b[200~1\x1b]0;title\x07\x1b[201~");
    terminal.wait_for("title\\u0007");
    terminal.send("\r");
    terminal.end_at_prompt();
}
