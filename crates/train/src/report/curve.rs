//! Reduces the number of points of curves, so that the page of a long run stays small.

use serde::Serialize;

/// A step and a value.
pub type Point = (u64, f64);

/// Maximum number of ranges that a curve is divided into.
const RANGES: usize = 400;

/// Number of significant digits of values.
const DIGITS: i32 = 4;

/// A curve of the HTML page, which is written into the page as JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Curve {
    /// Steps, in increasing order.
    x: Vec<u64>,
    /// Values; NaN, which is null in JSON, leaves a gap.
    y: Vec<f64>,
    /// Means of the ranges of a thinned curve. The page computes the smoothed curve from these
    /// means. `None` if the curve has all its points or is [`increasing`](Curve::increasing).
    #[serde(skip_serializing_if = "Option::is_none")]
    mean: Option<Box<Curve>>,
}

impl Curve {
    /// Returns the curve of `points`, thinned if there are more than 4 * [`RANGES`] points.
    ///
    /// To thin the points, they are divided into ranges, and each range keeps its first, smallest,
    /// largest and last finite point. A range with values that are not finite also keeps the first
    /// such value, which leaves a gap.
    pub fn new(points: &[Point]) -> Self {
        let size = points.len().div_ceil(RANGES);
        if size <= 4 {
            return Self::of(points.iter().copied());
        }
        let ranges = points.chunks(size);
        Self {
            mean: Some(Box::new(Self::of(ranges.clone().filter_map(mean)))),
            ..Self::of(ranges.flat_map(extremes))
        }
    }

    /// Thins a curve that only increases, such as time. It keeps the first point, and the last
    /// point of each range.
    pub fn increasing(points: &[Point]) -> Self {
        let ranges = points.chunks(points.len().div_ceil(RANGES).max(1));
        let last = ranges.filter_map(|range| range.last().copied());
        let mut kept: Vec<Point> = points.first().copied().into_iter().chain(last).collect();
        kept.dedup_by_key(|(step, _)| *step);
        Self::of(kept.into_iter())
    }

    fn of(points: impl Iterator<Item = Point>) -> Self {
        let (x, y) = points.map(|(x, y)| (x, rounded(y, DIGITS))).unzip();
        Self { x, y, mean: None }
    }
}

/// Returns the first, smallest, largest and last finite point of a range, and its first point that
/// is not finite.
fn extremes(range: &[Point]) -> Vec<Point> {
    let finite = |index: &usize| range[*index].1.is_finite();
    let by_value = |a: &usize, b: &usize| range[*a].1.total_cmp(&range[*b].1);
    let all = 0..range.len();
    let kept = [
        all.clone().find(finite),
        all.clone().filter(finite).min_by(by_value),
        all.clone().filter(finite).max_by(by_value),
        all.clone().rfind(finite),
        all.clone().find(|index| !finite(index)),
    ];
    let mut kept: Vec<usize> = kept.into_iter().flatten().collect();
    kept.sort_unstable();
    kept.dedup();
    kept.into_iter().map(|index| range[index]).collect()
}

/// Returns the mean of the finite points of a range; `None` if there are none.
fn mean(range: &[Point]) -> Option<Point> {
    let finite = range.iter().filter(|point| point.1.is_finite());
    let n = finite.clone().count() as f64;
    let (x, y) = finite.fold((0.0, 0.0), |(x, y), point| {
        (x + point.0 as f64, y + point.1)
    });
    (n > 0.0).then(|| ((x / n).round() as u64, y / n))
}

/// Rounds a value to `digits` significant digits, so that its JSON is short.
pub fn rounded(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let text = format!("{value:.*e}", (digits - 1) as usize);
    text.parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wave(n: usize) -> Vec<Point> {
        let value = |i: usize| 2.0 + (i as f64 / 777.0).sin() + (i * 7919 % 100) as f64 / 100.0;
        (0..n).map(|i| (i as u64 + 1, value(i))).collect()
    }

    fn json(curve: &Curve) -> String {
        serde_json::to_string(curve).unwrap()
    }

    #[test]
    fn short_curves_keep_all_points() {
        let curve = Curve::new(&wave(1600));
        assert_eq!((curve.x.len(), &curve.mean), (1600, &None));
        assert_eq!(curve.x[1599], 1600);
        assert_eq!(Curve::new(&[]), Curve::default());
        assert_eq!(Curve::increasing(&[]), Curve::default());
    }

    #[test]
    fn long_curves_are_small_and_keep_their_extremes() {
        let mut points = wave(100_000);
        points[54_321].1 = 90.0;
        points[65_432].1 = 0.001_234_56;
        points[77_777].1 = f64::NAN;
        let curve = Curve::new(&points);
        assert!(curve.x.len() <= 4 * RANGES + 1, "{}", curve.x.len());
        assert!(json(&curve).len() < 40_000, "{}", json(&curve).len());
        let at = |x: u64| curve.y[curve.x.iter().position(|&found| found == x).unwrap()];
        assert_eq!(at(54_322), 90.0);
        assert_eq!(at(65_433), 0.001_235);
        assert!(at(77_778).is_nan());
        assert_eq!((curve.x[0], *curve.x.last().unwrap()), (1, 100_000));
        assert!(curve.x.is_sorted());
        let mean = curve.mean.as_ref().unwrap();
        assert_eq!(mean.x.len(), RANGES);
        assert!(mean.y.iter().all(|y| y.is_finite() && *y < 4.0));
        // The mean of a range is the mean of its points. The first range has 250 points.
        let range = &points[..250];
        let expected = range.iter().map(|point| point.1).sum::<f64>() / 250.0;
        assert!((mean.y[0] - expected).abs() < 1e-3);
    }

    #[test]
    fn increasing_curves_keep_both_ends() {
        let points: Vec<Point> = (1..=9999u32)
            .map(|i| (i.into(), f64::from(i) / 3.0))
            .collect();
        let curve = Curve::increasing(&points);
        assert!(curve.x.len() <= RANGES + 1);
        assert_eq!((curve.x[0], *curve.x.last().unwrap()), (1, 9999));
        assert_eq!(*curve.y.last().unwrap(), 3333.0);
        assert_eq!(Curve::increasing(&points[..3]).x, [1, 2, 3]);
    }

    #[test]
    fn values_are_rounded_and_gaps_are_null() {
        let curve = Curve::new(&[(1, 1.0 / 3.0), (2, f64::NAN), (3, 123_456.0)]);
        let expected = r#"{"x":[1,2,3],"y":[0.3333,null,123500.0]}"#;
        assert_eq!(json(&curve), expected);
        assert_eq!(rounded(2.0e-7 / 3.0, 3), 6.67e-8);
        assert_eq!(rounded(0.0, 3), 0.0);
    }
}
