//! Flags of `generate`, and their conversion into the settings of a generation.

use std::path::PathBuf;

use clap::Args;
use training::data::parallel::UNK;
use training::data::{Codec, Dataset};
use training::error::{UsageError, quote};
use training::positions::max_tokens;
use training::pretrained::is_pretrained;
use transformer::TransformerConfig;
use transformer::generate::{GenerateConfig, LengthPenalty, Method};

use super::check::{reject, set};
use super::input::InputArgs;
use super::parse::{POSITIVE, number, whole_number};
use super::search::{BeamArgs, check_generation};
use super::trained::TrainedArgs;

/// Flags of a beam search, which exclude those of sampling. A flag that needs `--sample` names them,
/// too, because clap does not ask for a flag that is excluded itself.
const BEAM: [&str; 3] = ["beam", "length_penalty", "alpha"];

/// Flags of `generate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
The run may also be a Hugging Face folder with the weights, config.json and tokeniser, as downloaded, of a model of the families T5, BART, mBART, M2M100, NLLB, Pegasus or Marian.

Each line of each TEXT, or else of the input, is a source, its symbols separated by white space; for a run on texts, a text. The output for a blank line is blank. At a terminal there is a prompt with a history: a wrong line is reported and the next one is read, Ctrl-C leaves a line, and Ctrl-D ends.

The output has, for each line of the input and in the same order:
- by default, one line with the target
- with --n-best 2 or more, a line LINE<TAB>SCORE<TAB>TARGET for each target, best first, where LINE is the number of the input line
- with --score, one line with ln p(target | source)
- with --json, one JSON object. Its token_log_probabilities are normalised over the tokens that are not forbidden, whatever --temperature, --top-k and --top-p are; if the target is finished, the last one is that of the end symbol. Its alignment has a row for each token, with a weight for each symbol of the source and, for texts, its end symbol.

The exit code is 2 if a TEXT or a line of a file or a pipe is wrong. The outputs for all lines before it are printed, but no --output is written; with --keep-going, all lines have an output.")]
pub struct GenerateArgs {
    /// The model.
    #[command(flatten, next_help_heading = "Model")]
    pub trained: TrainedArgs,
    /// Language of the sources, such as eng_Latn, if the model is multilingual [default: the
    /// tokeniser's]
    #[arg(long, value_name = "CODE")]
    pub source_lang: Option<String>,
    /// Language of the outputs, such as deu_Latn, if the model is multilingual [default: the model's]
    #[arg(long, value_name = "CODE")]
    pub target_lang: Option<String>,
    #[command(flatten, next_help_heading = "Input")]
    pub input: InputArgs,
    /// Lines in a batch [default: 64, or fewer if these would need too much memory]; always 1 at a
    /// terminal
    #[arg(long, help_heading = "Input", value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub batch_size: Option<usize>,
    /// Report a wrong line on stderr, print a blank line for it (with --json, an object with its
    /// error), and continue
    #[arg(long, help_heading = "Input")]
    pub keep_going: bool,
    #[command(flatten, next_help_heading = "Search")]
    pub beam: BeamArgs,
    /// Targets for each source: the N best of a beam, or N samples [default: 1]
    #[arg(long, help_heading = "Search", value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub n_best: Option<usize>,
    /// Draw tokens from the model's distribution
    #[arg(long, help_heading = "Sampling", conflicts_with_all = BEAM)]
    pub sample: bool,
    /// Divisor of the logits: above 1 more random, below 1 less; needs --sample [default: 1]
    #[arg(long, help_heading = "Sampling", value_name = "X", requires = "sample", conflicts_with_all = BEAM, allow_negative_numbers = true, value_parser = number(POSITIVE))]
    pub temperature: Option<f64>,
    /// Draw from the N most likely tokens only; needs --sample
    #[arg(long, help_heading = "Sampling", value_name = "N", requires = "sample", conflicts_with_all = BEAM, allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub top_k: Option<usize>,
    /// Draw only from the smallest set of tokens with this total probability; needs --sample
    #[arg(long, help_heading = "Sampling", value_name = "P", requires = "sample", conflicts_with_all = BEAM, allow_negative_numbers = true, value_parser = number("a probability above 0 and at most 1, such as 0.9"))]
    pub top_p: Option<f64>,
    /// Seed of the samples, which also depend on the number of their line; needs --sample [default: 0]
    #[arg(long, help_heading = "Sampling", value_name = "N", requires = "sample", conflicts_with_all = BEAM, allow_negative_numbers = true, value_parser = whole_number::<u64>)]
    pub seed: Option<u64>,
    /// Minimum number of symbols of a target, without its end symbol [default: 0, or what the files
    /// of a pretrained model say]
    #[arg(long, help_heading = "Constraints", value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub min_length: Option<usize>,
    /// Maximum number of symbols of a target, its end symbol included [default: what the files
    /// of a pretrained model say, else the longest of the task or of the run's pairs, or the length of
    /// a source that is longer, but for text at most three times the length of the source plus 20]
    #[arg(long, help_heading = "Constraints", value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub max_length: Option<usize>,
    /// Divisor of positive logits, and factor of negative ones, of symbols that the target already
    /// has: above 1 discourages repetition [default: 1, or what the files of a pretrained model
    /// say]
    #[arg(long, help_heading = "Constraints", value_name = "X", allow_negative_numbers = true, value_parser = number(POSITIVE))]
    pub repetition_penalty: Option<f64>,
    /// Never generate the same n-gram of N tokens twice within a target; 0 sets no limit. A target
    /// for which every token is forbidden ends early [default: 0, or what the files of a pretrained model say]
    #[arg(long, help_heading = "Constraints", value_name = "N", allow_negative_numbers = true, value_parser = whole_number::<usize>)]
    pub no_repeat_ngram: Option<usize>,
    /// Never generate this symbol or, of texts, the token with this name and that of this text; may be
    /// given several times. Special tokens such as `<unk>` can be forbidden, too
    #[arg(long, help_heading = "Constraints", value_name = "SYMBOL")]
    pub forbid: Vec<String>,
    /// Begin every target with these symbols
    #[arg(long, help_heading = "Constraints", value_name = "SYMBOLS")]
    pub prefix: Option<String>,
    /// Print one JSON object for each line of the input
    #[arg(long, help_heading = "Output")]
    pub json: bool,
    /// Add the alignment of each token with the source: the cross-attention of the last decoder
    /// layer, mean over its heads; needs --json
    #[arg(long, help_heading = "Output", requires = "json")]
    pub alignments: bool,
    /// File for the outputs, written whole or not at all [default: standard output]
    #[arg(long, short, help_heading = "Output", value_name = "FILE", conflicts_with_all = ["stream"])]
    pub output: Option<PathBuf>,
    /// Print each token as soon as it is generated, one source at a time
    #[arg(long, help_heading = "Output", conflicts_with_all = [
        "beam", "length_penalty", "alpha", "n_best", "json", "alignments", "batch_size",
    ])]
    pub stream: bool,
    /// Read lines `SOURCE<TAB>TARGET` and print the log-probability of each target
    #[arg(long, help_heading = "Output", conflicts_with_all = [
        "beam", "length_penalty", "alpha", "n_best", "sample", "temperature", "top_k", "top_p",
        "seed", "min_length", "max_length", "repetition_penalty", "no_repeat_ngram", "forbid",
        "prefix", "alignments", "stream",
    ])]
    pub score: bool,
    /// Quantise the weights to 8 bits first
    #[arg(long, help_heading = "Speed and memory")]
    pub int8: bool,
}

impl GenerateArgs {
    /// Checks the flags as far as possible before the run is loaded.
    ///
    /// # Errors
    ///
    /// A value that is out of range, or flags that cannot be combined.
    pub fn check(&self) -> Result<(), UsageError> {
        if !is_pretrained(&self.trained.run) {
            let expected = "needs a Hugging Face folder: a run has one pair of languages";
            reject("--source-lang", self.source_lang.as_ref(), expected)?;
            reject("--target-lang", self.target_lang.as_ref(), expected)?;
        }
        // Without `--beam`, the beam width may come from the model, which is not loaded yet. This
        // check assumes that the model has a beam, so it rejects no flag that the model may allow.
        let beam = Method::Beam {
            width: 1,
            length_penalty: LengthPenalty::None,
        };
        self.method(beam).map(|_| ())
    }

    /// Returns the decoding method of the flags. `default` is the method that comes with the model.
    fn method(&self, default: Method) -> Result<Method, UsageError> {
        if !self.sample {
            // `--stream` prints tokens one by one, which a beam search cannot do.
            let is_greedy = self.stream && matches!(default, Method::Beam { .. });
            return if is_greedy {
                Ok(Method::Greedy)
            } else {
                self.beam.method_or(default)
            };
        }
        Ok(Method::Sample {
            temperature: self.temperature.unwrap_or(1.0),
            top_k: self.top_k,
            top_p: self.top_p,
            seed: self.seed.unwrap_or(0),
            first_source: 0,
        })
    }

    /// Returns the generation settings for this data set and model. Rejects a `--batch-size` for
    /// which the decoder's cache or the logits would have too many elements.
    ///
    /// # Errors
    ///
    /// The first flag with a value that is not possible, or flags that cannot be combined.
    pub fn config(
        &self,
        dataset: &dyn Dataset,
        model: &TransformerConfig,
    ) -> Result<GenerateConfig, UsageError> {
        let defaults = dataset.search();
        let mut config = dataset.search_config();
        if let Some(max_length) = self.max_length {
            config.max_length = max_length;
            config.length_limit = None;
        }
        let most = max_tokens(model);
        let too_long = Some(config.max_length).filter(|max_length| *max_length > most);
        let expected = format!("must be at most what the model can take ({most})");
        reject("--max-length", too_long, &expected)?;
        let least = config.min_length;
        let is_too_short = |max_length: &usize| self.min_length.is_none() && *max_length < least;
        let too_short = self.max_length.filter(is_too_short);
        let expected = format!(
            "must be at least the model's own minimum ({least}); --min-length gives another"
        );
        reject("--max-length", too_short, &expected)?;
        config.method = self.method(defaults.method)?;
        config.forbidden.extend(self.forbidden(dataset)?);
        set(&mut config.min_length, self.min_length);
        set(&mut config.n_best, self.n_best);
        set(&mut config.repetition_penalty, self.repetition_penalty);
        set(&mut config.no_repeat_ngram, self.no_repeat_ngram);
        check_generation(&config, model, self.batch_size.unwrap_or(1))?;
        Ok(config)
    }

    fn forbidden(&self, dataset: &dyn Dataset) -> Result<Vec<u32>, UsageError> {
        let codec = dataset.codec();
        let is_text = dataset.synthetic().is_none();
        let is_known = |id: u32| !is_unknown(codec, id);
        let ids = |name: &String| {
            // A text that is a token, such as a word, is forbidden beside the token of this name.
            let encoded = codec.encode_target(name).ok().filter(|_| is_text);
            let expected = match (codec.target_id(name), &encoded.unwrap_or_default()[..]) {
                (id, &[word]) if is_known(word) => return Ok(vec![word, id.unwrap_or(word)]),
                (Ok(id), _) => return Ok(vec![id]),
                (Err(_), []) if is_text => "is no text".into(),
                (Err(_), ids @ [_, _, ..]) => {
                    let names = ids.iter().map(|&id| codec.target_token(id));
                    let names = names.collect::<Vec<_>>().join(" ");
                    format!("must be one token, but this text has the tokens {names}")
                }
                (Err(error), _) => format!("must be one of {}", error.symbols),
            };
            Err(UsageError::new("--forbid", quote(name), expected))
        };
        let all: Result<Vec<_>, _> = self.forbid.iter().map(ids).collect();
        Ok(all?.concat())
    }

    /// Returns the ids of the tokens with which every target begins.
    ///
    /// # Errors
    ///
    /// A word that is not a symbol, or that is forbidden, or more symbols than `max_length`.
    pub fn prefix(&self, dataset: &dyn Dataset, max_length: usize) -> Result<Vec<u32>, UsageError> {
        let (codec, mut all) = (dataset.codec(), dataset.search().prefix);
        let Some(text) = &self.prefix else {
            return Ok(all);
        };
        let wrong = |expected| UsageError::new("--prefix", quote(text), expected);
        let encode = |text: &str| codec.encode_target(text).map_err(|e| wrong(e.to_string()));
        let mut prefix = encode(text)?;
        // A blank at the end is a part of the next word, unless it is a token of its own there.
        if text.ends_with(' ') && !encode(&format!("{text}{text}"))?.starts_with(&prefix) {
            prefix = encode(text.trim_end_matches(' '))?;
        }
        if prefix.iter().any(|&id| is_unknown(codec, id)) {
            return Err(wrong("has text that the vocabulary lacks".into()));
        }
        let forbidden = self.forbidden(dataset)?;
        if let Some(&id) = prefix.iter().find(|id| forbidden.contains(id)) {
            let token = codec.target_token(id);
            return Err(wrong(format!("has {token}, which --forbid rules out")));
        }
        // The tokeniser of a pretrained model may have added the model's own prefix already.
        let more = prefix.strip_prefix(&all[..]).unwrap_or(&prefix);
        all.extend(more);
        if all.len() > max_length {
            let n = all.len();
            let limit = format!("must have at most --max-length ({max_length})");
            return Err(wrong(format!("has {n} symbols, {limit}")));
        }
        Ok(all)
    }
}

/// Returns whether a target token stands for everything outside the vocabulary.
fn is_unknown(codec: &dyn Codec, id: u32) -> bool {
    UNK.contains(&&*codec.target_token(id))
}

#[cfg(test)]
mod tests;
