//! Checks that all processes of a group train the same run.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::Collective;
use crate::config::RunConfig;
use crate::config::differences::{Settings, differing, flat};
use crate::error::UsageError;

/// What a process knows of the run.
#[derive(Serialize, Deserialize)]
struct Facts {
    host: String,
    settings: Settings,
}

/// Checks that all processes have the same settings, data, version and first step. `step` is the
/// step after which training begins.
///
/// # Errors
///
/// If a process differs from rank 0. Every process gets the same error, which names both.
pub fn check_alike(
    group: &dyn Collective,
    config: &RunConfig,
    step: usize,
) -> Result<(), UsageError> {
    let mut settings = flat(&config.to_json());
    settings.insert("version".into(), env!("CARGO_PKG_VERSION").into());
    settings.insert("step".into(), step.into());
    let all = group.gather_values(&Facts {
        host: host(),
        settings,
    });
    let first = &all[0];
    for (rank, other) in all.iter().enumerate().skip(1) {
        let Some(path) = differing(&[&first.settings, &other.settings])
            .first()
            .copied()
        else {
            continue;
        };
        let value = |facts: &Facts| match facts.settings.get(path) {
            None | Some(Value::Null) => "nothing".into(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        };
        let expected = format!(
            "of rank {rank} on {} is not {}, that of rank 0 on {}; all processes must have the same",
            other.host,
            value(first),
            first.host
        );
        return Err(UsageError::setting(path, value(other), expected));
    }
    Ok(())
}

fn host() -> String {
    gethostname::gethostname().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::collective::threads::ranks;

    #[test]
    fn a_process_that_differs_is_named_to_all() {
        let check = |d_model: usize, step: usize| {
            ranks(3, |group| {
                let mut config = RunConfig::copy();
                let differs = group.rank() == 2;
                config.model.d_model = if differs { d_model } else { 64 };
                let step = if differs { step } else { 7 };
                check_alike(group, &config, step).map_err(|error| error.to_string())
            })
        };
        assert_eq!(check(64, 7), vec![Ok(()); 3]);
        let host = host();
        let expected = |path: &str, other: &str, first: &str| {
            format!(
                "{path} {other}: of rank 2 on {host} is not {first}, that of rank 0 on {host}; all \
                 processes must have the same"
            )
        };
        let error = expected("model.d_model", "32", "64");
        assert_eq!(check(32, 7), vec![Err(error); 3]);
        let error = expected("step", "8", "7");
        assert_eq!(check(64, 8), vec![Err(error); 3]);
    }
}
