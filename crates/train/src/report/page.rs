//! Writes the data of runs, the style and the scripts into one HTML file.

use anyhow::Result;
use serde::Serialize;

use super::run::RunReport;
use super::seeds::seed_groups;
use super::settings::{Setting, settings};

const TEMPLATE: &str = include_str!("page/page.html");
const STYLE: &str = include_str!("page/page.css");

/// The scripts, in the order in which they run inside one function.
const SCRIPTS: [&str; 9] = [
    include_str!("page/dom.js"),
    include_str!("page/format.js"),
    include_str!("page/chart.js"),
    include_str!("page/curves.js"),
    include_str!("page/lengths.js"),
    include_str!("page/attention.js"),
    include_str!("page/samples.js"),
    include_str!("page/settings.js"),
    include_str!("page/main.js"),
];

/// The data of a page.
#[derive(Serialize)]
struct Data<'a> {
    version: &'static str,
    runs: &'a [RunReport],
    settings: Vec<Setting>,
    /// Indices of the runs of each group. The runs of a group differ in their seed only and share a
    /// line.
    groups: Vec<Vec<usize>>,
}

/// Returns the HTML page for these runs.
///
/// # Errors
///
/// No error is expected, because all data can be written as JSON.
pub fn page(runs: &[RunReport]) -> Result<String> {
    let configs: Vec<_> = runs.iter().map(RunReport::config).collect();
    let data = Data {
        version: env!("CARGO_PKG_VERSION"),
        runs,
        settings: settings(&configs),
        groups: seed_groups(&configs),
    };
    let names: Vec<&str> = runs.iter().map(|run| run.name.as_str()).collect();
    let values = [
        ("{{title}}", escape_text(&names.join(", "))),
        ("{{style}}", STYLE.into()),
        ("{{data}}", escape_json(&serde_json::to_string(&data)?)),
        (
            "{{script}}",
            format!("(() => {{\n{}\n}})();", SCRIPTS.join("\n")),
        ),
    ];
    Ok(fill(TEMPLATE, &values))
}

/// Replaces each placeholder of a template by its value. `values` lists the placeholders in the
/// order of the template. Placeholders inside a value are not replaced.
fn fill(template: &str, values: &[(&str, String)]) -> String {
    let mut rest = template;
    let mut page = String::new();
    for (placeholder, value) in values {
        let (before, after) = rest.split_once(placeholder).expect("the template has it");
        page += before;
        page += value;
        rest = after;
    }
    page + rest
}

/// Escapes JSON for a `script` element, whose contents end at `</script>` and change their meaning
/// at `<!--`. In JSON, `<` occurs in strings only.
fn escape_json(json: &str) -> String {
    json.replace('<', "\\u003c")
}

/// Escapes a text that becomes the contents of an HTML element.
fn escape_text(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use serde_json::Value;

    use super::*;

    /// Writes a run folder, and returns its report.
    fn run(parent: &Path, name: &str, config: &str, metrics: &str) -> RunReport {
        let folder = parent.join(name);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("config.json"), config).unwrap();
        fs::write(folder.join("metrics.jsonl"), metrics).unwrap();
        RunReport::read(&folder).unwrap()
    }

    /// Returns the JSON data in a page.
    fn data(page: &str) -> Value {
        let (_, rest) = page
            .split_once("<script type=\"application/json\" id=\"data\">")
            .unwrap();
        let (json, _) = rest.split_once("</script>").unwrap();
        serde_json::from_str(json).unwrap()
    }

    #[test]
    fn texts_of_a_run_cannot_become_markup() {
        let parent = tempfile::tempdir().unwrap();
        let evil = "<!--<script>{{script}}&amp;{{data}}";
        let config = format!("{{\"data\":{{\"task\":\"{evil}</script><b>\"}}}}");
        let runs = [run(parent.path(), evil, &config, "")];
        let page = page(&runs).unwrap();
        let opened = page.matches("<script").count();
        assert_eq!((opened, page.matches("</script>").count()), (2, 2));
        assert_eq!(page.matches("<!--").count(), 0);
        assert_eq!(page.matches("<b>").count(), 0);
        assert!(page.contains("<title>&lt;!--&lt;script&gt;{{script}}&amp;amp;{{data}}"));
        let data = data(&page);
        assert_eq!(data["runs"][0]["name"], evil);
        assert_eq!(data["runs"][0]["task"], format!("{evil}</script><b>"));
    }

    #[test]
    fn the_page_needs_no_network_and_no_other_file() {
        let page = page(&[]).unwrap();
        for outside in [
            "http:", "https:", "src=", "@import", "url(", "fetch(", "<link",
        ] {
            // The only URL is the XML namespace of SVG, which is never loaded.
            let text = page.replace("http://www.w3.org/2000/svg", "");
            assert!(!text.contains(outside), "{outside}");
        }
        assert!(page.contains("default-src 'none'"));
        for script in SCRIPTS {
            assert!(
                !script.contains("innerHTML") && !script.contains("</"),
                "{script}"
            );
        }
    }

    #[test]
    fn a_run_of_100000_steps_makes_a_small_page() {
        let parent = tempfile::tempdir().unwrap();
        let line = |step: u32| {
            let (loss, norm) = (
                5.0 / f64::from(step).sqrt(),
                f64::from(step * 7919 % 1000) / 7.0,
            );
            format!(
                "{{\"step\":{step},\"loss\":{loss},\"learning_rate\":{},\"gradient_norm\":{norm},\"seconds\":{},\"tokens_per_second\":{}}}\n",
                loss / 9.0,
                f64::from(step) / 3.0,
                norm * 77.7
            )
        };
        let mut lines: String = (1..=100_000).map(line).collect();
        for step in (100..=100_000).step_by(100) {
            lines += &format!(
                "{{\"step\":{step},\"valid_loss\":{},\"token_accuracy\":0.5,\"exact_match\":0.25}}\n",
                1.0 / f64::from(step)
            );
        }
        let page = page(&[run(parent.path(), "long", "{}", &lines)]).unwrap();
        assert!(page.len() < 500_000, "{} bytes", page.len());
        let data = data(&page);
        let norms = data["runs"][0]["curves"]["gradient_norm"]["y"]
            .as_array()
            .unwrap();
        let largest = norms.iter().filter_map(Value::as_f64).fold(0.0, f64::max);
        assert_eq!(largest, 142.7);
        assert_eq!(data["runs"][0]["step"], 100_000);
    }

    #[test]
    fn what_a_run_lacks_is_said() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("empty");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("config.json"), "{}").unwrap();
        let mut report = RunReport::read(&folder).unwrap();
        report.add_examples(Err("no checkpoint".into()));
        let notes = report.notes().join("\n");
        for lacks in [
            "curves",
            "test split",
            "by length",
            "attention: no checkpoint.",
        ] {
            assert!(notes.contains(lacks), "{notes}");
        }
        assert!(data(&page(&[report]).unwrap())["runs"][0]["examples"].is_null());
    }
}
