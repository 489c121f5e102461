//! Computes means of curves: over neighbouring points, and over runs that differ only in their
//! seed.

use std::collections::BTreeMap;

use super::series::Point;

/// The mean of several curves.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MeanCurve {
    /// Mean at each step that all curves have.
    pub points: Vec<Point>,
    /// The mean minus and plus one standard deviation at each point; empty for a single curve.
    pub spread: Vec<(f64, f64)>,
}

/// Returns the mean of the curves. The spread is one sample standard deviation on each side.
pub fn mean_curve(curves: &[Vec<Point>]) -> MeanCurve {
    if let [curve] = curves {
        return MeanCurve {
            points: curve.clone(),
            spread: Vec::new(),
        };
    }
    // `f64` cannot be the key of a map, so the keys are the bits of the steps. For floats that are
    // not negative, the bits have the same order as the floats.
    let mut steps: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
    for &(step, value) in curves.iter().flatten() {
        steps.entry(step.to_bits()).or_default().push(value);
    }
    let count = curves.len() as f64;
    let shared = steps
        .iter()
        .filter(|(_, values)| values.len() == curves.len());
    let points = shared.map(|(&step, values)| {
        let mean = values.iter().sum::<f64>() / count;
        let squares = values.iter().map(|value| (value - mean).powi(2));
        let deviation = (squares.sum::<f64>() / (count - 1.0)).sqrt();
        let point = (f64::from_bits(step), mean);
        (point, (mean - deviation, mean + deviation))
    });
    let (points, spread) = points.unzip();
    MeanCurve { points, spread }
}

/// Returns for each point the mean of the finite values from `radius` points before it to `radius`
/// points after it. A value that is not finite becomes NaN, which leaves a gap in the line.
pub fn running_mean(points: &[Point], radius: usize) -> Vec<Point> {
    // Sum and number of the finite values before each point.
    let mut before = vec![(0.0, 0.0)];
    for &(_, value) in points {
        let (sum, count) = before[before.len() - 1];
        let (value, one) = if value.is_finite() {
            (value, 1.0)
        } else {
            (0.0, 0.0)
        };
        before.push((sum + value, count + one));
    }
    let mean = |(i, &(step, value)): (usize, &Point)| {
        let (first, last) = (i.saturating_sub(radius), (i + radius + 1).min(points.len()));
        let ((from, fewer), (to, more)) = (before[first], before[last]);
        let mean = (to - from) / (more - fewer);
        (step, if value.is_finite() { mean } else { f64::NAN })
    };
    points.iter().enumerate().map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_curves_has_the_shared_steps_and_their_deviation() {
        let one = vec![(1.0, 4.0), (2.0, 2.0), (3.0, 1.0)];
        let two = vec![(1.0, 6.0), (3.0, 1.0), (1e9, 9.0)];
        let mean = mean_curve(&[one.clone(), two]);
        assert_eq!(mean.points, [(1.0, 5.0), (3.0, 1.0)]);
        let deviation = 2f64.sqrt();
        assert_eq!(
            mean.spread,
            [(5.0 - deviation, 5.0 + deviation), (1.0, 1.0)]
        );
        let alone = mean_curve(std::slice::from_ref(&one));
        assert_eq!((alone.points, alone.spread), (one, Vec::new()));
        assert_eq!(mean_curve(&[]), MeanCurve::default());
    }

    #[test]
    fn a_running_mean_is_of_the_values_around() {
        let points: Vec<Point> = [1.0, 2.0, 6.0, f64::NAN, 4.0, 5.0]
            .into_iter()
            .enumerate()
            .map(|(i, value)| (i as f64, value))
            .collect();
        let mean = running_mean(&points, 1);
        let values: Vec<f64> = mean.iter().map(|(_, value)| *value).collect();
        assert_eq!(values[..3], [1.5, 3.0, 4.0]);
        assert!(values[3].is_nan());
        assert_eq!(values[4..], [4.5, 4.5]);
        assert_eq!(mean[2].0, 2.0);
    }
}
