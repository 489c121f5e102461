//! Attention maps: the attention weights of every head of every layer.

use anyhow::Result;
use burn::tensor::Tensor;
use transformer::generate::Method;
use transformer::{Transformer, pad_sequences};

use super::heat_map::{AttentionMaps, EASILY_READ};
use crate::args::reject;
use crate::number::{counted, grouped};
use training::data::{Dataset, Split};
use training::error::{UsageError, quote};

/// Maximum number of source tokens and of target tokens. More tokens could not be told apart in a
/// plot.
const MAX_TOKENS: usize = 512;

/// Maximum number of weights in a file of maps, which has about 80 bytes for each.
const MAX_WEIGHTS: usize = 600_000;

/// Rejects maps whose files would be too large for most viewers.
///
/// # Errors
///
/// The file with the most weights has more than 600,000.
pub fn check_size(maps: &[AttentionMaps]) -> Result<(), UsageError> {
    let weights = |maps: &AttentionMaps| maps.layers.iter().flatten().map(Vec::len).sum();
    let most = maps.iter().map(weights).max().unwrap_or(0);
    let tokens = maps.first().map_or(0, |maps| maps.columns.len());
    let source = (most > MAX_WEIGHTS).then(|| format!("of {}", counted(tokens, "token")));
    let [most, limit] = [most, MAX_WEIGHTS].map(grouped);
    let expected = format!("gives a file of {most} weights, but {limit} are the most: shorten it");
    reject("--source", source, &expected)
}

/// Decodes a source greedily, and returns the attention weights for the source and the decoded
/// output: encoder self-attention, decoder self-attention and cross-attention. `run` is the name of
/// the run in the titles.
///
/// # Errors
///
/// The source is empty, or longer than the model or a plot allows, or decoding fails.
pub fn attention_maps(
    model: &Transformer,
    dataset: &dyn Dataset,
    source: &[u32],
    run: &str,
) -> Result<Vec<AttentionMaps>> {
    let codec = dataset.codec();
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
    let mut config = dataset.search_config().with_method(Method::Greedy);
    config.max_length = config.max_length.min(positions.min(MAX_TOKENS) - 1);
    config.min_length = config.min_length.min(config.max_length);
    let found = model.complete(&[source], &[dataset.search().prefix], &config);
    let found = found.map_err(|error| wrong(error.to_string()))?;
    let hypothesis = &found[0][0];

    let end = hypothesis.end_id;
    let predicted: Vec<u32> = hypothesis.tokens.iter().copied().chain(end).collect();
    // The inputs of the decoder are its predictions, shifted right by one, after the begin token.
    let mut inputs = vec![codec.vocabularies().bos_id];
    inputs.extend(&predicted[..predicted.len().saturating_sub(1)]);
    let device = model.decoder.input.table().device();
    let ids = |ids: &[u32]| pad_sequences(&[ids], 0, &device);
    let inspection = model.inspect(ids(source), None, ids(&inputs));

    let encoder = inspection.encoder.into_iter();
    let encoder = encoder.map(|layer| head_maps(layer.self_attention));
    let (mut causal, mut cross) = (Vec::new(), Vec::new());
    for layer in inspection.decoder {
        causal.push(head_maps(layer.self_attention));
        cross.extend(layer.cross_attention.map(head_maps));
    }
    let tokens = |ids: &[u32]| ids.iter().map(|&id| codec.target_label(id)).collect();
    let source_tokens = Vec::from_iter(source.iter().map(|&id| codec.source_label(id)));
    let target = codec.decode_target(&hypothesis.tokens);
    let encoder = AttentionMaps {
        kind: "encoder",
        title: format!("Encoder self-attention, run {run}"),
        subtitle: format!("source {words}"),
        row_label: "source token (query)",
        column_label: "source token (key)",
        rows: source_tokens.clone(),
        columns: source_tokens,
        layers: encoder.collect(),
        is_causal: false,
    };
    let decoder = AttentionMaps {
        kind: "decoder",
        title: format!("Decoder self-attention, run {run}"),
        subtitle: format!("source {words}  →  target {target}"),
        row_label: "target token (query)",
        column_label: "target token (key)",
        rows: tokens(&inputs),
        columns: tokens(&inputs),
        layers: causal,
        is_causal: true,
    };
    let cross = AttentionMaps {
        kind: "cross",
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
    let drawable: Vec<Vec<u32>> = drawable.collect();
    let readable = drawable.iter().filter(|it| it.len() <= EASILY_READ);
    let longest = readable.max_by_key(|it| it.len());
    let chosen = longest.or_else(|| drawable.iter().min_by_key(|it| it.len()));
    chosen.cloned()
}

/// Returns the weights of each head. `weights` has the shape `[1, heads, rows, columns]`.
fn head_maps(weights: Tensor<4>) -> Vec<Vec<f32>> {
    let [_, _, rows, columns] = weights.dims();
    let weights: Vec<f32> = weights.into_data().iter::<f32>().collect();
    let heads = weights.chunks(rows * columns);
    heads.map(<[f32]>::to_vec).collect()
}

#[cfg(test)]
mod tests {
    use burn::tensor::Device;

    use super::*;
    use crate::plot::file::Plot;
    use training::config::RunConfig;

    fn maps(layers: usize, heads: usize, source: &[u32]) -> Result<Vec<AttentionMaps>> {
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
        attention_maps(&model, dataset.as_ref(), source, "mine")
    }

    #[test]
    fn there_is_a_map_for_every_layer_and_head_of_each_attention() {
        let maps = maps(3, 2, &[4, 5, 6, 7]).unwrap();
        let names: Vec<&str> = maps.iter().map(|maps| maps.kind).collect();
        assert_eq!(names, ["encoder", "decoder", "cross"]);
        for maps in &maps {
            assert_eq!((maps.layers.len(), maps.layers[0].len()), (3, 2));
            let columns = maps.columns.len();
            for weights in maps.layers.iter().flatten() {
                assert_eq!(weights.len(), maps.rows.len() * columns);
                for (row, weights) in weights.chunks(columns).enumerate() {
                    let sum: f32 = weights.iter().sum();
                    assert!((sum - 1.0).abs() < 1e-5, "{}: {sum}", maps.kind);
                    let masked = weights.iter().skip(row + 1).all(|&weight| weight == 0.0);
                    assert!(masked || !maps.is_causal, "{}, row {row}", maps.kind);
                }
            }
            let svg = maps.svg();
            assert!(svg.contains("run mine"), "{svg}");
            assert_eq!(svg.matches("\nlayer ").count(), 6);
            assert!(svg.contains("\nlayer 3, head 2\n"));
            assert_eq!(svg.contains("masked"), maps.is_causal);
        }
        assert_eq!(check_size(&maps), Ok(()));
        let mut large = maps[0].clone();
        large.layers = vec![vec![vec![0.0; 2001]; 60]; 5];
        let error = check_size(&[large]).unwrap_err().to_string();
        let expected = "--source of 4 tokens: gives a file of 600,300 weights, but 600,000 are";
        assert!(error.starts_with(expected), "{error}");
        assert_eq!(maps[0].rows, ["1", "2", "3", "4"]);
        assert_eq!(maps[2].columns, maps[0].columns);
        // The inputs of the decoder are its outputs, shifted right by one, after the begin token.
        assert_eq!(maps[1].rows[0], "<bos>");
        assert_eq!(maps[1].rows[1..], maps[2].rows[..maps[2].rows.len() - 1]);
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
