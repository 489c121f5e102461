//! Parts of the data.

use serde::{Deserialize, Serialize};

/// Parts of the data that have no sequence in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Examples that the model is trained on.
    Train,
    /// Examples for evaluation during training.
    Validation,
    /// Examples that are decoded at the end.
    Test,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// Returns the split of a source sequence by its hash: 1/16 each for validation and test. It
    /// depends on nothing else, so that a run never trains on the test sequences of another seed.
    pub fn of(source: &[u32]) -> Self {
        match hash(source.iter().flat_map(|id| id.to_le_bytes())) % 16 {
            0 => Self::Test,
            1 => Self::Validation,
            _ => Self::Train,
        }
    }
}

/// FNV-1a over the bytes, and a final mix, since the low bits of FNV-1a are weak.
pub(super) fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut fnv = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        fnv = (fnv ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
