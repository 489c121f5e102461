//! One model, trained by several processes. Without a launcher, a single process trains the model,
//! with the same losses up to rounding.
//!
//!     cargo run --release --example several_processes
//!     cargo build --release -p examples --example several_processes --features mpi
//!     mpirun -np 2 target/release/examples/several_processes

use std::error::Error;
use std::path::Path;

use burn::tensor::Device;
use training::collective::{self, Collective};
use training::config::RunConfig;
use training::run::{Event, Observer, RunFolder};
use training::trainer::{Ending, Trainer};

/// Prints the evaluations if the flag is `true`, as in the process of rank 0.
struct Evaluations(bool);

impl Observer for Evaluations {
    fn event(&mut self, event: Event<'_>) -> anyhow::Result<()> {
        if let (Event::Evaluation(evaluation), true) = (event, self.0) {
            let (step, loss) = (evaluation.step, evaluation.valid_loss);
            println!("step {step}: loss {loss:.3}");
        }
        Ok(())
    }
}

fn main() {
    let group = collective::join();
    if let Err(error) = train(&*group) {
        eprintln!("rank {}: {error}", group.rank());
        // The other processes may be waiting for this one. The launcher ends them, because this
        // process exits without finalising MPI.
        std::process::exit(1);
    }
}

fn train(group: &dyn Collective) -> Result<(), Box<dyn Error>> {
    let mut config = RunConfig::reverse();
    config.optimization.steps = 600;
    config.execution.backend = "flex".into();
    let dataset = config.check()?.expect("the task reads no files");
    let dataset = dataset.as_ref();

    // Rank 0 creates the folder of the run. The other processes open the folder, but do not write.
    let own = group.is_first().then(|| RunFolder::create(None, &config));
    let own = own.transpose()?;
    let path = own
        .as_ref()
        .map_or("".into(), |own| own.path().display().to_string());
    let path = String::from_utf8(group.broadcast(path.into_bytes()))?;
    let folder = own.unwrap_or_else(|| RunFolder::follow(Path::new(&path)));

    let trainer = Trainer::new(&config, dataset, &Device::flex(), folder)?.with_group(group);
    let Ending::Done(trained) = trainer.train(&mut Evaluations(group.is_first()))? else {
        unreachable!("nothing stops the run");
    };
    // Each process decodes a part of the test sequences and gets the result for all of them.
    let test = trained.test()?;
    let summary = trained.summary(&test);
    trained.folder.finish(&summary)?;
    if group.is_first() {
        let (processes, exact_match) = (group.size(), test.scores.exact_match);
        println!("{processes} processes: {exact_match:.3} of 1000 unseen sequences are correct");
    }
    assert!(test.scores.exact_match > 0.9, "the task was not learned");
    Ok(())
}
