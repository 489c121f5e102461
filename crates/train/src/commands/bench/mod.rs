//! `train bench`: measure how fast a backend is.

mod generate;
mod shape;
mod train;

use anyhow::Result;
use training::config::Precision;
use training::error::UsageError;

use crate::args::{name_of, needs};
use crate::device::{Backend, DeviceName};
use crate::group::Group;
use crate::terminal::output;
use shape::{Bench, Shape, sizes};
pub use shape::{BenchArgs, Measured};

/// Runs the command.
///
/// # Errors
///
/// Wrong flags, or a device that cannot be used.
pub fn run(args: &BenchArgs, group: &Group) -> Result<()> {
    check(args)?;
    let _fast_paths = fused::fast_paths(!args.no_fused);
    let names = if args.all {
        Backend::built_in().map(DeviceName::from).collect()
    } else {
        vec![DeviceName::choose(args.backend.as_deref())?]
    };
    let shapes = args.shape.map_or(Shape::USUAL.to_vec(), |only| vec![only]);
    // A batch with too many tokens, of any shape, is reported before the first measurement.
    for &shape in &shapes {
        sizes(args, shape)?;
    }
    let (header, measure): (_, fn(&Bench) -> Result<()>) = match args.what {
        Measured::Generate => (generate::HEADER, generate::run),
        Measured::Train => (train::HEADER, train::run),
    };
    if !args.json {
        output::result(header)?;
    }
    let precision = args.precision.unwrap_or(Precision::F32);
    for shape in shapes {
        for &name in &names {
            measure(&Bench {
                args,
                shape: name_of(shape),
                sizes: sizes(args, shape)?,
                name,
                device: name.of_process(group).open_for(precision)?,
                group: group.collective(),
            })?;
        }
    }
    Ok(())
}

fn check(args: &BenchArgs) -> Result<(), UsageError> {
    let is_generate = args.what == Measured::Generate;
    needs("--beam", args.beam, "--what generate", is_generate)?;
    let int8 = args.int8.then_some("");
    needs("--int8", int8, "--what generate", is_generate)?;
    needs("--steps", args.steps, "--what train", !is_generate)?;
    let precision = args.precision.map(Precision::name);
    needs("--precision", precision, "--what train", !is_generate)
}
