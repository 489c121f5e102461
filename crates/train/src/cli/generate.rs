//! Flags of `generate`, and the generation that they ask for.

use std::path::PathBuf;

use crate::checkpoint::Which;
use clap::Args;
use transformer::TransformerConfig;
use transformer::generate::{GenerateConfig, Method};

use super::search::{BeamArgs, check_batch_size, check_generation, needs};
use super::{seed, whole_number};
use crate::error::{UsageError, quote};
use crate::task::Task;

/// Flags of `generate`.
#[derive(Clone, Debug, Args)]
#[command(after_help = "\
Input: one source a line, its symbols separated by white space; of a run on texts, one text a line. A
line with nothing on it has an empty answer.

Output: for each line of the input, in the same order,
  one line with the target;
  with --n-best 2 or more, one line LINE<TAB>SCORE<TAB>TARGET for each target, best first, LINE
  being the number of the input's line;
  with --score, one line with ln p(target | source);
  with --json, one JSON object. Its token_log_probabilities have one more than its tokens if the
  target is finished: that of the end symbol. They are those of what the search was allowed to
  choose from. Its alignment has a row for each token, with a weight for each symbol of the source.

Exit code: 2 if a line of the input is wrong. The answers to all lines before it are written; with
--keep-going, those to the lines after it, too.")]
pub struct GenerateArgs {
    /// Folder of a run
    pub run: PathBuf,
    /// Which checkpoint: last, best, the number of a step, or average:K of the last K
    #[arg(long, value_name = "WHICH", default_value = "last")]
    pub checkpoint: Which,
    /// Backend and device, `NAME` or `NAME:INDEX` [default: see `train backends`]
    #[arg(long, value_name = "NAME")]
    pub backend: Option<String>,
    /// File with the sources, - for stdin
    #[arg(long, value_name = "FILE", default_value = "-")]
    pub input: PathBuf,
    /// Lines that are worked on together [default: 64; 1 if stdin is a terminal]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub batch_size: Option<usize>,
    /// Round the matrices of the linear layers to eight bits first
    #[arg(long)]
    pub int8: bool,
    /// Print one JSON object for each line of the input
    #[arg(long)]
    pub json: bool,
    /// Report a wrong line on stderr, answer it by an empty line (with --json, by an object with
    /// its error), and go on
    #[arg(long)]
    pub keep_going: bool,
    /// Flags of a beam search.
    #[command(flatten)]
    pub beam: BeamArgs,
    /// Targets for each source: the best so many of a beam, or so many samples [default: 1]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub n_best: Option<usize>,
    /// Draw tokens from the model's distribution
    #[arg(long, conflicts_with_all = ["beam", "length_penalty", "alpha"])]
    pub sample: bool,
    /// Divides the logits: below 1 is bolder, above 1 more random; needs --sample [default: 1]
    #[arg(long, allow_negative_numbers = true)]
    pub temperature: Option<f64>,
    /// Draw from the likeliest so many tokens only; needs --sample
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub top_k: Option<usize>,
    /// Draw from the fewest tokens only that have this probability together; needs --sample
    #[arg(long, value_name = "P", allow_negative_numbers = true)]
    pub top_p: Option<f64>,
    /// Samples are functions of it and of the line's number; needs --sample [default: 0]
    #[arg(long, allow_negative_numbers = true, value_parser = seed)]
    pub seed: Option<u64>,
    /// Fewest symbols of a target before its end [default: 0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub min_length: Option<usize>,
    /// Most symbols of a target, its end symbol included [default: the task's longest;
    /// text: three times the source and 20]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole_number)]
    pub max_length: Option<usize>,
    /// Divides the logits of symbols that the target has already: above 1 discourages repetition
    /// [default: 1]
    #[arg(long, value_name = "X", allow_negative_numbers = true)]
    pub repetition_penalty: Option<f64>,
    /// Never generate this symbol; may be given several times. Special tokens such as `<unk>` can
    /// be forbidden, too
    #[arg(long, value_name = "SYMBOL")]
    pub forbid: Vec<String>,
    /// Begin every target with these symbols
    #[arg(long, value_name = "SYMBOLS")]
    pub prefix: Option<String>,
    /// Add what each token was made from: the cross-attention of the last decoder layer, mean over
    /// its heads; needs --json
    #[arg(long)]
    pub alignments: bool,
    /// Print each token as it comes, one source at a time
    #[arg(long, conflicts_with_all = [
        "beam", "length_penalty", "alpha", "n_best", "json", "alignments", "batch_size",
    ])]
    pub stream: bool,
    /// Read lines `SOURCE<TAB>TARGET` and print the log-probability of each target
    #[arg(long, conflicts_with_all = [
        "beam", "length_penalty", "alpha", "n_best", "sample", "temperature", "top_k", "top_p",
        "seed", "min_length", "max_length", "repetition_penalty", "forbid", "prefix", "alignments",
        "stream",
    ])]
    pub score: bool,
}

impl GenerateArgs {
    /// Checks what can be checked without the run.
    ///
    /// # Errors
    ///
    /// A wrong value, or flags that do not go together.
    pub fn check(&self) -> Result<(), UsageError> {
        needs(
            "--alignments",
            self.alignments.then_some(""),
            "--json",
            self.json,
        )?;
        check_batch_size(self.batch_size)?;
        self.method().map(|_| ())
    }

    fn method(&self) -> Result<Method, UsageError> {
        let sample = self.sample;
        needs("--temperature", self.temperature, "--sample", sample)?;
        needs("--top-k", self.top_k, "--sample", sample)?;
        needs("--top-p", self.top_p, "--sample", sample)?;
        needs("--seed", self.seed, "--sample", sample)?;
        if !sample {
            return self.beam.method();
        }
        Ok(Method::Sample {
            temperature: self.temperature.unwrap_or(1.0),
            top_k: self.top_k,
            top_p: self.top_p,
            seed: self.seed.unwrap_or(0),
            first_source: 0,
        })
    }

    /// The generation that these flags ask for, of a model that was trained on a task.
    ///
    /// # Errors
    ///
    /// The first flag that no generation can be made with.
    pub fn config(
        &self,
        task: &dyn Task,
        model: &TransformerConfig,
        batch_size: usize,
    ) -> Result<GenerateConfig, UsageError> {
        // A target of all of `max_len` has a begin symbol, which is not generated.
        let max_length = self.max_length.unwrap_or(task.max_len() - 1);
        if max_length > model.max_len {
            let expected = format!(
                "must be at most what the model can take ({})",
                model.max_len
            );
            return Err(UsageError::new("--max-length", max_length, expected));
        }
        let config = GenerateConfig::new(task.bos_id(), max_length)
            .with_eos_id(task.eos_id())
            .with_min_length(self.min_length.unwrap_or(0))
            .with_method(self.method()?)
            .with_n_best(self.n_best.unwrap_or(1))
            .with_repetition_penalty(self.repetition_penalty.unwrap_or(1.0))
            .with_forbidden(self.forbidden(task)?)
            .with_length_limit(match self.max_length {
                None => task.length_limit(),
                Some(_) => None,
            });
        check_generation(&config, model, batch_size)?;
        Ok(config)
    }

    fn forbidden(&self, task: &dyn Task) -> Result<Vec<u32>, UsageError> {
        let id = |name: &String| {
            task.token_id(name).ok_or_else(|| {
                let expected = format!("must be one symbol, of {}", task.symbols());
                UsageError::new("--forbid", quote(name), expected)
            })
        };
        self.forbid.iter().map(id).collect()
    }

    /// The tokens that every target begins with.
    ///
    /// # Errors
    ///
    /// Words that are no symbols, or too many of them.
    pub fn prefix(&self, task: &dyn Task, max_length: usize) -> Result<Vec<u32>, UsageError> {
        let Some(text) = &self.prefix else {
            return Ok(Vec::new());
        };
        let wrong = |expected| UsageError::new("--prefix", quote(text), expected);
        let prefix = task.parse(text).map_err(|error| wrong(error.to_string()))?;
        if prefix.len() > max_length {
            return Err(wrong(format!(
                "has {} symbols, must have at most --max-length ({max_length})",
                prefix.len()
            )));
        }
        Ok(prefix)
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use transformer::generate::LengthPenalty;

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::config::RunConfig;
    use crate::task::{Rule, SequenceTask};

    fn args(flags: &str) -> GenerateArgs {
        let words = ["train", "generate", "runs/copy-1"].into_iter();
        let cli = Cli::try_parse_from(words.chain(flags.split_whitespace())).unwrap();
        match cli.command {
            Some(Command::Generate(args)) => *args,
            other => panic!("{other:?}"),
        }
    }

    fn config(flags: &str) -> Result<GenerateConfig, UsageError> {
        let mut run = RunConfig::copy();
        let task = run.resolve().unwrap();
        let args = args(flags);
        args.check()?;
        args.config(task.as_ref(), &run.model, args.batch_size.unwrap_or(64))
    }

    #[test]
    fn without_flags_it_is_greedy_and_has_room_for_the_longest_target() {
        let config = config("").unwrap();
        assert_eq!(config, GenerateConfig::new(1, 17).with_eos_id(Some(2)));
    }

    #[test]
    fn each_flag_has_its_field() {
        let beam = |width, length_penalty| Method::Beam {
            width,
            length_penalty,
        };
        let method = |flags| config(flags).unwrap().method;
        let gnmt = |alpha| LengthPenalty::Gnmt { alpha };
        assert_eq!(method("--beam 1"), Method::Greedy);
        assert_eq!(method("--beam 4"), beam(4, gnmt(0.6)));
        assert_eq!(method("--beam 4 --alpha 1"), beam(4, gnmt(1.0)));
        assert_eq!(
            method("--beam 1 --length-penalty none"),
            beam(1, LengthPenalty::None)
        );
        assert_eq!(
            method("--beam 2 --length-penalty average"),
            beam(2, LengthPenalty::Average)
        );
        assert_eq!(
            method("--sample --temperature 0.5 --top-k 3 --top-p 0.9 --seed 7"),
            Method::Sample {
                temperature: 0.5,
                top_k: Some(3),
                top_p: Some(0.9),
                seed: 7,
                first_source: 0,
            }
        );
        let flags = "--beam 3 --n-best 2 --min-length 1 --max-length 9 --repetition-penalty 1.5 \
                     --forbid 3 --forbid <unk>";
        let config = config(flags).unwrap();
        assert_eq!(
            (config.n_best, config.min_length, config.max_length),
            (2, 1, 9)
        );
        assert_eq!(
            (config.repetition_penalty, config.forbidden),
            (1.5, vec![6, 3])
        );
    }

    #[test]
    fn wrong_values_are_called_by_their_flags() {
        let error = |flags| config(flags).unwrap_err().to_string();
        let limit = "--max-length 19: must be at most what the model can take (18)";
        assert_eq!(error("--max-length 19"), limit);
        assert_eq!(
            error("--max-length 0"),
            "--max-length 0: must be at least 1"
        );
        assert_eq!(
            error("--min-length 18"),
            "--min-length 18: must be at most --max-length (17)"
        );
        assert_eq!(error("--beam 0"), "--beam 0: must be at least 1");
        assert_eq!(
            error("--beam 2 --n-best 3"),
            "--n-best 3: must be at most --beam (2)"
        );
        assert!(error("--n-best 2").ends_with("use --beam or --sample"));
        assert_eq!(
            error("--beam 2 --alpha -1"),
            "--alpha -1: must be a number from 0 to 10"
        );
        assert_eq!(error("--alpha 1"), "--alpha 1: needs --beam");
        let other = "--beam 2 --length-penalty none --alpha 1";
        assert_eq!(error(other), "--alpha 1: needs --length-penalty gnmt");
        assert_eq!(
            error("--length-penalty gnmt"),
            "--length-penalty gnmt: needs --beam"
        );
        assert_eq!(error("--top-k 2"), "--top-k 2: needs --sample");
        assert_eq!(error("--sample --top-k 0"), "--top-k 0: must be at least 1");
        assert_eq!(
            error("--sample --top-p 1.5"),
            "--top-p 1.5: must be above 0 and at most 1"
        );
        assert_eq!(
            error("--forbid 33"),
            "--forbid \"33\": must be one symbol, of 1 to 32"
        );
        assert_eq!(error("--alignments"), "--alignments: needs --json");
    }

    #[test]
    fn what_no_machine_could_hold_is_refused() {
        let error = |flags: String| config(&flags).unwrap_err().to_string();
        let huge = usize::MAX;
        for value in [huge, 1_000_000_000] {
            let beam = error(format!("--beam {value}"));
            assert!(
                beam.starts_with(&format!("--beam {value}: must be at most")),
                "{beam}"
            );
            let samples = error(format!("--sample --n-best {value}"));
            assert!(
                samples.starts_with(&format!("--n-best {value}: must be")),
                "{samples}"
            );
            let batch = error(format!("--batch-size {value}"));
            assert!(
                batch.starts_with(&format!("--batch-size {value}: must be")),
                "{batch}"
            );
        }
    }

    #[test]
    fn a_prefix_has_room_in_its_target() {
        let task = SequenceTask::new(Rule::Copy, 9, 1, 4).unwrap();
        let mut args = args("");
        assert_eq!(args.prefix(&task, 2).unwrap(), [0; 0]);
        args.prefix = Some(" 1  9".into());
        assert_eq!(args.prefix(&task, 2).unwrap(), [4, 12]);
        let error = args.prefix(&task, 1).unwrap_err().to_string();
        assert!(
            error.contains("has 2 symbols, must have at most --max-length (1)"),
            "{error}"
        );
        args.prefix = Some("1 <eos>".into());
        assert!(args.prefix(&task, 5).is_err());
    }
}
