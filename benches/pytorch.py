#!/usr/bin/env python3
"""Times a training step or greedy decoding in PyTorch, with the models of `train bench`.

    python3 -m venv .venv && .venv/bin/pip install torch
    .venv/bin/python benches/pytorch.py --shape base                   # train bench --what train
    .venv/bin/python benches/pytorch.py --shape base --what generate   # train bench --beam 1

There are two models. `modules` has one matmul for each of Q, K and V, and computes the attention
weights, as most people write it. `nn` is torch.nn.Transformer. Both have pre-norm and a dropout of
0.1, are trained with Adam, and get random sequences of the full length. In each step, `train bench`
also computes the norm of the gradient, as `train fit` does; this script does not. It prints a JSON
object with the median time of a step, or two with the speed of the fastest of three decodings, for
batch size 1 and for the batch size of the shape.
"""

import argparse
import itertools
import json
import math
import resource
import statistics
import time

import torch
from torch import nn
from torch.nn import functional

# Vocabulary size, d_model, heads, layers per stack, d_ff, batch size, length; as in `train bench`.
SHAPES = {
    "tiny": (16, 64, 4, 2, 256, 32, 16),
    "copy": (11, 512, 8, 2, 2048, 80, 10),
    "base": (10_000, 512, 8, 6, 2048, 16, 64),
    "big": (32_000, 1024, 16, 6, 4096, 32, 128),
}
DROPOUT = 0.1
WARM_UP = 3
PAD, BOS, FIRST = 0, 1, 3


class Attention(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.output = nn.Linear(d_model, d_model)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x, memory, blocked):
        def heads(x):
            return x.unflatten(-1, (self.n_heads, -1)).transpose(1, 2)

        query, key, value = heads(self.query(x)), heads(self.key(memory)), heads(self.value(memory))
        scores = query @ key.mT / math.sqrt(query.size(-1))
        if blocked is not None:
            scores = scores.masked_fill(blocked, float("-inf"))
        context = self.dropout(scores.softmax(-1)) @ value
        return self.output(context.transpose(1, 2).flatten(2))


class Layer(nn.Module):
    def __init__(self, d_model, n_heads, d_ff, is_decoder):
        super().__init__()
        self.attention = Attention(d_model, n_heads)
        self.cross_attention = Attention(d_model, n_heads) if is_decoder else None
        self.feed_forward = nn.Sequential(
            nn.Linear(d_model, d_ff), nn.ReLU(), nn.Dropout(DROPOUT), nn.Linear(d_ff, d_model)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(d_model) for _ in range(3 if is_decoder else 2))
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x, blocked, memory=None, memory_blocked=None):
        first, *_, last = self.norms
        normed = first(x)
        x = x + self.dropout(self.attention(normed, normed, blocked))
        if self.cross_attention is not None:
            attended = self.cross_attention(self.norms[1](x), memory, memory_blocked)
            x = x + self.dropout(attended)
        return x + self.dropout(self.feed_forward(last(x)))


class Modules(nn.Module):
    """Encoder and decoder, as most people write them."""

    def __init__(self, d_model, n_heads, n_layers, d_ff):
        super().__init__()

        def stack(is_decoder):
            layers = [Layer(d_model, n_heads, d_ff, is_decoder) for _ in range(n_layers)]
            return nn.ModuleList(layers)

        self.encoder, self.decoder = stack(False), stack(True)
        self.encoder_norm, self.decoder_norm = nn.LayerNorm(d_model), nn.LayerNorm(d_model)

    def encode(self, source, padding):
        for layer in self.encoder:
            source = layer(source, padding[:, None, None, :])
        return self.encoder_norm(source)

    def decode(self, target, causal, memory, padding):
        for layer in self.decoder:
            target = layer(target, causal, memory, padding[:, None, None, :])
        return self.decoder_norm(target)


class Torch(nn.Module):
    """torch.nn.Transformer."""

    def __init__(self, d_model, n_heads, n_layers, d_ff):
        super().__init__()
        self.inner = nn.Transformer(
            d_model,
            n_heads,
            n_layers,
            n_layers,
            d_ff,
            DROPOUT,
            batch_first=True,
            norm_first=True,
        )

    def encode(self, source, padding):
        return self.inner.encoder(source, src_key_padding_mask=padding)

    def decode(self, target, causal, memory, padding):
        return self.inner.decoder(
            target,
            memory,
            tgt_mask=causal,
            memory_key_padding_mask=padding,
            tgt_is_causal=True,
        )


class Model(nn.Module):
    def __init__(self, shape, stacks):
        super().__init__()
        vocab_size, d_model, n_heads, n_layers, d_ff, _, length = shape
        self.source = nn.Embedding(vocab_size, d_model)
        self.target = nn.Embedding(vocab_size, d_model)
        self.stacks = stacks(d_model, n_heads, n_layers, d_ff)
        self.generator = nn.Linear(d_model, vocab_size)
        self.dropout = nn.Dropout(DROPOUT)
        place = torch.arange(length)[:, None]
        rate = torch.exp(torch.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
        waves = torch.stack([torch.sin(place * rate), torch.cos(place * rate)], -1)
        self.register_buffer("positions", waves.flatten(1))
        self.register_buffer("causal", torch.ones(length, length, dtype=torch.bool).triu(1))

    def embed(self, table, ids):
        x = table(ids) * math.sqrt(table.embedding_dim)
        return self.dropout(x + self.positions[: ids.size(1)])

    def encode(self, source):
        return self.stacks.encode(self.embed(self.source, source), source == PAD)

    def decode(self, target, memory, source):
        length = target.size(1)
        causal = self.causal[:length, :length]
        x = self.embed(self.target, target)
        return self.stacks.decode(x, causal, memory, source == PAD)

    def forward(self, source, target):
        return self.generator(self.decode(target, self.encode(source), source))

    def greedy(self, source):
        """Decodes targets as long as their sources; each step decodes the whole prefix again."""
        memory = self.encode(source)
        target = torch.full_like(source[:, :1], BOS)
        for _ in range(source.size(1)):
            last = self.decode(target[:, : source.size(1)], memory, source)[:, -1]
            target = torch.cat([target, self.generator(last).argmax(-1, keepdim=True)], 1)
        return target


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--shape", choices=SHAPES, default="base")
    parser.add_argument("--what", choices=("train", "generate"), default="train")
    parser.add_argument("--batch-size", type=int, help="default: the shape's own; generate: also 1")
    parser.add_argument("--length", type=int, help="default: the shape's own")
    parser.add_argument("--model", choices=("modules", "nn"), default="modules")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--precision", choices=("f32", "bf16"), default="f32")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, help="default: as many as five seconds hold, at least five")
    args = parser.parse_args()
    for name in ("steps", "batch_size", "length"):
        if (value := getattr(args, name)) is not None and value < 1:
            parser.error(f"--{name.replace('_', '-')} {value}: must be at least 1")
    if args.what == "generate" and (args.compile or args.steps):
        parser.error("--compile and --steps: need --what train")

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    vocab_size, *sizes, batch, length = SHAPES[args.shape]
    batch, length = args.batch_size or batch, args.length or length
    shape = (vocab_size, *sizes, batch, length)
    model = Model(shape, Torch if args.model == "nn" else Modules).to(args.device).train()
    run = torch.compile(model) if args.compile else model

    def synchronize():
        if args.device != "cpu":
            torch.accelerator.synchronize()

    def precision():
        return torch.autocast(args.device, torch.bfloat16, enabled=args.precision == "bf16")

    def ids(batch):
        return torch.randint(FIRST, vocab_size, (batch, length), device=args.device)

    def report(**measured):
        result = {
            "what": args.what,
            "shape": args.shape,
            "backend": f"pytorch {torch.__version__}, {args.model}, {args.device}",
            "length": length,
            "precision": args.precision,
            **measured,
            "peak_device_bytes": torch.cuda.max_memory_allocated() if args.device == "cuda" else None,
            "peak_rss_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }
        print(json.dumps(result), flush=True)

    if args.what == "generate":
        model.eval()
        for sources in (args.batch_size,) if args.batch_size else (1, batch):
            times = []
            for _ in range(4):
                source = ids(sources)
                synchronize()
                begun = time.perf_counter()
                with torch.inference_mode(), precision():
                    model.greedy(source)
                synchronize()
                times.append(time.perf_counter() - begun)
            report(batch=sources, tokens_per_second=sources * length / min(times[1:]))
        return

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.98), eps=1e-9)

    def step():
        source = ids(batch)
        begin = torch.full_like(source[:, :1], BOS)
        target = torch.cat([begin, source[:, :-1]], 1)
        with precision():
            logits = run(source, target)
        loss = functional.cross_entropy(
            logits.float().flatten(0, 1), source.flatten(), ignore_index=PAD
        )
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()

    times = []
    for index in itertools.count():
        synchronize()
        begun = time.perf_counter()
        step()
        synchronize()
        if index >= WARM_UP:
            times.append(time.perf_counter() - begun)
        if len(times) >= (args.steps or 5) and (args.steps or sum(times) >= 5):
            break
    median = statistics.median(times)
    report(batch=batch, step_ms=1e3 * median, tokens_per_second=batch * length / median)


if __name__ == "__main__":
    main()
