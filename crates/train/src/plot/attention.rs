//! Attention maps: the attention weights of every head of every layer.

use anyhow::Result;
use burn::tensor::Tensor;
use transformer::generate::Method;
use transformer::{LayerTrace, Transformer, pad_sequences};

use super::heat_map::{AttentionMaps, EASILY_READ, HeadMap};
use training::data::{Dataset, Split};
use training::error::{UsageError, quote};

/// Maximum number of source tokens and of target tokens. More tokens could not be told apart in a
/// plot.
const MAX_TOKENS: usize = 512;

/// Options that choose the attention maps to draw.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MapOptions {
    /// Numbers of the layers, counted from 1; empty for all.
    pub layers: Vec<usize>,
    /// Whether each layer has one map, the mean of its heads, instead of one map for each head.
    pub is_head_mean: bool,
}

/// Decodes a source greedily, and returns the attention weights for the source and the decoded
/// output: encoder self-attention, decoder self-attention and cross-attention. `run` is the name of
/// the run in the titles.
///
/// # Errors
///
/// The source is empty, or longer than the model or a plot allows, a layer does not exist, or
/// decoding fails.
pub fn attention_maps(
    model: &Transformer,
    dataset: &dyn Dataset,
    source: &[u32],
    run: &str,
    options: &MapOptions,
) -> Result<Vec<AttentionMaps>> {
    let layers = model.encoder.layers.len().max(model.decoder.layers.len());
    if let Some(layer) = options
        .layers
        .iter()
        .find(|layer| !(1..=layers).contains(layer))
    {
        let expected = format!("must be from 1 to {layers}, the number of layers of this model");
        return Err(UsageError::new("--layers", layer, expected).into());
    }
    let codec = dataset.codec();
    let vocabularies = codec.vocabularies();
    let words = codec.decode_source(source);
    let wrong = |expected: String| UsageError::new("--source", quote(&words), expected);
    if source.is_empty() {
        return Err(wrong("must have at least one symbol".into()).into());
    }
    if source.len() > MAX_TOKENS {
        let length = source.len();
        let expected = format!("has {length} symbols, a map can show at most {MAX_TOKENS}");
        return Err(wrong(expected).into());
    }
    let positions = model.decoder.max_len().unwrap_or(usize::MAX);
    let max_length = (dataset.limits().target - 1).max(2 * source.len());
    let max_length = max_length.min(positions.min(MAX_TOKENS) - 1);
    let mut config = dataset.search_config().with_method(Method::Greedy);
    config.max_length = config.max_length.min(max_length);
    config.min_length = config.min_length.min(config.max_length);
    config.length_limit = None;
    let found = model.complete(&[source], &[dataset.search().prefix], &config);
    let found = found.map_err(|error| wrong(error.to_string()))?;
    let hypothesis = &found[0][0];

    let eos = vocabularies.eos_id.filter(|_| hypothesis.is_finished);
    let predicted: Vec<u32> = hypothesis.tokens.iter().copied().chain(eos).collect();
    // The inputs of the decoder are its predictions, shifted right by one, after the begin token.
    let mut inputs = vec![vocabularies.bos_id];
    inputs.extend(&predicted[..predicted.len().saturating_sub(1)]);
    let device = model.decoder.input.table().device();
    let ids = |ids: &[u32]| pad_sequences(&[ids], model.pad_id(), &device);
    let inspection = model.inspect(ids(source), ids(&inputs));

    let maps = |weights: Vec<Option<Tensor<4>>>| {
        let layers = (1..).zip(weights);
        let layers =
            layers.filter(|(layer, _)| options.layers.is_empty() || options.layers.contains(layer));
        let layers = layers
            .filter_map(|(layer, weights)| Some(head_maps(layer, weights?, options.is_head_mean)));
        layers.collect::<Vec<_>>()
    };
    let self_attention = |layers: &[LayerTrace]| {
        let layers = layers
            .iter()
            .map(|layer| Some(layer.self_attention.clone()));
        maps(layers.collect())
    };
    let cross = inspection.decoder.iter();
    let cross = cross.map(|layer| layer.cross_attention.clone());
    let cross = maps(cross.collect());
    let tokens =
        |ids: &[u32]| -> Vec<String> { ids.iter().map(|&id| codec.target_label(id)).collect() };
    let source_tokens = source.iter().map(|&id| codec.source_label(id));
    let source_tokens: Vec<String> = source_tokens.collect();
    let target = codec.decode_target(&hypothesis.tokens);
    let encoder = AttentionMaps {
        name: "attention-encoder",
        title: format!("Encoder self-attention, run {run}"),
        subtitle: format!("source {words}"),
        row_label: "source token (query)",
        column_label: "source token (key)",
        rows: source_tokens.clone(),
        columns: source_tokens,
        layers: self_attention(&inspection.encoder),
        is_causal: false,
    };
    let decoder = AttentionMaps {
        name: "attention-decoder",
        title: format!("Decoder self-attention, run {run}"),
        subtitle: format!("source {words}  →  target {target}"),
        row_label: "target token (query)",
        column_label: "target token (key)",
        rows: tokens(&inputs),
        columns: tokens(&inputs),
        layers: self_attention(&inspection.decoder),
        is_causal: true,
    };
    let cross = AttentionMaps {
        name: "attention-cross",
        title: format!("Cross-attention from decoder to source, run {run}"),
        row_label: "predicted token (query)",
        rows: tokens(&predicted),
        layers: cross,
        subtitle: decoder.subtitle.clone(),
        ..encoder.clone()
    };
    let maps = [encoder, decoder, cross].into_iter();
    Ok(maps.filter(|maps| !maps.layers.is_empty()).collect())
}

/// Returns a source that fits a plot well, chosen from the first eight examples of the test split.
/// It is the longest source of at most [`EASILY_READ`] tokens, or the shortest source if all are
/// longer. `None` if no source has a length that a plot can show.
pub fn example_source(dataset: &dyn Dataset, seed: u64) -> Option<Vec<u32>> {
    let examples = dataset.held_out(seed, Split::Test, 8);
    let sources = examples.into_iter().map(|example| example.source);
    let drawable = sources.filter(|source| (1..=MAX_TOKENS).contains(&source.len()));
    drawable.reduce(|best, source| {
        let (short, long) = if best.len() <= source.len() {
            (best, source)
        } else {
            (source, best)
        };
        if long.len() <= EASILY_READ {
            long
        } else {
            short
        }
    })
}

/// Returns a map for each head, or one map of the mean of the heads. `weights` has the shape `[1,
/// heads, rows, columns]`.
fn head_maps(layer: usize, weights: Tensor<4>, is_mean: bool) -> Vec<HeadMap> {
    let [_, heads, rows, columns] = weights.dims();
    let weights = if is_mean {
        weights.mean_dim(1)
    } else {
        weights
    };
    let weights: Vec<f32> = weights.into_data().iter::<f32>().collect();
    let maps = (1..).zip(weights.chunks(rows * columns));
    let maps = maps.map(|(head, weights)| HeadMap {
        title: if is_mean {
            format!("layer {layer}, mean of {heads} heads")
        } else {
            format!("layer {layer}, head {head}")
        },
        weights: weights.to_vec(),
    });
    maps.collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::plot::file::Plot;
    use training::config::RunConfig;

    fn maps(layers: usize, heads: usize, source: &[u32]) -> Result<Vec<AttentionMaps>> {
        maps_of(layers, heads, source, &MapOptions::default())
    }

    fn maps_of(
        layers: usize,
        heads: usize,
        source: &[u32],
        options: &MapOptions,
    ) -> Result<Vec<AttentionMaps>> {
        let mut config = RunConfig::copy();
        config.model = config
            .model
            .with_n_encoder_layers(layers)
            .with_n_decoder_layers(layers)
            .with_n_heads(heads)
            .with_d_model(16)
            .with_d_ff(16);
        let dataset = config.check()?.expect("copy needs no files");
        let model = config.model.init_seeded(0, &Device::flex())?;
        attention_maps(&model, dataset.as_ref(), source, "mine", options)
    }

    #[test]
    fn there_is_a_map_for_every_layer_and_head_of_each_attention() {
        let maps = maps(3, 2, &[4, 5, 6, 7]).unwrap();
        let names: Vec<&str> = maps.iter().map(|maps| maps.name).collect();
        assert_eq!(
            names,
            ["attention-encoder", "attention-decoder", "attention-cross"]
        );
        for maps in &maps {
            assert_eq!((maps.layers.len(), maps.layers[0].len()), (3, 2));
            let columns = maps.columns.len();
            for HeadMap { weights, .. } in maps.layers.iter().flatten() {
                assert_eq!(weights.len(), maps.rows.len() * columns);
                for (row, weights) in weights.chunks(columns).enumerate() {
                    let sum: f32 = weights.iter().sum();
                    assert!((sum - 1.0).abs() < 1e-5, "{}: {sum}", maps.name);
                    let masked = weights.iter().skip(row + 1).all(|&weight| weight == 0.0);
                    assert!(masked || !maps.is_causal, "{}, row {row}", maps.name);
                }
            }
            let svg = maps.svg().unwrap();
            assert!(svg.contains("run mine"), "{svg}");
            assert_eq!(svg.matches("\nlayer ").count(), 6);
            assert!(svg.contains("\nlayer 3, head 2\n"));
            assert_eq!(svg.contains("masked"), maps.is_causal);
        }
        assert_eq!(maps[0].rows, ["1", "2", "3", "4"]);
        assert_eq!(maps[2].columns, maps[0].columns);
        // The inputs of the decoder are its outputs, shifted right by one, after the begin token.
        assert_eq!(maps[1].rows[0], "<bos>");
        assert_eq!(maps[1].rows[1..], maps[2].rows[..maps[2].rows.len() - 1]);
    }

    #[test]
    fn layers_can_be_chosen_and_heads_averaged() {
        let options = |layers: &[usize], is_head_mean| MapOptions {
            layers: layers.into(),
            is_head_mean,
        };
        let source = [4, 5, 6];
        let all = maps(3, 2, &source).unwrap();
        let means = maps_of(3, 2, &source, &options(&[1, 3], true)).unwrap();
        for (all, means) in all.iter().zip(&means) {
            assert_eq!((means.layers.len(), means.layers[1].len()), (2, 1));
            assert_eq!(means.layers[1][0].title, "layer 3, mean of 2 heads");
            let [one, two] = &all.layers[2][..] else {
                panic!("{all:?}");
            };
            let heads = one.weights.iter().zip(&two.weights);
            for (mean, (one, two)) in means.layers[1][0].weights.iter().zip(heads) {
                assert!((mean - (one + two) / 2.0).abs() < 1e-6);
            }
        }
        for layer in [0, 4] {
            let error = maps_of(3, 2, &source, &options(&[layer], false)).unwrap_err();
            let expected = format!("--layers {layer}: must be from 1 to 3");
            assert!(error.to_string().starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn sources_that_a_plot_cannot_show_are_no_examples() {
        let of_length = |length: &str| {
            let config = RunConfig::copy().with("data.max_length", length).unwrap();
            let mut config = config.with("data.min_length", length).unwrap();
            let dataset = config.check().unwrap().expect("copy needs no files");
            example_source(dataset.as_ref(), 0).map(|source| source.len())
        };
        assert_eq!(of_length("500"), Some(500));
        assert_eq!(of_length("600"), None);
    }

    #[test]
    fn empty_and_too_long_sources_are_rejected() {
        let error = |source: &[u32]| maps(1, 1, source).unwrap_err().to_string();
        assert!(error(&[]).contains("--source \"\": must have at least one symbol"));
        assert!(error(&[4; 600]).contains("has 600 symbols, a map can show at most 512"));
        let error = error(&[4; 40]);
        assert!(
            error.starts_with("--source ") && error.contains("18"),
            "{error}"
        );
    }
}
