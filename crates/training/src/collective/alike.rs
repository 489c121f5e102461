//! Checks that all processes of a group train the same run.

use burn::module::Module;
use serde_json::Value;
use transformer::weights;

use super::Collective;
use crate::config::differences::{Settings, differing, flat};
use crate::config::{RunConfig, setting_at};
use crate::error::UsageError;
use crate::setting::shown;

/// Checks that all processes have the same settings, data, version and vector instructions. `more`
/// has further facts, in words such as "the step of the checkpoint", that must be the same.
///
/// # Errors
///
/// If a process differs from rank 0. Every process gets the same error, which names both ranks.
pub fn check_alike(
    group: &dyn Collective,
    config: &RunConfig,
    more: &[(&str, Value)],
) -> Result<(), UsageError> {
    if group.size() == 1 {
        return Ok(());
    }
    let mut settings = flat(&config.to_json());
    // Other vector instructions round differently, so the copies of the model would drift apart.
    let of_program = [
        ("the program's version", env!("CARGO_PKG_VERSION").into()),
        ("the vector instructions", fused::simd_level().into()),
    ];
    let more = of_program.iter().chain(more).cloned();
    settings.extend(more.map(|(name, value)| (name.into(), value)));
    let all = group.gather_values(&(crate::host::name(), settings));
    let (there, first) = &all[0];
    for (rank, (here, other)) in all.iter().enumerate() {
        let paths = differing(&[first, other]);
        let Some(&path) = paths.first() else {
            continue;
        };
        let value = |facts: &Settings| shown(facts.get(path).unwrap_or(&Value::Null));
        let expected = format!(
            "rank {rank} ({here}) has {}, but rank 0 ({there}) has {}; all processes must have the same",
            value(other),
            value(first)
        );
        return Err(match setting_at(path) {
            Some(setting) => UsageError::setting(setting, "", expected),
            None => UsageError::new(path, "", expected),
        });
    }
    Ok(())
}

/// Returns the CRC-32C of a module's parameters, in the order of their names.
pub(crate) fn checksum<M: Module>(module: &M) -> Value {
    let parameters = weights::parameters(module);
    let data = parameters.values().map(|data| data.as_bytes());
    data.fold(0, crc32c::crc32c_append).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::tests::ranks;

    #[test]
    fn a_process_that_differs_is_named_to_all() {
        let check = |d_model: usize, step: usize| {
            ranks(3, |group| {
                let mut config = RunConfig::copy();
                let differs = group.rank() == 2;
                config.model.d_model = if differs { d_model } else { 64 };
                let step = if differs { step } else { 7 };
                let checked = check_alike(
                    group,
                    &config,
                    &[("the step of the checkpoint", step.into())],
                );
                checked.map_err(|error| error.to_string())
            })
        };
        assert_eq!(check(64, 7), vec![Ok(()); 3]);
        let host = crate::host::name();
        let expected = |subject: &str, other: &str, first: &str| {
            format!(
                "{subject}: rank 2 ({host}) has {other}, but rank 0 ({host}) has {first}; all \
                 processes must have the same"
            )
        };
        let error = expected("model.d_model", "32", "64");
        assert_eq!(check(32, 7), vec![Err(error); 3]);
        let error = expected("the step of the checkpoint", "8", "7");
        assert_eq!(check(64, 8), vec![Err(error); 3]);
    }
}
