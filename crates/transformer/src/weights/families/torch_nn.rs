//! Models that add embeddings and a generator to `torch.nn.Transformer`.

use super::*;

pub(super) const FAMILY: Family = Family {
    rules,
    core: "transformer.",
    optional: &[".final_norm."],
    free: &[
        "norm_placement",
        "final_norm",
        "norm_epsilon",
        "weight_tying",
    ],
    // An encoder alone or a decoder alone may lack the final norm.
    refuses: |config, contents| {
        (contents == Contents::Model && !config.final_norm).then_some("final_norm")
    },
    python: code,
    ..PLAIN
};

fn rules() -> Rules {
    let part = |first, count| Part {
        first,
        count,
        of: 3,
    };
    // Each model chooses its own names for modules outside `torch.nn.Transformer`.
    let source = [
        "src_tok_emb.embedding.weight",
        "src_tok_emb.weight",
        "src_embed.weight",
        "src_embedding.weight",
        "source_embedding.weight",
        "encoder_embedding.weight",
        "src_emb.weight",
    ];
    let target = [
        "tgt_tok_emb.embedding.weight",
        "tgt_tok_emb.weight",
        "tgt_embed.weight",
        "tgt_embedding.weight",
        "target_embedding.weight",
        "decoder_embedding.weight",
        "tgt_emb.weight",
    ];
    let tables = [
        "positional_encoding.pos_embedding",
        "positional_encoding.pe",
        "pos_encoder.pe",
        "pos_encoding.pe",
    ];
    let generators = [
        "generator.{p}",
        "fc_out.{p}",
        "output_projection.{p}",
        "projection.{p}",
        "out.{p}",
        "fc.{p}",
    ];
    Rules::new()
        .same_as(&source, "encoder.input.embedding.weight")
        .same_as(&target, "decoder.input.embedding.weight")
        .positions(&tables, "{s}", Some(1))
        .part(&generators, "decoder.generator", Part::WHOLE)
        .norm("transformer.{s}.norm", "{s}.final_norm")
        .within("transformer.{s}.layers.{i}.", "{s}.layers.{i}.")
        .part(
            &["self_attn.in_proj_{p}"],
            "self_attention.w_qkv",
            Part::WHOLE,
        )
        .linear("self_attn.out_proj", "self_attention.w_o")
        .linear("linear1", "feed_forward.w_1")
        .linear("linear2", "feed_forward.w_2")
        .norm("norm1", "self_attention_residual.norm")
        .within("transformer.encoder.layers.{i}.", "encoder.layers.{i}.")
        .norm("norm2", "feed_forward_residual.norm")
        .within("transformer.decoder.layers.{i}.", "decoder.layers.{i}.")
        .part(
            &["multihead_attn.in_proj_{p}"],
            "cross_attention.w_q",
            part(0, 1),
        )
        .part(
            &["multihead_attn.in_proj_{p}"],
            "cross_attention.w_kv",
            part(1, 2),
        )
        .linear("multihead_attn.out_proj", "cross_attention.w_o")
        .norm("norm2", "cross_attention_residual.norm")
        .norm("norm3", "feed_forward_residual.norm")
}

fn code(model: &PythonModel) -> Option<String> {
    let c = &model.stacks.nearest();
    let (d, heads) = (c.d_model, c.n_heads);
    let layer = format!(
        "dim_feedforward={}, dropout={:?}, activation={}, layer_norm_eps={:?}, batch_first=True, \
         norm_first={}",
        c.d_ff,
        c.dropout,
        module_of(c.activation),
        c.norm_epsilon,
        python(c.norm_placement == NormPlacement::Pre)
    );
    let (stack, layers) = match model.contents {
        Contents::Model => return Some(whole(model, c, &layer)),
        Contents::Encoder => ("Encoder", c.n_encoder_layers),
        Contents::Decoder => ("Decoder", c.n_decoder_layers),
    };
    let name = stack.to_lowercase();
    let norm = format!(", norm=nn.LayerNorm({d}, eps={:?})", c.norm_epsilon);
    let norm = if c.final_norm { &norm } else { "" };
    Some(format!(
        "from torch import nn\n{name} = nn.Transformer{stack}(nn.Transformer{stack}Layer(\
         d_model={d}, nhead={heads}, {layer}), num_layers={layers}{norm})"
    ))
}

/// Returns the code of a whole model, in which embeddings and generator are separate modules.
/// `layer` has the arguments that `nn.Transformer` shares with its layers.
fn whole(model: &PythonModel, c: &TransformerConfig, layer: &str) -> String {
    let (d, heads, max_len) = (c.d_model, c.n_heads, c.max_len);
    let (source, target) = (c.source_vocab_size, c.target_vocab_size);
    let (encoders, decoders) = (c.n_encoder_layers, c.n_decoder_layers);
    let table = "model[\"tgt_tok_emb\"][\"embedding\"].weight\n";
    let mut tied = String::new();
    if c.weight_tying.shares_generator() {
        tied += &format!("model[\"generator\"].weight = {table}");
    }
    if c.weight_tying.shares_source() {
        tied += &format!("model[\"src_tok_emb\"][\"embedding\"].weight = {table}");
    }
    // The module has no tables of positions. `load_state_dict` can be strict only if the file has
    // none.
    let load = model.load(!model.has_positions);
    format!(
        "from safetensors.torch import load_file
from torch import nn
model = nn.ModuleDict({{
    \"transformer\": nn.Transformer(d_model={d}, nhead={heads}, num_encoder_layers={encoders}, \
num_decoder_layers={decoders}, {layer}),
    \"src_tok_emb\": nn.ModuleDict({{\"embedding\": nn.Embedding({source}, {d})}}),
    \"tgt_tok_emb\": nn.ModuleDict({{\"embedding\": nn.Embedding({target}, {d})}}),
    \"generator\": nn.Linear({d}, {target}),
}})
{tied}{load}
# input of both stacks: embedding(ids) * {d} ** 0.5 + positions, a sinusoidal table [{max_len}, {d}]"
    )
}
