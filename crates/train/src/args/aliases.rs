//! Names that other programs (PyTorch's examples, fairseq, Joey NMT, Hugging Face) use for flags
//! and commands of `train`. If a command does not know such a name, the error message suggests the
//! flag or command of `train`.

/// Flags of `train`, each with its names in other programs, without leading dashes. If several
/// flags list the same name, the first one that the command has is suggested.
const FLAGS: &[(&str, &str)] = &[
    ("--learning-rate", "lr peak-lr max-lr learningrate base-lr"),
    ("--weight-decay", "wd decay l2"),
    (
        "--batch-size",
        "bs batch batchsize train-batch-size per-device-train-batch-size max-sentences minibatch",
    ),
    ("--batch-tokens", "max-tokens tokens-per-batch"),
    (
        "--layers",
        "num-layers n-layers nlayers layer depth encoder-layers decoder-layers num-encoder-layers \
         num-decoder-layers n-encoder-layers n-decoder-layers num-hidden-layers",
    ),
    (
        "--heads",
        "head num-heads n-heads n-head nhead nheads encoder-attention-heads \
         decoder-attention-heads attention-heads num-attention-heads",
    ),
    (
        "--d-model",
        "hidden hidden-size hidden-dim dim width embed-dim embedding-dim emb-size emsize d dmodel \
         model-dim encoder-embed-dim decoder-embed-dim",
    ),
    (
        "--d-ff",
        "ffn ff-size ff dff nhid dim-feedforward ffn-dim encoder-ffn-embed-dim \
         decoder-ffn-embed-dim intermediate-size feedforward",
    ),
    (
        "--steps",
        "max-update max-updates max-steps iterations iters num-steps n-steps updates train-steps",
    ),
    (
        "--epochs",
        "epoch max-epoch max-epochs num-epochs n-epochs num-train-epochs",
    ),
    (
        "--warmup",
        "warm-up warmup-updates warmup-steps num-warmup-steps learning-rate-warmup",
    ),
    (
        "--schedule",
        "scheduler lr-scheduler lr-scheduler-type lr-schedule scheduling",
    ),
    ("--optimizer", "optim optimiser"),
    (
        "--label-smoothing",
        "smoothing label-smoothing-factor smooth",
    ),
    (
        "--accumulate",
        "update-freq gradient-accumulation-steps grad-accum accumulation accum batch-multiplier",
    ),
    (
        "--clip-norm",
        "clip grad-clip gradient-clip clip-grad clip-grad-norm max-grad-norm gradient-clip-val",
    ),
    ("--precision f16", "fp16 half memory-efficient-fp16"),
    ("--precision bf16", "bf16 amp"),
    ("--precision", "dtype mixed-precision"),
    (
        "--set optimization.optimizer.beta_1=0.9",
        "betas adam-betas beta1 beta-1 adam-beta1",
    ),
    (
        "--set optimization.optimizer.beta_2=0.98",
        "beta2 beta-2 adam-beta2",
    ),
    (
        "--set optimization.optimizer.epsilon=1e-9",
        "eps adam-eps adam-epsilon epsilon",
    ),
    (
        "--tensorboard",
        "wandb mlflow tensorboard-dir logger report-to",
    ),
    (
        "--checkpoint-every",
        "save-interval save-interval-updates save-steps save-every checkpoint-interval",
    ),
    (
        "--keep",
        "keep-last-epochs keep-interval-updates keep-last save-total-limit keep-best-ckpts",
    ),
    (
        "--run-dir",
        "save-dir output-dir out-dir outdir out output model-dir log-dir logdir save",
    ),
    (
        "--eval-every",
        "validate-interval validate-interval-updates eval-steps eval-interval validation-freq \
         valid-every eval-freq",
    ),
    (
        "--patience",
        "early-stopping early-stopping-patience early-stop",
    ),
    (
        "--best-by",
        "eval-metric best-checkpoint-metric metric-for-best-model early-stopping-metric",
    ),
    (
        "--train-source",
        "src source source-file train-src trainpref train-data data",
    ),
    ("--train-target", "tgt trg target-file train-tgt train-trg"),
    (
        "--valid-source",
        "dev val validation validpref valid-src dev-source dev-src val-source val-src",
    ),
    (
        "--valid-target",
        "valid-tgt valid-trg dev-target dev-tgt val-target val-tgt",
    ),
    ("--input", "src source source-file text file test"),
    ("--ema", "ema-decay moving-average exponential-smoothing"),
    (
        "--weight-tying",
        "share-all-embeddings tie-weights tied-embeddings tied-softmax tie-embeddings \
         share-decoder-input-output-embed tie-word-embeddings",
    ),
    (
        "--norm",
        "pre-norm post-norm norm-first layer-norm encoder-normalize-before \
         decoder-normalize-before",
    ),
    (
        "--positions",
        "pos position-encoding positional-encoding pos-encoding position-embedding-type",
    ),
    (
        "--activation",
        "act activation-fn activation-function hidden-act",
    ),
    (
        "--dropout",
        "dropout-rate p-drop drop attention-dropout attn-dropout",
    ),
    ("--tokenizer", "tokeniser tokenizer-type bpe subword"),
    ("--vocab-size", "vocab vocabulary vocabulary-size n-vocab"),
    (
        "--joint-vocabulary",
        "joined-dictionary shared-vocab share-vocab joint-vocab",
    ),
    ("--lower-case", "lowercase lower uncased"),
    (
        "--gradient-checkpointing",
        "checkpoint-activations activation-checkpointing",
    ),
    (
        "--resume",
        "restore-file resume-from-checkpoint load-model continue restore load",
    ),
    (
        "--max-length",
        "max-len max-seq-length max-seq-len seq-len seq-length sequence-length length max-tokens \
         max-source-positions max-len-b max-new-tokens max-gen-len max-decode-len",
    ),
    ("--min-length", "min-len min-len-b min-new-tokens"),
    ("--backend", "device cuda gpu cpu accelerator"),
    (
        "--threads",
        "num-threads n-threads workers num-workers jobs nproc",
    ),
    ("--seed", "random-seed manual-seed"),
    ("--quiet", "silent no-progress-bar"),
    ("--verbose", "debug log-level"),
    ("--plain", "no-tui no-dashboard"),
    ("--beam", "beams beam-size num-beams beam-width k"),
    ("--alpha", "lenpen lp length-alpha"),
    ("--sample", "sampling do-sample"),
    ("--temperature", "temp sampling-temperature"),
    ("--top-k", "topk sampling-topk"),
    ("--top-p", "topp sampling-topp nucleus"),
    ("--n-best", "nbest num-return-sequences num-samples best-of"),
    (
        "--no-repeat-ngram",
        "no-repeat-ngram-size block-ngram-repeat",
    ),
    ("--forbid", "bad-words bad-words-ids suppress-tokens ban"),
    ("--prefix", "prefix-tokens forced-decoder-ids prompt"),
    ("--checkpoint", "ckpt model path checkpoint-path"),
    ("--int8", "quantize quantise load-in-8bit q8"),
    ("--alignments", "print-alignment alignment attn attention"),
    ("--symbols", "n-symbols vocab vocab-size num-symbols"),
];

/// Commands of `train`, each with its names in other programs.
const COMMANDS: &[(&str, &str)] = &[
    ("fit", "train learn start new"),
    ("resume", "continue restart restore"),
    (
        "generate",
        "translate predict infer inference decode sample interactive test-file",
    ),
    ("eval", "evaluate test validate"),
    ("score", "bleu sacrebleu chrf compute-bleu"),
    ("plot", "draw graph figure figures"),
    ("runs", "list ls experiments"),
    ("compare", "diff"),
    ("import", "convert load from-pytorch"),
    ("export", "save to-pytorch"),
    ("inspect", "show info weights"),
    ("bench", "benchmark speed perf"),
    ("backends", "devices backend device"),
    ("presets", "preset tasks defaults"),
    ("init", "config template"),
    ("completions", "completion complete"),
];

/// Returns the flag of `train` that corresponds to the flag `name` of another program; `None` if
/// there is none. `name` has no leading dashes. The result includes a value if the flag needs a
/// certain one, as in `--precision f16`. `is_known` says whether the command has a flag.
pub fn flag(name: &str, is_known: impl Fn(&str) -> bool) -> Option<&'static str> {
    let found = FLAGS.iter().filter(|(_, names)| has(names, name));
    let flag_of = |flag: &'static str| flag.split(' ').next().unwrap_or(flag);
    let mut found = found.filter(|(flag, _)| is_known(flag_of(flag)));
    found.next().map(|(flag, _)| *flag)
}

/// Returns the command of `train` that corresponds to the command `name` of another program; `None`
/// if there is none.
pub fn command(name: &str) -> Option<&'static str> {
    let mut found = COMMANDS.iter().filter(|(_, names)| has(names, name));
    found.next().map(|(command, _)| *command)
}

fn has(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    #[test]
    fn all_flags_and_commands_that_are_named_exist() {
        let cli = Cli::command();
        let mut flags: Vec<String> = Vec::new();
        for command in cli.get_subcommands().chain([&cli]) {
            let names = command.get_arguments().filter_map(|arg| arg.get_long());
            flags.extend(names.map(|name| format!("--{name}")));
        }
        for (flag, _) in FLAGS {
            let name = flag.split(' ').next().unwrap();
            assert!(flags.iter().any(|known| known == name), "{flag}");
        }
        for (command, names) in COMMANDS {
            assert!(cli.find_subcommand(command).is_some(), "{command}");
            for name in names.split_whitespace() {
                assert!(cli.find_subcommand(name).is_none(), "{name} is a command");
            }
        }
    }

    #[test]
    fn a_name_leads_to_a_flag_that_the_command_has() {
        assert_eq!(flag("lr", |_| true), Some("--learning-rate"));
        assert_eq!(flag("max-tokens", |_| true), Some("--batch-tokens"));
        let is_of_generate = |flag: &str| flag == "--max-length";
        assert_eq!(flag("max-tokens", is_of_generate), Some("--max-length"));
        assert_eq!(flag("lr", |_| false), None);
        assert_eq!(command("translate"), Some("generate"));
    }
}
