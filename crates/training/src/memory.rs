//! Memory that this process uses, that the machine has, and that training needs.

use std::fs;

use crate::config::{LoraConfig, ModelSettings, OptimizationConfig, RunConfig};
use crate::data::parallel::TextConfig;
use crate::data::{DataConfig, Limits};
use crate::error::UsageError;

/// Returns the maximum resident memory of this process so far, or since the last
/// [`reset_peak_rss`], in bytes; `None` on systems other than Linux.
pub fn peak_rss_bytes() -> Option<u64> {
    kibibytes("/proc/self/status", "VmHWM:")
}

/// Resets the maximum that [`peak_rss_bytes`] returns to the memory in use now. Does nothing on
/// systems other than Linux, or if the system does not allow the reset.
pub fn reset_peak_rss() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Returns the value in the first line of `file` that begins with `name`, such as `VmHWM: 12 kB`,
/// converted to bytes.
///
/// Returns `None` if the file cannot be read or has no such line, or if the value is not a
/// number of kB.
fn kibibytes(file: &str, name: &str) -> Option<u64> {
    let text = fs::read_to_string(file).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the maximum memory of this process that the user has set, `u64::MAX` without one.
fn process_limit() -> u64 {
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let names = ["Max address space", "Max data size"];
    let limit = |line: &str| {
        let rest = names.iter().find_map(|name| line.strip_prefix(name))?;
        rest.split_whitespace().next()?.parse().ok()
    };
    limits.lines().filter_map(limit).min().unwrap_or(u64::MAX)
}

/// Memory of the machine that a process of a run can use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MachineMemory {
    /// Sum of memory and swap space, or the container's limit in `/sys/fs/cgroup/memory.max` if
    /// that is less, divided by `processes`; or the limit of a process (`ulimit -v` or `-d`) if that
    /// is less.
    pub total: u64,
    /// Memory that is available now without swapping, or the container's limit if that is less,
    /// divided by `processes`.
    pub free: u64,
    /// Number of processes of the run on this machine.
    pub processes: usize,
}

impl MachineMemory {
    /// Returns the part of this machine's memory for each of `processes` processes; `None` on
    /// systems other than Linux.
    pub fn read(processes: usize) -> Option<Self> {
        let of = |name| kibibytes("/proc/meminfo", name);
        let total = of("MemTotal:")? + of("SwapTotal:")?;
        let free = of("MemAvailable:")?;
        let limit = fs::read_to_string("/sys/fs/cgroup/memory.max").ok();
        let limit = limit.and_then(|text| text.trim().parse().ok());
        let limit = limit.unwrap_or(u64::MAX);
        let own = process_limit();
        let share = |bytes: u64| (bytes.min(limit) / processes as u64).min(own);
        let [total, free] = [total, free].map(share);
        Some(Self {
            total,
            free,
            processes,
        })
    }
}

/// Estimate of the memory that training takes on a CPU, in bytes. The estimate ignores small
/// allocations, so it is about the minimum that training takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainingMemory {
    /// Parameters, gradients, the process's moments of the optimizer, the average of the parameters
    /// if there is one, and the sums `W + alpha / rank * A B` of LoRA.
    pub state: u64,
    /// Activations of the process's share of a batch, unless the backward pass computes them again,
    /// and logits.
    pub batch: u64,
}

/// Estimates the size of a run's state in bytes.
///
/// The state consists of f32 values: `parameters` parameters, their moving averages if the run has
/// them, and a gradient and two moments for each of the `trained` trained parameters.
pub fn state_bytes(config: &RunConfig, parameters: usize, trained: usize) -> usize {
    let copies = 1 + usize::from(config.optimization.ema.is_some());
    4 * (copies * parameters + 3 * trained)
}

impl TrainingMemory {
    /// Estimates the memory of each of the `processes` processes of a run, which divide the
    /// batches. `limits` are the limits of the run's data set.
    pub fn of(config: &RunConfig, limits: &Limits, processes: usize) -> Self {
        let (model, optimization) = (&config.model, &config.optimization);
        let [d, d_ff] = [model.d_model, model.d_ff].map(|n| n as f64);
        let [encoder, decoder] = [model.n_encoder_layers, model.n_decoder_layers].map(|n| n as f64);
        let vocabularies = model.source_vocab_size.max(model.target_vocab_size) as f64;
        // A feed-forward network with a gated activation has two inner projections.
        let inner = d_ff * f64::from(1 + u8::from(model.activation.is_gated()));
        let feed_forward = d * (inner + d_ff);
        let layers =
            encoder * (4.0 * d * d + feed_forward) + decoder * (8.0 * d * d + feed_forward);
        let parameters = layers + vocabularies * d;
        // With LoRA, a forward pass also holds each sum `W + alpha / rank * A B`.
        let (trained, sums) = match optimization.lora {
            None => (parameters, 0.0),
            Some(LoraConfig { rank, .. }) => {
                let columns =
                    encoder * (8.0 * d + inner + d_ff) + decoder * (15.0 * d + inner + d_ff);
                (rank as f64 * columns, 4.0 * layers)
            }
        };
        // On flex, processes divide the moments of large parameters. LoRA's matrices are small.
        let divided = if config.execution.is_flex() && optimization.lora.is_none() {
            8.0 * trained * (1.0 - 1.0 / processes as f64)
        } else {
            0.0
        };
        let whole = state_bytes(config, parameters as usize, trained as usize) as f64;
        let state = whole + sums - divided;

        let [sources, targets] = match &config.data {
            DataConfig::Text(text) => [text.batch_tokens as f64; 2],
            _ => [limits.source, limits.target]
                .map(|length| length as f64 * optimization.batch_size as f64),
        }
        .map(|tokens| tokens / processes as f64);
        let is_16_bit = config.execution.has_16_bit_tensors();
        let bytes = if is_16_bit { 2.0 } else { 4.0 };
        // Activations of all layers that the backward pass needs: mainly inputs of matmuls and
        // norms.
        let kept = if config.execution.gradient_checkpointing {
            0.0
        } else {
            sources * encoder * (7.0 * d + inner) + targets * decoder * (11.0 * d + inner)
        };
        let chunk = config.execution.loss_chunk;
        let logits = chunk.map_or(targets, |chunk| targets.min(chunk as f64));
        Self {
            state: state as u64,
            batch: (bytes * (kept + logits * model.target_vocab_size as f64)) as u64,
        }
    }

    /// Rejects a run that cannot fit into the machine's memory. Returns a warning if the free
    /// memory is too small.
    ///
    /// # Errors
    ///
    /// If the model, or the model with a batch, needs more memory than the machine has. In the
    /// second case, the message says how large a batch fits.
    pub fn check(
        self,
        config: &RunConfig,
        machine: MachineMemory,
    ) -> Result<Option<String>, UsageError> {
        let gigabytes = |bytes: u64| format!("{:.1} GB", bytes as f64 / 1e9);
        let Self { state, batch } = self;
        let needed = state.saturating_add(batch);
        let each = match machine.processes {
            1 => String::new(),
            n => format!(" for each of {n} processes"),
        };
        let all = format!("{}{each}", gigabytes(machine.total));
        if state > machine.total {
            let needed = gigabytes(state);
            let expected = format!(
                "training the model takes about {needed} for parameters, gradients and moments, but there are {all}; use a smaller model"
            );
            let width = config.model.d_model;
            return Err(UsageError::setting(ModelSettings::d_model, width, expected));
        }
        if needed > machine.total {
            let size = config.optimization.batch_size;
            let (setting, size) = match &config.data {
                DataConfig::Text(text) => (TextConfig::batch_tokens, text.batch_tokens),
                _ => (OptimizationConfig::batch_size, size),
            };
            let share = (machine.total - state) as f64 / batch as f64;
            let fits = ((share * size as f64) as usize).max(1);
            let expected = format!(
                "a step takes about {}, but there are {all}: at most about {fits} fit; {} sums the gradients of several batches",
                gigabytes(needed),
                OptimizationConfig::accumulate
            );
            return Err(UsageError::setting(setting, size, expected));
        }
        Ok((needed > machine.free).then(|| {
            let (needed, free) = (gigabytes(needed), gigabytes(machine.free));
            format!("a step takes about {needed} of memory, but only {free}{each} are free now")
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::assert_has;

    fn limits(length: usize) -> Limits {
        Limits {
            source: length,
            target: length,
            truncates: false,
            output: None,
        }
    }

    #[test]
    fn the_estimate_is_near_what_was_measured() {
        // `train bench --what train --shape base` takes 1,290 MiB at its peak. The program itself
        // takes 60 MiB of them, which leaves 1,230 MiB for training.
        let mut config = RunConfig::copy();
        config.execution.backend = "flex".into();
        config.model = transformer::TransformerConfig::new(10_000, 10_000);
        config.optimization.batch_size = 16;
        let memory = TrainingMemory::of(&config, &limits(64), 1);
        let mebibytes = (memory.state + memory.batch) as f64 / f64::from(1 << 20);
        assert!((900.0..1230.0).contains(&mebibytes), "{mebibytes}");
        // Two processes have a model each and share the batch. On flex, they also divide the two
        // moments, which are half of the state.
        let of_two = TrainingMemory::of(&config, &limits(64), 2);
        assert_eq!(of_two.state, memory.state * 3 / 4);
        assert_eq!(of_two.batch, memory.batch / 2);
        config.execution.backend = "flex:0".into();
        assert_eq!(TrainingMemory::of(&config, &limits(64), 2), of_two);
        config.execution.backend = "wgpu".into();
        let of_gpus = TrainingMemory::of(&config, &limits(64), 2);
        assert_eq!(of_gpus.state, memory.state);
        // `loss_chunk` is the number of tokens in each process, so more processes do not reduce it.
        config.execution.loss_chunk = Some(256);
        let of = |processes| TrainingMemory::of(&config, &limits(64), processes).batch;
        assert!(of(2) > of(1) / 2);
    }

    #[test]
    fn the_estimate_has_every_matrix_of_lora() {
        let mut config = RunConfig::copy();
        config.model = transformer::TransformerConfig::new(10, 10).with_d_ff(768);
        let device = burn::tensor::Device::flex();
        let model = config.model.init_seeded(1, &device).unwrap();
        let mut of = |rank| {
            let lora = LoraConfig {
                rank,
                alpha: Some(1.0),
            };
            let model = crate::lora::with_lora(model.clone(), Some(&lora));
            let trained =
                crate::lora::trained_parameters(&transformer::weights::shapes(&model), true);
            config.optimization.lora = Some(lora);
            (trained, TrainingMemory::of(&config, &limits(64), 1).state)
        };
        let [(of_one, state_of_one), (of_two, state_of_two)] = [1, 2].map(&mut of);
        // A gradient and two moments in f32.
        assert_eq!(state_of_two - state_of_one, 12 * (of_two - of_one) as u64);
    }

    #[test]
    fn what_does_not_fit_is_rejected_with_what_does() {
        let mut config = RunConfig::copy();
        config.optimization.batch_size = 64;
        let machine = |total, free| MachineMemory {
            total,
            free,
            processes: 1,
        };
        let [state, batch] = [1_000_000_000, 4_000_000_000];
        let memory = TrainingMemory { state, batch };
        let check = |total, free| memory.check(&config, machine(total, free));
        assert_eq!(check(6_000_000_000, 5_500_000_000), Ok(None));
        let warning = check(6_000_000_000, 4_900_000_000).unwrap().unwrap();
        assert_has(&warning, &["about 5.0 GB", "4.9 GB"]);
        let error = check(2_000_000_000, 0).unwrap_err().to_string();
        let expected = "optimization.batch_size 64: a step takes about 5.0 GB, but there are 2.0 GB: at most about 16 fit";
        assert!(error.starts_with(expected), "{error}");
        let of_two = MachineMemory {
            processes: 2,
            ..machine(2_000_000_000, 0)
        };
        let error = memory.check(&config, of_two).unwrap_err();
        let expected = "there are 2.0 GB for each of 2 processes: at most about 16 fit";
        assert_has(&error, &[expected]);
        let error = check(900_000_000, 0).unwrap_err().to_string();
        assert_has(
            &error,
            &["model.d_model 64: training the model takes about 1.0 GB"],
        );
        if cfg!(target_os = "linux") {
            let machine = MachineMemory::read(1).unwrap();
            assert!(machine.free > 0 && machine.total >= machine.free);
            assert_eq!(MachineMemory::read(4).unwrap().total, machine.total / 4);
        }
    }
}
