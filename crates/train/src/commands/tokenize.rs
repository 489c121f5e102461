//! `train tokenize`: turn lines of text into tokens and back.

use std::collections::HashMap;
use std::io::{IsTerminal, stdin};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Result;
use clap::{Args, ValueEnum};
use training::data::DataConfig;
use training::data::parallel::{Tokenizer, TokenizerPair};
use training::error::{UsageError, quote};
use training::inference::{Line, Unreadable, one_line};
use training::pretrained::{Languages, PretrainedModel, is_pretrained};
use training::run::layout::is_missing;
use training::run::read_config;
use transformer::weights::ModelFolder;

use crate::args::{InputArgs, name_of, reject, run_folder};
use crate::terminal::output;

/// Flags of `tokenize`.
#[derive(Clone, Debug, Args)]
pub struct TokenizeArgs {
    /// Folder of a run or of a Hugging Face model, `latest`, or a tokenizer.json
    #[arg(value_name = "TOKENIZER", value_parser = run_folder())]
    pub tokenizer: PathBuf,
    /// Tokeniser of the run to use [default: source]
    #[arg(long)]
    pub side: Option<Side>,
    /// Print the ids of tokens instead of their names; with --decode, read ids
    #[arg(long)]
    pub ids: bool,
    /// Turn lines of tokens, separated by blanks, back into text
    #[arg(long)]
    pub decode: bool,
    #[command(flatten)]
    pub input: InputArgs,
}

/// One of the two tokenisers of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Side {
    /// The tokeniser of what the encoder reads
    Source,
    /// The tokeniser of what the decoder writes
    Target,
}

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
    let names = tokenizer.names();
    let ids: HashMap<&str, u32> = names.iter().map(String::as_str).zip(0..).collect();
    let parsed = |word: &str, line: &Line| {
        let (id, what) = if args.ids {
            let id = word.parse().ok().filter(|id| (*id as usize) < names.len());
            (
                id,
                format!("is not the id of a token, from 0 to {}", names.len() - 1),
            )
        } else {
            let what = "is not a token of this tokeniser, as `train tokenize` prints them";
            (ids.get(word).copied(), what.into())
        };
        id.ok_or_else(|| line.wrong(format!("{} {what}", quote(word))))
    };
    let converted = |line: &Line| -> Result<String, UsageError> {
        let n = line.text.len();
        if args.decode {
            // The name of a token may contain white space other than a blank, so only blanks
            // separate names.
            let words = line.text.split(' ').filter(|word| !word.is_empty());
            let found: Result<Vec<u32>, _> = words.map(|word| parsed(word, line)).collect();
            Ok(one_line(&tokenizer.decode(&found?)))
        } else if n <= LONGEST {
            let found = tokenizer.encode(&line.text).into_iter();
            let name = |id: u32| names.get(id as usize).filter(|_| !args.ids);
            let words = found.map(|id| name(id).cloned().unwrap_or(id.to_string()));
            Ok(words.collect::<Vec<_>>().join(" "))
        } else {
            Err(line.wrong(format!("has {n} bytes, but a text may have {LONGEST}")))
        }
    };
    let is_stdin = args.input.texts.is_empty() && args.input.input.as_os_str() == "-";
    let is_typed = is_stdin && stdin().is_terminal();
    if is_typed {
        output::note("reads lines from the terminal until Ctrl-D");
    }
    for line in args.input.open()? {
        let converted = match line {
            Ok(line) => converted(&line),
            Err(Unreadable::Line(_, error)) => Err(error),
            Err(Unreadable::Rest(error)) => return Err(error.into()),
        };
        match converted {
            Ok(text) => {
                if output::stream(&(text + "\n"))?.is_break() {
                    break;
                }
            }
            Err(error) if is_typed => output::error(&error.to_string()),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Opens the tokeniser in a file, or that of one side of a run or of a model.
fn open(args: &TokenizeArgs) -> Result<Arc<Tokenizer>> {
    let (path, of_model) = (&args.tokenizer, args.tokenizer.join("tokenizer.json"));
    // A model that `generate` refuses may have a tokenizer.json all the same.
    let is_whole = || ModelFolder::open(path).is_ok_and(|folder| folder.check_whole().is_ok());
    let pair = if is_pretrained(path) && (!of_model.exists() || is_whole()) {
        let model = PretrainedModel::open(path, &Languages::default())?;
        model.dataset.tokenizers
    } else if is_pretrained(path) || !path.is_dir() && !is_missing(path) {
        let expected = "needs the folder of a run, which has two tokenisers";
        reject("--side", args.side.map(name_of), expected)?;
        let file = if path.is_dir() { &of_model } else { path };
        return Ok(Arc::new(Tokenizer::read(file)?));
    } else {
        let (config, _) = read_config(path)?;
        let DataConfig::Text(text) = &config.data else {
            let what = "is not a run on texts, and has no tokeniser";
            return Err(UsageError::new("TOKENIZER", path.display(), what).into());
        };
        TokenizerPair::of_run(path, text)?
    };
    let is_target = args.side == Some(Side::Target);
    Ok(if is_target { pair.target } else { pair.source })
}
