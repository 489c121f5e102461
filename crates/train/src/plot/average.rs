//! Means of curves: over neighbouring points, and over runs that differ only in their seed.

use training::run::Point;

/// Returns the mean of the values, and their sample standard deviation, which is NaN for fewer than
/// two values.
pub fn mean_and_deviation(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares = values.iter().map(|value| (value - mean).powi(2));
    (mean, (squares.sum::<f64>() / (count - 1.0)).sqrt())
}

/// Returns the mean of the curves, at the steps where every curve has a value, and the mean minus
/// and plus one standard deviation at each of these steps; the second list is empty for a single
/// curve. The steps of each curve must increase.
pub fn mean_curve(curves: &[Vec<Point>]) -> (Vec<Point>, Vec<(f64, f64)>) {
    let Some((first, others)) = curves.split_first() else {
        return Default::default();
    };
    if others.is_empty() {
        return (first.clone(), Vec::new());
    }
    let points = first.iter().filter_map(|&(step, value)| {
        let mut values = vec![value];
        for other in others {
            let place = other.binary_search_by(|point| point.0.total_cmp(&step));
            values.push(other[place.ok()?].1);
        }
        let (mean, deviation) = mean_and_deviation(&values);
        Some(((step, mean), (mean - deviation, mean + deviation)))
    });
    points.unzip()
}

/// Returns the number of points before and after a point whose mean replaces it in a curve of
/// `count` points. Short curves are not smoothed.
pub fn radius(count: usize) -> usize {
    count / 100
}

/// Smooths a noisy curve: returns for each point the mean of the finite values from [`radius`]
/// points before it to as many points after it. A value that is not finite becomes NaN, which leaves
/// a gap in the line.
pub fn smoothed(points: &[Point]) -> Vec<Point> {
    let radius = radius(points.len());
    // Sum and number of the finite values before each point.
    let (mut sum, mut count) = (0.0, 0.0);
    let mut before = vec![(sum, count)];
    for &(_, value) in points {
        if value.is_finite() {
            (sum, count) = (sum + value, count + 1.0);
        }
        before.push((sum, count));
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
        let (points, spread) = mean_curve(&[one.clone(), two]);
        assert_eq!(points, [(1.0, 5.0), (3.0, 1.0)]);
        let deviation = 2f64.sqrt();
        assert_eq!(spread, [(5.0 - deviation, 5.0 + deviation), (1.0, 1.0)]);
        let alone = mean_curve(std::slice::from_ref(&one));
        assert_eq!(alone, (one, Vec::new()));
        assert_eq!(mean_curve(&[]), Default::default());
    }

    #[test]
    fn a_smoothed_curve_has_the_means_of_the_values_around() {
        let mut points: Vec<Point> = (0..200).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        points[150].1 = f64::NAN;
        points[1].1 = 5.0;
        let smooth = smoothed(&points);
        // The window of 200 values is 5 values wide.
        assert_eq!(smooth[0], (0.0, 5.0 / 3.0));
        assert_eq!(smooth[3], (3.0, 7.0 / 5.0));
        assert_eq!(smooth[100], (100.0, 2.0 / 5.0));
        assert!(smooth[150].1.is_nan());
        assert_eq!(smooth[149].1, 3.0 / 4.0);
        assert_eq!(smoothed(&points[..99]), points[..99]);
    }
}
