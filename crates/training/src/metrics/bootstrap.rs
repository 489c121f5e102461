//! Paired bootstrap resampling (Koehn 2004) of the scores of several systems, as sacreBLEU computes
//! it.

use super::counts::Counts;
use super::numpy::Generator;

/// Score of one system on a corpus, and on random samples of the corpus's segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapScore {
    /// Score on all segments.
    pub score: f64,
    /// Mean of the scores on the samples.
    pub mean: f64,
    /// Half the width of the 95 % confidence interval around the mean.
    pub interval: f64,
    /// Estimated probability that two equally good systems differ as much in `score` as this system
    /// and the baseline; `None` for the baseline.
    ///
    /// As in sacreBLEU, a system with the same outputs as the baseline has the smallest possible
    /// p-value. All its differences are 0, and only differences above 0 would raise the p-value.
    pub p_value: Option<f64>,
}

/// Returns the score of each system, with its p-value against the first system, the baseline.
///
/// Each element of `systems` holds the counts of all segments of one system. A sample has as many
/// segments as the corpus. They are drawn with replacement, and all systems are scored on the same
/// samples. `seed` gives the same samples as NumPy's generator, so that the results equal
/// sacreBLEU's.
///
/// # Panics
///
/// If there is no system, segment or sample, or if systems differ in their number of segments.
pub fn paired_bootstrap<C: Counts>(
    systems: &[Vec<C>],
    n_samples: usize,
    seed: u64,
) -> Vec<BootstrapScore> {
    let n_segments = systems.first().expect("there is a baseline").len();
    assert!(n_segments > 0 && n_samples > 0, "there is nothing to draw");
    assert!(
        systems.iter().all(|system| system.len() == n_segments),
        "systems differ in their number of segments"
    );
    let n = u32::try_from(n_segments).expect("a corpus has fewer than 2^32 segments");
    let mut generator = Generator::new(seed);
    let mut samples = vec![Vec::with_capacity(n_samples); systems.len()];
    let mut drawn = vec![0; n_segments];
    for _ in 0..n_samples {
        drawn.fill_with(|| generator.below(n) as usize);
        for (system, samples) in systems.iter().zip(&mut samples) {
            samples.push(total(drawn.iter().map(|&index| &system[index])));
        }
    }
    let scores: Vec<f64> = systems.iter().map(|system| total(system)).collect();
    let of_system = |index: usize| {
        let (mean, interval) = mean_and_interval(&samples[index]);
        let difference = (scores[index] - scores[0]).abs();
        BootstrapScore {
            score: scores[index],
            mean,
            interval,
            p_value: (index > 0).then(|| p_value(&samples[0], &samples[index], difference)),
        }
    };
    (0..systems.len()).map(of_system).collect()
}

fn total<'a, C: Counts + 'a>(segments: impl IntoIterator<Item = &'a C>) -> f64 {
    let mut sum = C::default();
    segments.into_iter().for_each(|counts| sum.add(counts));
    sum.value()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Returns the mean, and half the distance between the 2.5th and the 97.5th percentile.
fn mean_and_interval(scores: &[f64]) -> (f64, f64) {
    let mut sorted = scores.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = sorted.len() / 40;
    let (lower, upper) = (sorted[below], sorted[sorted.len() - below - 1]);
    (mean(scores), 0.5 * (upper - lower))
}

/// Returns the p-value of `difference`, the absolute difference between the scores of two systems
/// on the whole corpus. `baseline` and `system` have the scores of the two systems on each sample.
///
/// The p-value is the fraction of samples whose absolute difference exceeds the mean over all
/// samples by more than `difference`. The corpus itself counts as one more such sample, so that the
/// fraction is never 0.
fn p_value(baseline: &[f64], system: &[f64], difference: f64) -> f64 {
    let pairs = baseline.iter().zip(system);
    let differences: Vec<f64> = pairs.map(|(a, b)| (a - b).abs()).collect();
    let center = mean(&differences);
    let exceeds = |sample: &&f64| **sample - center > difference;
    let larger = differences.iter().filter(exceeds).count();
    (larger + 1) as f64 / (differences.len() + 1) as f64
}
