use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::*;
use crate::data::parallel::fingerprints::fingerprints;
use crate::tests::assert_has;

/// Creates a corpus of files with these names and contents. Keep the returned folder as long as you
/// use the corpus, because dropping the folder deletes the files.
fn corpus(files: &[(&str, &[u8])]) -> (tempfile::TempDir, Corpus) {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = files
        .iter()
        .map(|(name, bytes)| {
            let path = folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        })
        .collect();
    let corpus = Corpus {
        source: paths[0].clone(),
        target: paths.get(1).cloned(),
        fields: None,
    };
    (folder, corpus)
}

fn read(corpus: &Corpus, lossy: bool) -> Result<(Vec<[String; 2]>, CorpusStats), String> {
    let mut pairs = corpus
        .read(ReadOptions {
            lossy,
            ..ReadOptions::default()
        })
        .map_err(|error| error.to_string())?;
    let mut all = Vec::new();
    for pair in pairs.by_ref() {
        let Pair { source, target } = pair.map_err(|error| error.to_string())?;
        all.push([source, target]);
    }
    Ok((all, pairs.stats()))
}

#[test]
fn pairs_keep_their_order_and_empty_ones_are_counted() {
    let (_folder, two) = corpus(&[
        ("a", "\u{feff}one\n\ntwo \r\n \t\nthree".as_bytes()),
        ("b", b"1\n2\n 3\n\n4\n"),
    ]);
    let (pairs, stats) = read(&two, false).unwrap();
    assert_eq!(pairs, [["one", "1"], ["two ", " 3"], ["three", "4"]]);
    assert_eq!((stats.pairs, stats.empty, stats.replaced), (3, 2, 0));
    assert_eq!(stats.notes(), ["2 pairs skipped: a side is empty"]);
}

#[test]
fn a_file_of_pairs_with_a_file_of_targets_does_not_pass_unnoticed() {
    let (_folder, both) = corpus(&[("a.tsv", b"a\tb\nc\td\n"), ("b", b"b\nd\n")]);
    let (_, stats) = read(&both, false).unwrap();
    assert_eq!(stats.tabs, 2);
    let warning = stats.warning().unwrap();
    assert!(warning.starts_with("2 pairs with a tab in a side"));
    let (_folder, both) = corpus(&[("a.jsonl", b"{}\n"), ("b", b"b\n")]);
    let error = read(&both, false).unwrap_err();
    let expected = "a.jsonl: is JSON Lines, which have the targets, too";
    assert_has(&error, &[expected]);
}

#[test]
fn a_line_of_a_table_has_two_columns() {
    let (_folder, table) = corpus(&[("a.tsv", b"a\tb\n\nd\te\n")]);
    let (pairs, stats) = read(&table, false).unwrap();
    assert_eq!(pairs, [["a", "b"], ["d", "e"]]);
    assert_eq!(stats.empty, 1);
    let other = "no tab";
    for (text, n) in [("a\tb\nd\te\tf\n", "3 columns"), ("a\tb\nd\n", other)] {
        let (_folder, table) = corpus(&[("a.tsv", text.as_bytes())]);
        let expected = format!("a.tsv: line 2 has {n}, but must be SOURCE<TAB>TARGET");
        assert_has(&read(&table, false).unwrap_err(), &[&expected]);
    }
}

#[test]
fn fields_may_be_nested() {
    let lines = br#"{"t": {"x": "a\nb", "y": "c"}, "t.x": null}
{"t": {"x": "d", "y": "e"}}

"#;
    let (_folder, mut objects) = corpus(&[("a.jsonl", lines)]);
    objects.fields = Some(["t.x".into(), "t.y".into()]);
    let error = read(&objects, false).unwrap_err();
    assert_has(&error, &["line 1 has null in its field \"t.x\""]);
    let lines = str::from_utf8(lines)
        .unwrap()
        .replace(", \"t.x\": null", "");
    std::fs::write(&objects.source, lines).unwrap();
    let (pairs, stats) = read(&objects, false).unwrap();
    assert_eq!(pairs, [["a b", "c"], ["d", "e"]]);
    let note = "1 text with line breaks: a blank replaces each";
    assert_eq!(stats.notes()[1..], [note]);
    let twice = br#"{"source": "a", "source": "b", "target": "c"}"#;
    let (_folder, twice) = corpus(&[("a.jsonl", twice)]);
    let error = read(&twice, false).unwrap_err();
    assert_has(&error, &["the key \"source\" is there twice"]);
}

#[test]
fn invalid_utf_8_is_rejected_or_replaced() {
    let (_folder, two) = corpus(&[("a", b"x\ny\xff\n"), ("b", b"1\n2\n")]);
    let error = read(&two, false).unwrap_err();
    assert_has(&error, &["a: line 2 is not UTF-8", "data.lossy"]);
    let (pairs, stats) = read(&two, true).unwrap();
    assert_eq!(pairs[1], ["y\u{fffd}", "2"]);
    assert_eq!(stats.replaced, 1);
}

#[test]
fn the_error_of_files_of_different_lengths_has_both() {
    let [three, four] = ["1\n2\n3\n", "1\n2\n3\n4"];
    for (a, b, numbers) in [
        (three, "1\n", ["3 lines", "1"]),
        ("1\n", four, ["1 line", "4"]),
    ] {
        let (_folder, two) = corpus(&[("a", a.as_bytes()), ("b", b.as_bytes())]);
        let error = read(&two, false).unwrap_err();
        let [first, second] = numbers;
        assert_has(&error, &[&format!("a: has {first}, but ")]);
        assert_has(&error, &[&format!("b has {second}: ")]);
    }
}

#[test]
fn too_long_texts_are_skipped_or_truncated_and_counted() {
    let long = "é".repeat(1 + LONGEST_TEXT / 2);
    let table = format!("a\tb\n{long}\tb\nc\t{long}\nd\te\n");
    let (_folder, table) = corpus(&[("a.tsv", table.as_bytes())]);
    let (pairs, stats) = read(&table, false).unwrap();
    assert_eq!(pairs, [["a", "b"], ["d", "e"]]);
    assert_eq!((stats.too_long, stats.pairs), (2, 2));
    let mut pairs = table
        .read(ReadOptions {
            truncates: true,
            ..ReadOptions::default()
        })
        .unwrap();
    let lengths = pairs.by_ref().map(|pair| pair.unwrap().source.len());
    assert_eq!(lengths.collect::<Vec<_>>(), [1, LONGEST_TEXT, 1, 1]);
    assert_eq!(pairs.stats().truncated, 2);
}

#[test]
fn a_fingerprint_is_of_the_lines() {
    let (_folder, one) = corpus(&[("a", b"1\n"), ("b", b"2\n")]);
    let (_folder_2, same) = corpus(&[("c", b"1\n"), ("d", b"2\n")]);
    let (_folder_3, other) = corpus(&[("a", b"1\n"), ("b", b"3\n")]);
    let of = |corpus| fingerprints(corpus).unwrap();
    assert_eq!(of(&one), of(&same));
    assert_ne!(of(&one), of(&other));
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(b"1\n").unwrap();
    let (_folder_4, gzip) = corpus(&[("a.gz", &encoder.finish().unwrap()), ("b", b"2\r\n")]);
    assert_eq!(of(&one), of(&gzip));
}
