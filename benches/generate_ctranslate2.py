#!/usr/bin/env python3
"""Times generation by CTranslate2 with models of the same shapes as in `train bench`.

    python3 -m venv .venv && .venv/bin/pip install ctranslate2 numpy
    .venv/bin/python benches/generate_ctranslate2.py --shape base --beam 1
    .venv/bin/python benches/generate_ctranslate2.py --shape base --beam 5 --int8

`train bench` takes the same flags. As there, weights are random, and sources have the full length.
A minimum length gives targets the same length. The script prints a JSON object for batch size 1,
and one for the batch size of the shape. Each has the target tokens per second of the fastest of
three runs, with one hypothesis per source.
"""

import argparse
import json
import math
import resource
import tempfile
import time

import ctranslate2
import numpy as np
from ctranslate2.specs import common_spec, transformer_spec

# Vocabulary size, d_model, heads, layers per stack, d_ff, batch size, length; as in `train bench`.
SHAPES = {
    "tiny": (16, 64, 4, 2, 256, 32, 16),
    "copy": (11, 512, 8, 2, 2048, 80, 10),
    "base": (10_000, 512, 8, 6, 2048, 16, 64),
}
SPECIAL = ["<blank>", "<s>", "</s>"]


class Weights:
    """Draws random weights into a specification of CTranslate2."""

    def __init__(self):
        self.random = np.random.default_rng(0)

    def matrix(self, rows, columns):
        bound = math.sqrt(6 / (rows + columns))
        return self.random.uniform(-bound, bound, (rows, columns)).astype(np.float32)

    def linear(self, spec, d_in, d_out):
        spec.weight = self.matrix(d_out, d_in)
        spec.bias = np.zeros(d_out, np.float32)

    def norm(self, spec, d_model):
        spec.gamma, spec.beta = np.ones(d_model, np.float32), np.zeros(d_model, np.float32)

    def attention(self, spec, d_model, packed):
        """`packed` has the number of projections in each linear layer, such as 3 for Q, K and V."""
        for linear, n_parts in zip(spec.linear, packed):
            self.linear(linear, d_model, n_parts * d_model)

    def side(self, spec, embedding, vocab_size, d_model, d_ff, length):
        embedding.weight = self.matrix(vocab_size, d_model)
        spec.scale_embeddings = True
        place = np.arange(length + 1)[:, None]
        rate = np.exp(np.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
        waves = np.stack([np.sin(place * rate), np.cos(place * rate)], -1)
        spec.position_encodings.encodings = waves.reshape(length + 1, d_model).astype(np.float32)
        for layer in spec.layer:
            self.attention(layer.self_attention, d_model, (3, 1))
            self.norm(layer.self_attention.layer_norm, d_model)
            if hasattr(layer, "attention"):
                self.attention(layer.attention, d_model, (1, 2, 1))
                self.norm(layer.attention.layer_norm, d_model)
            self.norm(layer.ffn.layer_norm, d_model)
            self.linear(layer.ffn.linear_0, d_model, d_ff)
            self.linear(layer.ffn.linear_1, d_ff, d_model)
        self.norm(spec.layer_norm, d_model)


def save(shape, quantization, folder):
    """Saves a model with random weights, and returns the tokens of its vocabulary."""
    vocab_size, d_model, n_heads, n_layers, d_ff, _, length = shape
    spec = transformer_spec.TransformerSpec.from_config(
        (n_layers, n_layers),
        n_heads,
        pre_norm=True,
        activation=common_spec.Activation.RELU,
    )
    weights = Weights()
    sizes = (vocab_size, d_model, d_ff, length)
    weights.side(spec.encoder, spec.encoder.embeddings[0], *sizes)
    weights.side(spec.decoder, spec.decoder.embeddings, *sizes)
    weights.linear(spec.decoder.projection, d_model, vocab_size)
    tokens = SPECIAL + [f"t{id}" for id in range(len(SPECIAL), vocab_size)]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIAL
    spec.config.add_source_bos = spec.config.add_source_eos = False
    spec.config.decoder_start_token = spec.config.bos_token
    spec.validate()
    spec.optimize(quantization=quantization)
    spec.save(folder)
    return tokens


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--int8", action="store_true", help="weights in 8 bits")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--batch-size", type=int, help="default: 1, and the shape's own")
    parser.add_argument("--length", type=int, help="default: the shape's own")
    args = parser.parse_args()
    for name in ("beam", "batch_size", "length"):
        if (value := getattr(args, name)) is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} {value}: must be at least 1")

    vocab_size, *sizes, batch, length = SHAPES[args.shape]
    length = args.length or length
    shape = (vocab_size, *sizes, batch, length)
    quantization = "int8" if args.int8 else "float32"
    random = np.random.default_rng(1)
    with tempfile.TemporaryDirectory() as folder:
        tokens = save(shape, quantization, folder)
        translator = ctranslate2.Translator(
            folder, intra_threads=args.threads, inter_threads=1, compute_type=quantization
        )
    for sources in (args.batch_size,) if args.batch_size else (1, batch):
        ids = random.integers(len(SPECIAL), vocab_size, (sources, length))
        source = [[tokens[id] for id in row] for row in ids]
        times = []
        for _ in range(4):
            begun = time.perf_counter()
            found = translator.translate_batch(
                source,
                beam_size=args.beam,
                min_decoding_length=length,
                max_decoding_length=length,
                max_batch_size=sources,
                max_input_length=0,
            )
            times.append(time.perf_counter() - begun)
        assert all(len(result.hypotheses[0]) == length for result in found)
        result = {
            "shape": args.shape,
            "backend": f"ctranslate2 {ctranslate2.__version__}",
            "quantization": quantization,
            "beam": args.beam,
            "batch": sources,
            "length": length,
            "tokens_per_second": sources * length / min(times[1:]),
            "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
