//! `train tokenize`: turn lines of text into tokens and back.

use std::sync::Arc;

use anyhow::Result;
use training::data::DataConfig;
use training::data::parallel::{Pieces, Tokenizer, TokenizerPair};
use training::error::{UsageError, quote};
use training::inference::{Line, Unreadable, one_line};
use training::run::read_config;

use crate::args::{Side, TokenizeArgs, name_of};
use crate::terminal::output;

/// Maximum size of a text in bytes. A tokeniser needs hundreds of bytes of memory for each byte of
/// text.
const LONGEST: usize = 1 << 20;

/// Runs the command.
///
/// # Errors
///
/// A folder or file that has no tokeniser, an input that cannot be read, a line that cannot be
/// converted, or a stdout that cannot be written.
pub(super) fn run(args: &TokenizeArgs) -> Result<()> {
    let tokenizer = open(args)?;
    let pieces = tokenizer.pieces();
    for line in args.input.open()? {
        let line = line.map_err(|error| match error {
            Unreadable::Line(_, error) | Unreadable::Rest(error) => error,
        })?;
        let n = line.text.len();
        let converted = if args.decode {
            one_line(&tokenizer.decode(&ids(&line, &pieces, args.ids)?))
        } else if n <= LONGEST {
            words(&tokenizer.encode(&line.text), &pieces, args.ids)
        } else {
            let what = format!("has {n} bytes, but a text may have {LONGEST}");
            return Err(line.wrong(what).into());
        };
        if output::stream(&(converted + "\n"))?.is_break() {
            break;
        }
    }
    Ok(())
}

/// Returns the names of tokens, or their ids if `as_ids`, separated by blanks.
fn words(ids: &[u32], pieces: &Pieces, as_ids: bool) -> String {
    let word = |&id: &u32| {
        if as_ids {
            id.to_string()
        } else {
            pieces.name(id).unwrap_or("?").into()
        }
    };
    ids.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// Parses a line of token names, or of token ids if `as_ids`, and returns the ids.
fn ids(line: &Line, pieces: &Pieces, as_ids: bool) -> Result<Vec<u32>, UsageError> {
    let id = |word: &str| {
        if as_ids {
            let id = word.parse().ok();
            id.filter(|&id| pieces.name(id).is_some()).ok_or_else(|| {
                let last = pieces.len() - 1;
                line.wrong(format!(
                    "{} is not an id, which are 0 to {last}",
                    quote(word)
                ))
            })
        } else {
            pieces.id(word).ok_or_else(|| {
                let what = "is not a token of this tokeniser, as `train tokenize` prints them";
                line.wrong(format!("{} {what}", quote(word)))
            })
        }
    };
    // The name of a token may contain white space other than a blank, so only blanks separate
    // names.
    let words = line.text.split(' ').filter(|word| !word.is_empty());
    words.map(id).collect()
}

/// Opens the tokeniser in a file, or that of one side of a run.
fn open(args: &TokenizeArgs) -> Result<Arc<Tokenizer>> {
    let path = &args.tokenizer;
    let wrong = |what: &str| UsageError::new("TOKENIZER", path.display(), what);
    if !path.is_dir() {
        if let Some(side) = args.side {
            let expected = "needs the folder of a run, which has two tokenisers";
            return Err(UsageError::new("--side", name_of(side), expected).into());
        }
        if !path.exists() {
            let what = "does not exist; name the folder of a run, or a tokenizer.json";
            return Err(wrong(what).into());
        }
        return Ok(Arc::new(Tokenizer::read(path)?));
    }
    let (config, _) = read_config(path)?;
    let DataConfig::Text(text) = &config.data else {
        return Err(wrong("is not a run on texts, and has no tokeniser").into());
    };
    let pair = TokenizerPair::of_run(path, text)?;
    Ok(match args.side {
        None | Some(Side::Source) => pair.source,
        Some(Side::Target) => pair.target,
    })
}
