//! Assembles a model's configuration from a file of a recognised layout.

use std::collections::{BTreeMap, BTreeSet};

use super::element::check_float;
use super::error::WeightsError;
use super::file::WeightsFile;
use super::options::ImportOptions;
use super::pieces::Pieces;
use super::recognise::Recognised;
use super::rule::Kind;
use super::stacks::Stacks;
use crate::config::{NormPlacement, Positions, TransformerConfig};

impl Recognised {
    /// Checks that no tensor is missing and, unless `allow_unused` is true, that no tensor is
    /// unused.
    pub(super) fn check(&self, allow_unused: bool) -> Result<(), WeightsError> {
        if !self.missing.is_empty() {
            return Err(WeightsError::missing(&self.missing));
        }
        if !self.unused.is_empty() && !allow_unused {
            return Err(WeightsError::unused(&self.unused));
        }
        Ok(())
    }

    /// Returns the configurations that follow from the tensors' shapes, the metadata and the
    /// options. Options have no effect on stacks in the metadata that no [`TransformerConfig`]
    /// describes.
    ///
    /// # Errors
    ///
    /// The number of attention heads is not known, the metadata is damaged, or metadata and tensors
    /// contradict each other about `final_norm` or the stacks.
    pub(super) fn stacks(
        &self,
        file: &WeightsFile,
        options: &ImportOptions,
    ) -> Result<Stacks, WeightsError> {
        let written = Stacks::of_metadata(&file.metadata)?;
        let config = written.as_ref().and_then(Stacks::config);
        if let (Some(stacks), None) = (&written, &config) {
            let stacks = stacks.clone().only(self.contents);
            if stacks.n_layers() != self.n_layers {
                let what = "has metadata of other stacks or layers than its tensors";
                return Err(WeightsError::File(what.into()));
            }
            return Ok(stacks);
        }
        let config = self.config(config, file, options)?;
        let mut stacks = Stacks::from(&config).only(self.contents);
        if let Some(encoder) = &mut stacks.encoder {
            if !self.shows("encoder.final_norm.") {
                encoder.final_norm = None;
            }
            if self.shows("encoder.input.embedding.") || !config.weight_tying.shares_source() {
                encoder.input.vocab_size = Some(config.source_vocab_size);
            }
        }
        if let Some(decoder) = &mut stacks.decoder {
            if !self.shows("decoder.final_norm.") {
                decoder.final_norm = None;
            }
            decoder.cross_attention = self.shows(".cross_attention.");
            if let Some(n_heads) = options.n_decoder_heads {
                decoder.layer.attention.n_heads = n_heads;
            }
        }
        for (stack, input, layer) in stacks.parts_mut() {
            layer.feed_forward.d_ff = self.d_ff(file, stack);
            if let Some(base) = options.rotary_base {
                input.positions.rotary_base = base;
            }
        }
        Ok(stacks)
    }

    /// Returns the shape of a parameter's tensor, and its arrangement.
    fn shape<'a>(&self, file: &'a WeightsFile, ours: &str) -> Option<(&'a [usize], Kind)> {
        let mut found = self.found.iter();
        let (rule, name) = found.find(|(rule, name)| rule.ours == ours && name.is_some())?;
        Some((&file.tensors[name.as_ref()?].shape, rule.kind))
    }

    /// Returns the inner width of a stack's feed-forward networks.
    fn d_ff(&self, file: &WeightsFile, stack: &str) -> usize {
        match self.shape(file, &format!("{stack}.layers.0.feed_forward.w_2.weight")) {
            Some((&[_, d_ff], Kind::Linear)) | Some((&[d_ff, _], _)) => d_ff,
            _ => 0,
        }
    }

    /// Returns whether the file has a parameter whose name has this part.
    fn shows(&self, part: &str) -> bool {
        let mut found = self.found.iter();
        found.any(|(rule, name)| rule.ours.contains(part) && name.is_some())
    }

    /// Returns what both stacks have in common, given the configuration in the metadata.
    fn config(
        &self,
        written: Option<TransformerConfig>,
        file: &WeightsFile,
        options: &ImportOptions,
    ) -> Result<TransformerConfig, WeightsError> {
        let shape = |ours: &str| self.shape(file, ours);
        let first = |ours: &str| shape(ours).and_then(|(shape, _)| shape.first().copied());
        let vocab_size = |stack: &str| first(&format!("{stack}.input.embedding.weight"));
        let stack = if self.contents.has()[0] {
            "encoder"
        } else {
            "decoder"
        };
        let of_layer = |name: &str| format!("{stack}.layers.0.{name}");
        let target = vocab_size("decoder");
        let source = vocab_size("encoder").or(target).unwrap_or(1);
        let target = target.unwrap_or(source);

        let family = self.layout.family();
        let is_written = written.is_some();
        let mut config = written.unwrap_or_else(|| family.usual_with(target));
        (config.source_vocab_size, config.target_vocab_size) = (source, target);
        // If the file has an embedding table, `d_model` is the width of the table. If the width of
        // a norm differs, the error then names the norm.
        let columns = |stack: &str| {
            let (shape, _) = shape(&format!("{stack}.input.embedding.weight"))?;
            shape.get(1).copied()
        };
        config.d_model = columns("decoder")
            .or(columns("encoder"))
            .or(first(&of_layer("self_attention_residual.norm.gamma")))
            .unwrap_or(0);
        let [n_encoder_layers, n_decoder_layers] = self.n_layers;
        let n_layers = n_encoder_layers.max(n_decoder_layers);
        let or_other = |n| if n == 0 { n_layers } else { n };
        config.n_encoder_layers = or_other(n_encoder_layers);
        config.n_decoder_layers = or_other(n_decoder_layers);
        if let Some((&[n_buckets, n_heads], _)) =
            shape(&format!("{stack}.attention_position.relative.weight"))
        {
            config.relative_buckets = n_buckets;
            if !is_written {
                config.n_heads = n_heads;
            }
        }
        if family.optional.contains(&".final_norm.") {
            let stacks = self.found.iter().map(|(rule, _)| rule.stack());
            for stack in BTreeSet::from_iter(stacks)
                .into_iter()
                .filter(|_| is_written)
            {
                let has_norm = self.shows(&format!("{stack}.final_norm."));
                if config.final_norm != has_norm {
                    let what = format!(
                        "says that final_norm is {}, but its tensors say {has_norm}",
                        config.final_norm
                    );
                    return Err(WeightsError::File(what));
                }
            }
            config.final_norm = self.shows(".final_norm.");
            if family.final_norm_is_pre && config.final_norm {
                config.norm_placement = NormPlacement::Pre;
            }
        }
        if family.optional.contains(&".input.norm.") && !is_written {
            config.embedding_norm = self.shows(".input.norm.");
        }
        if family.optional.contains(&"decoder.generator.bias") {
            config.logits_bias = self.shows("decoder.generator.bias");
        }
        match options.n_heads {
            Some(n_heads) => config.n_heads = n_heads,
            // A table of relative positions shows the number of heads.
            None if is_written || config.positions == Positions::Relative => {}
            None => return Err(WeightsError::Heads),
        }
        let packed = shape(&of_layer("self_attention.w_qkv.weight"));
        if let (true, Some((&[_, width], _)), Some((&[inner, _], _))) = (
            family.is_own && !is_written,
            packed,
            shape(&of_layer("self_attention.w_o.weight")),
        ) {
            let n_heads = config.n_heads.max(1);
            config.d_kv = (inner != config.d_model).then_some(inner / n_heads);
            let n_kv_heads = width.saturating_sub(inner) / 2 / config.d_head().max(1);
            config.n_kv_heads = (n_kv_heads != n_heads).then_some(n_kv_heads);
        }
        if family.free.contains(&"d_kv")
            && let Some(width) = first(&of_layer("self_attention.w_qkv.weight"))
        {
            let d_kv = width / config.n_heads.max(1);
            config.d_kv = (config.d_model != width).then_some(d_kv);
        }
        if family.free.contains(&"n_kv_heads") {
            // Values have a tensor of their own, the last one of the three.
            let ours = of_layer("self_attention.w_qkv.weight");
            let values = self
                .found
                .iter()
                .rfind(|(rule, name)| rule.ours == ours && name.is_some());
            let values = values.and_then(|(_, name)| file.tensors[name.as_ref()?].shape.first());
            let n_kv_heads = values.map_or(0, |width| width / config.d_head().max(1));
            config.n_kv_heads = (config.n_heads != n_kv_heads).then_some(n_kv_heads);
        }
        fn set<T: Clone>(field: &mut T, value: &Option<T>) {
            if let Some(value) = value {
                *field = value.clone();
            }
        }
        set(&mut config.activation, &options.activation);
        set(&mut config.norm_placement, &options.norm_placement);
        set(&mut config.norm_variance, &options.norm_variance);
        set(&mut config.norm_epsilon, &options.norm_epsilon);
        set(&mut config.positions, &options.positions);
        set(&mut config.max_len, &options.max_len);
        set(&mut config.scale_embeddings, &options.scale_embeddings);
        set(&mut config.pad_id, &options.pad_id);
        set(&mut config.dropout, &options.dropout);
        set(&mut config.scale_logits, &options.scale_logits);
        set(
            &mut config.relative_max_distance,
            &options.relative_max_distance,
        );
        Ok(config)
    }

    /// Sets the parts of packed queries, keys and values by the numbers of heads.
    pub(super) fn set_heads(&mut self, stacks: &mut Stacks) {
        for (stack, _, layer) in stacks.parts_mut() {
            let (n_heads, n_kv_heads) = (layer.attention.n_heads, layer.attention.kv_heads());
            for (rule, _) in &mut self.found {
                if rule.stack() == stack {
                    rule.set_heads(n_heads, n_kv_heads);
                }
            }
        }
    }

    /// Checks the shapes and element types of the model's tensors, except position tables, without
    /// reading their elements.
    pub(super) fn check_shapes(
        &self,
        file: &WeightsFile,
        shapes: &BTreeMap<String, Vec<usize>>,
    ) -> Result<(), WeightsError> {
        for (rule, name) in &self.found {
            // Position tables may have any length, so their shapes are checked when they are read.
            let is_table = matches!(rule.kind, Kind::Positions(_));
            let (Some(name), Some(shape), false) = (name, shapes.get(&rule.ours), is_table) else {
                continue;
            };
            let info = &file.tensors[name];
            let expected = rule.their_shape(shape);
            if !rule.fits(&info.shape, &expected) {
                return Err(WeightsError::Shape {
                    name: name.clone(),
                    expected,
                    found: info.shape.clone(),
                });
            }
            check_float(name, &info.dtype)?;
        }
        Ok(())
    }

    /// Returns, for each parameter, the tensors of the file from which it is assembled.
    pub(super) fn pieces(&self) -> BTreeMap<&str, Pieces<'_>> {
        let mut pieces = BTreeMap::<&str, Pieces>::new();
        for (rule, name) in &self.found {
            if let Some(name) = name {
                pieces.entry(&rule.ours).or_default().push((rule, name));
            }
        }
        pieces
    }
}
