//! `train bench`: measure how fast a backend is.

mod generate;
mod shape;
mod table;
mod train;

use std::cell::Cell;

use anyhow::Result;
use training::config::Precision;
use training::error::UsageError;

use crate::args::{BenchArgs, Measured, Shape, name_of, needs, reject};
use crate::device::{Backend, DeviceName};
use crate::group::Group;
use shape::sizes;
use table::Bench;

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
        vec![args.backend.choose()?]
    };
    let header = Cell::new(Some(match args.what {
        Measured::Generate => generate::HEADER,
        Measured::Train => train::HEADER,
    }));
    let shapes = args.shape.map_or(Shape::USUAL.to_vec(), |only| vec![only]);
    // A batch with too many tokens, of any shape, is reported before the first measurement.
    for &shape in &shapes {
        sizes(args, shape)?;
    }
    let precision = args.precision.unwrap_or(Precision::F32);
    for shape in shapes {
        for &name in &names {
            let bench = Bench {
                args,
                shape: name_of(shape),
                sizes: sizes(args, shape)?,
                name,
                device: name.of_process(group).open_for(precision)?,
                header: &header,
                group: group.collective(),
            };
            match args.what {
                Measured::Generate => generate::run(&bench)?,
                Measured::Train => train::run(&bench)?,
            }
        }
    }
    Ok(())
}

fn check(args: &BenchArgs) -> Result<(), UsageError> {
    for (flag, value, largest) in [
        ("--batch-size", args.batch_size, 1 << 16),
        ("--beam", args.beam, 1 << 10),
        ("--length", args.length, 1 << 14),
        ("--layers", args.layers, 1 << 6),
    ] {
        let wrong = value.filter(|value| !(1..=largest).contains(value));
        let expected = format!("must be at least 1 and at most {largest}");
        reject(flag, wrong, &expected)?;
    }
    let is_generate = args.what == Measured::Generate;
    needs("--beam", args.beam, "--what generate", is_generate)?;
    let int8 = args.int8.then_some("");
    needs("--int8", int8, "--what generate", is_generate)?;
    let precision = args.precision.map(|precision| precision.name());
    needs("--precision", precision, "--what train", !is_generate)?;
    let operations = args.operations.then_some("");
    needs("--operations", operations, "--what train", !is_generate)
}
