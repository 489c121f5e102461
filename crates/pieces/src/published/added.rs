//! Tokens that the files of a folder add to the vocabulary, or name as special.

use std::path::Path;

use serde_json::{Value, json};

use super::class::{added, is_bart};
use super::{ADDED, CONFIG, FolderError, SPECIAL, read_json};

/// Gives the added tokens of a `tokenizer.json` the properties that the files of a folder name, as the
/// library `transformers` does, and adds the tokens that are new. `is_whole` says that the folder has
/// this `tokenizer.json`.
///
/// A token that would get another id than the files say stays out, and [`check_tokens`] names it.
///
/// # Errors
///
/// If a file is not JSON.
pub(super) fn set_tokens(
    folder: &Path,
    class: &str,
    config: &Value,
    is_whole: bool,
    json: &mut Value,
) -> Result<(), FolderError> {
    let read = |name: &str| {
        let path = folder.join(name);
        read_json(&path).map_err(|what| FolderError { path, what })
    };
    let roles = if is_whole { &[][..] } else { roles_of(class) };
    let decoder = config["added_tokens_decoder"].as_object();
    let (special, list) = match decoder {
        Some(_) => (Value::Null, Value::Null),
        None => (read(SPECIAL)?, read(ADDED)?),
    };
    let role = |field: &str| Some(&special[field]).filter(|token| !token.is_null());
    let role = |field: &str| role(field).unwrap_or(&config[field]);
    // The other list of `special_tokens_map.json` has no effect.
    let lists = [&config[LISTS[0]], &config[LISTS[1]], &special[LISTS[1]]];
    let mut tokens: Vec<(Option<u64>, Value)> = Vec::new();
    for (id, token) in decoder.into_iter().flatten() {
        tokens.push((id.parse().ok(), token.clone()));
    }
    for (name, id) in list.as_object().into_iter().flatten() {
        let mut further = lists.into_iter().flat_map(listed);
        let is_special = is_role(name) || further.any(|token| token == name);
        // The file has a token with all its properties.
        if !is_whole || added_token(json, name).is_none() {
            let token = json!({"content": name, "special": is_special});
            tokens.push((id.as_u64(), token));
        }
    }
    tokens.sort_by_key(|(id, _)| *id);
    for (id, token) in tokens {
        let Some(name) = token_name(&token).map(String::from) else {
            continue;
        };
        let is_special = token["special"] == true || is_role(&name);
        set_token(json, class, &name, id, Some((&token, is_special)));
    }
    let of_decoder = |name: &str| {
        let mut tokens = decoder.into_iter().flatten();
        tokens.any(|(_, token)| token_name(token) == Some(name))
    };
    for (field, _) in ROLES {
        let token = role(field);
        let name = token_name(token).unwrap_or_default();
        let is_given = list[name].is_u64() || of_decoder(name) || is_whole && decoder.is_none();
        if token.is_object() && !is_given {
            set_token(json, class, name, None, Some((token, true)));
        }
    }
    for name in roles {
        set_token(json, class, name, None, None);
    }
    // A token in a list is special, too, and new if there is none of its name.
    for name in lists.into_iter().flat_map(listed) {
        if added_token(json, name).is_none() {
            set_token(json, class, name, None, Some((&Value::Null, true)));
        }
    }
    Ok(())
}

/// Returns the special tokens that a class adds to a vocabulary without them.
fn roles_of(class: &str) -> &'static [&'static str] {
    if is_bart(class) || class == "NllbTokenizer" {
        &["<s>", "</s>", "<unk>", "<pad>", "<mask>"]
    } else {
        &[]
    }
}

/// Adds a token to a `tokenizer.json`, unless it would have another id than `id`, and sets its
/// properties to those that are given, and whether it is special.
fn set_token(
    json: &mut Value,
    class: &str,
    name: &str,
    id: Option<u64>,
    given: Option<(&Value, bool)>,
) {
    let old = added_token(json, name).map(|(id, _)| id);
    let found = old.or_else(|| piece_id(json, name));
    let found = found.unwrap_or_else(|| next_id(json));
    if id.is_some_and(|id| id != found) {
        return;
    }
    if !json["added_tokens"].is_array() {
        json["added_tokens"] = json!([]);
    }
    let list = json["added_tokens"].as_array_mut().expect("it is a list");
    if old.is_none() {
        list.push(added(class, found as usize, name));
    }
    let token = list.iter_mut().find(|token| token["content"] == name);
    if let (Some(token), Some((given, is_special))) = (token, given) {
        for field in ["lstrip", "rstrip", "single_word"] {
            token[field] = (given[field] == true).into();
        }
        token["special"] = is_special.into();
        token["normalized"] = given["normalized"].as_bool().unwrap_or(!is_special).into();
    }
}

/// Returns the id of a piece of the vocabulary.
fn piece_id(json: &Value, name: &str) -> Option<u64> {
    let vocab = &json["model"]["vocab"];
    let place = |list: &Vec<Value>| list.iter().position(|piece| piece[0] == name);
    let place = vocab.as_array().and_then(place);
    place.map(|place| place as u64).or(vocab[name].as_u64())
}

/// Returns the id of the next new token, as the library `tokenizers` chooses it.
fn next_id(json: &Value) -> u64 {
    let vocab = &json["model"]["vocab"];
    let size = vocab.as_array().map(Vec::len);
    let size = size
        .or_else(|| vocab.as_object().map(serde_json::Map::len))
        .unwrap_or(0) as u64;
    let ids = json["added_tokens"].as_array().into_iter().flatten();
    let last = ids.filter_map(|token| token["id"].as_u64()).max();
    last.map_or(size, |last| size.max(last + 1))
}

/// Returns the id of an added token of a `tokenizer.json`, and whether it is special.
pub(super) fn added_token(json: &Value, token: &str) -> Option<(u64, bool)> {
    let added = json["added_tokens"].as_array()?;
    let found = added.iter().find(|added| added["content"] == token)?;
    Some((found["id"].as_u64()?, found["special"] == true))
}

/// The fields that name special tokens, and the names that are supported.
const ROLES: [(&str, &[&str]); 8] = [
    ("unk_token", &["<unk>"]),
    ("eos_token", &["</s>"]),
    ("pad_token", &["<pad>"]),
    ("bos_token", &["<s>"]),
    ("sep_token", &["</s>"]),
    ("cls_token", &["<s>"]),
    ("mask_token", &["<mask>", "<mask_2>"]),
    ("mask_token_sent", &["<mask_1>"]),
];

/// Returns whether a name is that of a special token with a role.
pub(super) fn is_role(name: &str) -> bool {
    ROLES.iter().any(|(_, names)| names.contains(&name))
}

/// Checks that the tokens that the files of a folder name are those of its tokeniser. `added` returns
/// the id of an added token, and whether it is special.
pub(super) fn check_tokens(
    folder: &Path,
    config: &Value,
    added: impl Fn(&str) -> Option<(u64, bool)>,
) -> Result<(), FolderError> {
    let read = |name: &str| {
        let path = folder.join(name);
        read_json(&path).map_err(|what| FolderError { path, what })
    };
    let wrong = |what: String| FolderError {
        path: folder.into(),
        what: format!("has {what}"),
    };
    let mut special = read(SPECIAL)?;
    let mut tokens: Vec<(&str, String, u64, Option<bool>)> = Vec::new();
    if let Some(list) = config["added_tokens_decoder"].as_object() {
        special = Value::Null;
        for (id, token) in list {
            let name = token_name(token).unwrap_or_default().to_owned();
            let is_special = Some(token["special"] == true);
            tokens.push((CONFIG, name, id.parse().unwrap_or(u64::MAX), is_special));
        }
    }
    if let Some(list) = read(ADDED)?.as_object() {
        for (name, id) in list {
            tokens.push((ADDED, name.clone(), id.as_u64().unwrap_or(u64::MAX), None));
        }
    }
    for (file, fields) in [(CONFIG, config), (SPECIAL, &special)] {
        for (role, names) in ROLES {
            if let Some(name) = token_name(&fields[role]).filter(|name| !names.contains(name)) {
                let names = names.join(" or ");
                let what = format!("{file}: {role} is {name}, but only {names} is supported");
                return Err(wrong(what));
            }
        }
    }
    for (file, name, id, is_special) in tokens {
        let found = added(&name);
        let has_role = is_role(&name);
        let same = |found: (u64, bool)| {
            found.0 == id && is_special.is_none_or(|is| is == found.1 || has_role)
        };
        if !found.is_some_and(same) {
            let field = if file == ADDED {
                "it"
            } else {
                "added_tokens_decoder"
            };
            let what = format!("{file}: {field} has {name} with the id {id}, unlike the tokeniser");
            return Err(wrong(what));
        }
    }
    Ok(())
}

/// The fields that list further special tokens.
pub(super) const LISTS: [&str; 2] = ["additional_special_tokens", "extra_special_tokens"];

/// Returns the tokens of a field in [`LISTS`].
pub(super) fn listed(field: &Value) -> impl Iterator<Item = &str> {
    let list = field.as_array().into_iter().flatten();
    let named = field
        .as_object()
        .into_iter()
        .flat_map(|fields| fields.values());
    list.chain(named).filter_map(token_name)
}

/// Returns the name of a token that is given by its name or with its properties.
fn token_name(token: &Value) -> Option<&str> {
    token.as_str().or(token["content"].as_str())
}
