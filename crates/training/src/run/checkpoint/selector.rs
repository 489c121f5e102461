//! Selects one of a run's checkpoints, or the mean of several.

use std::fmt;
use std::str::FromStr;

/// Selection of a run's checkpoint.
///
/// ```
/// use training::run::checkpoint::CheckpointSelector;
///
/// assert_eq!("average:3".parse(), Ok(CheckpointSelector::Average(3)));
/// assert_eq!(CheckpointSelector::Step(500).to_string(), "500");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CheckpointSelector {
    /// The run's model: the checkpoint of the best evaluation or, without an evaluation, the last.
    #[default]
    Best,
    /// The newest undamaged checkpoint.
    Last,
    /// The checkpoint of this step.
    Step(usize),
    /// The mean of the parameters of the newest checkpoints. The number says how many, at
    /// least 1.
    Average(usize),
}

impl CheckpointSelector {
    /// Says which checkpoint was read. `step` is its step, or that of the newest one of a mean.
    pub fn describe(self, step: usize) -> String {
        match self {
            Self::Average(k) => format!("the mean of the last {k} checkpoints, up to step {step}"),
            _ => format!("the model of step {step}"),
        }
    }
}

impl FromStr for CheckpointSelector {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = "must be best, last, the number of a step, or average:K of the last K";
        let average = text.strip_prefix("average:").map(str::parse);
        match (text, text.parse(), average) {
            ("last", ..) => Ok(Self::Last),
            ("best", ..) => Ok(Self::Best),
            (_, Ok(step), _) => Ok(Self::Step(step)),
            (_, _, Some(Ok(k))) if k > 0 => Ok(Self::Average(k)),
            _ => Err(expected.into()),
        }
    }
}

impl fmt::Display for CheckpointSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Last => f.write_str("last"),
            Self::Best => f.write_str("best"),
            Self::Step(step) => write!(f, "{step}"),
            Self::Average(k) => write!(f, "average:{k}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_are_written_as_they_are_read() {
        for text in ["last", "best", "0", "1200", "average:5"] {
            let selector: CheckpointSelector = text.parse().unwrap();
            assert_eq!(selector.to_string(), text);
        }
    }
}
