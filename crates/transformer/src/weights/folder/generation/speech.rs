//! The first tokens of a target of Whisper.

use std::collections::BTreeMap;

use serde_json::json;

use crate::weights::error::WeightsError;
use crate::weights::fields::Fields;

/// Takes the tokens that follow the start token of a target of Whisper: language and task, which a
/// model of English lacks, and `<|notimestamps|>`.
///
/// Whisper detects a language that is not given, and `transformers` then leaves out a task that is
/// not given. Here, they are English and `transcribe`.
pub(super) fn start_of_speech(fields: &mut Fields) -> Result<Vec<u32>, WeightsError> {
    // Only Whisper has this token.
    let Some(last) = fields.optional("no_timestamps_token_id")? else {
        return Ok(Vec::new());
    };
    fields.expect(&["return_timestamps"], json!(false))?;
    let forced: Option<Vec<(usize, Option<u32>)>> = fields.optional("forced_decoder_ids")?;
    let forced = forced.unwrap_or_default();
    if (1..).zip(&forced).any(|(at, (index, _))| at != *index) {
        let expected = "the indices from 1 on";
        return Err(fields.refuse("forced_decoder_ids", &json!(forced), &expected));
    }
    let mut tokens: Vec<Option<u32>> = forced.into_iter().map(|(_, id)| id).collect();
    let names = ["language", "task"];
    let given: [Option<String>; 2] = [fields.optional(names[0])?, fields.optional(names[1])?];
    if given.iter().any(Option::is_some) {
        tokens.clear();
    }
    let usual = [("lang_to_id", "<|en|>"), ("task_to_id", "transcribe")];
    for (index, (given, (table, usual))) in given.into_iter().zip(usual).enumerate() {
        let ids: BTreeMap<String, u32> = fields.optional(table)?.unwrap_or_default();
        if given.is_none() && ids.is_empty() {
            continue;
        }
        let id = |name: &str| ids.get(name).or(ids.get(&format!("<|{name}|>"))).copied();
        tokens.resize(tokens.len().max(index + 1), None);
        tokens[index] = match given {
            Some(given) => match id(&given) {
                None => {
                    let expected = format!("a name of {table}");
                    return Err(fields.refuse(names[index], &given, &expected));
                }
                id => id,
            },
            None => tokens[index].or(id(usual)),
        };
    }
    let mut tokens: Vec<u32> = tokens.into_iter().flatten().collect();
    if tokens.last() != Some(&last) {
        tokens.push(last);
    }
    Ok(tokens)
}
