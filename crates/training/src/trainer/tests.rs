use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use burn::tensor::Device;
use transformer::weights;

use super::division::LARGE;
use super::{Ending, Event, Observer, Stepper, Trainer};
use crate::collective::Alone;
use crate::collective::tests::ranks;
use crate::config::{RunConfig, Schedule, ScheduleKind};
use crate::data::DataConfig;
use crate::data::synthetic::SequenceConfig;
use crate::run::RunFolder;

fn small() -> RunConfig {
    let mut config = RunConfig::copy();
    config.data = DataConfig::Copy(SequenceConfig {
        symbols: 12,
        min_length: 1,
        max_length: 7,
    });
    config.model = config.model.with_d_model(16).with_d_ff(24);
    config.optimization.schedule = Schedule {
        kind: ScheduleKind::Noam,
        warmup: 4,
        ..Schedule::DEFAULT
    };
    config.optimization.steps = 6;
    config.optimization.batch_size = 32;
    config.evaluation.validation_size = 5;
    config.evaluation.test_size = 5;
    config.execution.backend = "flex".into();
    config
}

/// Waits until no other test of this file trains a model. Flex has one random number generator per
/// process. Training seeds it in each step, which would change the dropout of another test.
fn alone() -> MutexGuard<'static, ()> {
    static TRAINING: Mutex<()> = Mutex::new(());
    TRAINING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Trains a run. Returns the parameters of the trained model, and the steps in `metrics.jsonl`
/// without times.
fn run(config: &RunConfig) -> (weights::Parameters, Vec<serde_json::Value>) {
    let _alone = alone();
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    let mut config = config.clone();
    let dataset = config.check().unwrap().unwrap();
    let folder = RunFolder::create(Some(&path), &config).unwrap();
    let trainer = Trainer::new(&config, dataset.as_ref(), &Device::flex(), folder).unwrap();
    let Ending::Done(finished) = trainer.train(&mut ()).unwrap() else {
        panic!("the observer () stops no run");
    };
    (weights::parameters(&finished.model), metrics(&path))
}

fn metrics(run: &Path) -> Vec<serde_json::Value> {
    let metrics = std::fs::read_to_string(run.join("metrics.jsonl")).unwrap();
    let steps = metrics.lines().filter(|line| !line.contains("valid_loss"));
    let lines = steps.map(|line| {
        let mut line: serde_json::Value = serde_json::from_str(line).unwrap();
        let fields = line.as_object_mut().unwrap();
        fields.retain(|name, _| !["seconds", "tokens_per_second"].contains(&name.as_str()));
        line
    });
    lines.collect()
}

fn largest_difference(a: &weights::Parameters, b: &weights::Parameters) -> f64 {
    let pairs = a.iter().flat_map(|(name, data)| {
        let other: Vec<f64> = b[name].iter().collect();
        data.iter::<f64>().zip(other).collect::<Vec<_>>()
    });
    pairs.map(|(x, y)| (x - y).abs()).fold(0.0, f64::max)
}

#[test]
fn accumulated_batches_are_one_large_batch() {
    // Sequences differ in length, so small batches have different numbers of tokens. A large
    // epsilon keeps Adam from amplifying the rounding errors of gradients near 0.
    let mut large = small();
    large.optimization.label_smoothing = 0.1;
    large.optimization.optimizer.epsilon = 1e-3;
    let mut parts = large.clone();
    parts.optimization.batch_size = 8;
    parts.optimization.accumulate = 4;
    let ((one, one_lines), (other, other_lines)) = (run(&large), run(&parts));
    let difference = largest_difference(&one, &other);
    assert!(difference < 1e-6, "{difference}");
    for (a, b) in one_lines.iter().zip(&other_lines) {
        for name in ["loss", "gradient_norm"] {
            let [a, b] = [a, b].map(|line| line[name].as_f64().unwrap());
            assert!(
                (a - b).abs() < 2e-6 * a.abs().max(1.0),
                "{name}: {a} and {b}"
            );
        }
        assert_eq!(a["tokens"], b["tokens"]);
    }
    // Without accumulation, batches of a quarter of the size give other parameters.
    parts.optimization.accumulate = 1;
    assert!(largest_difference(&one, &run(&parts).0) > 1e-4);
}

#[test]
fn a_trained_run_keeps_its_setting_of_the_fast_paths() {
    let mut config = small();
    config.execution.fused = false;
    let _alone = alone();
    let parent = tempfile::tempdir().unwrap();
    let dataset = config.check().unwrap().unwrap();
    let folder = RunFolder::create(Some(&parent.path().join("run")), &config).unwrap();
    let trainer = Trainer::new(&config, dataset.as_ref(), &Device::flex(), folder).unwrap();
    let ending = trainer.train(&mut ()).unwrap();
    assert!(!fused::has_fast_paths());
    drop(ending);
    assert!(fused::has_fast_paths());
}

#[test]
fn gradient_checkpointing_changes_only_rounding() {
    let kept = small();
    let mut again = kept.clone();
    again.execution.gradient_checkpointing = true;
    let difference = largest_difference(&run(&kept).0, &run(&again).0);
    assert!(difference < 1e-6, "{difference}");
}

#[test]
fn the_checkpoint_has_the_moving_average() {
    let plain = small();
    let mut averaged = plain.clone();
    averaged.optimization.ema = Some(0.999);
    let (last, plain_lines) = run(&plain);
    let (average, average_lines) = run(&averaged);
    // The average does not change the training itself.
    assert_eq!(plain_lines, average_lines);
    assert!(largest_difference(&last, &average) > 1e-4);
}

#[test]
fn the_logged_gradient_norm_is_that_before_clipping() {
    let plain = small();
    let mut clipped = plain.clone();
    clipped.optimization.optimizer.clip_norm = Some(1e-4);
    let (plain, clipped) = (run(&plain).1, run(&clipped).1);
    assert_eq!(plain[0], clipped[0]);
    assert_ne!(plain[5]["loss"], clipped[5]["loss"]);
}

/// Calls `train` with the trainer of each process in a group of `size` processes. The last process
/// has the configuration `other`, if it is given. Returns the results by rank, and the lines of
/// `metrics.jsonl`.
fn group_results<T: Send>(
    size: usize,
    config: &RunConfig,
    other: Option<&RunConfig>,
    train: impl Fn(Trainer<'_>) -> T + Sync,
) -> (Vec<T>, Vec<serde_json::Value>) {
    let _alone = alone();
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("run");
    drop(RunFolder::create(Some(&path), config).unwrap());
    let results = ranks(size, |group| {
        let is_last = group.rank() + 1 == size;
        let mut config = other.filter(|_| is_last).unwrap_or(config).clone();
        let dataset = config.check().unwrap().unwrap();
        let folder = if group.is_first() {
            RunFolder::open(&path).unwrap()
        } else {
            RunFolder::follow(&path)
        };
        let trainer = Trainer::new(&config, dataset.as_ref(), &Device::flex(), folder).unwrap();
        train(trainer.with_group(group))
    });
    (results, metrics(&path))
}

/// Trains in a group of `size` processes. The last process has the configuration `other`, if it is
/// given. Returns the parameters or the error of each process, and the lines of `metrics.jsonl`.
fn run_group(
    size: usize,
    config: &RunConfig,
    other: Option<&RunConfig>,
) -> (
    Vec<Result<weights::Parameters, String>>,
    Vec<serde_json::Value>,
) {
    group_results(size, config, other, |trainer| {
        match trainer.train(&mut ()) {
            Ok(Ending::Done(finished)) => Ok(weights::parameters(&finished.model)),
            Ok(Ending::Stopped { by, .. }) => Err(format!("stopped by {by}")),
            Err(error) => Err(error.to_string()),
        }
    })
}

/// Returns a configuration whose feed-forward matrices are so large that a group divides them.
fn large() -> RunConfig {
    let mut config = small();
    config.model = config.model.with_d_model(256).with_d_ff(LARGE / 256);
    config.optimization.steps = 3;
    config.optimization.batch_size = 4;
    config
}

#[test]
fn all_processes_save_when_the_clock_of_rank_0_says_so() {
    let mut config = large();
    config.checkpointing.seconds = Some(3600.0);
    let hours = Duration::from_secs(7200);
    for late in [0, 1] {
        let (saved, _) = group_results(2, &config, None, |mut trainer| {
            if trainer.group.rank() == late {
                trainer.saved_at = Instant::now().checked_sub(hours).unwrap();
            }
            let first = trainer.checkpoints.path(1);
            trainer.train(&mut ()).unwrap();
            first.exists()
        });
        assert_eq!(saved, [late == 0; 2]);
    }
}

#[test]
fn an_observer_that_fails_in_one_process_ends_all_after_a_checkpoint() {
    struct Fails(bool);
    impl Observer for Fails {
        fn event(&mut self, event: Event<'_>) -> anyhow::Result<()> {
            let fails = self.0 && matches!(event, Event::Evaluation(_));
            anyhow::ensure!(!fails, "standard output cannot be written");
            Ok(())
        }
    }
    let mut config = large();
    config.evaluation.every = Some(2);
    for fails in [0, 1] {
        let (results, _) = group_results(2, &config, None, |trainer| {
            let (rank, checkpoint) = (trainer.group.rank(), trainer.checkpoints.path(2));
            let error = trainer.train(&mut Fails(rank == fails)).err();
            (error.unwrap().to_string(), checkpoint.exists())
        });
        for (rank, (error, is_saved)) in results.into_iter().enumerate() {
            let expected = if rank == fails {
                "standard output cannot be written"
            } else {
                "another process failed after step 2"
            };
            assert_eq!(error, expected);
            // Rank 0 writes the checkpoint, perhaps after the other process has ended.
            assert!(is_saved || rank == 1);
        }
    }
}

#[test]
fn a_run_that_is_stopped_in_its_last_evaluation_is_tested_later() {
    struct Stops(bool);
    impl Observer for Stops {
        fn event(&mut self, event: Event<'_>) -> anyhow::Result<()> {
            self.0 |= matches!(event, Event::Evaluation(_));
            Ok(())
        }

        fn wants_to_stop(&self) -> Option<&'static str> {
            self.0.then_some("SIGTERM")
        }
    }
    let (results, lines) = group_results(2, &small(), None, |trainer| {
        let is_first = trainer.group.is_first();
        let ending = trainer.train(&mut Stops(false)).unwrap();
        let Ending::Stopped {
            step, checkpoint, ..
        } = ending
        else {
            panic!("it is not stopped");
        };
        (step, checkpoint.exists() || !is_first)
    });
    assert_eq!(results, [(6, true); 2]);
    assert_eq!(lines.len(), 6);
}

#[test]
#[should_panic(expected = "a trainer needs its group before it resumes a run")]
fn a_group_after_a_resume_is_rejected() {
    let mut config = small();
    let parent = tempfile::tempdir().unwrap();
    let dataset = config.check().unwrap().unwrap();
    let folder = RunFolder::create(Some(&parent.path().join("run")), &config).unwrap();
    let mut trainer = Trainer::new(&config, dataset.as_ref(), &Device::flex(), folder).unwrap();
    trainer.saved = Some(1);
    let _ = trainer.with_group(&Alone);
}

#[test]
fn the_number_of_processes_changes_only_rounding() {
    let mut config = small();
    config.optimization.steps = 20;
    config.optimization.accumulate = 2;
    config.optimization.schedule.learning_rate = Some(0.01);
    config.optimization.label_smoothing = 0.1;
    config.optimization.optimizer.clip_norm = Some(0.7);
    config.optimization.optimizer.epsilon = 1e-3;
    config.evaluation.every = Some(10);
    // In a group of five, at least two processes have no share of a batch of three sequences.
    for batch_size in [32, 3] {
        config.optimization.batch_size = batch_size;
        let (expected, lines) = run(&config);
        for size in [2, 3, 5] {
            let (results, group_lines) = run_group(size, &config, None);
            let parameters = results.iter().map(|result| result.as_ref().unwrap());
            for found in parameters.clone() {
                // All processes have the same parameters, bit for bit.
                assert_eq!(Some(found), parameters.clone().next());
                let difference = largest_difference(found, &expected);
                assert!(difference < 1e-5, "{size} processes: {difference}");
            }
            assert_eq!(group_lines.len(), lines.len());
            for (a, b) in lines.iter().zip(&group_lines) {
                for name in ["loss", "gradient_norm", "valid_loss"] {
                    let [a, b] = [a, b].map(|line| line[name].as_f64().unwrap_or(0.0));
                    assert!(
                        (a - b).abs() < 1e-5,
                        "{size} processes, {name}: {a} and {b}"
                    );
                }
                for name in ["step", "tokens", "exact_match", "token_accuracy"] {
                    assert_eq!(a[name], b[name], "{size} processes");
                }
            }
            // A group of the same size gives the same parameters again, bit for bit.
            let (again, lines_again) = run_group(size, &config, None);
            assert_eq!((again, lines_again), (results, group_lines));
        }
    }
}

#[test]
fn a_process_with_other_settings_is_rejected_before_the_first_step() {
    let config = small();
    let mut other = config.clone();
    other.optimization.batch_size = 31;
    let (results, lines) = run_group(3, &config, Some(&other));
    for result in results {
        let error = result.unwrap_err();
        let expected = "optimization.batch_size: rank 2 (";
        assert!(error.starts_with(expected), "{error}");
    }
    assert!(lines.is_empty());
}

#[test]
fn a_loss_that_is_not_finite_ends_all_processes_at_the_same_step() {
    let mut config = small();
    config.optimization.schedule.learning_rate = Some(1e30);
    let (results, lines) = run_group(2, &config, None);
    let errors: Vec<String> = results.into_iter().map(Result::unwrap_err).collect();
    assert_eq!(errors[0].split(';').next(), errors[1].split(';').next());
    assert!(errors[0].starts_with("the loss is"), "{errors:?}");
    assert!(lines.len() < 6);
}

#[test]
fn a_stepper_takes_the_steps_of_a_trainer() {
    for change in [
        (|_| {}) as fn(&mut RunConfig),
        |config| config.model.dropout = 0.2,
        |config| config.optimization.accumulate = 2,
        |config| config.optimization.ema = Some(0.5),
    ] {
        let mut config = small();
        change(&mut config);
        let (parameters, metrics) = run(&config);
        let _alone = alone();
        let mut stepper = Stepper::new(config.clone(), &Device::flex()).unwrap();
        let steps: Vec<_> = metrics
            .iter()
            .filter(|line| line.get("loss").is_some())
            .collect();
        assert_eq!(steps.len(), config.optimization.steps);
        for line in steps {
            let taken = stepper.step();
            let loss: f32 = taken.loss.into_scalar();
            assert_eq!(loss, line["loss"].as_f64().unwrap() as f32);
            assert_eq!(taken.learning_rate, line["learning_rate"]);
            assert_eq!(taken.tokens, line["tokens"]);
        }
        assert_eq!(weights::parameters(&stepper.model()), parameters);
    }
}
