//! `train score`.

use std::path::Path;

use super::{Folder, all_rejected, answer, assert_has, parsed, run, succeed};

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../training/tests/fixtures/scores");
    folder.join(name).to_str().unwrap().into()
}

#[test]
fn texts_are_scored() {
    let folder = &Folder::new();
    let (hypotheses, references) = (fixture("odd.hyp"), fixture("odd.ref"));
    let text = run(folder, &format!("score {hypotheses} {references}"));
    let expected = [
        "BLEU 58.28  82.5/69.0/58.8/49.4, brevity penalty 0.914, 724 tokens against 789",
        "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0",
        "chrF 65.14  nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no|version:2.6.0",
        "exact match 0.",
        "on 60 segments",
    ];
    assert_has(&text, &expected);
    let flags = "--lower-case --tokenize none --json";
    let json = parsed(folder, &format!("score {hypotheses} {references} {flags}"));
    let signature = "nrefs:1|case:lc|eff:no|tok:none|smooth:exp|version:2.6.0";
    assert_eq!(json["bleu_signature"], signature);
    let [first, second] = ["several.ref2", "several.ref1"].map(fixture);
    let several = format!("score {} {first} {second} --json", fixture("several.base"));
    let json = parsed(folder, &several);
    assert_has(&json["chrf_signature"].to_string(), &["nrefs:2|"]);
    // The references are scored against themselves, through a pipe and after a byte order mark.
    let text = std::fs::read(&references).unwrap();
    let text = [b"\xef\xbb\xbf", &text[..]].concat();
    let text = succeed(&answer(folder, &format!("score - {references}"), text));
    assert_has(&text, &["BLEU 100.00", "WER 0.0000"]);
}

#[test]
fn wrong_files_are_rejected_in_one_line() {
    let folder = &Folder::new();
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.join(name), bytes).unwrap();
    write("two", b"a\nb\n");
    write("three", b"a\nb\nc");
    write("empty", b"");
    write("one", b"a");
    assert_has(&run(folder, "score one one"), &[", 1 token against 1  "]);
    write("latin", b"a\ncaf\xe9\n");
    let table = "
        two three | HYPOTHESES two: has 2 lines, but three has 3
        empty empty | REFERENCES empty: is empty
        two latin | REFERENCES latin: line 2 is not UTF-8
        two nowhere | REFERENCES nowhere: cannot be read
        two a.jsonl | REFERENCES a.jsonl: has lines of several fields by its name
        a.tsv.gz two | HYPOTHESES a.tsv.gz: has lines of several fields
        . two | HYPOTHESES .: cannot be read (it is a folder)
        two two three | REFERENCES three: has 3 lines, but two has 2
        - two - | -: is standard input, which only one of the files can be
        two | <REFERENCES>...";
    all_rejected(folder, "score", table);
}
