//! Runs of pretrained Hugging Face models: `fit --from`, `import --run-dir`, `export --folder`.

use std::fs;
use std::path::Path;

use serde_json::Value;
use transformer::weights::{Parameters, read_file};

use super::{
    Folder, all_rejected, answer, assert_has, copy_files, fails, fails_after_notes, json, notes,
    output, parsed, rejected, run, step_losses, succeed,
};

/// Returns the path of a model folder that Hugging Face's library `transformers` wrote, from the
/// fixtures of the crate `transformer`.
pub(super) fn family(name: &str) -> String {
    let fixtures = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../transformer/tests/fixtures/families"
    );
    format!("{fixtures}/{name}")
}

/// Writes 40 pairs, in each of which the target is the first word of the source.
fn write_pairs(folder: &Path) {
    let word = |i: usize| format!("w{}", 10 + i * 7 % 13);
    let source = |i: usize| (0..2 + i % 4).map(|k| word(i + 3 * k)).collect::<Vec<_>>();
    let pairs = (0..40).map(|i| format!("{}\t{}\n", source(i).join(" "), source(i)[0]));
    fs::write(folder.join("pairs.tsv"), pairs.collect::<String>()).unwrap();
}

fn generated(folder: &Path, model: &str, flags: &str) -> String {
    let lines = "w10 w17 w11\nw12\nw20 w15 w16 w10\n";
    succeed(&answer(folder, &format!("generate {model} {flags}"), lines))
}

const PAIRS: &str = "--train pairs.tsv --valid pairs.tsv --plain";

#[test]
fn a_folder_is_trained_further() {
    let folder = &Folder::new();
    write_pairs(folder);
    for name in ["t5", "bart", "m2m_100"] {
        let from = family(name);
        // With such a small learning rate, training does not change the model of the folder.
        let flags = format!("{PAIRS} --steps 1 --learning-rate 1e-20 --run-dir {name}-same");
        run(folder, &format!("fit --from {from} {flags}"));
        let outputs = generated(folder, &from, "");
        assert_eq!(generated(folder, &format!("{name}-same"), ""), outputs);

        let flags = format!("{PAIRS} --epochs 30 --learning-rate 0.01 --warmup 5");
        let line = format!("fit --from {from} {flags} --run-dir {name}");
        run(folder, &line);
        assert_ne!(generated(folder, name, ""), outputs, "{name}");
        let losses = step_losses(&folder.join(name));
        let (first, last) = (losses[0], losses[losses.len() - 1]);
        assert!(last < 0.7 * first, "{name}: {first} to {last}");
        // `runs` and `report` compare the run with the same preset.
        let listed = parsed(folder, &format!("runs {name} --json"));
        assert_eq!(listed["preset"], "fine-tuning");
        let listed: Vec<&String> = listed["settings"].as_object().unwrap().keys().collect();
        run(folder, &format!("report {name} --examples 0"));
        let data = super::report::data(&folder.join(name).join("report.html"));
        let settings = data["settings"].as_array().unwrap().iter();
        let changed = settings.filter(|setting| setting["presets"][0].is_string());
        let mut changed: Vec<_> = changed.map(|it| it["path"].as_str().unwrap()).collect();
        changed.sort_unstable();
        assert_eq!(changed, listed);
        // The settings of the run name the model folder, so `--config` without `--from` trains the
        // same run again.
        let again = format!("fit --config {name}/config.json --run-dir {name}-again --plain");
        run(folder, &again);
        let [one, two] = [name, &format!("{name}-again")]
            .map(|run| json(&folder.join(run).join("summary.json"))["valid_loss"].clone());
        assert!(one.is_number() && one == two, "{name}: {one} and {two}");
    }
    // A run that began with other weights is no other seed.
    let line = "fit --config bart/config.json --seed 1 --plain --run-dir bart-seed";
    run(folder, line);
    let groups = |line: &str| parsed(folder, line)["groups"].as_array().unwrap().len();
    assert_eq!(groups("compare bart bart-seed --json"), 1);
    let config = folder.join("bart-seed/config.json");
    let mut other = json(&config);
    other["data"]["pretrained"]["sha256"] = "0".into();
    fs::write(config, other.to_string()).unwrap();
    let compared = parsed(folder, "compare bart bart-seed --json");
    let settings = compared["settings"].as_array().unwrap().iter();
    let paths: Vec<_> = settings
        .map(|setting| setting["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["from.sha256", "seed"], "{compared}");
    let compared = parsed(folder, "compare t5 bart --json");
    let from = &compared["settings"].as_array().unwrap()[0];
    assert_eq!(from["path"], "from");
    assert_has(from["values"][1].as_str().unwrap(), &["bart"]);
}

#[test]
fn what_was_typed_tells_fine_tuned_runs_apart() {
    let folder = &Folder::new();
    write_pairs(folder);
    let from = family("m2m_100");
    let train = |name: &str, flags: &str| {
        let line = format!("fit --from {from} {PAIRS} --steps 1 --run-dir {name} {flags}");
        run(folder, &line);
    };
    train("plain", "");
    train("short", "--max-length 9 --dropout 0.25");
    train("french", "--source-lang fra_Latn --target-lang deu_Latn");
    train("lora", "--lora-rank 2");
    train("seed", "--lora-rank 2 --seed 1");
    let compared = |runs: &str| -> Vec<String> {
        let compared = parsed(folder, &format!("compare {runs} --json"));
        let settings = compared["settings"].as_array().unwrap().iter();
        settings
            .map(|it| it["flag"].as_str().unwrap().into())
            .collect()
    };
    assert_eq!(compared("plain short"), ["--max-length", "--dropout"]);
    assert_eq!(compared("plain french"), ["--source-lang", "--target-lang"]);
    assert_eq!(compared("plain lora"), ["--lora-rank"]);
    // LoRA's own matrices are drawn by the seed.
    let both = parsed(folder, "compare lora seed --json");
    assert_eq!(both["groups"].as_array().unwrap().len(), 1, "{both}");
    let listed = run(folder, "runs . --sort name");
    for flags in ["--max-length 9", "--dropout 0.25", "--source-lang fra_Latn"] {
        assert!(listed.contains(flags), "{flags}: {listed}");
    }
}

#[test]
fn a_model_that_training_makes_worse_stays_the_runs_model() {
    let folder = &Folder::new();
    write_pairs(folder);
    let from = family("bart");
    let flags = "--steps 2 --best-by loss --learning-rate 5 --set optimization.schedule.warmup=1";
    let line = format!("fit --from {from} {PAIRS} {flags} --run-dir worse");
    let fit = output(folder, &line);
    let chosen = " at step 0, which is the run's model; --checkpoint last is step 2";
    assert_has(&notes(&fit), &[chosen]);
    assert!(succeed(&fit).starts_with("step 0: evaluation loss "));
    let own = generated(folder, "worse", "--max-length 9");
    assert_eq!(own, generated(folder, &from, "--max-length 9"));
}

#[test]
fn an_imported_run_keeps_to_the_corpora_that_it_was_first_given() {
    let folder = &Folder::new();
    write_pairs(folder);
    let objects = (0..40).map(|i| format!("{{\"de\": \"w1{} w17\", \"en\": \"w17\"}}\n", i % 2));
    fs::write(folder.join("pairs.jsonl"), objects.collect::<String>()).unwrap();
    run(folder, &format!("import {} --run-dir run", family("t5")));
    let resume = "resume run --train pairs.jsonl --valid pairs.tsv --plain --steps";
    let unnamed = output(folder, &format!("{resume} 1"));
    fails_after_notes(&unnamed, &["(--fields names the fields)"]);
    let begun = run(folder, &format!("{resume} 1 --fields de,en"));
    // An imported model is evaluated where its training begins.
    assert!(begun.starts_with("step 0: evaluation loss "), "{begun}");
    run(folder, "resume run --steps 2 --plain");
    let table = "
        resume run --train pairs.tsv --fields de,en | --fields de,en: needs a file of JSON Lines
        resume run --train pairs.tsv | --train-source | pairs.tsv: has changed since the run began
        resume run --fields en,de | --fields en,de: must be de,en, as when the run began";
    all_rejected(folder, "", table);
    fs::write(folder.join("pairs.tsv"), "w10 w17\tw10\n").unwrap();
    assert_has(
        &notes(&output(folder, "eval run")),
        &["pairs.tsv: has changed"],
    );
}

#[test]
fn texts_have_the_tokens_of_their_template() {
    let folder = &Folder::new();
    let tokens = |model: &str, side: &str| {
        let line = format!("tokenize {model} --side {side}");
        let tokens = succeed(&answer(folder, &line, "w10 w17\n"));
        tokens.trim_end().to_owned()
    };
    // Published folders, with and without tokenizer.json: the ids of transformers.
    let folders = fs::canonicalize("../training/tests/fixtures/published").unwrap();
    let expected = json(&folders.join("expected.json"));
    let folders = folders.display();
    for name in ["byt5", "bart_files", "t5", "bart"] {
        let text = expected[name]["lines"][0].as_str().unwrap();
        let ids = expected[name]["sources"][0].to_string().replace(',', " ");
        let found = answer(folder, &format!("tokenize {folders}/{name} --ids"), text);
        let found = format!("[{} ", succeed(&found).trim_end());
        assert!(ids.starts_with(&found), "{name}: {found}");
    }
    let found = answer(folder, &format!("tokenize {folders}/t5 --ids"), "</s>\n");
    assert_eq!(succeed(&found), "1\n");
    let found = answer(folder, &format!("generate {folders}/bart"), "the <mask>\n");
    fails(&found, 2, &["its source has <mask>, the token 90"]);
    let languages = "--source-lang fra_Latn --target-lang deu_Latn";
    for (name, languages, source, target) in [
        ("t5", "", "w10 w17", "w10 w17"),
        ("bart", "", "<s> w10 w17", "<s> w10 w17"),
        // The files of this model say that outputs begin with fra_Latn.
        ("m2m_100", "", "eng_Latn w10 w17", "fra_Latn w10 w17"),
        ("m2m_100", languages, "fra_Latn w10 w17", "deu_Latn w10 w17"),
    ] {
        let to = format!("{name}{}", languages.len());
        let line = format!("import {} {languages} --run-dir {to}", family(name));
        run(folder, &line);
        assert_eq!(tokens(&to, "source"), source, "{name}");
        assert_eq!(tokens(&to, "target"), target, "{name}");
    }
}

#[test]
fn a_folder_survives_import_and_export() {
    let folder = &Folder::new();
    let languages = "--source-lang fra_Latn --target-lang deu_Latn";
    for (name, layout, languages) in [
        ("t5", "", ""),
        ("bart", "--layout bart", ""),
        ("m2m_100", "", languages),
    ] {
        let from = family(name);
        let line = format!("import {from} {languages} --run-dir {name}");
        run(folder, &line);
        let outputs = generated(folder, &from, languages);
        assert_eq!(generated(folder, name, ""), outputs, "{name}");
        let written = format!("{name}-folder");
        let line = format!("export {name} {layout} --folder {written}");
        run(folder, &line);
        assert_eq!(generated(folder, &written, ""), outputs, "{name}");
        let tokenizer = |folder: &Path| fs::read(folder.join("tokenizer.json")).unwrap();
        // The exported template has the languages of the run, so it changes if flags chose them.
        let is_same = tokenizer(&folder.join(&written)) == tokenizer(Path::new(&from));
        assert_eq!(is_same, languages.is_empty(), "{name}");
    }
    // A folder whose template has no language, or that has no template.
    let roberta = r#"{"type": "RobertaProcessing", "sep": ["</s>", 2], "cls": ["<s>", 0], "trim_offsets": true, "add_prefix_space": false}"#;
    for (n, processor) in ["null", roberta].into_iter().enumerate() {
        let (from, run_dir, to) = (format!("from-{n}"), format!("run-{n}"), format!("to-{n}"));
        copy_files(family("m2m_100"), &folder.join(&from));
        let file = folder.join(&from).join("tokenizer.json");
        let mut tokenizer = json(&file);
        tokenizer["post_processor"] = serde_json::from_str(processor).unwrap();
        fs::write(file, tokenizer.to_string()).unwrap();
        let line = format!("import {from} {languages} --run-dir {run_dir}");
        run(folder, &line);
        run(folder, &format!("export {run_dir} --folder {to}"));
        let ids = |model: &str| succeed(&answer(folder, &format!("tokenize {model}"), "w10 w17"));
        assert!(ids(&run_dir).starts_with("fra_Latn "), "{processor}");
        let outputs = generated(folder, &run_dir, "");
        assert_eq!(generated(folder, &to, ""), outputs, "{processor}");
        run(folder, &format!("import {to} --run-dir again-{n}"));
        assert_eq!(ids(&format!("again-{n}")), ids(&run_dir), "{processor}");
    }
}

#[test]
fn a_run_begins_with_a_checkpoint_of_the_folders_model() {
    let folder = &Folder::new();
    write_pairs(folder);
    let from = folder.join("from");
    copy_files(family("bart"), &from);
    let flags = format!("{PAIRS} --steps 4 --dropout 0.2");
    run(folder, &format!("fit --from from {flags} --run-dir run"));
    let summary = || json(&folder.join("run/summary.json"));
    let before = summary();
    // Another model in the folder is noticed.
    let weights = from.join("model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(weights, bytes).unwrap();
    let again = "fit --config run/config.json --run-dir again";
    rejected(folder, again, &["from", "has changed since the run began"]);
    assert!(!folder.join("again").exists());
    // The run now looks as if it had been killed before its second checkpoint. The model folder is
    // deleted, too.
    fs::remove_dir_all(folder.join("run/checkpoints/step-4")).unwrap();
    fs::remove_dir_all(&from).unwrap();
    run(folder, "resume run --plain");
    let after = summary();
    assert!(before["valid_loss"].is_number());
    for name in ["valid_loss", "bleu", "token_accuracy", "steps"] {
        assert_eq!(after[name], before[name], "{name}");
    }
}

/// Copies the folder of a family to `to`, and changes its generation settings.
fn with_generation(name: &str, to: &Path, change: impl Fn(&mut Value)) {
    copy_files(family(name), to);
    let path = to.join("generation_config.json");
    let mut settings = json(&path);
    change(&mut settings);
    fs::write(path, serde_json::to_vec(&settings).unwrap()).unwrap();
}

#[test]
fn settings_of_generation_that_a_run_cannot_have_are_noticed_before_training() {
    let folder = &Folder::new();
    write_pairs(folder);
    // The folder's `max_length` may exceed `--max-length`, which also limits evaluations.
    with_generation("m2m_100", &folder.join("long"), |settings| {
        settings["max_length"] = 200.into();
    });
    let flags = format!("{PAIRS} --steps 2 --eval-every 1 --max-length 20");
    run(folder, &format!("fit --from long {flags} --run-dir run"));
    with_generation("m2m_100", &folder.join("least"), |settings| {
        settings["min_length"] = 30.into();
    });
    with_generation("m2m_100", &folder.join("suppressed"), |settings| {
        settings["suppress_tokens"] = vec![500].into();
    });
    for (from, expected) in [
        ("least", "min_length"),
        ("suppressed", "suppress_tokens 500"),
    ] {
        let fit = format!("fit --from {from} {PAIRS} --dry-run");
        rejected(folder, &fit, &[&format!("folder {from}"), expected]);
    }
    // Nobody gave `--min-length`.
    with_generation("m2m_100", &folder.join("short"), |settings| {
        settings["min_length"] = 15.into();
    });
    let short = "generate short --max-length 9 --target-lang fra_Latn x";
    rejected(
        folder,
        short,
        &["--max-length 9: must be at least the model's own minimum (14)"],
    );
    // A file whose settings of generation are not those of the folder is rejected.
    let mut file = json(&folder.join("run/config.json"));
    file["data"]["pretrained"]["folder"] = family("m2m_100").into();
    file["data"]["pretrained"]["search"]["no_repeat_ngram"] = 5.into();
    fs::write(folder.join("edited.json"), file.to_string()).unwrap();
    let fit = "fit --config edited.json --dry-run";
    rejected(folder, fit, &["data.pretrained"]);
    // A pretrained model has its tokeniser, and is that of its folder.
    let from = family("t5");
    let table = format!("
        fit --from {from} {PAIRS} --tokenizer-file x.json | --tokenizer-file x.json: must be left out
        fit --from {from} {PAIRS} --set data.tokenizer.target_file=x | --target-tokenizer-file x: must be left out
        fit --from {from} {PAIRS} --set data.pretrained=null | data.pretrained null: follows from the folder
        fit --from {from} {PAIRS} --set data.pretrained.folder=/x | data.pretrained.folder /x: follows from the folder");
    all_rejected(folder, "", &table);
}

#[test]
fn thin_matrices_are_added_to_the_models() {
    let folder = &Folder::new();
    write_pairs(folder);
    let flags = "--lora-rank 2 --lora-alpha 6 --learning-rate 0.05 --steps 4 --checkpoint-every 1";
    let from = family("t5");
    let fit = format!("fit --from {from} {PAIRS} {flags}");
    let said = run(folder, &format!("{fit} --dry-run"));
    assert!(said.contains(" are trained"), "{said}");
    let random = output(folder, "fit --task copy --lora-rank 2 --dry-run");
    assert!(notes(&random).contains("--lora-rank leaves matrices as they are, which are random"));
    assert!(!notes(&output(folder, &format!("{fit} --dry-run"))).contains("random"));
    run(folder, &format!("{fit} --run-dir lora"));
    let file = |path: &str| read_file(&fs::File::open(folder.join(path)).unwrap()).unwrap();
    let exported = |which: &str| {
        let line = format!("export lora --checkpoint {which} --layout native --output {which}");
        run(folder, &line);
        file(which)
    };
    let trained =
        [3, 4].map(|step| file(&format!("lora/checkpoints/step-{step}/model.safetensors")));
    let merged = ["3", "4", "average:2"].map(exported);
    let mut compared = 0;
    for name in merged[0].keys() {
        let values = |all: &Parameters| all[name].iter::<f32>().collect::<Vec<_>>();
        let [three, four, mean] = [0, 1, 2].map(|index| values(&merged[index]));
        for ((three, four), mean) in three.iter().zip(&four).zip(&mean) {
            let expected = (three + four) / 2.0;
            assert!(
                (expected - mean).abs() < 1e-6,
                "{name}: {mean}, not {expected}"
            );
        }
        for (own, merged) in trained.iter().zip([&three, &four]) {
            let Some(a) = own.get(&format!("{name}.lora.a")) else {
                assert_eq!(&values(own), merged, "{name}");
                continue;
            };
            let b = &own[&format!("{name}.lora.b")];
            let [rows, columns] = [a.shape()[0], b.shape()[1]];
            let [a, b] = [a, b].map(|data| data.iter::<f32>().collect::<Vec<_>>());
            assert!(a.iter().chain(&b).all(|x| x.abs() > 0.0), "{name}");
            let whole = values(own);
            for (index, merged) in merged.iter().enumerate() {
                let (row, column) = (index / columns, index % columns);
                let product: f32 = (0..2)
                    .map(|k| a[row * 2 + k] * b[k * columns + column])
                    .sum();
                // The scale of the LoRA product, alpha / rank, is 3.
                let expected = whole[index] + 3.0 * product;
                assert!(
                    (expected - merged).abs() < 1e-5,
                    "{name}: {expected} and {merged}"
                );
            }
            assert_eq!(whole.len(), rows * columns);
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared} matrices");
    run(folder, "export lora --layout t5 --folder written");
    assert_eq!(
        generated(folder, "written", ""),
        generated(folder, "lora", "")
    );
}

#[test]
fn a_run_with_one_tokeniser_becomes_a_folder_with_it() {
    let folder = &Folder::new();
    write_pairs(folder);
    let pairs = fs::read_to_string(folder.join("pairs.tsv")).unwrap();
    fs::write(folder.join("pairs.tsv"), pairs.replace('\t', ".\t")).unwrap();
    let sizes = "--preset tiny --d-model 16 --heads 2 --layers 1 --d-ff 16 --steps 30";
    // This family has one vocabulary, whether the flag says so or not.
    for (kind, joint) in [("word", ""), ("bpe", "--joint-vocabulary")] {
        let tokenizer = format!("--tokenizer {kind} {joint}");
        let fit = format!("fit {PAIRS} {sizes} --family t5 {tokenizer} --run-dir {kind}");
        run(folder, &fit);
        run(folder, &format!("export {kind} --folder {kind}-t5"));
        let outputs = generated(folder, kind, "--max-length 9");
        let written = format!("{kind}-t5");
        assert_eq!(generated(folder, &written, "--max-length 9"), outputs);
        // No blank is put beside punctuation.
        let ids = answer(folder, &format!("tokenize {written} --ids"), "w10 w17.\n");
        let decode = format!("tokenize {written} --ids --decode");
        let text = succeed(&answer(folder, &decode, succeed(&ids)));
        assert_eq!(text, "w10 w17.\n", "{kind}");
        let generation = json(&folder.join(written).join("generation_config.json"));
        assert_eq!(generation["max_length"], 258);
    }
    // What would train a tokeniser has no effect on a run that has one.
    let again = format!("fit --from word-t5 {PAIRS} --steps 1 --run-dir again");
    run(folder, &again);
    let table = run(folder, "compare word again");
    assert_has(&table, &["\n--from ", "\n--preset "]);
    let mut rows = table.lines();
    let row = rows.find(|row| row.starts_with("--tokenizer "));
    assert!(row.unwrap().ends_with(" -"), "{table}");
    // A file that another model left would be read with this one.
    fs::write(folder.join("word-t5/added_tokens.json"), "{}").unwrap();
    let again = "export word --folder word-t5 --force";
    rejected(
        folder,
        again,
        &["folder word-t5: has the file added_tokens.json"],
    );
    // Whoever reads the folder decodes no blank before a text.
    let tokenizer = json(&folder.join("bpe-t5/tokenizer.json"));
    assert_eq!(tokenizer["decoder"]["decoders"][1]["type"], "Strip");
}

#[test]
fn mistakes_about_pretrained_models_are_named() {
    let folder = &Folder::new();
    write_pairs(folder);
    let (t5, bart, m2m) = (family("t5"), family("bart"), family("m2m_100"));
    run(folder, &format!("import {t5} --run-dir imported"));
    // All ids of this tokeniser are valid for the model, although it belongs to another model.
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    for file in ["config.json", "model.safetensors"] {
        fs::copy(format!("{bart}/{file}"), other.join(file)).unwrap();
    }
    fs::copy(format!("{t5}/tokenizer.json"), other.join("tokenizer.json")).unwrap();
    let table = format!(
        "
        generate other | other/tokenizer.json
        fit --from nothing --train pairs.tsv | folder nothing | hf download t5-small --local-dir t5-small
        generate nothing | RUN nothing: does not exist | hf download t5-small --local-dir t5-small
        fit --from {t5} {PAIRS} --d-model 64 | --d-model 64
        fit --from {t5} {PAIRS} --set model.norm=layer | model.norm layer
        fit --from {t5} {PAIRS} --vocab-size 64 | --vocab-size
        fit --from {t5} --task copy | --task copy
        fit {PAIRS} --preset tiny --target-lang deu_Latn | --target-lang deu_Latn: needs --from
        fit --from {m2m} {PAIRS} --target-lang tlh_Latn | --target-lang tlh_Latn
        fit --from {m2m} {PAIRS} --target-lang </s> | --target-lang </s>: is not a language of the tokeniser
        fit --from {bart} {PAIRS} --max-length 900 | --max-length 900: must be at most 38
        import {bart}/model.safetensors --output x --source-lang fra_Latn | --run-dir
        import {bart} --task copy --run-dir x --source-lang fra_Latn | --source-lang fra_Latn
        import {t5}/model.safetensors --task text --run-dir x | --task text: is for a Hugging Face folder | copy its folder
        fit --from {bart} {PAIRS} --lora-rank 999 | --lora-rank 999
        export imported --layout bart --folder x | --layout t5 can
        fit --from imported --train pairs.tsv | folder imported
        eval imported | imported
        report {bart} --output x.html | bart
        import {t5} --output other/model.safetensors --force | other/model.safetensors: is a file of a
        generate {t5} w10 --output other/config.json | other/config.json: is a file of a
        import nothing --output x | hf download t5-small --local-dir t5-small
        inspect nothing | hf download t5-small --local-dir t5-small
        eval nothing | RUN nothing: does not exist; name the folder of a run, such as runs/copy-1
        resume imported | imported
        export imported --layout native --folder x | --layout native
        export imported --layout t5 --folder imported | --folder imported"
    );
    all_rejected(folder, "", &table);
    assert!(!folder.join("x").exists());
}
