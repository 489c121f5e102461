#!/usr/bin/env python3
"""Times the translation of a file by `train generate` beside CTranslate2, with the same weights.

    python3 -m venv .venv && .venv/bin/pip install ctranslate2 numpy safetensors tokenizers
    cargo build --release -p train
    .venv/bin/python benches/translate.py RUN SOURCES            # RUN is a folder of `train fit --task text`
    .venv/bin/python benches/translate.py FOLDER SOURCES --target-lang deu_Latn

FOLDER is a folder of Hugging Face's; it needs `pip install torch transformers`, too. The lines of
SOURCES have the lengths that they have. In turns, both read the model and the file, translate it, and
write the result. The time of `train` is that of its whole process; Python's start and its imports do
not count for CTranslate2. Each side is measured with every batch size, and the best of its medians
stands in the table, in seconds, with the batch size, the ratio, and the peak memory in MiB, which is
measured by GNU time (/usr/bin/time; CTranslate2's includes Python). The last column counts equal lines.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

SPECIAL = ["<blank>", "<s>", "</s>"]


def convert(args, model, work):
    """Writes the model for CTranslate2."""
    import ctranslate2

    if (model / "environment.json").exists():
        convert_run(model, args.train, work)
    else:
        ctranslate2.converters.TransformersConverter(args.model).convert(str(work), force=True)


def convert_run(run, train, out):
    """Writes the run's model for CTranslate2, once with f32 and once with int8 weights."""
    import math

    import numpy as np
    from ctranslate2.specs import common_spec, transformer_spec
    from safetensors.numpy import load_file

    def fill(side, embedding, name):
        embedding.weight = weights[f"{name}.embedding.weight"]
        side.scale_embeddings = True
        d_model = embedding.weight.shape[1]
        place = np.arange(1024)[:, None]
        rate = np.exp(np.arange(0, d_model, 2) * (-math.log(10_000) / d_model))
        waves = np.stack([np.sin(place * rate), np.cos(place * rate)], -1).reshape(1024, d_model)
        side.position_encodings.encodings = waves.astype(np.float32)
        for i, layer in enumerate(side.layer):
            own = f"{name}.layers.{i}."
            attention(layer.self_attention, own + "self_attn.", [["w_q", "w_k", "w_v"], ["w_o"]])
            norm(layer.self_attention.layer_norm, own + "norm1")
            if name == "decoder":
                attention(layer.attention, own + "cross_attn.", [["w_q"], ["w_k", "w_v"], ["w_o"]])
                norm(layer.attention.layer_norm, own + "norm2")
            norm(layer.ffn.layer_norm, own + ("norm3" if name == "decoder" else "norm2"))
            linear(layer.ffn.linear_0, [own + "feed_forward.w_1"])
            linear(layer.ffn.linear_1, [own + "feed_forward.w_2"])
        norm(side.layer_norm, f"{name}.norm")

    def attention(spec, own, parts):
        for linear_spec, names in zip(spec.linear, parts):
            linear(linear_spec, [own + name for name in names])

    def linear(spec, names):
        spec.weight, spec.bias = (np.concatenate([weights[f"{name}.{part}"] for name in names]) for part in ("weight", "bias"))

    def norm(spec, name):
        spec.gamma, spec.beta = weights[f"{name}.weight"], weights[f"{name}.bias"]

    file = out / "paper.safetensors"
    subprocess.run([train, "export", run, "--layout", "paper", "--output", file], check=True, capture_output=True)
    weights = load_file(file)
    projection = next(name for name in weights if name.endswith("output_projection.weight")).removesuffix(".weight")
    layers = [1 + max(int(name.split(".")[2]) for name in weights if name.startswith(f"{side}.layers")) for side in ("encoder", "decoder")]
    heads = json.loads((run / "config.json").read_text())["model"]["n_heads"]
    for kind in ("float32", "int8"):
        spec = transformer_spec.TransformerSpec.from_config(
            tuple(layers), heads, pre_norm=True, activation=common_spec.Activation.RELU
        )
        fill(spec.encoder, spec.encoder.embeddings[0], "encoder")
        fill(spec.decoder, spec.decoder.embeddings, "decoder")
        linear(spec.decoder.projection, [projection])
        sizes = [len(weights[f"{side}.embedding.weight"]) for side in ("encoder", "decoder")]
        for size, register in zip(sizes, (spec.register_source_vocabulary, spec.register_target_vocabulary)):
            register(SPECIAL + [f"t{id}" for id in range(len(SPECIAL), size)])
        spec.config.unk_token, spec.config.bos_token, spec.config.eos_token = SPECIAL
        spec.config.add_source_bos = spec.config.add_source_eos = False
        spec.config.decoder_start_token = "<s>"
        spec.validate()
        spec.optimize(quantization=kind)
        (out / kind).mkdir()
        spec.save(str(out / kind))


def theirs(args, work, kind, beam, batch):
    """Returns seconds, peak memory in MiB and lines of CTranslate2, in its own process."""
    task = json.dumps([str(work), kind, beam, batch])
    command = [sys.executable, __file__, args.model, args.sources, "--threads", str(args.threads), "--child", task]
    command += ["--target-lang", args.target_lang] if args.target_lang else []
    command += ["--max-length", str(args.max_length)] if args.max_length else []
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ctranslate2: {done.stderr}")
    return json.loads(done.stdout) + [(work / "result").read_text().splitlines()]


def child(args):
    import resource

    import ctranslate2

    work, kind, beam, batch = json.loads(args.child)
    work = Path(work)
    is_run = not (work / "model.bin").exists()
    if is_run:
        from tokenizers import Tokenizer
    else:
        from transformers import AutoTokenizer
    begun = time.perf_counter()
    translator = ctranslate2.Translator(
        str(work / kind if is_run else work), inter_threads=1, intra_threads=args.threads, compute_type=kind
    )
    lines = Path(args.sources).read_text("utf8").split("\n")
    lines = lines if lines[-1] else lines[:-1]
    options = {"beam_size": beam, "max_batch_size": batch, "max_decoding_length": args.max_length or 258}
    if is_run:
        source, target = (Tokenizer.from_file(f"{args.model}/{side}.tokenizer.json") for side in ("source", "target"))
        name = lambda id: SPECIAL[id] if id < len(SPECIAL) else f"t{id}"  # noqa: E731
        texts = [[*map(name, e.ids), "</s>"] for e in source.encode_batch(lines, add_special_tokens=False)]
        text = lambda tokens: target.decode([int(token[1:]) for token in tokens if token not in SPECIAL])  # noqa: E731
        options["length_penalty"] = 0.6
    else:
        tokenizer = AutoTokenizer.from_pretrained(args.model)
        texts = [tokenizer.convert_ids_to_tokens(ids) for ids in tokenizer(lines)["input_ids"]]
        text = lambda tokens: tokenizer.decode(tokenizer.convert_tokens_to_ids(tokens), skip_special_tokens=True)  # noqa: E731
        if args.target_lang:
            options["target_prefix"] = [[args.target_lang]] * len(lines)
    found = translator.translate_batch(texts, **options)
    (work / "result").write_text("".join(text(result.hypotheses[0]).strip() + "\n" for result in found))
    print(json.dumps([time.perf_counter() - begun, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def ours(args, work, kind, beam, batch):
    """Returns seconds, peak memory in MiB and lines of `train generate`."""
    command = [args.train, "generate", args.model, "--input", args.sources, "--output", work / "own"]
    command += ["--beam", str(beam), "--batch-size", str(batch), "--threads", str(args.threads)]
    command += ["--int8"] if kind == "int8" else []
    command += ["--target-lang", args.target_lang] if args.target_lang else []
    command += ["--max-length", str(args.max_length)] if args.max_length else []
    command = ["/usr/bin/time", "-f", "%M", *map(str, command)]
    begun = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True)
    seconds = time.perf_counter() - begun
    if done.returncode:
        sys.exit(f"train generate: {done.stderr}")
    return seconds, int(done.stderr.split()[-1]) / 1024, (work / "own").read_text().splitlines()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model")
    parser.add_argument("sources")
    parser.add_argument("--target-lang")
    parser.add_argument("--max-length", type=int, help="of outputs, such as those of random weights, which do not end")
    parser.add_argument("--train", default="target/release/train")
    parser.add_argument("--kinds", nargs="+", choices=["float32", "int8"], default=["float32", "int8"])
    parser.add_argument("--beams", nargs="+", type=int, default=[1, 5])
    parser.add_argument("--batches", nargs="+", type=int, default=[16, 64, 256])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.child:
        return child(args)
    with tempfile.TemporaryDirectory() as folder:
        work, model = Path(folder), Path(args.model)
        # In a process of its own, since a process begins with the peak memory of the one that starts it.
        if (pid := os.fork()) == 0:
            convert(args, model, work)
            os._exit(0)
        if os.waitpid(pid, 0)[1]:
            sys.exit("the model was not converted, see above")
        print("| numbers | beam | CTranslate2 | `transformer` | ratio | memory | equal |\n|---|---|---|---|---|---|---|")
        for kind in args.kinds:
            for beam in args.beams:
                times = {}
                for _ in range(args.turns):
                    for batch in args.batches:
                        for side in (theirs, ours):
                            times.setdefault((side, batch), []).append(side(args, work, kind, beam, batch))
                best = []
                for side in (theirs, ours):
                    of = {batch: statistics.median(turn[0] for turn in times[side, batch]) for batch in args.batches}
                    batch = min(of, key=of.get)
                    best.append((of[batch], batch, statistics.median(turn[1] for turn in times[side, batch]), times[side, batch][0][2]))
                (a, a_batch, a_peak, a_lines), (b, b_batch, b_peak, b_lines) = best
                equal = sum(x.strip() == y.strip() for x, y in zip(a_lines, b_lines))
                print(
                    f"| {kind} | {beam} | {a:.2f} ({a_batch}) | {b:.2f} ({b_batch}) | {a / b:.2f} "
                    f"| {a_peak:.0f} / {b_peak:.0f} | {equal} of {len(b_lines)} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
