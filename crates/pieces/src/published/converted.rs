//! The `tokenizer.json` of a published model that has a SentencePiece file or nothing instead, as the
//! model's class in the library `transformers` makes it.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::{Value, json};

use super::class::{added, plain};
use super::unique::Ids;
use super::{CONFIG, LISTS, added_token, is_role, listed};
use crate::{Kind, SentencePiece};

/// The languages of mBART, and those that mBART-50 has in addition.
const MBART: &str = "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ \
    ko_KR lt_LT lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN";
const MBART_50: &str = "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN \
    pl_PL ps_AF pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI";

/// Returns the vocabulary and the added tokens of a class in
/// [`file_of`](super::class::file_of). `config` is the `tokenizer_config.json`.
pub(super) fn of_pieces(class: &str, model: &SentencePiece, config: &Value) -> Value {
    let number = |name: &str, usual| config[name].as_u64().unwrap_or(usual);
    let own = (0..model.len() as u32).filter_map(|id| Some((model.piece(id)?, model.score(id)?)));
    let own = own.map(|(piece, score)| (piece.to_owned(), f64::from(score)));
    let zeros = |names: &[&str]| -> Vec<(String, f64)> {
        names.iter().map(|&name| (name.to_owned(), 0.0)).collect()
    };
    let fairseq = |languages: &[&str]| {
        let mut vocab = zeros(&["<s>", "<pad>", "</s>", "<unk>"]);
        vocab.extend(own.clone().skip(3));
        let languages = languages.iter().flat_map(|list| list.split_whitespace());
        vocab.extend(
            languages
                .chain(["<mask>"])
                .map(|name| (name.to_owned(), 0.0)),
        );
        vocab
    };
    let vocab = match class {
        "MBartTokenizer" => fairseq(&[MBART]),
        "MBart50Tokenizer" => fairseq(&[MBART, MBART_50]),
        "NllbTokenizer" => {
            let mut vocab = zeros(&["<s>", "<pad>", "</s>", "<unk>"]);
            let others = own.filter(|(piece, _)| !vocab[..4].iter().any(|(name, _)| name == piece));
            let others: Vec<_> = others.collect();
            vocab.extend(others);
            vocab
        }
        "PegasusTokenizer" => {
            let mut vocab = zeros(&["<pad>", "</s>", "<mask_1>", "<mask_2>"]);
            vocab.extend((2..number("offset", 103)).map(|n| (format!("<unk_{n}>"), -100.0)));
            vocab.extend(own.skip(2));
            vocab
        }
        _ => {
            let extra = (0..number("extra_ids", 100)).rev();
            let extra = extra.map(|n| (format!("<extra_id_{n}>"), 0.0));
            own.chain(extra).collect()
        }
    };
    // A list of further tokens in `tokenizer_config.json` replaces those of the class, and the controls
    // and user-defined pieces of the file. Null is an empty list, except for NLLB.
    let lists = LISTS.iter().filter_map(|field| config.get(field));
    let is_list = |list: &&Value| list.is_array() || list.is_null() && class != "NllbTokenizer";
    let lists: Vec<&Value> = lists.filter(is_list).collect();
    let names: Vec<&str> = lists.iter().flat_map(|list| listed(list)).collect();
    let is_listed = !lists.is_empty();
    let is_own = class != "PegasusTokenizer" && !is_listed;
    let tokens = vocab.iter().enumerate().filter_map(|(id, (name, _))| {
        // A text never has the tokens that the file lacks, nor its controls.
        let is_special = match model.id(name).and_then(|id| model.kind(id)) {
            Some(Kind::Unknown) => true,
            None if !is_listed || is_role(name) || names.contains(&&**name) => true,
            Some(Kind::Control) if is_own || is_role(name) => true,
            Some(Kind::UserDefined) if is_own => false,
            _ => return None,
        };
        let mut token = added(class, id, name);
        token["special"] = is_special.into();
        Some(token)
    });
    let added_tokens: Vec<Value> = tokens.collect();
    let table = BASE64_STANDARD.encode(model.charsmap());
    let table = json!({"type": "Precompiled", "precompiled_charsmap": table});
    let table = Some(table).filter(|_| !model.charsmap().is_empty());
    let model = if class == "NllbTokenizer" {
        bpe_of(model, &vocab)
    } else {
        let unk_id = vocab.iter().position(|(name, _)| name == "<unk>");
        json!({"type": "Unigram", "unk_id": unk_id, "vocab": vocab, "byte_fallback": false})
    };
    json!({"added_tokens": added_tokens, "normalizer": table, "model": model})
}

/// Returns the model of NLLB. The library `transformers` orders the pairs that are merged by the id of
/// what they are merged to, and splits of one piece by the length of their first part.
fn bpe_of(model: &SentencePiece, vocab: &[(String, f64)]) -> Value {
    let mut merges = Vec::new();
    for piece in (0..model.len() as u32).filter_map(|id| model.piece(id)) {
        let splits = piece
            .char_indices()
            .skip(1)
            .map(|(at, _)| piece.split_at(at));
        let is_split =
            |(left, right): &(&str, &str)| model.id(left).is_some() && model.id(right).is_some();
        merges.extend(splits.filter(is_split).map(|(left, right)| [left, right]));
    }
    let ids = vocab.iter().zip(0..);
    let ids = ids.map(|((name, _), id)| (name.clone(), Value::from(id)));
    json!({
        "type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": false,
        "vocab": ids.collect::<serde_json::Map<_, _>>(), "merges": merges,
    })
}

/// Returns the model of BART. `vocab` and `merges` are the contents of its two files.
///
/// # Errors
///
/// The line of `merges` that is no pair.
pub(super) fn of_merges(vocab: Ids, merges: &str) -> Result<Value, String> {
    let lines = merges.lines().zip(1..);
    let lines = lines.filter(|(line, _)| !line.starts_with("#version") && !line.is_empty());
    let pairs = lines.map(|(line, number)| {
        let pair = line
            .split_once(' ')
            .filter(|(_, right)| !right.contains(' '));
        let pair = pair.map(|(left, right)| [left, right]);
        pair.ok_or_else(|| format!("line {number} is no pair of tokens"))
    });
    let merges = pairs.collect::<Result<Vec<_>, String>>()?;
    let model = json!({
        "type": "BPE", "fuse_unk": false, "byte_fallback": false, "vocab": vocab.0, "merges": merges,
    });
    Ok(json!({"added_tokens": [], "model": model}))
}

/// Returns the normalizer of a class. `table` is a part with the table of a SentencePiece file.
fn normalizer(class: &str, table: Option<Value>) -> Value {
    let blanks = json!({"type": "Replace", "pattern": {"Regex": " {2,}"}, "content": " "});
    let line = json!({"type": "Replace", "pattern": {"Regex": "\n"}, "content": " "});
    let parts = match (class, table) {
        ("MBartTokenizer" | "BartTokenizer", _) => vec![],
        ("PegasusTokenizer" | "MBart50Tokenizer" | "NllbTokenizer", Some(table)) => {
            vec![table, blanks]
        }
        ("PegasusTokenizer", None) => vec![line, blanks],
        ("MBart50Tokenizer", None) => vec![blanks],
        (_, table) => table.into_iter().collect(),
    };
    sequence("normalizers", parts)
}

/// Sets how a class splits texts, and how it joins pieces.
fn set_splits(class: &str, config: &Value, json: &mut Value) {
    let metaspace = json!({
        "type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": true,
    });
    let (splits, decoder) = match class {
        "PegasusTokenizer" | "MBart50Tokenizer" | "NllbTokenizer" => {
            (vec![metaspace.clone()], metaspace)
        }
        "BartTokenizer" => {
            let is_first_blank = config["add_prefix_space"] == true;
            let bytes = json!({
                "type": "ByteLevel", "add_prefix_space": is_first_blank, "trim_offsets": true,
                "use_regex": true,
            });
            (vec![bytes.clone()], bytes)
        }
        _ => (
            vec![json!({"type": "WhitespaceSplit"}), metaspace.clone()],
            metaspace,
        ),
    };
    json["pre_tokenizer"] = sequence("pretokenizers", splits);
    json["decoder"] = decoder;
}

/// Sets all parts of a `tokenizer.json` that a [known](super::class::is_known) class does not take
/// from it.
///
/// # Errors
///
/// If the language of sources is not a token.
pub(super) fn set_parts(class: &str, config: &Value, json: &mut Value) -> Result<(), String> {
    let class = plain(class);
    let id = |token: &str| {
        let vocab = &json["model"]["vocab"];
        let place = || vocab.as_array()?.iter().position(|piece| piece[0] == token);
        let added = added_token(json, token).map(|(id, _)| id);
        let id = added.or_else(|| vocab[token].as_u64());
        id.map(|id| id as usize).or_else(place)
    };
    let given = config["src_lang"].as_str();
    let usual = if class == "NllbTokenizer" {
        "eng_Latn"
    } else {
        "en_XX"
    };
    let language = given.unwrap_or(usual);
    let (before, after) = match &*class {
        "BartTokenizer" => (Some("<s>"), vec!["</s>"]),
        "MBartTokenizer" => (None, vec!["</s>", language]),
        "NllbTokenizer" if config["legacy_behaviour"] == true => (None, vec!["</s>", language]),
        "MBart50Tokenizer" | "NllbTokenizer" => (Some(language), vec!["</s>"]),
        _ => (None, vec!["</s>"]),
    };
    let names = before.iter().chain(&after);
    let is_template = match names.copied().find(|name| id(name).is_none()) {
        Some(name) if given == Some(name) => {
            return Err(format!("{CONFIG}: src_lang is {name}, which is no token"));
        }
        Some(name)
            if class == "NllbTokenizer" && name == language && json["post_processor"].is_null() =>
        {
            return Err(format!("no token of the language {name}"));
        }
        missing => missing.is_none(),
    };
    let template = template(before, &after, |token| id(token).unwrap_or(0));
    let old = json["normalizer"].take();
    let parts = old["normalizers"].as_array().cloned();
    let mut parts = parts.unwrap_or_else(|| vec![old]).into_iter();
    let table = parts.find(|part| part["type"] == "Precompiled");
    json["normalizer"] = normalizer(&class, table);
    set_splits(&class, config, json);
    if is_template {
        json["post_processor"] = template;
    }
    Ok(())
}

/// Returns the `tokenizer.json` of ByT5, whose tokens are bytes.
pub(super) fn of_bytes(config: &Value) -> Value {
    // What transformers saves has 0 `extra_ids`, and lists their tokens.
    let named = LISTS.into_iter().flat_map(|field| listed(&config[field]));
    let named = named.filter(|name| name.starts_with("<extra_id_")).count() as u64;
    let extra = config["extra_ids"].as_u64().unwrap_or(125).max(named);
    let extra = (0..extra).map(|n| format!("<extra_id_{n}>"));
    let names = ["<pad>", "</s>", "<unk>"].map(String::from).into_iter();
    let names: Vec<String> = names.chain(byte_names()).chain(extra).collect();
    let vocab = names
        .iter()
        .zip(0..)
        .map(|(name, id)| (name.clone(), Value::from(id)));
    let special = names.iter().enumerate().filter(|(_, name)| name.len() > 2);
    let special = special.map(|(id, name)| added("ByT5Tokenizer", id, name));
    let bytes = json!({
        "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": false, "use_regex": false,
    });
    // Bytes that are not UTF-8 are left out.
    let rest = json!({"type": "Replace", "pattern": {"String": "\u{fffd}"}, "content": ""});
    json!({
        "added_tokens": special.collect::<Vec<_>>(),
        "pre_tokenizer": bytes,
        "post_processor": template(None, &["</s>"], |_| 1),
        "decoder": sequence("decoders", vec![bytes, rest]),
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "vocab": vocab.collect::<serde_json::Map<_, _>>(),
            "merges": [],
        },
    })
}

/// Returns the characters that stand for the 256 bytes in a byte-level tokeniser: printable ones for
/// themselves, and those from 256 on for the others.
fn byte_names() -> impl Iterator<Item = String> {
    let mut others = '\u{100}'..;
    (0..=255_u8).map(move |byte| {
        let is_printable = matches!(byte, 33..=126 | 161..=172 | 174..=255);
        let name = if is_printable {
            Some(byte.into())
        } else {
            others.next()
        };
        String::from(name.expect("there are 68 others"))
    })
}

fn sequence(list: &str, parts: Vec<Value>) -> Value {
    if parts.is_empty() {
        return Value::Null;
    }
    json!({"type": "Sequence", list: parts})
}

fn template(before: Option<&str>, after: &[&str], id: impl Fn(&str) -> usize) -> Value {
    let token = |name: &str| json!({"SpecialToken": {"id": name, "type_id": 0}});
    let text = json!({"Sequence": {"id": "A", "type_id": 0}});
    let tokens = before.into_iter().chain(after.iter().copied());
    let ids = tokens.map(|name| {
        let ids = json!({"id": name, "ids": [id(name)], "tokens": [name]});
        (name.to_owned(), ids)
    });
    let single = before.map(token).into_iter().chain([text]);
    let single: Vec<Value> = single.chain(after.iter().map(|name| token(name))).collect();
    json!({
        "type": "TemplateProcessing",
        "single": single,
        "pair": single,
        "special_tokens": ids.collect::<serde_json::Map<_, _>>(),
    })
}
