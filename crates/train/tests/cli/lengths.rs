//! Exact match by length, of `train eval` and `train fit`.

use serde_json::Value;

use super::task::{COPY, TINY};
use super::{
    Folder, all_rejected, answer, fails, json, objects, output, run, succeed, text, train,
};

#[test]
fn exact_match_is_reported_for_lengths_beyond_training() {
    let folder = &Folder::new();
    let line = format!("{COPY} --eval-lengths 5,6,12 --sequences 20");
    let fit = run(folder, &line);
    let (_, table) = fit.split_once("s of training\n").unwrap();
    let rows: Vec<&str> = table.lines().collect();
    assert_eq!(rows.len(), 4, "{fit}");
    assert!(
        rows[1].ends_with("  trained") && !rows[2].ends_with("trained"),
        "{fit}"
    );
    let file = folder.join("runs/copy-1/lengths.json");
    let of_fit = json(&file);

    // A resumed run repeats the evaluation by length, whose settings are in its config.json.
    let steps = json(&folder.join("runs/copy-1/config.json"))["optimization"]["steps"].as_u64();
    let steps = steps.unwrap() + 1;
    let resumed = run(folder, &format!("resume runs/copy-1 --steps {steps}"));
    let (_, table) = resumed.split_once("s of training\n").unwrap();
    assert_eq!(table.lines().count(), 4, "{resumed}");
    let of_resumed = json(&file);
    let lengths_of = |file: &Value| file[0]["lengths"].as_array().unwrap().clone();
    assert_eq!(lengths_of(&of_resumed).len(), 3);
    assert_eq!(of_resumed[0]["step"], steps);

    // `eval` decodes the same sequences with the saved model.
    let again = run(
        folder,
        "eval runs/copy-1 --eval-lengths 5,6,12 --sequences 20 --json",
    );
    assert_eq!(objects(&again), lengths_of(&of_resumed));
    assert_eq!(json(&file), of_resumed);
    let row = of_fit[0]["lengths"][0].as_object().unwrap();
    let fields: Vec<&str> = row.keys().map(String::as_str).collect();
    let expected = "exact_match length sequences token_accuracy trained";
    assert_eq!(fields.join(" "), expected);

    // A length that is measured later is added to the file. Without `--sequences`, the number of
    // sequences per length is that of the run.
    run(folder, "eval runs/copy-1 --eval-lengths 6,7");
    let rows = lengths_of(&json(&file));
    let lengths = |rows: &[Value]| -> Vec<u64> {
        let lengths = rows.iter().map(|row| row["length"].as_u64());
        lengths.map(Option::unwrap).collect()
    };
    assert_eq!(lengths(&rows), [5, 6, 7, 12]);
    assert_eq!(rows[2]["sequences"], 20);
    let of_run = json(&file);

    // An evaluation with other settings is an entry of its own.
    let table = run(
        folder,
        "eval runs/copy-1 --eval-lengths 1..8 --sequences 250 --beam 2 --batch-size 7",
    );
    // There is no sequence of one symbol, which a note says.
    assert_eq!(table.lines().count(), 8, "{table}");
    let with_beam = json(&file);
    assert_eq!(with_beam[1], of_run[0]);
    assert_eq!(with_beam[0]["method"]["width"], 2);
    let rows = with_beam[0]["lengths"].as_array().unwrap();
    assert_eq!(lengths(rows), [1, 2, 3, 4, 5, 6, 7, 8]);
    // There are only nine sequences of one symbol, fewer than 250, and only some of them are held
    // out.
    assert!(rows[0]["sequences"].as_u64().unwrap() < 9);
    assert_eq!(rows[7]["sequences"], 250);
    assert_eq!(rows[4]["trained"], true);
    assert_eq!(rows[5]["trained"], false);

    // Plots show the newest evaluation of the run's model, and say if there is only another one.
    let title = || {
        run(folder, "plot runs/copy-1 --only lengths");
        std::fs::read_to_string(folder.join("runs/copy-1/pictures/lengths.svg")).unwrap()
    };
    let own = format!("step {steps}, test split, beam 2");
    assert!(title().contains(&own));
    run(folder, "eval runs/copy-1 --eval-lengths 3 --checkpoint 12");
    assert!(title().contains(&own));
    let mut all = json(&file);
    assert_eq!(all[0]["step"], 12);
    all.as_array_mut().unwrap().truncate(1);
    std::fs::write(&file, all.to_string()).unwrap();
    assert!(title().contains("step 12, test split; the run's model is step 13"));
}

#[test]
fn learned_positions_end_where_training_ended() {
    let folder = &Folder::new();
    run(folder, &format!("{COPY} --positions learned"));
    let rows = objects(&run(
        folder,
        "eval runs/copy-1 --eval-lengths 5,6 --sequences 10 --json",
    ));
    let many = output(folder, "eval runs/copy-1 --eval-lengths 5,7,9..10 -q");
    assert!(text(&many.stderr).starts_with("warning: no score for 3 lengths from 7 to 10: "));
    assert_eq!(rows[0]["sequences"], 10);
    assert_eq!(rows[1]["sequences"], 0);
    assert_eq!(rows[1]["exact_match"], Value::Null);
    let output = output(folder, "eval runs/copy-1 --eval-lengths 6 -q");
    assert_eq!(succeed(&output).lines().count(), 1);
    assert!(text(&output.stderr).starts_with("warning: no score for length 6: "));
    // A plot shows the scores there are.
    run(folder, "plot runs/copy-1 --only lengths");
    std::fs::remove_file(folder.join("runs/copy-1/lengths.json")).unwrap();
    run(folder, "eval runs/copy-1 --eval-lengths 6 -q");
    let none = "--only lengths: there are no data for it; no length in lengths.json has a score";
    fails(
        &super::output(folder, "plot runs/copy-1 --only lengths"),
        2,
        &[none],
    );
}

#[test]
fn digits_are_the_lengths_of_sums() {
    let folder = &Folder::new();
    let flags = "--task add --max-digits 2 --positions rotary --eval-lengths 2,5 --sequences 10";
    run(folder, &format!("{TINY} {flags}"));
    let rows = &json(&folder.join("runs/add-1/lengths.json"))[0]["lengths"];
    assert_eq!(rows[0]["trained"], true);
    assert_eq!(rows[1]["trained"], false);
    assert_eq!(rows[1]["sequences"], 10);
    // What is no sum has no answer.
    let no_sum = "\"1 + + 2\": must be two numbers without leading zeros and + between them";
    let answered = answer(folder, "generate runs/add-1", "1 + + 2\n");
    fails(&answered, 2, &["line 1", no_sum]);
    let plot = ["plot", "runs/add-1", "--source", "1 + + 2"];
    let plot = train(folder).args(plot).output().unwrap();
    fails(&plot, 2, &["--source", no_sum]);
}

#[test]
fn impossible_lengths_are_rejected() {
    let folder = &Folder::new();
    let parent = &Folder::new();
    run(parent, COPY);
    let name = parent.join("runs/copy-1");
    let table = "
        --eval-lengths x | 4,8,16 or 1..32
        --eval-lengths 4.. | --eval-lengths
        --eval-lengths -3 | --eval-lengths
        --eval-lengths 0 | --eval-lengths
        --eval-lengths 1..20000 | --eval-lengths
        --eval-lengths 8..4 | 4..8
        --eval-lengths | --eval-lengths
        --sequences 5 | --eval-lengths
        --eval-lengths 4 --sequences 0 | --sequences 0
        --eval-lengths 4 --sequences many | --sequences
        --eval-lengths 4 --sequences 9999999 | --sequences 9999999";
    all_rejected(folder, "", table);
    let eval = format!("eval {}", name.display());
    all_rejected(folder, &eval, table);
    let many = "--eval-lengths 4 --beam 2000000000 | --beam 2000000000";
    all_rejected(folder, &eval, many);
}
