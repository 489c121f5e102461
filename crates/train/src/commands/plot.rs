//! `train plot`: draw plots of runs.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, ValueEnum};
use training::error::{UsageError, quote};
use training::positions::max_tokens;
use training::run::RunData;
use training::run::checkpoint::TrainedRun;
use training::run::layout::{PICTURES, check_names, check_output};

use crate::args::flags::describe;
use crate::args::{check_replaced, different, name_of, needs, output_or, reject, run_folder};
use crate::device::DeviceName;
use crate::plot::attention::{attention_maps, check_size, example_source};
use crate::plot::{AttentionMaps, MARK, Plot, Progress, RunPlot};
use crate::terminal::output;

/// Flags of `plot`.
#[derive(Clone, Debug, Args)]
pub struct PlotArgs {
    /// Folder of a run, or `latest`; several runs are drawn in the same plots
    #[arg(value_name = "RUN", required = true, value_parser = run_folder())]
    pub runs: Vec<PathBuf>,
    /// Draw only these plots [default: all that the runs have data for]
    #[arg(long, value_name = "PLOT,...", value_delimiter = ',')]
    pub only: Vec<RunPlot>,
    /// Horizontal axis of the curves
    #[arg(long, value_name = "AXIS", default_value = "steps")]
    pub x: Progress,
    /// Source whose attention is drawn, such as "3 1 4" [default: among the first 8 sources of the
    /// test split (text: validation), the longest that has at most 32 tokens, else the shortest]
    #[arg(long, value_name = "TEXT")]
    pub source: Option<String>,
    /// Folder of the plots [default: RUN/pictures, or pictures for several runs]
    #[arg(long, value_name = "FOLDER")]
    pub output: Option<PathBuf>,
    /// Replace files that are no plots of an earlier call, too
    #[arg(long)]
    pub force: bool,
    /// Backend and device that compute the attention, `NAME` or `NAME:INDEX` [default: see `train
    /// backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
}

impl PlotArgs {
    /// Checks that the flags can be combined.
    ///
    /// # Errors
    ///
    /// The first flag that cannot be combined with the others.
    pub fn check(&self) -> Result<(), UsageError> {
        let has_attention = self.wants(RunPlot::Attention);
        let only = (has_attention && !self.only.is_empty()).then_some("attention");
        for (is_met, what) in [
            (has_attention, "attention among --only"),
            (self.runs.len() == 1, "a single RUN"),
        ] {
            needs("--source", self.source.as_ref(), what, is_met)?;
            needs("--only", only, what, is_met)?;
        }
        Ok(())
    }

    /// Returns whether to draw a plot.
    pub fn wants(&self, plot: RunPlot) -> bool {
        self.only.is_empty() || self.only.contains(&plot)
    }
}

/// Runs the command.
///
/// # Errors
///
/// The flags are wrong, a run cannot be read, the device does not start, or a file cannot be
/// written.
pub fn run(args: &PlotArgs) -> Result<()> {
    args.check()?;
    let folders = different(&args.runs)?.into_iter();
    if let Some(folder) = &args.output {
        check_output("output", folder)?;
    }
    let backend = DeviceName::choose(args.backend.as_deref())?;
    let runs = folders.map(|folder| RunData::read(folder));
    let runs: Vec<RunData> = runs.collect::<Result<_, _>>()?;
    if let (None, [run]) = (&args.output, &runs[..]) {
        check_names("run", &run.folder)?;
    }
    // The maps are computed before the first file is written, so that a wrong source leaves no
    // files.
    let is_explicit = args.source.is_some() || !args.only.is_empty();
    let maps = match &runs[..] {
        [run] if args.wants(RunPlot::Attention) => match attention(args, run, &backend) {
            Err(error) if !is_explicit && error.is::<UsageError>() => {
                output::note(&format!("no attention maps: {}", describe(&error)));
                Vec::new()
            }
            maps => maps?,
        },
        _ => Vec::new(),
    };
    for &kind in RunPlot::value_variants() {
        if kind == RunPlot::Attention || !args.wants(kind) {
            continue;
        }
        let name = kind.file_name();
        if let Some(chart) = kind.draw(&runs, args.x) {
            save(args, &name, &chart)?;
        } else if !args.only.is_empty() {
            let mut what = "there are no data for it".to_owned();
            if kind == RunPlot::Lengths && runs.iter().any(|run| run.lengths.is_some()) {
                what += "; no length in lengths.json has a score, because the model has no positions for it or the split no sequence";
            } else if kind == RunPlot::Lengths {
                what += "; `train eval RUN --eval-lengths 1..32` measures those of symbols";
            }
            if args.only.len() == 1 {
                return Err(UsageError::new("--only", name_of(kind), what).into());
            }
            output::note(&format!("no {name}: {what}"));
        }
    }
    maps.iter()
        .try_for_each(|maps| save(args, &maps.file_name(), maps))
}

/// Returns the attention maps of a run's model.
fn attention(args: &PlotArgs, run: &RunData, backend: &DeviceName) -> Result<Vec<AttentionMaps>> {
    let trained = TrainedRun::load(&run.folder, &backend.open()?)?;
    let dataset = trained.dataset.as_ref();
    let source = match &args.source {
        Some(words) => dataset
            .source(words)
            .map_err(|what| UsageError::new("--source", quote(words), what))?,
        None => {
            let what = "has no example for attention maps that can be read: give one with --source";
            let wrong = || UsageError::argument("run", run.folder.display(), what);
            example_source(dataset, trained.config.seed).ok_or_else(wrong)?
        }
    };
    let (found, most) = (source.len(), max_tokens(&trained.config.model));
    let words = args.source.as_ref().filter(|_| found > most);
    let expected = format!("has {found} symbols, more than the {most} that this model can take");
    reject("--source", words.map(|words| quote(words)), &expected)?;
    let name = format!("{}, step {}", run.name, trained.step);
    let maps = attention_maps(&trained.model, dataset, &source, &name)?;
    check_size(&maps)?;
    Ok(maps)
}

fn save(args: &PlotArgs, name: &str, plot: &impl Plot) -> Result<()> {
    let folder = output_or(args.output.as_deref(), &args.runs, PICTURES);
    check_replaced(&folder.join(name), MARK, args.force)?;
    plot.save(&folder, name)?;
    output::result(&folder.join(name).display().to_string())
}
