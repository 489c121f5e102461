//! Draws charts of one run or several: curves by step, seconds or tokens, and by length.

use super::axis::Axis;
use super::group::{Group, groups, title};
use super::lengths::{band, trained_lengths};
use super::line_chart::LineChart;
use super::lines::CurveOptions;
use super::run::{Progress, Run};
use super::run_plot::{Curve, RunPlot};
use super::series::Series;
use crate::number::grouped;

/// A group of runs, and the most important curve that the group has data for.
type Chosen<'a> = (&'a Group<'a>, &'a Curve);

impl RunPlot {
    /// Draws the curves of one run or several. Returns `None` if the runs have no data for the
    /// curves. Attention has no curves and also gives `None`.
    pub fn draw(self, runs: &[Run], options: CurveOptions) -> Option<LineChart> {
        let (what, curves) = self.curves();
        let groups = groups(runs, options.is_each_seed);
        let has_data = |group: &Group, curve: &Curve| {
            let mut runs = group.runs.iter();
            runs.any(|run| !self.points(run, *curve).is_empty())
        };
        let choose = |group| curves.iter().rev().find(|curve| has_data(group, curve));
        let chosen = groups
            .iter()
            .filter_map(|group| Some((group, choose(group)?)));
        let chosen: Vec<Chosen> = chosen.collect();
        let with_data: Vec<&Group> = chosen.iter().map(|(group, _)| *group).collect();
        with_data.first()?;
        // If all groups were trained on the same lengths, a chart by length shades these lengths.
        // Otherwise the labels of the lines name the lengths that are known.
        let band = band(&with_data).filter(|_| self == Self::Lengths);
        let mut title = title(what, &with_data);
        let series = if let [group] = with_data[..] {
            self.all_curves(group, options)
        } else {
            let texts = chosen.iter().map(|(group, curve)| legend(group, curve));
            let mut texts: Vec<String> = texts.collect();
            if texts.iter().all(|text| *text == texts[0]) {
                if curves.len() > 1 && self != Self::Lengths {
                    title += &format!(": {}", short(&texts[0]));
                }
                texts.fill(String::new());
            }
            self.one_curve_each(&chosen, &texts, band.is_some(), options)
        };
        let points = || series.iter().flat_map(|series| &series.points);
        // The lower end of a spread (mean minus one standard deviation) can be near 0 or negative,
        // which a logarithmic axis cannot show. So only the upper ends and the points determine the
        // axis.
        let highest = series.iter().flat_map(|series| &series.spread);
        let highest = highest.map(|bounds| bounds.1);
        let values: Vec<f64> = points().map(|point| point.1).chain(highest).collect();
        let mut rings = series.iter().filter_map(|series| series.ring);
        let ring_label = match (rings.next(), &with_data[..]) {
            (None, _) => String::new(),
            (_, [group]) => {
                let best = group.runs[0].best_step().unwrap_or_default();
                format!("best checkpoint (step {})", grouped(best))
            }
            _ => "best checkpoint".into(),
        };
        let x = self.x_axis(points().map(|point| point.0), options.progress);
        (!series.is_empty()).then(|| LineChart {
            title,
            x,
            y: self.y_axis(&values),
            ring_label,
            series,
            band,
        })
    }

    /// Returns the lines of all curves of a group.
    fn all_curves(self, group: &Group, options: CurveOptions) -> Vec<Series> {
        let (_, curves) = self.curves();
        let mut series: Vec<Series> = Vec::new();
        for (index, curve) in curves.iter().enumerate() {
            let mut lines = self.lines(group, curve, legend(group, curve), index, options);
            lines.iter_mut().for_each(|line| line.dash = 0);
            // If there are two lines without noise, the first one is dashed, so that both are
            // visible where they meet.
            if let ([below], false) = (&mut series[..], lines.is_empty() || curves[0].is_noisy) {
                below.dash = 1;
            }
            series.extend(lines);
        }
        series
    }

    /// Returns a line for each group. Groups with equal curves share a line.
    ///
    /// The label of a line begins with the group's label, followed by the group's entry in `texts`
    /// without the part in parentheses, unless the entry is empty. In a plot by length without a
    /// band, the lengths that the group was trained on follow, if they are known.
    fn one_curve_each(
        self,
        chosen: &[Chosen],
        texts: &[String],
        has_band: bool,
        options: CurveOptions,
    ) -> Vec<Series> {
        let mut series: Vec<Series> = Vec::new();
        for (index, ((group, curve), text)) in chosen.iter().zip(texts).enumerate() {
            let mut label = group.label.clone();
            if !text.is_empty() {
                label += &format!(", {}", short(text));
            }
            let trained = trained_lengths(group).filter(|_| self == Self::Lengths && !has_band);
            if let Some((from, to)) = trained {
                label += &format!(", trained on {from} to {to}");
            }
            // Only the last line of each group is drawn. If there is a line before it, that line
            // has the raw values, which would hide the lines of other runs.
            let line = self.lines(group, curve, label, index, options).pop();
            let Some(line) = line else { continue };
            // Equal curves, such as learning rates, share one line.
            match series.iter_mut().find(|other| other.is_same(&line)) {
                Some(other) => other.label += &format!("; {}", line.label),
                None => series.push(line),
            }
        }
        series
    }

    fn x_axis(self, values: impl Iterator<Item = f64> + Clone, progress: Progress) -> Axis {
        let first = values.clone().fold(f64::MAX, f64::min);
        let last = values.fold(0.0, f64::max);
        match progress {
            _ if self == Self::Lengths => {
                let range = first - 0.5..last + 0.5;
                Axis::whole("length of the source (symbols)", range)
            }
            Progress::Steps => Axis::whole("training step", 0.0..last.max(1.0)),
            Progress::Tokens => Axis::whole("target tokens trained on", 0.0..last.max(1.0)),
            Progress::Seconds if last > 0.0 => Axis::linear("training time (s)", 0.0..last),
            Progress::Seconds => Axis::linear("training time (s)", 0.0..1.0),
        }
    }
}

/// Returns the legend text of a curve of a group.
fn legend(group: &Group, curve: &Curve) -> String {
    let smoothing = group.runs[0].label_smoothing();
    let floor = group.runs[0].loss_floor();
    match (curve.field, floor) {
        ("loss", Some(floor)) if floor > 0.0 => {
            format!("training, less the floor {floor:.3} of label smoothing {smoothing}")
        }
        ("loss", None) => format!("training, with label smoothing {smoothing}"),
        ("valid_loss", _) if smoothing > 0.0 => "validation, without label smoothing".into(),
        _ => curve.label.into(),
    }
}

/// Returns a legend text without the explanation in parentheses.
fn short(text: &str) -> &str {
    text.split(" (").next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::ValueEnum;

    use super::*;
    use crate::plot::file::Plot;
    use crate::plot::file::tests::stroke as stroke_of;
    use crate::plot::run::tests::run;
    use crate::plot::style::series_color;

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

    fn svg(kind: RunPlot, runs: &[Run]) -> String {
        kind.draw(runs, CurveOptions::default())
            .unwrap()
            .svg()
            .unwrap()
    }

    fn stroke(index: usize) -> String {
        stroke_of(series_color(index))
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
        let loss = svg(RunPlot::Loss, &run);
        for text in [
            "Loss, run mine",
            "training",
            "training, mean of 7 steps",
            "validation",
            "training step",
            "nats per token",
        ] {
            assert!(loss.contains(text), "{text}");
        }
        // Each colour occurs twice: in the line and in its key in the legend.
        assert_eq!(loss.matches(&stroke(0)).count(), 2);
        assert_eq!(loss.matches(&stroke(1)).count(), 2);
        let accuracy = svg(RunPlot::Accuracy, &run);
        assert!(accuracy.contains("token accuracy") && !accuracy.contains("exact match"));
        assert_eq!(accuracy.matches(&stroke(0)).count(), 2);
        assert_eq!(accuracy.matches(&stroke(1)).count(), 0);
        let learning_rate = svg(RunPlot::LearningRate, &run);
        assert_eq!(learning_rate.matches(&stroke(0)).count(), 2);
        assert!(learning_rate.contains("0.03"));
    }

    #[test]
    fn several_runs_share_a_plot() {
        let parent = tempfile::tempdir().unwrap();
        let run = |name: &str, positions: &str, steps| {
            run(parent.path(), name, positions, &metrics(steps, |_| 1.0))
        };
        let runs = [run("a", "rotary", 200), run("b", "learned", 300)];
        let loss = svg(RunPlot::Loss, &runs);
        assert!(loss.contains("Loss of 2 runs: validation") && !loss.contains("training,"));
        let accuracy = svg(RunPlot::Accuracy, &runs);
        assert!(accuracy.contains("split of 2 runs: token accuracy"));
        // A run without evaluations does not take away the validation curves of other runs.
        let runs = [run("c", "rotary", 200), run("d", "none", 99)];
        let loss = svg(RunPlot::Loss, &runs);
        assert!(loss.contains("\nrotary positions, validation\n"), "{loss}");
        assert!(loss.contains("\nnone positions, training\n"), "{loss}");
        // Equal learning rates share one line.
        let rates = svg(RunPlot::LearningRate, &[runs[0].clone(), runs[0].clone()]);
        assert_eq!(rates.matches(&stroke(0)).count(), 2);
        assert_eq!(rates.matches(&stroke(1)).count(), 0);
    }

    #[test]
    fn runs_without_texts_do_not_change_the_bleu_of_others() {
        let parent = tempfile::tempdir().unwrap();
        let text = "{\"step\":9,\"bleu\":30,\"chrf\":50}\n{\"step\":10,\"bleu\":31,\"chrf\":51}\n";
        let runs = [
            run(parent.path(), "a", "rotary", text),
            run(parent.path(), "b", "rotary", &metrics(9, |_| 1.0)),
        ];
        let svg = svg(RunPlot::Bleu, &runs);
        assert!(svg.contains("\nTranslation of the validation split, run a\n"));
        assert_eq!(svg, super::tests::svg(RunPlot::Bleu, &runs[..1]));
        assert!(svg.contains("\nBLEU\n") && svg.contains("\nchrF\n"));
    }

    fn seeded(parent: &Path, name: &str, seed: f64, metrics: &str) -> Run {
        let run = run(parent, name, "rotary", metrics);
        std::fs::write(
            run.folder.join("config.json"),
            format!("{{\"seed\":{seed}}}"),
        )
        .unwrap();
        Run::read(&run.folder).unwrap()
    }

    #[test]
    fn runs_that_differ_in_their_seed_have_their_mean_and_an_area() {
        let parent = tempfile::tempdir().unwrap();
        let runs = [("a", 1.0), ("b", 2.0), ("c", 3.0)]
            .map(|(name, loss)| seeded(parent.path(), name, loss, &metrics(300, |_| loss)));
        let chart = RunPlot::Loss.draw(&runs, CurveOptions::default()).unwrap();
        assert_eq!(chart.title, "Loss of 3 seeds");
        let [training, validation] = &chart.series[..] else {
            panic!("{chart:?}");
        };
        assert_eq!(training.points.len(), 300);
        let expected = "training, mean of 7 steps, mean ± SD of 3 seeds";
        assert_eq!(training.label, expected);
        assert_eq!(
            validation.points,
            [(100.0, 2.0), (200.0, 2.0), (300.0, 2.0)]
        );
        assert_eq!(validation.spread, [(1.0, 3.0); 3]);
        let options = CurveOptions {
            is_each_seed: true,
            ..CurveOptions::default()
        };
        let chart = RunPlot::Loss.draw(&runs, options).unwrap();
        let labels: Vec<&str> = chart
            .series
            .iter()
            .map(|line| line.label.as_str())
            .collect();
        assert_eq!(labels, ["a", "b", "c"]);
    }

    #[test]
    fn smoothed_losses_are_drawn_above_their_floor() {
        let parent = tempfile::tempdir().unwrap();
        let run = run(parent.path(), "a", "rotary", &metrics(100, |_| 1.0));
        let config = r#"{"optimization":{"label_smoothing":0.1},"model":{"target_vocab_size":2}}"#;
        std::fs::write(run.folder.join("config.json"), config).unwrap();
        let runs = [Run::read(&run.folder).unwrap()];
        let chart = RunPlot::Loss.draw(&runs, CurveOptions::default()).unwrap();
        let labels: Vec<&str> = chart
            .series
            .iter()
            .map(|line| line.label.as_str())
            .collect();
        let expected = "training, less the floor 0.199 of label smoothing 0.1, mean of 3 steps";
        assert_eq!(
            labels,
            ["", expected, "validation, without label smoothing"]
        );
        assert!((chart.series[1].points[0].1 - 0.801_485).abs() < 1e-6);
        assert_eq!(chart.series[2].points, [(100.0, 1.0)]);
        // The training loss has label smoothing, so only the validation loss has a perplexity.
        let chart = RunPlot::Perplexity
            .draw(&runs, CurveOptions::default())
            .unwrap();
        assert_eq!(chart.series.len(), 1);
        assert!((chart.series[0].points[0].1 - 1f64.exp()).abs() < 1e-9);
    }

    #[test]
    fn curves_lie_by_time_and_the_best_checkpoint_has_a_ring() {
        let parent = tempfile::tempdir().unwrap();
        let lines = (1..=4).map(|step| {
            let loss = f64::from((step - 3) * (step - 3)) + 1.0;
            let seconds = 0.5 * f64::from(step);
            format!(
                "{{\"step\":{step},\"loss\":{loss},\"tokens\":10,\"seconds\":{seconds}}}\n\
                 {{\"step\":{step},\"valid_loss\":{loss}}}\n"
            )
        });
        let runs = [run(
            parent.path(),
            "a",
            "rotary",
            &lines.collect::<String>(),
        )];
        for (progress, scale) in [
            (Progress::Steps, 1.0),
            (Progress::Seconds, 0.5),
            (Progress::Tokens, 10.0),
        ] {
            let options = CurveOptions {
                progress,
                ..CurveOptions::default()
            };
            let chart = RunPlot::Loss.draw(&runs, options).unwrap();
            assert_eq!(chart.x.range, 0.0..4.0 * scale);
            assert_eq!(chart.series[1].points[1], (2.0 * scale, 2.0));
            assert_eq!(chart.series[1].ring, Some((3.0 * scale, 1.0)));
            assert_eq!(chart.ring_label, "best checkpoint (step 3)");
            assert_eq!(chart.svg().unwrap().matches("<circle").count(), 2);
        }
    }

    #[test]
    fn curves_without_data_are_not_drawn() {
        let parent = tempfile::tempdir().unwrap();
        let metrics = "{\"step\":1,\"loss\":null}\n";
        let run = [run(parent.path(), "mine", "rotary", metrics)];
        for kind in RunPlot::value_variants() {
            assert_eq!(kind.draw(&run, CurveOptions::default()), None, "{kind:?}");
            assert_eq!(kind.draw(&[], CurveOptions::default()), None, "{kind:?}");
        }
    }
}
