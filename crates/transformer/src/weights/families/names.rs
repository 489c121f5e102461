//! The fields of a `config.json` that describes one stack.

use super::*;

/// The names that a family of one stack gives to the fields that all such families have.
pub(super) struct Names {
    pub model_type: &'static str,
    /// Class of the library that saves such models.
    pub class: &'static str,
    pub d_model: &'static str,
    /// Inner width of the feed-forward networks; if it is missing, it is four times `d_model`.
    pub d_ff: &'static str,
    pub n_layers: &'static str,
    pub n_heads: &'static str,
    pub max_len: &'static str,
    pub norm_epsilon: &'static str,
    /// Probabilities of dropout, of which the first one is read; empty if all are 0.
    pub dropout: &'static [&'static str],
    /// Whether the generator shares the embedding table if the file does not say it.
    pub is_tied: bool,
}

impl Names {
    /// Takes the fields.
    ///
    /// # Errors
    ///
    /// A field is missing or has a value of another type.
    pub fn read(&self, fields: &mut Fields, layout: Layout) -> Result<Described, WeightsError> {
        let d_model: usize = fields.required(self.d_model)?;
        let n_heads: usize = fields.required(self.n_heads)?;
        let n_layers: usize = fields.required(self.n_layers)?;
        let is_tied: Option<bool> = fields.optional("tie_word_embeddings")?;
        let [n_encoder_layers, n_decoder_layers] = layout
            .family()
            .contents
            .has()
            .map(|has| usize::from(has) * n_layers);
        let d_ff: Option<usize> = fields.optional(self.d_ff)?;
        let sizes = Sizes {
            vocab_size: fields.required("vocab_size")?,
            d_model,
            d_ff: d_ff.unwrap_or(d_model.saturating_mul(4)),
            n_encoder_layers,
            n_decoder_layers,
            d_head: d_model / n_heads.max(1),
            ..Default::default()
        };
        let is_tied = is_tied.unwrap_or(self.is_tied);
        let options = ImportOptions {
            layout: Some(layout),
            n_heads: Some(n_heads),
            norm_epsilon: fields.optional(self.norm_epsilon)?,
            max_len: Some(fields.required(self.max_len)?),
            weight_tying: Some(if is_tied {
                WeightTying::Decoder
            } else {
                WeightTying::None
            }),
            pad_id: fields.optional("pad_token_id")?,
            dropout: match self.dropout.first() {
                Some(name) => fields.optional(name)?,
                None => None,
            },
            ..Default::default()
        };
        Ok((options, sizes))
    }

    /// Returns the fields of a model, to which those in `others` are added.
    pub fn write(&self, stacks: &Stacks, others: Value) -> Value {
        let config = stacks.nearest();
        let mut fields = Map::new();
        let mut set = |name: &str, value: Value| fields.insert(name.into(), value);
        set("model_type", self.model_type.into());
        set("architectures", json!([self.class]));
        set("vocab_size", config.target_vocab_size.into());
        set(self.d_model, config.d_model.into());
        set(self.d_ff, config.d_ff.into());
        set(
            self.n_layers,
            stacks.n_layers().iter().sum::<usize>().into(),
        );
        set(self.n_heads, config.n_heads.into());
        set(self.max_len, config.max_len.into());
        set(self.norm_epsilon, config.norm_epsilon.into());
        for name in self.dropout {
            set(name, config.dropout.into());
        }
        set(
            "tie_word_embeddings",
            config.weight_tying.shares_generator().into(),
        );
        set("pad_token_id", config.pad_id.into());
        if let Value::Object(others) = others {
            fields.extend(others);
        }
        fields.into()
    }
}
