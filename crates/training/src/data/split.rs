//! The splits of a data set: training, validation and test.

use serde::{Deserialize, Serialize};

/// Part of a data set. The splits of a synthetic task share no source. A parallel corpus has the
/// same pairs for validation and test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Split {
    /// Examples that the model is trained on.
    Train,
    /// Examples for evaluation during training.
    Validation,
    /// Examples that are decoded after training.
    Test,
}

impl Split {
    /// All splits.
    pub const ALL: [Self; 3] = [Self::Train, Self::Validation, Self::Test];

    /// Returns the split of a source sequence, chosen by its hash. Validation and test each get
    /// about 1/16 of all sequences. The seed has no influence, so that a run never trains on the
    /// test sequences of a run with another seed.
    pub fn of(source: &[u32]) -> Self {
        match hash(source.iter().flat_map(|id| id.to_le_bytes())) % 16 {
            0 => Self::Test,
            1 => Self::Validation,
            _ => Self::Train,
        }
    }
}

/// Returns the FNV-1a hash of bytes, with its bits mixed once more, because the low bits of FNV-1a
/// are not random enough.
pub(super) fn hash(bytes: impl Iterator<Item = u8>) -> u64 {
    let mut fnv = 0xcbf2_9ce4_8422_2325_u64;
    for byte in bytes {
        fnv = (fnv ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    let mixed = (fnv ^ (fnv >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    mixed ^ (mixed >> 33)
}
