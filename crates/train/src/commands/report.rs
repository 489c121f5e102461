//! `train report`: write runs as one HTML page.

use std::collections::HashSet;
use std::path::Path;

use anyhow::Result;
use burn::tensor::Device;
use training::error::{UsageError, unwritable};
use training::files::{replace_whole, write_whole};

use crate::args::flags::describe;
use crate::args::{ReportArgs, reject};
use crate::report::{Examined, RunReport, page};
use crate::terminal::output;

/// Runs the command.
///
/// # Errors
///
/// The flags are wrong, a run cannot be read, a device given by `--backend` does not start, or the
/// page cannot be written.
pub(super) fn run(args: &ReportArgs) -> Result<()> {
    args.check()?;
    let path = args.path();
    check_output(&path)?;
    let backend = args.backend.choose()?;
    let runs = args.runs.iter().map(|folder| RunReport::read(folder));
    let mut runs: Vec<RunReport> = runs.collect::<Result<_, _>>()?;
    if args.examples > 0 {
        let device = match backend.open() {
            // The page is useful without the model, so only an explicitly chosen backend has to
            // work.
            Err(error) if args.backend.backend.is_none() => Err(describe(&error)),
            device => Ok(device?),
        };
        for (run, folder) in runs.iter_mut().zip(&args.runs) {
            let device = device.as_ref().map_err(String::clone);
            run.add_examples(device.and_then(|device| examine(args, folder, device)));
        }
    } else {
        let why = || Err("--examples is 0".into());
        runs.iter_mut().for_each(|run| run.add_examples(why()));
    }
    tell_apart(&mut runs, &args.runs);
    write(args, &path, &page(&runs)?)?;
    for run in &runs {
        for note in run.notes() {
            output::note(&format!("{}: {note}", run.name));
        }
    }
    output::result(&path.display().to_string())
}

fn examine(args: &ReportArgs, folder: &Path, device: &Device) -> Result<Examined, String> {
    let examined = Examined::of(folder, args.checkpoint, device, args.examples);
    examined.map_err(|error| describe(&error))
}

/// Names all runs by the paths of their folders if two of them have the same name.
fn tell_apart<P: AsRef<Path>>(runs: &mut [RunReport], folders: &[P]) {
    let names: HashSet<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    if names.len() < runs.len() {
        for (run, folder) in runs.iter_mut().zip(folders) {
            run.name = folder.as_ref().display().to_string();
        }
    }
}

/// Rejects a path that is a folder, before the runs are read.
fn check_output(path: &Path) -> Result<(), UsageError> {
    let folder = path.is_dir().then(|| path.display());
    reject(
        "--output",
        folder,
        "is a folder; name a file, such as report.html",
    )
}

/// Writes the page, and creates its folder if it is missing.
fn write(args: &ReportArgs, path: &Path, html: &str) -> Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let created = folder.map_or(Ok(()), std::fs::create_dir_all);
    // Without `--output`, the page of a single run is in the run's folder, where a symbolic link
    // could lead to any file. Such a link is replaced instead of followed.
    let write = match args.output {
        Some(_) => write_whole,
        None => replace_whole,
    };
    let written = created.and_then(|()| write(path, html.as_bytes()));
    written.map_err(|error| {
        let expected = format!("cannot be written ({error}); name another file");
        let usage = UsageError::new("--output", path.display(), expected);
        unwritable(path, error, usage)
    })
}
