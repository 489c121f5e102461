//! Flags and settings that would have no effect are errors, and hints name what can be typed.

use std::fs;

use super::task::{COPY, TINY, train_copy};
use super::{Folder, all_rejected, fails, output, rows, run};

#[test]
fn flags_that_need_another_one_are_rejected_beside_what_excludes_it() {
    let folder = &Folder::new();
    let table = "
        generate run x --beam 3 --temperature 5 | --temperature
        generate run x --beam 3 --top-k 5 | --top-k
        generate run x --length-penalty none --top-p 0.5 | --top-p
        generate run x --alpha 1 --seed 5 | --seed
        generate run x --stream --alignments | --alignments
        eval run --pairs p --target t | --target
        eval run --pairs p --source s --target t | --pairs
        eval run --source s --target t --fields a,b | --fields
        fit --preset tiny --train p --source-lang deu | --source-lang
        fit --family t5 --train p --target-lang deu | --target-lang
        fit --train p --tokenizer-file a --source-tokenizer-file b | --tokenizer-file
        fit --train p --tokenizer-file a --target-tokenizer-file b | --tokenizer-file
        fit --train p --tokenizer-file a --set data.tokenizer.normalization=nfkc | data.tokenizer.normalization: is for tokenisers that are trained
        fit --train p --tokenizer-file a --set data.tokenizer.vocab_size.source=9 | --vocab-size: is for
        fit --train p --valid v --valid-share 0.25 | --valid-share 0.25: is for runs without --valid-source
        fit --train p --valid-target t | --valid-target t: needs --valid-source
        fit --train-target t | --train-target t: needs --train-source
        fit --learning-rate 0.1 --set optimization.schedule.factor=2 | factor 2: cannot be set with --learning-rate 0.1
        fit --train p --steps 9 --set optimization.epochs=2 | --steps 9: cannot be set with --epochs 2
        fit --lora-alpha 3 | --lora-alpha 3: needs --lora-rank";
    all_rejected(folder, "", table);
}

#[test]
fn flags_without_an_effect_on_a_run_are_rejected() {
    let folder = &Folder::new();
    let pairs: String = (0..60).map(|n| format!("a {n}\tb {n}\n")).collect();
    fs::write(folder.join("p.tsv"), &pairs).unwrap();
    fs::write(folder.join("sources"), pairs.replace('\t', " ")).unwrap();
    fs::create_dir(folder.join("copy")).unwrap();
    fs::write(folder.join("copy/config.json.77.tmp"), "").unwrap();
    train_copy(folder, "copy", "");
    // What a killed process left is removed.
    assert!(!folder.join("copy/config.json.77.tmp").exists());
    let command = format!("{TINY} --train p.tsv --run-dir text").replace("--batch-size 8", "");
    run(folder, &command);
    let table = "
        eval copy --lower-case | --lower-case
        eval copy --tokenize none | --tokenize: is for runs of --task text
        eval copy --lossy | --lossy
        eval text --lossy | --lossy: needs --source or --pairs
        eval text --pairs p.tsv --fields a,b | --fields a,b: needs --pairs of JSON Lines
        fit --target 0.5 --best-by loss | --best-by loss: must be exact-match beside --target
        eval text --pairs sources | --pairs sources: line 1 has no tab, but must be SOURCE<TAB>TARGET, unless
        fit --train sources | line 1 has no tab, but must be SOURCE<TAB>TARGET, unless
        fit --train p.tsv --valid sources | line 1 has no tab, but must be SOURCE<TAB>TARGET, unless
        resume text --valid-target sources | --valid-target sources: needs --valid-source
        report copy copy | RUN copy: is named twice
        report copy ./copy | RUN ./copy: is named twice
        plot copy copy | RUN copy: is named twice";
    for (command, expected) in rows(table) {
        fails(&output(folder, command), 2, &expected);
    }
}

#[test]
fn hints_name_what_can_be_typed() {
    let folder = &Folder::new();
    let write = |name: &str, text: &str| fs::write(folder.join(name), text).unwrap();
    train_copy(folder, "copy", "--positions learned");
    fs::create_dir(folder.join("hf")).unwrap();
    write("hf/config.json", r#"{"model_type":"t5"}"#);
    write("w.safetensors", "");
    write("other.jsonl", "{\"de\":\"a\",\"en\":\"b\"}\n");
    write("other.tsv", "a\tb\n");
    fs::write(folder.join("latin.tsv"), b"a\xff\tb\n").unwrap();
    let table = "
        fit --d-model 65 | must be a divisor of --d-model (65)
        fit --run-dir new --train other.jsonl | no field \"source\" (--fields names the fields)
        fit --run-dir new --train latin.tsv | or give --set data.lossy=true
        fit --train latin.tsv --max-length 5,6,7 | --max-length 5,6,7: must be one value
        fit copy | use --task copy
        fit --family bert | [possible values: 
        report copy --examples -1 | must be a whole number from 0 to 1000
        generate copy x --min-length 9 --max-length 3 | --min-length 9: must be at most --max-length (3)
        generate w.safetensors | `train import FILE --run-dir RUN
        eval hf | `train import FOLDER --run-dir RUN`
        compare hf copy | `train import FOLDER --run-dir RUN`
        generate copy --input other.jsonl | --input other.jsonl: has the name of JSON Lines
        fit --run-dir new --train other.tsv --cache copy | copy: is the folder of a run or of a model; name another
        tokenize hf | folder hf: has";
    all_rejected(folder, "", table);
    let long = "1 ".repeat(30);
    let expected = ["--source", "has 30 symbols, more than the "];
    super::refused(
        folder,
        &["plot", "copy", "--source", long.trim()],
        &expected,
    );
}

#[test]
fn a_peak_that_is_not_reached_is_not_promised() {
    let folder = &Folder::new();
    let dry = |steps: usize| {
        let line = format!("{COPY} --dry-run").replace("12", &steps.to_string());
        output(folder, &line)
    };
    let early = dry(50);
    let warning = "the learning rate rises for the whole run of 50 steps and does not reach its peak, of --warmup 100";
    assert!(super::text(&early.stderr).contains(warning));
    assert!(super::text(&early.stdout).contains(" at its highest, step 50"));
    let late = dry(500);
    assert!(!super::text(&late.stderr).contains("warning"));
    assert!(super::text(&late.stdout).contains(" at its highest, step 100"));
}
