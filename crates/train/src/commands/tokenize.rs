//! `train tokenize`: turn lines of text into tokens and back.

use std::sync::Arc;

use anyhow::Result;
use training::data::parallel::{Pieces, Tokenizer, TokenizerPair};
use training::data::{DataConfig, Dataset};
use training::error::{UsageError, quote};
use training::inference::{Line, Unreadable, one_line};
use training::run::read_config;

use crate::args::{Side, TokenizeArgs, name_of};
use crate::terminal::output;

/// Number of bytes of output that are collected before they are printed.
const CHUNK: usize = 1 << 16;

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
    let vocabulary = Vocabulary::open(args)?;
    let pieces = vocabulary.pieces();
    let input = args.input.open()?;
    let is_interactive = input.is_terminal();
    let mut text = String::new();
    for line in input {
        let line = line.map_err(|error| match error {
            Unreadable::Line(_, error) | Unreadable::Rest(error) => error,
        });
        let converted = line.and_then(|line| {
            if args.decode {
                let ids = ids(&line, &pieces, args.ids)?;
                Ok(one_line(&vocabulary.decode(&ids)))
            } else {
                let n = line.text.len();
                if n > LONGEST {
                    let what = format!("has {n} bytes, but a text may have {LONGEST}");
                    return Err(line.wrong(what));
                }
                let ids = vocabulary.encode(&line)?;
                Ok(words(&ids, &pieces, args.ids))
            }
        });
        match converted {
            Ok(converted) => text += &converted,
            Err(error) => {
                let _ = output::stream(&text)?;
                return Err(error.into());
            }
        }
        text.push('\n');
        if is_interactive || text.len() >= CHUNK {
            if output::stream(&text)?.is_break() {
                return Ok(());
            }
            text.clear();
        }
    }
    output::stream(&text).map(|_| ())
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

/// The vocabulary of one side, source or target.
enum Vocabulary {
    /// The tokens of a tokeniser.
    Tokenizer(Arc<Tokenizer>),
    /// The symbols of a synthetic task, which are the same for both sides.
    Symbols(Box<dyn Dataset>),
}

impl Vocabulary {
    fn open(args: &TokenizeArgs) -> Result<Self> {
        let path = &args.tokenizer;
        if !path.is_dir() {
            if let Some(side) = args.side {
                let expected = "needs the folder of a run, which has two tokenisers";
                return Err(UsageError::new("--side", name_of(side), expected).into());
            }
            if !path.exists() {
                let expected = "does not exist; name the folder of a run, or a tokenizer.json";
                return Err(UsageError::new("TOKENIZER", path.display(), expected).into());
            }
            return Ok(Self::Tokenizer(Arc::new(Tokenizer::read(path)?)));
        }
        let (config, dataset) = read_config(path)?;
        let DataConfig::Text(text) = &config.data else {
            return Ok(Self::Symbols(dataset));
        };
        let pair = TokenizerPair::of_run(path, text)?;
        Ok(Self::Tokenizer(match args.side {
            None | Some(Side::Source) => pair.source,
            Some(Side::Target) => pair.target,
        }))
    }

    fn pieces(&self) -> Pieces {
        match self {
            Self::Tokenizer(tokenizer) => tokenizer.pieces(),
            Self::Symbols(dataset) => {
                let codec = dataset.codec();
                let ids = 0..codec.vocabularies().target_size as u32;
                Pieces::new(ids.map(|id| [codec.target_token(id), codec.target_token(id)]))
            }
        }
    }

    /// Returns the token ids of a text, without begin and end symbol.
    ///
    /// With the tokeniser of a pretrained model, the ids begin with the special tokens that its
    /// template puts before a text.
    fn encode(&self, line: &Line) -> Result<Vec<u32>, UsageError> {
        match self {
            Self::Tokenizer(tokenizer) => Ok(tokenizer.encode(&line.text)),
            Self::Symbols(dataset) => {
                let ids = dataset.codec().encode_target(&line.text);
                ids.map_err(|error| line.wrong(error.to_string()))
            }
        }
    }

    fn decode(&self, ids: &[u32]) -> String {
        match self {
            Self::Tokenizer(tokenizer) => tokenizer.decode(ids),
            Self::Symbols(dataset) => dataset.codec().decode_target(ids),
        }
    }
}
