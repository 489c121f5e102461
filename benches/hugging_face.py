#!/usr/bin/env python3
"""Times `train generate FOLDER` beside CTranslate2, on a model of Hugging Face with random weights.

    python3 -m venv .venv && .venv/bin/pip install torch transformers tokenizers ctranslate2
    cargo build --release -p train
    .venv/bin/python benches/hugging_face.py t5-small    # or nllb-600m, which needs 12 GB of disk

In turns, both decode the same sources of 24 words to targets of a fixed length. `train` reads the
folder, and CTranslate2 a conversion of it. Loading is not counted: the clock starts after the first
batch. The table has the median of the turns in tokens/s, the ratio, and the peak memory in MiB. The
memory of `train` is measured by GNU time (/usr/bin/time), and that of CTranslate2 includes Python.
"""

import argparse
import json
import random
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

SOURCE = 24
LANGUAGES = ["eng_Latn", "deu_Latn"]


def make(shape, folder):
    """Writes a folder with random weights and a word tokeniser, and converts it for CTranslate2."""
    import ctranslate2
    import tokenizers
    import torch
    import transformers
    from tokenizers import models, pre_tokenizers, processors

    torch.manual_seed(0)
    if shape == "t5-small":
        config = transformers.T5Config(
            vocab_size=32128, d_model=512, d_kv=64, d_ff=2048, num_layers=6, num_heads=8, decoder_start_token_id=0
        )
        model = transformers.T5ForConditionalGeneration(config)
        special, template = ["<pad>", "</s>", "<unk>"], "$A </s>"
    else:
        config = transformers.M2M100Config(
            vocab_size=256206, d_model=1024, encoder_layers=12, decoder_layers=12, encoder_ffn_dim=4096,
            decoder_ffn_dim=4096, encoder_attention_heads=16, decoder_attention_heads=16,
            scale_embedding=True, activation_function="relu", decoder_start_token_id=2,
        )  # fmt: skip
        model = transformers.M2M100ForConditionalGeneration(config)
        special, template = ["<s>", "<pad>", "</s>", "<unk>", *LANGUAGES], "eng_Latn $A </s>"
    model.save_pretrained(folder)
    words = [*special, *(f"w{i}" for i in range(len(special), config.vocab_size))]
    ids = {word: id for id, word in enumerate(words)}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens([tokenizers.AddedToken(word, special=True) for word in special])
    used = [(word, ids[word]) for word in special if word in template]
    tokenizer.post_processor = processors.TemplateProcessing(single=template, special_tokens=used)
    tokenizer.save(str(folder / "tokenizer.json"))

    def fast(path, **_):
        read = transformers.PreTrainedTokenizerFast(
            tokenizer_file=f"{path}/tokenizer.json", bos_token=special[0], pad_token="<pad>", eos_token="</s>", unk_token="<unk>"
        )
        read.additional_special_tokens = []
        return read

    # Otherwise, the converter would look for the files of the tokeniser's Python class.
    transformers.AutoTokenizer.from_pretrained = fast
    ctranslate2.converters.TransformersConverter(str(folder)).convert(str(folder / "ct2"), force=True)


def ours(args, sources, kind, batch, beam):
    """Returns the tokens/s and the peak memory in MiB of `train generate`."""
    flags = ["--beam", str(beam), "--min-length", str(args.tokens), "--max-length", str(args.tokens)]
    flags += ["--batch-size", str(batch), "--threads", str(args.threads)]
    flags += ["--length-penalty", "power", "--alpha", "1"] if beam > 1 else []
    flags += ["--int8"] if kind == "int8" else []
    flags += ["--target-lang", LANGUAGES[1]] if args.shape != "t5-small" else []
    command = ["/usr/bin/time", "-f", "%M", args.train, "generate", str(args.folder), *flags]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        process.stdin.write("".join(f"{source}\n" for source in sources))
        process.stdin.close()
        times = [time.perf_counter() for _ in process.stdout]
        said = process.stderr.read()
    if process.returncode or len(times) != len(sources):
        sys.exit(f"train generate: {said}")
    seconds = times[-1] - times[batch - 1]
    return (len(sources) - batch) * args.tokens / seconds, int(said.split()[-1]) / 1024


def theirs(args, sources, kind, batch, beam):
    """Returns the tokens/s and the peak memory in MiB of CTranslate2, in its own process."""
    words = [__file__, args.shape, "--child", json.dumps([sources, kind, batch, beam]), "--folder", str(args.folder)]
    words += ["--tokens", str(args.tokens), "--threads", str(args.threads)]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"ctranslate2: {done.stderr}")
    return json.loads(done.stdout)


def child(args):
    import ctranslate2
    from tokenizers import Tokenizer

    sources, kind, batch, beam = json.loads(args.child)
    tokenizer = Tokenizer.from_file(str(args.folder / "tokenizer.json"))
    translator = ctranslate2.Translator(
        str(args.folder / "ct2"), device="cpu", inter_threads=1, intra_threads=args.threads, compute_type=kind
    )
    sources = [tokenizer.encode(source).tokens for source in sources]

    def translate(some):
        prefix = None if args.shape == "t5-small" else [[LANGUAGES[1]]] * len(some)
        lengths = {"min_decoding_length": args.tokens, "max_decoding_length": args.tokens}
        translator.translate_batch(some, beam_size=beam, max_batch_size=batch, target_prefix=prefix, **lengths)

    translate(sources[:batch])
    begun = time.perf_counter()
    translate(sources[batch:])
    speed = (len(sources) - batch) * args.tokens / (time.perf_counter() - begun)
    print(json.dumps([speed, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=["t5-small", "nllb-600m"])
    parser.add_argument("--folder", type=Path, help="where the model is, or is written [default: /tmp/SHAPE]")
    parser.add_argument("--train", default="target/release/train")
    parser.add_argument("--tokens", type=int, default=32, help="length of a target")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--child", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.folder = args.folder or Path("/tmp") / args.shape
    if args.child:
        return child(args)
    if not (args.folder / "ct2/model.bin").exists():
        make(args.shape, args.folder)
    numbers = random.Random(1)
    words = 32000 if args.shape == "t5-small" else 256000
    sentence = lambda: " ".join(f"w{numbers.randint(300, words)}" for _ in range(SOURCE))  # noqa: E731
    print("| numbers | batch | beam | CTranslate2 | this crate | ratio | memory |\n|---|---|---|---|---|---|---|")
    for kind in ["float32", "int8"]:
        for batch, batches in [(1, 5), (16, 3)]:
            for beam in [1, 5]:
                sources = [sentence() for _ in range(batch * batches)]
                turns = [(theirs(args, sources, kind, batch, beam), ours(args, sources, kind, batch, beam)) for _ in range(args.turns)]
                (a, a_peak), (b, b_peak) = [[statistics.median(x[side][i] for x in turns) for i in range(2)] for side in range(2)]
                ratio = statistics.median(own[0] / peer[0] for peer, own in turns)
                print(f"| {kind} | {batch} | {beam} | {a:.0f} | {b:.0f} | {ratio:.2f} | {a_peak:.0f} / {b_peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()
