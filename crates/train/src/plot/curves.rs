//! The curves of training: loss, accuracy and learning rate by step.

use super::axis::Axis;
use super::drawing::{Drawing, Point};
use super::line_chart::{self, LineChart, Series};
use super::marker::Marker;
use super::run::{self, Run};
use super::style;

/// A loss whose largest value is so many times its smallest is drawn with equal ratios at equal
/// distances.
const LOG_RATIO: f64 = 50.0;

/// More points than these have no markers.
const MARKED: usize = 60;

/// Training and validation loss; of several runs the validation loss, or the training loss if one
/// of them has no other. Nothing if there is none.
pub fn loss(runs: &[Run]) -> Option<Drawing> {
    let mut series = Vec::new();
    match runs {
        [run] => {
            let mut name = String::from("training");
            if run.label_smoothing() > 0.0 {
                name += &format!(" (label smoothing {})", run.label_smoothing());
            }
            series.extend(smoothed(&run.metrics.loss, &name, 0));
            series.extend(line(&run.metrics.valid_loss, "validation", 1));
        }
        _ => {
            let all_validated = runs.iter().all(|run| !run.metrics.valid_loss.is_empty());
            for (index, (run, label)) in runs.iter().zip(run::labels(runs)).enumerate() {
                if all_validated {
                    let label = format!("{label}, validation");
                    series.extend(line(&run.metrics.valid_loss, &label, index));
                } else {
                    let label = format!("{label}, training");
                    series.extend(smoothed(&run.metrics.loss, &label, index));
                }
            }
        }
    }
    let values = series
        .iter()
        .flat_map(|series| series.points.iter().map(|(_, loss)| *loss));
    let finite = values.filter(|loss| loss.is_finite());
    let (smallest, largest) = finite.fold((f64::INFINITY, 0.0), |(smallest, largest), loss| {
        let smallest = if loss > 0.0 {
            loss.min(smallest)
        } else {
            smallest
        };
        (smallest, loss.max(largest))
    });
    let label = "cross-entropy (nats per token)";
    let y = if largest >= LOG_RATIO * smallest {
        Axis::log(label, smallest.max(largest * 1e-9), largest)
    } else {
        Axis::from_zero(label, largest, 7)
    };
    chart("Loss", runs, y, series)
}

/// Token accuracy and exact match on the validation split; of several runs exact match, or token
/// accuracy if one of them has no other. Nothing if there is none.
pub fn accuracy(runs: &[Run]) -> Option<Drawing> {
    let mut series = Vec::new();
    match runs {
        [run] => {
            let tokens = "token accuracy (given the right ones before)";
            series.extend(line(&run.metrics.token_accuracy, tokens, 1));
            series.extend(line(
                &run.metrics.exact_match,
                "exact match (whole sequences)",
                0,
            ));
        }
        _ => {
            let all_decoded = runs.iter().all(|run| !run.metrics.exact_match.is_empty());
            for (index, (run, label)) in runs.iter().zip(run::labels(runs)).enumerate() {
                series.extend(if all_decoded {
                    line(
                        &run.metrics.exact_match,
                        &format!("{label}, exact match"),
                        index,
                    )
                } else {
                    let label = format!("{label}, token accuracy");
                    line(&run.metrics.token_accuracy, &label, index)
                });
            }
        }
    }
    if runs.len() > 1 {
        line_chart::widen_lower(&mut series);
    }
    let y = Axis::linear("share that is right", 0.0, 1.0, 5);
    chart("Accuracy on the validation split", runs, y, series)
}

/// BLEU and chrF on the validation split; of several runs BLEU. Nothing if there is none.
pub fn bleu(runs: &[Run]) -> Option<Drawing> {
    let mut series = Vec::new();
    match runs {
        [run] => {
            series.extend(line(&run.metrics.chrf, "chrF", 1));
            series.extend(line(&run.metrics.bleu, "BLEU", 0));
        }
        _ => {
            for (index, (run, label)) in runs.iter().zip(run::labels(runs)).enumerate() {
                series.extend(line(&run.metrics.bleu, &label, index));
            }
            line_chart::widen_lower(&mut series);
        }
    }
    let y = Axis::linear("BLEU, chrF (0 to 100)", 0.0, 100.0, 5);
    chart("Translation of the validation split", runs, y, series)
}

/// The learning rate. Nothing if there is none.
pub fn learning_rate(runs: &[Run]) -> Option<Drawing> {
    let labels = match runs {
        [_] => vec!["learning rate".to_owned()],
        _ => run::labels(runs),
    };
    let series = runs
        .iter()
        .zip(labels)
        .enumerate()
        .filter_map(|(index, (run, label))| {
            let mut series = line(&run.metrics.learning_rate, &label, index)?;
            series.marker = Marker::None;
            Some(series)
        });
    let mut series: Vec<Series> = series.collect();
    // Runs often have the same schedule.
    line_chart::widen_lower(&mut series);
    let values = series
        .iter()
        .flat_map(|series| series.points.iter().map(|(_, rate)| *rate));
    let y = Axis::from_zero("learning rate", values.fold(0.0, f64::max), 7);
    chart("Learning rate", runs, y, series)
}

fn chart(what: &str, runs: &[Run], y: Axis, series: Vec<Series>) -> Option<Drawing> {
    if series.is_empty() {
        return None;
    }
    let last = runs
        .iter()
        .map(|run| run.metrics.last_step())
        .fold(1.0, f64::max);
    let chart = LineChart {
        title: run::title(what, runs),
        width: 820.0,
        plot_height: 340.0,
        x: Axis::linear("training step", 0.0, last, 10),
        y,
        series,
        band: None,
    };
    Some(chart.draw())
}

fn line(points: &[Point], label: &str, index: usize) -> Option<Series> {
    (!points.is_empty()).then(|| Series {
        label: label.into(),
        points: points.to_vec(),
        color: style::series_color(index),
        width: 2.0,
        marker: if points.len() > MARKED {
            Marker::None
        } else {
            Marker::of(index)
        },
    })
}

/// The values, pale, and below them in the legend their running mean; short curves as they are.
fn smoothed(points: &[Point], label: &str, index: usize) -> Vec<Series> {
    let radius = points.len() / 100;
    let Some(mut raw) = line(points, label, index) else {
        return Vec::new();
    };
    raw.marker = Marker::None;
    if radius == 0 {
        return vec![raw];
    }
    let mean = Series {
        label: format!("{label}, mean of {} steps", 2 * radius + 1),
        points: running_mean(points, radius),
        ..raw.clone()
    };
    raw.color = style::lighter(raw.color, 0.62);
    raw.width = 1.0;
    vec![raw, mean]
}

/// The mean of each value and of those up to `radius` steps before and after it; values that are
/// not finite are gaps.
fn running_mean(points: &[Point], radius: usize) -> Vec<Point> {
    // Sums and numbers of the finite values before each point.
    let mut before = vec![(0.0, 0.0)];
    for &(_, value) in points {
        let (sum, count) = before[before.len() - 1];
        let is_finite = value.is_finite();
        before.push(if is_finite {
            (sum + value, count + 1.0)
        } else {
            (sum, count)
        });
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
    use crate::plot::drawing::Color;
    use crate::plot::run::tests::run;

    fn metrics(steps: usize, loss: impl Fn(usize) -> f64) -> String {
        let lines = (1..=steps).map(|step| {
            let mut line = format!(
                "{{\"step\":{step},\"loss\":{},\"learning_rate\":{}}}\n",
                loss(step),
                step as f64 * 1e-4
            );
            if step % 100 == 0 {
                line += &format!(
                    "{{\"step\":{step},\"valid_loss\":{},\"token_accuracy\":0.5}}\n",
                    loss(step)
                );
            }
            line
        });
        lines.collect()
    }

    fn stroke(index: usize) -> String {
        let Color(red, green, blue) = style::series_color(index);
        format!("stroke=\"#{red:02X}{green:02X}{blue:02X}\"")
    }

    #[test]
    fn a_run_has_its_curves_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let run = [run(
            parent.path(),
            "mine",
            "rotary",
            &metrics(300, |step| 3.0 - step as f64 / 200.0),
        )];
        let svg = loss(&run).unwrap().svg().unwrap();
        for text in [
            "Loss, run mine",
            "training",
            "training, mean of 7 steps",
            "validation",
            "training step",
            "nats per token",
        ] {
            assert!(svg.contains(text), "{text}");
        }
        // The key of the legend, and the line.
        assert_eq!(svg.matches(&stroke(0)).count(), 2);
        assert_eq!(svg.matches(&stroke(1)).count(), 2);
        let svg = accuracy(&run).unwrap().svg().unwrap();
        assert!(svg.contains("token accuracy") && !svg.contains("exact match"));
        assert_eq!(svg.matches(&stroke(0)).count(), 0);
        let svg = learning_rate(&run).unwrap().svg().unwrap();
        assert_eq!(svg.matches(&stroke(0)).count(), 2);
        assert!(svg.contains("0.03"));
    }

    #[test]
    fn several_runs_share_a_picture() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str, steps| {
            run(parent.path(), name, positions, &metrics(steps, |_| 1.0))
        };
        let runs = [run("a", "rotary", 200), run("b", "learned", 300)];
        let svg = loss(&runs).unwrap().svg().unwrap();
        assert!(svg.contains("rotary positions, validation") && !svg.contains("training,"));
        let runs = [run("a", "rotary", 200), run("b", "rotary", 99)];
        let svg = loss(&runs).unwrap().svg().unwrap();
        assert!(svg.contains("a, training, mean of 5 steps") && svg.contains("b, training"));
    }

    #[test]
    fn losses_that_fall_by_decades_have_a_log_axis_and_others_begin_at_0() {
        let parent = tempfile::tempdir().unwrap();
        let texts = |name: &str, loss: &dyn Fn(usize) -> f64| {
            let run = run(parent.path(), name, "none", &metrics(20, loss));
            super::loss(&[run]).unwrap().svg().unwrap()
        };
        let ticks = texts("a", &|step| 4.0 * 0.5f64.powi(step as i32));
        assert!(
            ticks.contains("\n0.0001\n") || ticks.contains("1e-"),
            "{ticks}"
        );
        let ticks = texts("b", &|step| 4.0 / step as f64);
        assert!(
            ticks.contains("\n0\n") && ticks.contains("\n4\n"),
            "{ticks}"
        );
        texts("c", &|_| 0.0);
    }

    #[test]
    fn what_is_not_there_is_not_drawn() {
        let parent = tempfile::tempdir().unwrap();
        let run = [run(
            parent.path(),
            "mine",
            "rotary",
            "{\"step\":1,\"loss\":null}\n",
        )];
        assert_eq!(loss(&run), None);
        assert_eq!(accuracy(&run), None);
        assert_eq!(learning_rate(&run), None);
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
