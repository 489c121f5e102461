//! Settings and training states are read from JSON exactly as they were written.

use proptest::prelude::*;
use serde_json::Value;
use training::config::{LoraConfig, RunConfig};
use training::run::TrainingState;

/// Replaces every float by the next of `floats`. Returns how many were replaced.
fn replace_floats(value: &mut Value, floats: &mut dyn Iterator<Item = f64>) -> usize {
    match value {
        Value::Number(number) if number.is_f64() => {
            *value = Value::from(floats.next().expect("there are enough floats"));
            1
        }
        Value::Array(values) => {
            let replaced = values.iter_mut().map(|value| replace_floats(value, floats));
            replaced.sum()
        }
        Value::Object(fields) => {
            let values = fields.values_mut();
            values.map(|value| replace_floats(value, floats)).sum()
        }
        _ => 0,
    }
}

/// Draws floats of every magnitude.
fn float() -> impl Strategy<Value = f64> {
    prop_oneof![
        proptest::num::f64::NORMAL,
        proptest::num::f64::SUBNORMAL,
        -1.0..1.0
    ]
}

/// Draws floats of every magnitude that `f32` has.
fn float32() -> impl Strategy<Value = f64> {
    let all = proptest::num::f32::NORMAL | proptest::num::f32::SUBNORMAL;
    all.prop_map(f64::from)
}

proptest! {
    #[test]
    fn configurations_are_read_as_they_were_written(
        floats in prop::collection::vec(float(), 64),
        optimizer in prop::collection::vec(float32(), 8),
        seed: u64,
    ) {
        for preset in [
            RunConfig::copy(),
            RunConfig::of_preset("annotated-copy").unwrap(),
            RunConfig::of_preset("add").unwrap(),
            RunConfig::text("tiny"),
        ] {
            let mut preset = preset;
            let settings = &mut preset.optimization;
            settings.optimizer.clip_norm = Some(0.5);
            (settings.ema, settings.schedule.learning_rate) = (Some(0.5), Some(0.5));
            settings.lora = Some(LoraConfig { rank: 2, alpha: Some(0.5) });
            let mut value = serde_json::to_value(preset).unwrap();
            prop_assert!(replace_floats(&mut value, &mut floats.iter().copied()) > 3);
            // The settings of the optimizer are `f32`.
            let of_optimizer = &mut value["optimization"]["optimizer"];
            prop_assert!(replace_floats(of_optimizer, &mut optimizer.iter().copied()) > 3);
            let mut config: RunConfig = serde_json::from_value(value).unwrap();
            config.seed = seed;
            let written = serde_json::to_string_pretty(&config).unwrap();
            let read: RunConfig = serde_json::from_str(&written).unwrap();
            prop_assert_eq!(&read, &config);
        }
    }

    #[test]
    fn states_are_read_as_they_were_written(train_seconds in float(), learning_rate in float()) {
        let state = TrainingState { train_seconds, learning_rate, ..TrainingState::default() };
        let written = serde_json::to_string_pretty(&state).unwrap();
        let read: TrainingState = serde_json::from_str(&written).unwrap();
        prop_assert_eq!(read, state);
    }
}
