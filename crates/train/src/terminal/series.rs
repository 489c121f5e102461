//! A curve whose size stays limited even if values are added for days.

/// Maximum number of points, more than the widest terminal shows.
const CAPACITY: usize = 2048;

/// Values by step. When there are [`CAPACITY`] points, each pair of neighbouring points is replaced
/// by its mean.
#[derive(Clone, Debug, Default)]
pub(super) struct Series {
    /// Points, each the mean step and the mean value of `1 << level` values.
    points: Vec<(f64, f64)>,
    level: u32,
    /// Sum of the steps and sum of the values that are not part of a point yet.
    rest: (f64, f64),
    /// Number of values in `rest`.
    count: usize,
}

impl Series {
    /// Adds a value. Values that are not finite are skipped.
    pub(super) fn push(&mut self, step: f64, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.rest.0 += step;
        self.rest.1 += value;
        self.count += 1;
        if self.count == 1 << self.level {
            let count = self.count as f64;
            self.points.push((self.rest.0 / count, self.rest.1 / count));
            (self.rest, self.count) = ((0.0, 0.0), 0);
        }
        if self.points.len() >= CAPACITY {
            let mean = |pair: &[(f64, f64)]| {
                let (a, b) = (pair[0], pair[1]);
                ((a.0 + b.0) / 2.0, (a.1 + b.1) / 2.0)
            };
            self.points = self.points.chunks_exact(2).map(mean).collect();
            self.level += 1;
        }
    }

    /// Returns the points in order of increasing step.
    pub(super) fn points(&self) -> &[(f64, f64)] {
        &self.points
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_series_keeps_its_shape_in_few_points() {
        let mut series = Series::default();
        for step in (1..=1_000_000).map(f64::from) {
            series.push(step, 2.0 * step);
        }
        let points = series.points();
        assert!((CAPACITY / 2..=CAPACITY).contains(&points.len()));
        assert!(points.iter().all(|(x, y)| (y - 2.0 * x).abs() < 1e-6));
        assert!(points.is_sorted());
        assert!(points[0].0 < 1000.0 && points[points.len() - 1].0 > 999_000.0);
    }

    #[test]
    fn values_that_are_not_finite_are_skipped() {
        let mut series = Series::default();
        series.push(1.0, 4.0);
        series.push(2.0, f64::NAN);
        series.push(3.0, f64::INFINITY);
        assert_eq!(series.points(), [(1.0, 4.0)]);
    }
}
