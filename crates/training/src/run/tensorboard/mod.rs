//! Writes the scalars of a run to event files for TensorBoard.

mod events;
mod record;
#[cfg(test)]
mod tests;

use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use serde::Serialize;

use super::curves::{CURVES, MetricsLine, read_metrics};
use super::{Event, Observer};

const PREFIX: &str = "events.out.tfevents.";
const SUFFIX: &str = ".train";

/// Writes event files for TensorBoard into a run folder.
///
/// A run writes a new file each time it is started or resumed. A resumed run first copies the steps
/// up to its checkpoint from `metrics.jsonl`, and removes earlier files, so that no step occurs
/// twice.
#[derive(Debug)]
pub struct TensorBoard {
    folder: PathBuf,
    file: Option<(PathBuf, BufWriter<File>)>,
}

impl TensorBoard {
    /// Prepares to write into a run folder. No file is changed before training begins.
    pub fn new(folder: &Path) -> Self {
        Self {
            folder: folder.into(),
            file: None,
        }
    }

    /// Returns whether a run folder has event files of this library.
    pub fn has_events(folder: &Path) -> bool {
        !event_files(folder).is_empty()
    }

    fn begin(&mut self, first: usize) -> Result<()> {
        let cannot = |path: &Path| format!("cannot write {}", path.display());
        let earlier = event_files(&self.folder);
        for path in &earlier {
            fs::remove_file(path).with_context(|| cannot(path))?;
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.unwrap_or_default();
        // TensorBoard reads the files in the order of their names, so the new name must be the
        // last, even within the same second or after the clock was set back.
        let last = earlier.iter().rev().find_map(|path| seconds_of(path));
        let seconds = last.map_or(now.as_secs(), |last| now.as_secs().max(last + 1));
        let path = self.folder.join(format!("{PREFIX}{seconds:010}{SUFFIX}"));
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| cannot(&path))?;
        self.file = Some((path, BufWriter::new(file)));
        let now = now.as_secs_f64();
        self.write(&events::version(now))?;
        // An open TensorBoard forgets what it has read of the earlier files.
        self.write(&events::session_start(now, 0))?;
        if first > 0 {
            let lines = read_metrics(&self.folder)?;
            let seconds = |line: &MetricsLine| line.number("seconds").unwrap_or(0.0);
            let end = lines.last().map_or(0.0, seconds);
            for line in lines.iter().filter(|line| line.step <= first) {
                self.write_line(now - (end - seconds(line)), line)?;
            }
        }
        self.flush()
    }

    fn log(&mut self, metrics: &impl Serialize) -> Result<()> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let line = MetricsLine::of(metrics);
        self.write_line(now.unwrap_or_default().as_secs_f64(), &line)
    }

    fn write_line(&mut self, wall_time: f64, line: &MetricsLine) -> Result<()> {
        let value = |(field, tag)| Some((tag, line.number(field)? as f32));
        let values = Vec::from_iter(CURVES.into_iter().filter_map(value));
        self.write(&events::scalars(wall_time, line.step, &values))
    }

    fn write(&mut self, event: &[u8]) -> Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let written = file.write_all(&record::framed(event));
        written.with_context(|| format!("cannot write {}", path.display()))
    }

    fn flush(&mut self) -> Result<()> {
        let Some((path, file)) = &mut self.file else {
            return Ok(());
        };
        let flushed = file.flush();
        flushed.with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Observer for TensorBoard {
    fn event(&mut self, event: Event<'_>) -> Result<()> {
        match event {
            Event::Begin { first, .. } => self.begin(first),
            Event::Metrics(metrics) => self.log(metrics),
            Event::Evaluation(evaluation) => self.log(evaluation),
            // A flush after every step costs little, because metrics arrive only every few steps.
            Event::Step { .. } | Event::Checkpoint { .. } | Event::End => self.flush(),
            _ => Ok(()),
        }
    }
}

/// Returns the event files that this library has written into a folder, the oldest first.
fn event_files(folder: &Path) -> Vec<PathBuf> {
    let is_ours = |path: &PathBuf| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(PREFIX) && name.ends_with(SUFFIX)
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let mut files: Vec<PathBuf> = paths.filter(is_ours).collect();
    files.sort();
    files
}

/// Returns the time in the name of an event file, in seconds.
fn seconds_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?.strip_prefix(PREFIX)?;
    name.split('.').next()?.parse().ok()
}
