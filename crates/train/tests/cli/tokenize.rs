//! `train tokenize`, and tokens in plots.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::task::train_tiny;
use super::text_task::{corpus, fit};
use super::{Folder, answer, assert_has, fails, output, rejected, run, succeed, text};

/// Runs `tokenize` with flags on an input, and returns the output.
fn tokenize(folder: &Path, flags: &str, input: &str) -> String {
    succeed(&answer(folder, &format!("tokenize {flags}"), input))
}

/// Texts with words, characters and white space that the corpus does not have.
const STRANGE: &str =
    "naïve  café, qxz 猫!\n\n▁ der Ã Ġ\tder\n\u{1b}[31m\u{7}\u{9b} 🙂\u{a0}7 <eos>\n";

#[test]
fn an_exported_tokeniser_has_the_names_of_its_tokens() {
    let folder = &Folder::new();
    let flags = corpus(folder, 200) + " --family bart --joint-vocabulary";
    succeed(&fit(folder, "run", 1, &flags));
    run(folder, "export run --folder exported");
    let lines = fs::read_to_string(folder.join("valid.source")).unwrap();
    let of_run = tokenize(folder, "run", &lines);
    let of_folder = tokenize(folder, "exported", &lines);
    // BART's template has a token before each text, the run none.
    assert!(
        of_run.contains("▁") && of_run == of_folder,
        "{of_run} {of_folder}"
    );
    assert_eq!(tokenize(folder, "exported --decode", &of_run), lines);
}

#[test]
fn texts_survive_a_round_trip() {
    let folder = &Folder::new();
    let flags = corpus(folder, 200);
    succeed(&fit(folder, "run", 1, &flags));
    let sources = fs::read_to_string(folder.join("valid.source")).unwrap();
    for (tokenizer, side, input) in [
        ("run", "", &sources[..]),
        ("run", "--side source", STRANGE),
        ("run", "--side target", STRANGE),
        ("run/source.tokenizer.json", "", STRANGE),
    ] {
        for ids in ["", "--ids"] {
            let flags = format!("{tokenizer} {side} {ids}");
            let tokens = tokenize(folder, &flags, input);
            assert_eq!(tokens.lines().count(), input.lines().count());
            let back = tokenize(folder, &format!("{flags} --decode"), &tokens);
            assert_eq!(back, input, "{flags}: {tokens}");
        }
    }
    let target = "der \u{1b}[31m\u{7}\u{9b} der";
    let pair = format!("der\t{target}");
    let scored = succeed(&answer(folder, "generate run --score --json", pair));
    let scored: Value = serde_json::from_str(&scored).unwrap();
    assert_eq!(scored["target"], target);
    let pieces = tokenize(folder, "run", &sources);
    assert!(pieces.contains(" ▁"), "{pieces}");
    // The tokeniser file of one side gives the same tokens as the run.
    assert_eq!(
        tokenize(folder, "run/source.tokenizer.json", &sources),
        pieces
    );
    assert_ne!(tokenize(folder, "run --side target", &sources), pieces);
    let ids = tokenize(folder, "run --ids --input valid.source", "");
    assert!(ids.split_whitespace().all(|id| id.parse::<u32>().is_ok()));
    assert_eq!(tokenize(folder, "run --decode --ids", &ids), sources);

    for (flags, input, expected) in [
        ("run --decode", "FIRST\nFIRST qqq\n", "\"qqq\""),
        ("run --decode --ids", "5 99999\n", "line 1 \"5 99999\""),
        (
            "run/target.tokenizer.json --side source",
            "",
            "--side source",
        ),
        ("nowhere --side target", "", "nowhere: does not exist; name"),
        ("valid.source", "", "valid.source"),
        (".", "", "RUN ."),
        ("run --input nowhere", "", "--input nowhere"),
    ] {
        let input = input.replace("FIRST", pieces.split_whitespace().next().unwrap());
        let output = answer(folder, &format!("tokenize {flags}"), input);
        fails(&output, 2, &[expected]);
        assert_eq!(text(&output.stderr).lines().count(), 1, "{flags}");
    }

    // The attention of texts is drawn at the end of a run and by `plot`, with readable tokens.
    let names = ["encoder", "decoder", "cross"].map(|kind| format!("attention-{kind}.svg"));
    let pictures = folder.join("run/pictures");
    for name in &names {
        assert!(pictures.join(name).exists(), "{name}");
    }
    fs::remove_dir_all(&pictures).unwrap();
    run(folder, "plot run --only attention");
    let source = tokenize(folder, "run --decode", &pieces);
    for name in &names {
        let svg = fs::read_to_string(pictures.join(name)).unwrap();
        assert!(
            svg.contains("&lt;eos&gt;") || svg.contains("&lt;bos&gt;"),
            "{name}"
        );
        assert!(!svg.contains(['▁', 'Ġ']), "{name}");
        let has_source = |line: &str| svg.contains(&format!("source {line}"));
        assert!(source.lines().take(8).any(has_source), "{name}");
    }
    // Without the corpus of the run, `plot` needs `--source`.
    fs::remove_file(folder.join("valid.source")).unwrap();
    let said = text(&output(folder, "plot run --only attention").stderr);
    let expected = ["valid.source: cannot be read", "give one with --source"];
    assert_has(&said, &expected);
    run(folder, "plot run --only attention --source der");
}

#[test]
fn runs_on_symbols_have_no_tokeniser() {
    let folder = &Folder::new();
    train_tiny(folder, "copy", "");
    rejected(folder, "tokenize copy", &["TOKENIZER copy"]);
}
