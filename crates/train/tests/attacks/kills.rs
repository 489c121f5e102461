//! Runs that are killed at random moments.

use std::time::{Duration, Instant};

use rand::RngExt;

use super::program::Program;
use super::rounds::{Random, make_attacks};
use super::runs::{Kind, essence, files, renew, same};

/// Maximum number of times that a run is killed.
///
/// After that, it may run to its end.
const KILLS: usize = 6;

/// Flags of the runs.
///
/// `--keep 100` keeps all checkpoints, so that all of them are compared.
fn flags(kind: Kind) -> &'static str {
    match kind {
        Kind::Copy => "--steps 60 --checkpoint-every 7 --eval-every 9 --keep 100",
        Kind::Text => "--steps 24 --checkpoint-every 5 --eval-every 9 --keep 100",
    }
}

fn attack(kind: Kind, random: &mut Random) -> Result<&'static str, String> {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("place");
    let run = place.join("run");
    renew(&place);
    kind.prepare(&place);
    let begun = Instant::now();
    kind.fit(&place, flags(kind)).succeed();
    let time = begun.elapsed();
    let whole = essence(&run);
    renew(&place);
    kind.prepare(&place);
    let mut times = Vec::new();
    loop {
        // A process that is killed before it has written config.json leaves a folder that `fit`
        // accepts again.
        let program = if run.join("config.json").exists() {
            Program::new(&place, "resume run --threads 1")
        } else {
            kind.fit(&place, flags(kind))
        };
        let micros = random.random_range(0..time.as_micros() as u64);
        let time = if times.len() < KILLS {
            Duration::from_micros(micros)
        } else {
            Duration::from_secs(120)
        };
        match program.run_for(time) {
            Err(answer) if times.len() >= KILLS => return Err(answer.fault("takes too long")),
            Err(_) => times.push(micros / 1000),
            Ok(answer) => {
                answer.check()?;
                // A process may be killed after its run has finished, but before the process has
                // ended. Then `resume` says that the run has ended.
                let has_ended = answer.names(&["has ended after step"]);
                if answer.code != Some(0) && !has_ended {
                    return Err(answer.fault(&format!("after kills at {times:?} ms")));
                }
                break;
            }
        }
    }
    let differ = same(&whole, &essence(&run));
    differ.map_err(|what| format!("{kind:?} after kills at {times:?} ms: {what}"))?;
    let left = files(&place).into_keys();
    // Temporary files of plots may remain, because `resume` removes only temporary JSON files.
    let left = left.filter(|name| name.contains(".tmp") && !name.contains("pictures/"));
    let left: Vec<String> = left.collect();
    if left.is_empty() {
        Ok("the same run")
    } else {
        Err(format!(
            "{kind:?} after kills at {times:?} ms: left {left:?}"
        ))
    }
}

#[test]
fn a_killed_run_is_resumed_to_the_same_bits() {
    make_attacks("kills of copy", 1, |_, random| attack(Kind::Copy, random));
}

#[test]
fn a_killed_run_on_texts_is_resumed_to_the_same_bits() {
    make_attacks("kills of text", 1, |_, random| attack(Kind::Text, random));
}
