#[path = "../../../../../../examples/pseudo_language/language.rs"]
#[allow(dead_code)]
mod language;

use language::pseudo_language;
use proptest::prelude::*;

use super::*;
use crate::data::sides::Sides;
use crate::tests::assert_has;

fn texts() -> impl Iterator<Item = Result<String, UsageError>> + Send {
    (0..400).map(|index| Ok(pseudo_language(0, index).target))
}

fn trained(change: impl FnOnce(&mut TokenizerConfig)) -> Tokenizer {
    let mut config = TokenizerConfig::new(600);
    change(&mut config);
    Tokenizer::train(&config, Texts::Targets, texts()).unwrap()
}

#[test]
fn texts_are_encoded_and_decoded() {
    for &kind in TokenizerKind::ALL {
        let tokenizer = trained(|config| config.kind = kind);
        for index in 0..100 {
            let text = pseudo_language(0, index).target;
            let ids = tokenizer.encode(&text);
            let is_known = |id: &u32| *id > 3 && (*id as usize) < tokenizer.vocab_size;
            let unknown = ids.iter().filter(|id| !is_known(id)).count();
            if unknown == 0 {
                assert_eq!(tokenizer.decode(&ids), text, "{kind:?}");
            }
            // Only a tokeniser of words lacks tokens: it has none for words that occur only once.
            assert!(
                unknown == 0 || kind == TokenizerKind::Word,
                "{kind:?}: {text}"
            );
        }
        let all: Vec<String> = (0..50).map(|i| pseudo_language(1, i).target).collect();
        let one_by_one: Vec<Vec<u32>> = all.iter().map(|t| tokenizer.encode(t)).collect();
        assert_eq!(tokenizer.encode_all(all), one_by_one);
    }
}

fn check_identity(text: &str) {
    for &kind in TokenizerKind::ALL {
        let mut config = TokenizerConfig::new(1000);
        config.kind = kind;
        let twice = std::iter::repeat_n(text, 2).map(|text| Ok(text.into()));
        let texts = texts().take(40).chain(twice);
        let tokenizer = Tokenizer::train(&config, Texts::Targets, texts).unwrap();
        let ids = tokenizer.encode(text);
        assert!(!ids.contains(&3), "{kind:?}: {text:?}");
        assert_eq!(tokenizer.decode(&ids), text.trim_matches(' '), "{kind:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_encoded_is_decoded_exactly(text in prop_oneof![
        "[a-c1'\".,(▁_é] {0,3}", "([ab]{1,2} ?[-'.,$(\"▁]{0,2} {0,2}){0,12}", "\\PC{0,40}", "[a. \t\n\u{7}\u{1b}\u{9b}\u{2028}]{0,12}",
    ]) {
        check_identity(&text);
    }
}

#[test]
fn real_texts_are_decoded_exactly() {
    for text in [
        "It costs $5.00, or 1,000.5 in the U.S.; see p. 10/12!",
        "He said \"yes\" and left (quickly). -- nothing...",
        "l'homme d'affaires, don 't , ( a ) \" b \" „Das ist gut“, sagte er: ¿Qué? ¡Nada!",
        "a  b ,  c   -d- #1 @home x\u{301} 猫が好き 🙂▁",
        "<pad> <eos> a <unk><bos>",
    ] {
        check_identity(text);
    }
    // An unknown word stands between blanks as any word.
    let tokenizer = trained(|config| config.kind = TokenizerKind::Word);
    let text = tokenizer.decode(&tokenizer.encode("Der qqq der, qqq."));
    assert_has(&text, &["Der <unk> der", "<unk>."]);
}

#[test]
fn special_tokens_are_those_of_a_vocabulary() {
    for &kind in TokenizerKind::ALL {
        let tokenizer = trained(|config| config.kind = kind);
        for (name, id) in [("<pad>", 0), ("<bos>", 1), ("<eos>", 2), ("<unk>", 3)] {
            assert_eq!(tokenizer.id(name), Some(id), "{kind:?}");
            assert_eq!(tokenizer.token(id), name);
        }
        // If a text contains the name of a special token, the name is encoded as ordinary text.
        let ids = tokenizer.encode("Der <eos><pad> tirun.");
        assert!(
            ids.iter().all(|id| !(0..3).contains(id)),
            "{kind:?}: {ids:?}"
        );
        let ids = [&[1][..], &tokenizer.encode("Der tirun"), &[2, 0, 0]].concat();
        assert_eq!(tokenizer.decode(&ids), "Der tirun", "{kind:?}");
    }
}

#[test]
fn byte_level_bpe_encodes_every_text() {
    let tokenizer = trained(|_| ());
    let ids = tokenizer.encode("der der é");
    assert_eq!(tokenizer.token(ids[0]), "▁der");
    assert_eq!(tokenizer.id("▁der"), Some(ids[0]));
    assert_eq!(tokenizer.token(*ids.last().unwrap()), "©");
    for text in "naïve café|猫が好き|🙂 \u{1F1EB}|a  b|x\u{0301}".split('|') {
        assert_eq!(tokenizer.decode(&tokenizer.encode(text)), text);
    }
}

#[test]
fn labels_have_no_marks_of_the_tokeniser() {
    for &kind in TokenizerKind::ALL {
        let tokenizer = trained(|config| config.kind = kind);
        let text = pseudo_language(0, 3).target;
        let ids = tokenizer.encode(&text);
        let labels: Vec<String> = ids.iter().map(|&id| tokenizer.label(id)).collect();
        let marks = ['▁', 'Ġ'];
        assert!(
            !labels.iter().any(|label| label.contains(marks)),
            "{labels:?}"
        );
        // Joined in their order, the labels are the text, apart from blanks.
        let join = |text: &str| text.replace([' ', '␣'], "");
        assert_eq!(
            join(&labels.concat()),
            join(&tokenizer.decode(&ids)),
            "{kind:?}"
        );
        assert_eq!(tokenizer.label(tokenizer.eos_id), "<eos>");
    }
    let tokenizer = trained(|_| ());
    let ids = tokenizer.encode("é");
    let labels: Vec<String> = ids.iter().map(|&id| tokenizer.label(id)).collect();
    assert_eq!(labels, ["␣", "Ã", "©"]);
}

#[test]
fn every_token_has_a_name_of_its_own() {
    for &kind in TokenizerKind::ALL {
        let config = TokenizerConfig {
            kind,
            ..TokenizerConfig::new(600)
        };
        // The text has what stands for a blank in names.
        let texts = texts().chain([0; 9].map(|_| Ok("a ▁ ␣ ▁a ␣a b".into())));
        let tokenizer = Tokenizer::train(&config, Texts::Targets, texts).unwrap();
        let names = tokenizer.names();
        assert!(names.iter().all(|name| !name.contains(' ')), "{kind:?}");
        let unique: HashSet<&String> = names.iter().collect();
        assert_eq!(unique.len(), tokenizer.vocab_size, "{kind:?}");
    }
}

#[test]
fn texts_can_be_normalised() {
    let tokenizer = trained(|config| {
        config.lower_case = true;
        config.normalization = Some(Normalization::Nfkc);
    });
    assert_eq!(
        tokenizer.decode(&tokenizer.encode("Ｄer ﬁTIRUN e\u{301}")),
        "der fitirun é"
    );
    assert_eq!(tokenizer.encode("DER"), tokenizer.encode("der"));
}

#[test]
fn a_trained_tokeniser_is_the_same_when_it_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    for &kind in TokenizerKind::ALL {
        let tokenizer = trained(|config| config.kind = kind);
        std::fs::write(&path, &tokenizer.json).unwrap();
        let read = Tokenizer::read(&path).unwrap();
        assert_eq!(read.sha256, tokenizer.sha256);
        assert_eq!(read.vocab_size, tokenizer.vocab_size);
        let text = pseudo_language(3, 7).target;
        assert_eq!(read.encode(&text), tokenizer.encode(&text));
    }
    let json = String::from_utf8(trained(|_| ()).json.to_vec()).unwrap();
    std::fs::write(&path, json.replace("<bos>", "<begin>")).unwrap();
    let read = Tokenizer::read(&path).unwrap();
    // A missing special token gets the next id after all others, and is added to `read.json`.
    assert_eq!(read.bos_id as usize, read.vocab_size - 1);
    std::fs::write(&path, &read.json).unwrap();
    assert_eq!(Tokenizer::read(&path).unwrap().sha256, read.sha256);
    assert_eq!(
        read.decode(&[&[read.bos_id], &read.encode("der")[..]].concat()),
        "der"
    );
    std::fs::write(&path, json.replace("<bos>", "<s>").replace("<eos>", "</s>")).unwrap();
    let read = Tokenizer::read(&path).unwrap();
    assert_eq!((read.bos_id, read.eos_id), (1, 2));
}

#[test]
fn a_special_token_s_name_in_every_text_is_text() {
    for (id, name) in (0..).zip(Vocabulary::SPECIAL) {
        let texts: Vec<String> = (0..200)
            .map(|index| {
                pseudo_language(0, index % 100)
                    .target
                    .replacen(' ', name, 1)
            })
            .collect();
        for &kind in TokenizerKind::ALL {
            let mut config = TokenizerConfig::new(500);
            config.kind = kind;
            config.or_fewer = Sides::both(true);
            let given = texts.iter().cloned().map(Ok);
            let tokenizer = Tokenizer::train(&config, Texts::Targets, given).unwrap();
            let special = [tokenizer.pad_id, tokenizer.bos_id, tokenizer.eos_id];
            assert_eq!(special, [0, 1, 2], "{kind:?}, {name}");
            for text in &texts[..20] {
                let ids = tokenizer.encode(text);
                assert!(!ids.contains(&id), "{kind:?}: {text}");
                assert_eq!(tokenizer.decode(&ids), *text, "{kind:?}");
            }
        }
    }
}

#[test]
fn impossible_vocabulary_sizes_are_rejected() {
    let train = |kind, vocab_size, or_fewer| {
        let config = TokenizerConfig {
            kind,
            or_fewer: Sides::both(or_fewer),
            ..TokenizerConfig::new(vocab_size)
        };
        let trained = Tokenizer::train(&config, Texts::Targets, texts());
        trained
            .map(|one| one.vocab_size)
            .map_err(|error| error.to_string())
    };
    for kind in [TokenizerKind::Word, TokenizerKind::Char] {
        let found = train(kind, 5000, true).unwrap();
        assert!((20..1000).contains(&found), "{found}");
        let error = train(kind, 5000, false).unwrap_err();
        let expected =
            format!("data.tokenizer.vocab_size 5000: must be at most {found}: the targets have");
        assert!(error.starts_with(&expected), "{error}");
    }
    let error = train(TokenizerKind::Bpe, 100, true).unwrap_err();
    let expected = "is too small: the targets need at least 260 tokens";
    assert_has(&error, &[expected]);
    let error = train(TokenizerKind::Unigram, 12, true).unwrap_err();
    assert_has(&error, &["data.tokenizer.vocab_size 12: "]);
    let nothing = std::iter::empty::<Result<String, UsageError>>();
    let config = TokenizerConfig {
        kind: TokenizerKind::Word,
        ..TokenizerConfig::new(100)
    };
    let trained = Tokenizer::train(&config, Texts::Targets, nothing);
    assert_has(&trained.err().unwrap(), &["has no tokens"]);
}

#[test]
fn errors_of_the_texts_are_returned() {
    let config = TokenizerConfig::new(600);
    let broken = texts()
        .take(10)
        .chain([Err(UsageError::new("corpus", "a", "is broken"))]);
    let error = Tokenizer::train(&config, Texts::Targets, broken)
        .err()
        .unwrap();
    assert_eq!(error.to_string(), "corpus a: is broken");
}

#[test]
fn a_special_token_does_not_take_the_id_of_another() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    // With three tokens, the library gives the next one the id 3, which "b" has.
    let vocab = r#"{"<unk>":0,"a":1,"b":3}"#;
    let model = format!(r#"{{"type":"WordLevel","vocab":{vocab},"unk_token":"<unk>"}}"#);
    let json = format!(r#"{{"version":"1.0","added_tokens":[],"model":{model}}}"#);
    std::fs::write(&path, json).unwrap();
    let error = Tokenizer::read(&path).err().unwrap();
    assert_has(&error, &["cannot take <pad>, which it lacks"]);
}

#[test]
fn ids_beyond_any_model_are_rejected() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tokenizer.json");
    let read = |id: u64| {
        let model =
            format!(r#"{{"type":"WordLevel","vocab":{{"<unk>":0,"a":{id}}},"unk_token":"<unk>"}}"#);
        let json = format!(r#"{{"version":"1.0","added_tokens":[],"model":{model}}}"#);
        std::fs::write(&path, json).unwrap();
        Tokenizer::read(&path).map(|tokenizer| tokenizer.vocab_size)
    };
    assert!(read(5).is_ok());
    for id in [1 << 24, u64::from(u32::MAX) - 9] {
        assert_has(&read(id).unwrap_err(), &["tokenizer.json: has the id"]);
    }
}

#[test]
fn texts_that_train_no_unigram_tokeniser_are_named() {
    let mut config = TokenizerConfig::new(600);
    config.kind = TokenizerKind::Unigram;
    config.or_fewer = Sides::both(true);
    // The library's trainer panics on the second text.
    let odd = "aaabbababbbbabbbbbbbbbaaabaabbbaababbbbabbbbaabababaabaabab";
    for (text, expected) in [
        ("", "all targets are blank"),
        (
            odd,
            "unigram: cannot be trained on the targets: its trainer failed (index",
        ),
    ] {
        let texts = (0..50).map(|_| Ok(text.into()));
        let trained = Tokenizer::train(&config, Texts::Targets, texts);
        assert_has(&trained.err().unwrap(), &[expected]);
    }
}

#[test]
fn references_have_the_form_and_the_case_of_outputs() {
    for (form, lower_case, expected) in [
        (None, false, "Ő\u{301} ﬁ"),
        (None, true, "ő\u{301} ﬁ"),
        (Some(Normalization::Nfd), false, "O\u{30b}\u{301} ﬁ"),
        (Some(Normalization::Nfkc), true, "ő\u{301} fi"),
    ] {
        let config = TokenizerConfig {
            normalization: form,
            lower_case,
            ..Default::default()
        };
        assert_eq!(config.normalized("Ő\u{301} ﬁ"), expected);
    }
}
