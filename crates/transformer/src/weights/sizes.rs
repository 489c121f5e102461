//! What follows from a `config.json`.

use super::options::ImportOptions;
use super::parameters::Parameters;
use super::stacks::Stacks;

/// What follows from a `config.json`: import options, and the sizes that the weights must have.
pub(super) type Described = (ImportOptions, Sizes);

/// The sizes in a `config.json`, which the weights must have, too.
#[derive(Debug, Default)]
pub(super) struct Sizes {
    pub vocab_size: usize,
    /// Size of the target vocabulary; `None` if it is the same one.
    pub target_vocab_size: Option<usize>,
    pub d_model: usize,
    /// Inner width of the feed-forward networks, or of those of the decoder.
    pub d_ff: usize,
    /// That of the encoder; `None` if it is the same one.
    pub encoder_d_ff: Option<usize>,
    pub n_encoder_layers: usize,
    pub n_decoder_layers: usize,
    pub d_head: usize,
    /// Maximum lengths of encoder and decoder; `None` if both have that of the import options.
    pub max_lens: Option<[usize; 2]>,
    /// Number of key-value heads; `None` for that of the query heads.
    pub n_kv_heads: Option<usize>,
    /// Number of frequencies that the first convolution of Whisper takes.
    pub mel_bins: Option<usize>,
    /// Number of buckets of relative positions; `None` if `config.json` does not give it.
    pub relative_buckets: Option<usize>,
}

impl Sizes {
    /// Returns the name of each size, its value in the weights, and its value in `config.json`.
    pub(super) fn compare(
        &self,
        stacks: &Stacks,
        others: &Parameters,
    ) -> [(&'static str, usize, usize); 13] {
        let config = stacks.nearest();
        let convolution = others.get("encoder.conv1.weight");
        let mel_bins = convolution.map_or(0, |weight| weight.shape()[1]);
        let buckets = self.relative_buckets.unwrap_or(config.relative_buckets);
        let [encoder, decoder] = stacks.n_layers();
        let n_kv_heads = config.n_kv_heads.unwrap_or(config.n_heads);
        let [encoder_d_ff, source_len] = match &stacks.encoder {
            Some(encoder) => [
                encoder.layer.feed_forward.d_ff,
                encoder.input.positions.max_len,
            ],
            None => [config.d_ff, config.max_len],
        };
        let target_vocab_size = self.target_vocab_size.unwrap_or(self.vocab_size);
        let max_lens = self.max_lens.unwrap_or([source_len, config.max_len]);
        [
            ("relative_buckets", config.relative_buckets, buckets),
            ("vocab_size", config.source_vocab_size, self.vocab_size),
            (
                "decoder_vocab_size",
                config.target_vocab_size,
                target_vocab_size,
            ),
            ("d_model", config.d_model, self.d_model),
            ("d_ff", config.d_ff, self.d_ff),
            (
                "d_ff of the encoder",
                encoder_d_ff,
                self.encoder_d_ff.unwrap_or(self.d_ff),
            ),
            ("source positions", source_len, max_lens[0]),
            ("target positions", config.max_len, max_lens[1]),
            ("num_mel_bins", mel_bins, self.mel_bins.unwrap_or(mel_bins)),
            ("encoder layers", encoder, self.n_encoder_layers),
            ("decoder layers", decoder, self.n_decoder_layers),
            ("dimensions a head", config.d_head(), self.d_head),
            (
                "key-value heads",
                n_kv_heads,
                self.n_kv_heads.unwrap_or(config.n_heads),
            ),
        ]
    }
}
