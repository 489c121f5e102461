//! `train report`: write runs as one HTML page.

use std::path::{Path, PathBuf};

use anyhow::Result;
use clap::Args;
use training::files::{replace_whole, write_whole};
use training::run::checkpoint::CheckpointSelector;
use training::run::layout::check_output;
use training::run::{RunData, labels};

use crate::args::flags::describe;
use crate::args::{
    check_replaced, different, folder_of, output_or, reject, run_folder, unwritable_output,
    whole_within,
};
use crate::device::DeviceName;
use crate::report::{Examined, MARK, RunReport, page};
use crate::terminal::output;

/// Flags of `report`.
#[derive(Clone, Debug, Args)]
pub struct ReportArgs {
    /// Folder of a run, or `latest`; several runs are shown side by side
    #[arg(value_name = "RUN", required = true, value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// File of the page [default: RUN/report.html, or report.html for several runs]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Replace a file that is no page of an earlier report, too
    #[arg(long)]
    pub force: bool,
    /// Number of validation examples that the model decodes; the attention of some is shown; 0
    /// loads no model
    #[arg(long, value_name = "N", default_value = "24", allow_negative_numbers = true, value_parser = whole_within(0, 1000))]
    pub examples: usize,
    /// Checkpoint that decodes the examples: best for the run's model, which the best evaluation
    /// chose, last, the number of a step, or average:K for the mean of the last K
    #[arg(long, value_name = "WHICH", default_value = "best")]
    pub checkpoint: CheckpointSelector,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}

/// Runs the command.
///
/// # Errors
///
/// The flags are wrong, a run cannot be read, a device given by `--backend` does not start, or the
/// page cannot be written.
pub(super) fn run(args: &ReportArgs) -> Result<()> {
    let folders = different(&args.runs)?.into_iter();
    let path = output_or(args.output.as_deref(), &args.runs, "report.html");
    check_output("output", &path)?;
    let name = path.to_string_lossy().to_lowercase();
    let is_page = [".html", ".htm"].iter().any(|end| name.ends_with(end));
    let other = (!is_page).then(|| path.display());
    let expected = "must be a file whose name ends with .html, as the page is HTML";
    reject("--output", other, expected)?;
    check_replaced(&path, MARK, args.force)?;
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let runs = folders.map(|folder| RunData::read(folder));
    let runs: Vec<RunData> = runs.collect::<Result<_, _>>()?;
    let device = match backend.open() {
        _ if args.examples == 0 => Err("--examples is 0".into()),
        // The page is useful without the model, so only an explicitly chosen backend has to work.
        Err(error) if args.backend.is_none() => Err(describe(&error)),
        device => Ok(device?),
    };
    let which = args.checkpoint;
    let reports = runs.iter().zip(labels(&runs)).map(|(run, label)| {
        let examined = match &device {
            Ok(device) => match Examined::of(&run.folder, which, device, args.examples) {
                // A checkpoint that was asked for must exist.
                Err(error) if which == CheckpointSelector::default() => Err(describe(&error)),
                examined => Ok(examined?),
            },
            Err(why) => Err(why.clone()),
        };
        Ok(RunReport::new(run, label, examined))
    });
    let reports: Vec<RunReport> = reports.collect::<Result<_>>()?;
    write(args, &path, &page(&runs, &reports))?;
    for run in &reports {
        for note in &run.notes {
            output::note(&format!("{}: {note}", run.name));
        }
    }
    output::result(&path.display().to_string())
}

/// Writes the page, and creates its folder if it is missing.
fn write(args: &ReportArgs, path: &Path, html: &str) -> Result<()> {
    let created = std::fs::create_dir_all(folder_of(path));
    // Without `--output`, the page of a single run is in the run's folder, where a symbolic link
    // could lead to any file. Such a link is replaced instead of followed.
    let write = match args.output {
        Some(_) => write_whole,
        None => replace_whole,
    };
    let written = created.and_then(|()| write(path, html.as_bytes()));
    written.map_err(|error| unwritable_output(path, error))
}
