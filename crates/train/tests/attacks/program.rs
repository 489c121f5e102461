//! Runs the program with limits on time, memory and file size.

use std::ffi::OsString;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::answer::Answer;

/// Maximum time that a command may take.
///
/// The slowest command takes a few seconds on two cores.
const TIME: Duration = Duration::from_secs(60);

/// Maximum address space of a command, in bytes.
///
/// The program needs less than 2 GiB of it.
const MEMORY: u64 = 6 << 30;

/// A call of the program.
#[derive(Clone, Debug)]
pub struct Program {
    folder: PathBuf,
    pub arguments: Vec<OsString>,
    stdin: Vec<u8>,
    /// Maximum size of a written file in bytes; a write beyond it fails as on a full disk.
    ///
    /// `None` sets no limit.
    file_size: Option<u64>,
}

impl Program {
    /// Prepares a call in a folder; `line` has arguments, separated by blanks.
    pub fn new(folder: &Path, line: &str) -> Self {
        Self {
            folder: folder.into(),
            arguments: line.split_whitespace().map(OsString::from).collect(),
            stdin: Vec::new(),
            file_size: None,
        }
    }

    /// Replaces each argument that equals `from` by `to`.
    pub fn replacing(mut self, from: &str, to: &str) -> Self {
        for argument in &mut self.arguments {
            if argument == from {
                *argument = to.into();
            }
        }
        self
    }

    /// Returns the path of the program and its arguments, for tests that start it in another way.
    pub fn words(&self) -> Vec<OsString> {
        let program = assert_cmd::cargo::cargo_bin("train").into_os_string();
        [program]
            .into_iter()
            .chain(self.arguments.clone())
            .collect()
    }

    /// Sets what the program reads from standard input.
    pub fn reading(mut self, stdin: impl Into<Vec<u8>>) -> Self {
        self.stdin = stdin.into();
        self
    }

    /// Makes every write fail that would make a file larger than `bytes`.
    pub fn writing_at_most(mut self, bytes: u64) -> Self {
        self.file_size = Some(bytes);
        self
    }

    /// Starts the program.
    ///
    /// The process id of the returned child is that of the program.
    pub fn spawn(&self) -> Child {
        let program = assert_cmd::cargo::cargo_bin("train");
        let mut command = Command::new("sh");
        // The shell ignores the signal XFSZ, and the program inherits this. A write beyond the
        // limit then fails with an error instead of ending the process.
        let line = r#"trap "" XFSZ; exec prlimit --core=0 "$@""#;
        command.args(["-c", line, "sh", &format!("--as={MEMORY}")]);
        if let Some(bytes) = self.file_size {
            command.arg(format!("--fsize={bytes}"));
        }
        command.arg("--").arg(program).args(&self.arguments);
        command
            .current_dir(&self.folder)
            .env_remove("RUST_LOG")
            .env("RUST_BACKTRACE", "0")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("sh and prlimit can be run")
    }

    /// Runs the program to its end, or kills it when its time is over.
    pub fn run(&self) -> Answer {
        self.run_for(TIME).unwrap_or_else(|answer| answer.late())
    }

    /// Runs the program for at most `time`, and then kills it.
    ///
    /// Returns the answer as an error if the program was killed.
    pub fn run_for(&self, time: Duration) -> Result<Answer, Answer> {
        let begun = Instant::now();
        let mut child = self.spawn();
        let mut stdin = child.stdin.take().expect("it is piped");
        let bytes = self.stdin.clone();
        // If the program ends before it has read everything, the pipe is closed and the write
        // fails. This error is ignored.
        let writes = thread::spawn(move || drop(stdin.write_all(&bytes)));
        let mut stdout = child.stdout.take().expect("it is piped");
        let mut stderr = child.stderr.take().expect("it is piped");
        let reads = thread::spawn(move || read(&mut stdout));
        let reads_errors = thread::spawn(move || read(&mut stderr));
        let mut is_killed = false;
        let status = loop {
            if let Some(status) = child.try_wait().expect("the child can be waited for") {
                break status;
            }
            if begun.elapsed() >= time && !is_killed {
                is_killed = true;
                child.kill().expect("the child can be killed");
            }
            thread::sleep(Duration::from_micros(500));
        };
        writes.join().expect("the writer does not panic");
        let [stdout, stderr] = [reads, reads_errors].map(|thread| thread.join().expect("a reader"));
        let answer = Answer::new(self.describe(), status, stdout, stderr);
        if is_killed { Err(answer) } else { Ok(answer) }
    }

    /// Runs the program, which must succeed.
    pub fn succeed(&self) -> Answer {
        let answer = self.run();
        assert_eq!(answer.code, Some(0), "{answer}");
        answer
    }

    fn describe(&self) -> String {
        let words = Vec::from_iter(self.arguments.iter().map(|word| format!("{word:?}")));
        let limit = self
            .file_size
            .map(|bytes| format!(" (files of at most {bytes} bytes)"));
        format!("train {}{}", words.join(" "), limit.unwrap_or_default())
    }
}

fn read(stream: &mut dyn Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes);
    bytes
}
