//! Writes a run's `metrics.jsonl`, and repairs a damaged one when the run is resumed.

use std::fs::{self, File};
use std::io::{self, BufWriter, Read, Seek, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use sha2::{Digest, Sha256};

use super::curves::parse_line;
use super::layout::{DAMAGED, METRICS};
use super::lock::is_file_at;
use crate::files::{Checksum, hex, open_or_create, replace_whole, sha256};
use crate::notes;

/// The open `metrics.jsonl`, to which lines are added.
#[derive(Debug)]
pub(super) struct MetricsLog {
    pub(super) path: PathBuf,
    file: BufWriter<File>,
    /// Number of bytes written so far, those in the buffer included.
    bytes: u64,
    /// SHA-256 of these bytes.
    hash: Sha256,
}

impl MetricsLog {
    /// Opens the file in a folder, and creates it if it does not exist. Call
    /// [`rewind`](Self::rewind) before you add the first line.
    pub(super) fn open(folder: &Path) -> io::Result<Self> {
        let path = folder.join(METRICS);
        Ok(Self {
            file: BufWriter::new(open_or_create(&path)?),
            path,
            bytes: 0,
            hash: Sha256::new(),
        })
    }

    pub(super) fn add(&mut self, line: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(line)?;
        line.push(b'\n');
        self.hash.update(&line);
        self.bytes += line.len() as u64;
        self.file.write_all(&line)
    }

    /// Passes all lines to the operating system, so that they are not lost if the process is
    /// killed.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }

    /// Waits until all lines are on the disk, and returns the file's position.
    ///
    /// If another program has replaced or cut the file, such as an editor, it gets the whole lines that
    /// are left of this run's, with a warning.
    pub(super) fn sync(&mut self) -> io::Result<Checksum> {
        self.flush()?;
        let file = self.file.get_ref();
        file.sync_data()?;
        if file.metadata()?.len() != self.bytes || !is_file_at(file, &self.path) {
            let path = self.path.display();
            notes::warn(&format!(
                "{path} was replaced or cut by another program: it has the lines that are left of this run's"
            ));
            let mut file = file.try_clone()?;
            let mut text = Vec::new();
            file.rewind()?;
            file.read_to_end(&mut text)?;
            self.restart(&whole_lines(&text, usize::MAX))?;
        }
        let (bytes, sha256) = (self.bytes, hex(&self.hash.clone().finalize()));
        Ok(Checksum { bytes, sha256 })
    }

    /// Cuts the file to its position at the checkpoint after `step` steps.
    ///
    /// If the bytes up to that position differ from those at the checkpoint, the file is damaged.
    /// It is then kept as `metrics.damaged.jsonl` (or `metrics.damaged-2.jsonl`, and so on), unless it is
    /// empty. The undamaged lines up to `step` are written again, with a warning.
    pub(super) fn rewind(&mut self, position: &Checksum, step: usize) -> io::Result<()> {
        if position.bytes == 0 {
            // The checkpoint is at the beginning of the run. In an imported run, it has no checksum
            // to compare.
            return self.restart(&[]);
        }
        let text = fs::read(&self.path)?;
        let kept = text.get(..position.bytes as usize);
        match kept.filter(|kept| sha256(kept) == position.sha256) {
            Some(kept) => self.restart(kept),
            None => self.repair(&text, step),
        }
    }

    fn repair(&mut self, text: &[u8], step: usize) -> io::Result<()> {
        let kept = whole_lines(text, step);
        let path = self.path.display();
        let mut what = format!(
            "{path} differs from what it was at the checkpoint of step {step}: only whole lines are kept"
        );
        if !text.is_empty() {
            let others = (2..).map(|n| DAMAGED.replace(".jsonl", &format!("-{n}.jsonl")));
            let mut names = std::iter::once(DAMAGED.into()).chain(others);
            let is_free = |name: &String| !self.path.with_file_name(name).exists();
            let name = names.find(is_free).expect("there is no end of names");
            replace_whole(&self.path.with_file_name(&name), text)?;
            what += &format!("; the file as it was is kept as {name}");
        }
        notes::warn(&what);
        self.restart(&kept)
    }

    /// Replaces the file by one with the lines `kept`, after which the next line is written. Another
    /// hard link keeps what the file had.
    fn restart(&mut self, kept: &[u8]) -> io::Result<()> {
        replace_whole(&self.path, kept)?;
        // What is appended follows what another program may leave.
        let file = File::options().read(true).append(true).open(&self.path)?;
        self.file = BufWriter::new(file);
        (self.bytes, self.hash) = (kept.len() as u64, Sha256::new_with_prefix(kept));
        Ok(())
    }
}

/// Returns the undamaged lines of `metrics.jsonl` up to a step.
fn whole_lines(text: &[u8], step: usize) -> Vec<u8> {
    let lines = text.split_inclusive(|&byte| byte == b'\n');
    let is_whole = |line: &&[u8]| {
        line.ends_with(b"\n") && parse_line(line).is_some_and(|line| line.step <= step)
    };
    lines.filter(is_whole).collect::<Vec<_>>().concat()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn line(step: usize) -> Value {
        json!({"step": step, "loss": 0.5})
    }

    /// Writes the lines of 4 steps. Returns the open log, and the position and the text of the file
    /// after 3 steps, at which a checkpoint is assumed.
    fn logged(folder: &Path) -> (MetricsLog, Checksum, String) {
        let mut log = MetricsLog::open(folder).unwrap();
        log.restart(&[]).unwrap();
        (1..4).for_each(|step| log.add(&line(step)).unwrap());
        let position = log.sync().unwrap();
        let text = fs::read_to_string(folder.join(METRICS)).unwrap();
        log.add(&line(4)).unwrap();
        log.flush().unwrap();
        (log, position, text)
    }

    #[test]
    fn a_run_that_was_imported_begins_an_empty_file() {
        let folder = tempfile::tempdir().unwrap();
        let (mut log, _, _) = logged(folder.path());
        log.rewind(&Checksum::default(), 0).unwrap();
        assert!(fs::read(folder.path().join(METRICS)).unwrap().is_empty());
        assert!(!folder.path().join(DAMAGED).exists());
    }

    #[test]
    fn an_intact_file_continues_after_the_checkpoint() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(METRICS);
        let (log, position, at_checkpoint) = logged(folder.path());
        assert_eq!(position.bytes, at_checkpoint.len() as u64);
        drop(log);
        let mut log = MetricsLog::open(folder.path()).unwrap();
        log.rewind(&position, 3).unwrap();
        assert_eq!(log.sync().unwrap(), position);
        log.add(&line(5)).unwrap();
        let position = log.sync().unwrap();
        let text = format!("{at_checkpoint}{}\n", line(5));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(position.sha256, crate::files::sha256(text.as_bytes()));
        assert!(!folder.path().join(DAMAGED).exists());
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_another_program_has_changed_has_the_lines_that_are_left() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(METRICS);
        let (mut log, ..) = logged(folder.path());
        let whole = fs::read_to_string(&path).unwrap();
        // An editor writes another file of this name.
        let cut = folder.path().join("cut");
        fs::write(&cut, &whole[..20]).unwrap();
        fs::rename(&cut, &path).unwrap();
        log.add(&line(5)).unwrap();
        let position = log.sync().unwrap();
        let text = whole + &format!("{}\n", line(5));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(position.sha256, sha256(text.as_bytes()));
        // A shell empties the file.
        fs::write(&path, "").unwrap();
        log.add(&line(6)).unwrap();
        let position = log.sync().unwrap();
        let text = format!("{}\n", line(6));
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
        assert_eq!(position.sha256, sha256(text.as_bytes()));
    }

    #[cfg(unix)]
    #[test]
    fn a_hard_link_keeps_what_it_had() {
        let folder = tempfile::tempdir().unwrap();
        let (log, position, at_checkpoint) = logged(folder.path());
        drop(log);
        let copy = folder.path().join("copy");
        fs::hard_link(folder.path().join(METRICS), &copy).unwrap();
        let before = fs::read(&copy).unwrap();
        let mut log = MetricsLog::open(folder.path()).unwrap();
        log.rewind(&position, 3).unwrap();
        log.sync().unwrap();
        assert_eq!(fs::read(&copy).unwrap(), before);
        let now = fs::read_to_string(folder.path().join(METRICS)).unwrap();
        assert_eq!(now, at_checkpoint);
    }

    #[test]
    fn a_damaged_file_keeps_its_whole_lines() {
        let whole = |steps: &[usize]| -> String {
            steps
                .iter()
                .map(|&step| format!("{}\n", line(step)))
                .collect()
        };
        let cut = whole(&[1, 2, 3]);
        let cut = &cut[..cut.len() - 4];
        let changed = whole(&[1, 2, 3]).replacen("0.5", "0.7", 1);
        for (damaged, kept) in [
            ("", String::new()),
            (cut, whole(&[1, 2])),
            (
                &format!("{}\0\0\n{}", whole(&[1]), whole(&[3, 4])),
                whole(&[1, 3]),
            ),
            (&changed, changed.clone()),
        ] {
            let folder = tempfile::tempdir().unwrap();
            let (log, position, _) = logged(folder.path());
            drop(log);
            let path = folder.path().join(METRICS);
            fs::write(&path, damaged).unwrap();
            let mut log = MetricsLog::open(folder.path()).unwrap();
            log.rewind(&position, 3).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), kept);
            log.add(&line(4)).unwrap();
            let position = log.sync().unwrap();
            let text = fs::read_to_string(&path).unwrap();
            assert_eq!(text, format!("{kept}{}", whole(&[4])));
            assert_eq!(position.bytes, text.len() as u64);
            let original = fs::read_to_string(folder.path().join(DAMAGED));
            assert_eq!(original.unwrap_or_default(), damaged);
            // A later one replaces no earlier one.
            fs::write(&path, "other\n").unwrap();
            log.rewind(&position, 4).unwrap();
            let name = if damaged.is_empty() {
                DAMAGED
            } else {
                "metrics.damaged-2.jsonl"
            };
            assert_eq!(
                fs::read_to_string(folder.path().join(name)).unwrap(),
                "other\n"
            );
        }
    }
}
