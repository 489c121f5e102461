//! The random seed of a training step.

/// Returns the seed for the dropout of a step in the process `rank`: `seed`, `step` and `rank`,
/// mixed as in SplitMix64.
pub(super) fn seed_of_step(seed: u64, step: usize, rank: usize) -> u64 {
    let mut x = seed ^ (step as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x = x.wrapping_add((rank as u64).wrapping_mul(0xd1b5_4a32_d192_ed03));
    x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_step_of_each_process_has_its_own_seed() {
        let seeds = |seed| {
            let ranks = move |step| (0..4).map(move |rank| seed_of_step(seed, step, rank));
            (1..1000).flat_map(ranks)
        };
        let all: std::collections::HashSet<u64> = seeds(0).chain(seeds(1)).collect();
        assert_eq!(all.len(), 2 * 4 * 999);
    }
}
