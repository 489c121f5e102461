//! The template of special tokens in a `tokenizer.json` that is published.

use serde_json::{Value, json};

use super::is_language;

/// Puts the token of a language into the template of a `tokenizer.json`: in the place of another
/// language, else before all tokens.
pub fn set_language(tokenizer: &mut Value, language: &str, id: u32) {
    let is_one = |piece: &Value| {
        let name = piece["SpecialToken"]["id"].as_str();
        name.is_some_and(is_language)
    };
    let processor = &mut tokenizer["post_processor"];
    if template_of(processor).is_none() {
        let plain = template([text("A", 0)], [text("A", 0), text("B", 1)]);
        *processor = match processor.take() {
            Value::Null => plain,
            own => json!({"type": "Sequence", "processors": [own, plain]}),
        };
    }
    let template = template_of(processor).expect("there is one");
    for name in ["single", "pair"] {
        let Some(pieces) = template[name].as_array_mut() else {
            continue;
        };
        if !pieces.iter().any(is_one) {
            pieces.insert(0, token(language, 0));
        }
        for piece in pieces.iter_mut().filter(|piece| is_one(piece)) {
            piece["SpecialToken"]["id"] = language.into();
        }
    }
    template["special_tokens"][language] = entry(language, id);
}

/// Returns the language in the template of a `tokenizer.json`, and whether it precedes the text.
pub fn language_of(tokenizer: &mut Value) -> Option<(String, bool)> {
    let template = template_of(&mut tokenizer["post_processor"])?;
    let pieces = template["single"].as_array()?;
    let mut named = pieces
        .iter()
        .map(|piece| piece["SpecialToken"]["id"].as_str());
    let at = named.position(|name| name.is_some_and(is_language))?;
    let text = pieces
        .iter()
        .position(|piece| piece["Sequence"].is_object());
    let name = pieces[at]["SpecialToken"]["id"].as_str()?;
    Some((name.into(), Some(at) < text))
}

/// Makes a token the end of every text. Encoding has no padding, no truncation and no dropout, and
/// decoding no blank before the first word, which a byte-level encoder adds.
pub fn set_end(tokenizer: &mut Value, end: &str, id: u32) {
    if tokenizer["decoder"]["type"] == "ByteLevel" {
        let strip = json!({"type": "Strip", "content": " ", "start": 1, "stop": 0});
        let decoders = [tokenizer["decoder"].take(), strip];
        tokenizer["decoder"] = json!({"type": "Sequence", "decoders": decoders});
    }
    for setting in ["/truncation", "/padding", "/model/dropout"] {
        tokenizer.pointer_mut(setting).map(Value::take);
    }
    let pair = [text("A", 0), token(end, 0), text("B", 1), token(end, 1)];
    let mut template = template([text("A", 0), token(end, 0)], pair);
    template["special_tokens"][end] = entry(end, id);
    tokenizer["post_processor"] = template;
}

/// Returns the template in a `post_processor`.
fn template_of(processor: &mut Value) -> Option<&mut Value> {
    if processor["type"] == "TemplateProcessing" {
        return Some(processor);
    }
    let parts = processor.get_mut("processors")?.as_array_mut()?;
    parts.iter_mut().find_map(template_of)
}

fn template<const N: usize, const M: usize>(single: [Value; N], pair: [Value; M]) -> Value {
    let (single, pair) = (Vec::from(single), Vec::from(pair));
    json!({"type": "TemplateProcessing", "single": single, "pair": pair, "special_tokens": {}})
}

fn text(name: &str, type_id: u32) -> Value {
    json!({"Sequence": {"id": name, "type_id": type_id}})
}

fn token(name: &str, type_id: u32) -> Value {
    json!({"SpecialToken": {"id": name, "type_id": type_id}})
}

fn entry(name: &str, id: u32) -> Value {
    json!({"id": name, "ids": [id], "tokens": [name]})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the names of the tokens around a text that the template of a tokeniser adds.
    fn single(tokenizer: &Value) -> String {
        let mut processor = tokenizer["post_processor"].clone();
        let template = template_of(&mut processor).unwrap().clone();
        let pieces = template["single"].as_array().unwrap().iter();
        let names = pieces.map(|piece| match piece["SpecialToken"]["id"].as_str() {
            Some(name) => {
                assert!(
                    template["special_tokens"][name]["ids"][0].is_u64(),
                    "{name}"
                );
                name
            }
            None => "A",
        });
        names.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_language_replaces_another_or_begins_texts() {
        let template = |pieces: &[Value]| {
            let tokens = json!({"en_XX": entry("en_XX", 3), "</s>": entry("</s>", 2)});
            json!({"type": "TemplateProcessing", "single": pieces, "pair": pieces, "special_tokens": tokens})
        };
        let own = || vec![text("A", 0), token("</s>", 0)];
        let bytes = json!({"type": "ByteLevel", "trim_offsets": true});
        for (processor, expected) in [
            (Value::Null, "fr_XX A"),
            (json!({"type": "BertProcessing"}), "fr_XX A"),
            (template(&own()), "fr_XX A </s>"),
            (
                template(&[&[token("en_XX", 0)], &own()[..]].concat()),
                "fr_XX A </s>",
            ),
            (
                template(&[&own()[..], &[token("en_XX", 0)]].concat()),
                "A </s> fr_XX",
            ),
            (
                json!({"type": "Sequence", "processors": [bytes, template(&own())]}),
                "fr_XX A </s>",
            ),
        ] {
            let mut tokenizer = json!({"post_processor": processor});
            set_language(&mut tokenizer, "fr_XX", 9);
            assert_eq!(single(&tokenizer), expected, "{processor}");
            let once = tokenizer.clone();
            set_language(&mut tokenizer, "fr_XX", 9);
            assert_eq!(tokenizer, once, "{processor}");
        }
    }

    #[test]
    fn an_end_is_all_that_is_added() {
        let mut tokenizer =
            json!({"decoder": {"type": "ByteLevel"}, "padding": {}, "model": {"dropout": 0.1}});
        set_end(&mut tokenizer, "<eos>", 2);
        assert_eq!(single(&tokenizer), "A <eos>");
        assert_eq!(tokenizer["decoder"]["decoders"][1]["type"], "Strip");
        assert_eq!(
            (&tokenizer["padding"], &tokenizer["model"]["dropout"]),
            (&Value::Null, &Value::Null)
        );
    }
}
