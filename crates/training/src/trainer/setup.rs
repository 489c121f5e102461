//! What a trainer consists of, and how it is made.

use std::time::Instant;

use anyhow::Result;
use burn::module::Module;
use burn::tensor::Device;
use transformer::Transformer;

use super::learner::Learner;
use super::step::{TakenStep, new_model};
use crate::collective::{Alone, Collective};
use crate::config::RunConfig;
use crate::data::{Dataset, Example, Split};
use crate::run::checkpoint::Checkpoints;
use crate::run::{RunFolder, TrainingState};

/// Trains a model and writes everything about the run to its folder.
///
/// Batches, dropout and the initial parameters of [`new`](Trainer::new) depend only on the
/// configuration, its seed, the step and the rank of the process. On a CPU backend, a run with the
/// same configuration, data, initial parameters and number of threads and processes on the same
/// machine therefore has the same losses, bit for bit, however often it is stopped and resumed.
///
/// ```
/// use burn::module::Module;
/// use burn::tensor::Device;
/// use training::config::RunConfig;
/// use training::run::RunFolder;
/// use training::trainer::{Ending, Trainer};
///
/// let mut config = RunConfig::copy();
/// config.optimization.steps = 3;
/// config.evaluation.test_size = 10;
/// config.execution.backend = "flex".into();
/// let dataset = config.check()?.expect("copy needs no files");
/// let device = Device::flex();
///
/// # let runs = tempfile::tempdir()?;
/// # let path = runs.path().join("copy");
/// let folder = RunFolder::create(Some(&path), &config)?;
/// let trainer = Trainer::new(&config, dataset.as_ref(), &device, folder)?;
/// let Ending::Done(finished) = trainer.train(&mut ())? else {
///     unreachable!("the observer () stops no run");
/// };
/// let test = finished.test()?;
/// let summary = finished.summary(&test);
/// finished.folder.finish(&summary)?;
/// assert_eq!(summary.steps, 3);
/// # Ok::<(), anyhow::Error>(())
/// ```
pub struct Trainer<'a> {
    pub(super) config: &'a RunConfig,
    pub(super) dataset: &'a dyn Dataset,
    pub(super) group: &'a dyn Collective,
    pub(super) folder: RunFolder,
    pub(super) checkpoints: Checkpoints,
    pub(super) learner: Learner,
    pub(super) state: TrainingState,
    /// Steps whose losses have not been read from the device yet, each with the value of
    /// `state.train_seconds` after it.
    pub(super) pending: Vec<(TakenStep, f64)>,
    /// Value of `state.train_seconds` when losses were last read.
    pub(super) read_at: f64,
    pub(super) validation: Vec<Example>,
    /// Step of the last checkpoint; `None` if there is none.
    pub(super) saved: Option<usize>,
    /// Time of the last save or, before the first save, of the trainer's creation.
    pub(super) saved_at: Instant,
    /// Step of the newest checkpoint whose parameters are known to give a finite loss; `None` if
    /// this is not known of any checkpoint.
    pub(super) proven: Option<usize>,
    /// Whether a new run evaluates and saves its model before the first step, because the seed does
    /// not determine the initial parameters.
    pub(super) saves_first: bool,
}

impl<'a> Trainer<'a> {
    /// Creates a trainer, and initialises the model of `config` on `device`.
    ///
    /// # Errors
    ///
    /// If the model cannot be built, or label smoothing is not valid.
    pub fn new(
        config: &'a RunConfig,
        dataset: &'a dyn Dataset,
        device: &Device,
        folder: RunFolder,
    ) -> Result<Self> {
        let trainer = Self::of_model(config, dataset, new_model(config, device)?, folder)?;
        Ok(Self {
            saves_first: false,
            ..trainer
        })
    }

    /// Creates a trainer for a model, such as an imported one, which must be on a device with
    /// autodiff, such as [`device_of`](super::device_of) returns. A new run evaluates the
    /// model before its first step, and saves it in a checkpoint, because training may make it worse.
    ///
    /// # Errors
    ///
    /// If label smoothing is not valid.
    pub fn of_model(
        config: &'a RunConfig,
        dataset: &'a dyn Dataset,
        model: Transformer,
        folder: RunFolder,
    ) -> Result<Self> {
        let device = model.devices().remove(0);
        tracing::info!(parameters = model.num_params(), ?device, "made the model");
        tracing::debug!(?config);
        let size = config.evaluation.validation_size;
        Ok(Self {
            learner: Learner::new(config, model)?,
            state: TrainingState::new(config),
            checkpoints: Checkpoints::of(folder.path()),
            validation: dataset.held_out(config.seed, Split::Validation, size),
            config,
            dataset,
            group: &Alone,
            folder,
            pending: Vec::new(),
            read_at: 0.0,
            saved: None,
            saved_at: Instant::now(),
            proven: None,
            saves_first: true,
        })
    }

    /// Makes [`train`](Self::train) work together with the other processes of a group.
    ///
    /// Each process needs a trainer with the same configuration, data and checkpoint. Rank 0 needs
    /// the folder of the run. The other processes need a folder that [follows](RunFolder::follow)
    /// it. The number of processes changes losses only through the order of sums and the random
    /// numbers of dropout.
    ///
    /// # Panics
    ///
    /// If the trainer has already [resumed](Self::resume) a run, because the group decides which
    /// moments of a checkpoint a process keeps.
    #[must_use]
    pub fn with_group(mut self, group: &'a dyn Collective) -> Self {
        assert!(
            self.saved.is_none(),
            "a trainer needs its group before it resumes a run"
        );
        self.state.processes = group.size();
        Self { group, ..self }
    }

    /// Returns the model in training, whose parameters are in f32.
    pub fn model(&self) -> &Transformer {
        self.learner.model()
    }
}
