//! Writes the charts and data of runs, the style and the scripts into one HTML file.

use clap::ValueEnum;
use serde_json::json;
use training::run::{RunData, seed_groups};

use super::run::RunReport;
use super::settings::settings;
use crate::plot::{Plot, Progress, RunPlot, SERIES};
use crate::terminal::output::visible;

/// The scripts, in the order in which they run inside one function.
const SCRIPTS: [&str; 6] = [
    include_str!("page/dom.js"),
    include_str!("page/charts.js"),
    include_str!("page/attention.js"),
    include_str!("page/samples.js"),
    include_str!("page/settings.js"),
    include_str!("page/main.js"),
];

/// Text near the beginning of every page.
pub const MARK: &str = "style-src 'unsafe-inline'; script-src 'unsafe-inline'\">\n<title>";

/// Returns the HTML page for these runs, with their reports in the same order.
pub fn page(runs: &[RunData], reports: &[RunReport]) -> String {
    let groups = seed_groups(runs);
    // Number of the colour of a run's line, if charts have a line for each run or group.
    let color = |index: usize| {
        let group = groups.iter().find(|group| group.contains(&index))?;
        (groups.len() > 1).then_some(group[0] % SERIES.len())
    };
    let data = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "runs": reports,
        "settings": settings(runs),
        "colors": (0..runs.len()).map(color).collect::<Vec<_>>(),
    });
    let names: Vec<&str> = reports.iter().map(|run| run.name.as_str()).collect();
    // A `script` element ends at `</script>` and changes its meaning at `<!--`. In JSON, `<` occurs
    // in strings only.
    let data = visible(&data.to_string()).replace('<', "\\u003c");
    format!(
        include_str!("page/page.html"),
        title = escaped(&names.join(", ")),
        style = include_str!("page/page.css"),
        charts = charts(runs),
        data = data,
        script = SCRIPTS.join("\n"),
    )
}

/// Returns the charts by step and, if they differ, by time.
fn charts(runs: &[RunData]) -> String {
    let mut html = String::new();
    for &kind in RunPlot::value_variants() {
        let axes: &[_] = match kind {
            RunPlot::Lengths => &[("all", Progress::Steps)],
            _ => &[("steps", Progress::Steps), ("seconds", Progress::Seconds)],
        };
        for &(x, progress) in axes {
            let Some(mut chart) = kind.draw(runs, progress) else {
                continue;
            };
            chart.title.clear();
            let (title, _) = kind.metrics();
            let hover = escaped(&chart.hover().to_string());
            html += &format!(
                "<figure class=\"card\" data-x=\"{x}\" data-hover=\"{hover}\"><figcaption><h3>{title}</h3>\
                 </figcaption><div class=\"scroll\"><div class=\"plot\">{}</div></div></figure>\n",
                chart.svg()
            );
        }
    }
    html
}

/// Escapes a text that becomes the contents of an HTML element or of an attribute.
fn escaped(text: &str) -> String {
    let text = visible(text).replace('&', "&amp;").replace('"', "&quot;");
    text.replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;
    use training::config::RunConfig;
    use training::run::RunFolder;

    use super::*;

    /// Creates a run folder with metrics, and returns its page.
    fn page_of(folder: &Path, metrics: &str) -> String {
        drop(RunFolder::create(Some(folder), &RunConfig::copy()).unwrap());
        fs::write(folder.join("metrics.jsonl"), metrics).unwrap();
        let run = RunData::read(folder).unwrap();
        let report = RunReport::new(&run, run.name.clone(), Err("no checkpoint".into()));
        page(&[run], &[report])
    }

    /// Returns the JSON data in a page.
    fn data(page: &str) -> Value {
        let begin = "<script type=\"application/json\" id=\"data\">";
        let (_, rest) = page.split_once(begin).unwrap();
        serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
    }

    #[test]
    fn texts_of_a_run_cannot_become_markup() {
        let parent = tempfile::tempdir().unwrap();
        let evil = "<!--<script>{script}&amp;\"{data}<b>";
        let page = page_of(&parent.path().join(evil), "{\"step\":1,\"loss\":2}\n");
        let opened = page.matches("<script").count();
        assert_eq!((opened, page.matches("</script>").count()), (2, 2));
        assert_eq!(
            page.matches("<!--").count() + page.matches("<b>").count(),
            0
        );
        assert!(page.contains("<title>&lt;!--&lt;script&gt;{script}&amp;amp;&quot;{data}"));
        assert_eq!(data(&page)["runs"][0]["name"], evil);
    }

    #[test]
    fn the_page_needs_no_network_and_no_other_file() {
        let page = page(&[], &[]);
        for outside in [
            "http:", "https:", "src=", "@import", "url(", "fetch(", "<link",
        ] {
            // The only URL is the XML namespace of SVG, which is never loaded.
            let text = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        for script in SCRIPTS {
            let is_safe = !script.contains("innerHTML") && !script.contains("</");
            assert!(is_safe, "{script}");
        }
    }

    #[test]
    fn a_run_of_100000_steps_makes_a_small_page() {
        let parent = tempfile::tempdir().unwrap();
        let line = |step: u32| {
            let noise = f64::from(step * 7919 % 1000) / 7.0;
            let (loss, seconds) = (5.0 / f64::from(step).sqrt(), f64::from(step) / 3.0);
            let mut line = format!(
                "{{\"step\":{step},\"loss\":{loss},\"learning_rate\":{loss},\"gradient_norm\":{noise},\
                 \"seconds\":{seconds},\"tokens_per_second\":{noise}}}\n"
            );
            if step.is_multiple_of(100) {
                line +=
                    &format!("{{\"step\":{step},\"valid_loss\":{loss},\"exact_match\":0.25}}\n");
            }
            line
        };
        let lines: String = (1..=100_000).map(line).collect();
        let page = page_of(&parent.path().join("long"), &lines);
        assert!(page.len() < 700_000, "{} bytes", page.len());
        assert_eq!(page.matches("<figure").count(), 10);
    }

    #[test]
    fn what_a_run_lacks_is_said() {
        let parent = tempfile::tempdir().unwrap();
        let page = page_of(&parent.path().join("empty"), "");
        let notes = data(&page)["runs"][0]["notes"].to_string();
        for lacks in "curves|trained model|by length|attention: no checkpoint.".split('|') {
            assert!(notes.contains(lacks), "{notes}");
        }
    }
}
