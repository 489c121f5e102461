#!/usr/bin/env python3
"""Times the example `speech` beside CTranslate2, with the same weights of Whisper tiny.en.

    python3 -m venv .venv && .venv/bin/pip install ctranslate2 numpy transformers
    cargo build --release --example speech
    .venv/bin/python benches/whisper.py FOLDER HUGGING_FACE FILE.wav...

FOLDER has the model as CTranslate2 converts it, and HUGGING_FACE the same one as transformers saves it;
`.ci/deep published` makes both. In turns, each side hears all files. The table has medians: milliseconds
of the encoder for a file, convolutions included, tokens a second of the decoder, without the forced
ones, and the peak memory of the process in MiB, for CTranslate2 less that after its imports.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
import wave

UNITS = {"s": 1.0, "ms": 1e-3, "µs": 1e-6}


def ours(args, kind, beam):
    command = ["/usr/bin/time", "-f", "peak %M", args.speech, "--times", f"--beam={beam}", args.hugging_face, *args.files]
    if kind == "int8":
        command.insert(4, "--int8")
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    found = re.findall(r"encoder ([\d.]+)(µs|ms|s), (\d+) tokens in ([\d.]+)(µs|ms|s)", lines)
    encoder = sum(float(x) * UNITS[unit] for x, unit, *_ in found)
    decoder = sum(float(x) * UNITS[unit] for *_, x, unit in found)
    n = sum(int(n) for _, _, n, _, _ in found)
    return encoder / len(found) * 1e3, n / decoder, int(re.search(r"peak (\d+)", lines)[1]) / 1024


def theirs(args, kind, beam):
    command = [sys.executable, *sys.argv, "--child", json.dumps([kind, beam])]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def child(args):
    import ctranslate2
    import numpy as np
    from transformers import WhisperFeatureExtractor

    def samples(path):
        with wave.open(path) as file:
            rate, channels = file.getframerate(), file.getnchannels()
            x = np.frombuffer(file.readframes(file.getnframes()), np.int16).reshape(-1, channels).mean(1) / 32768
        return np.interp(np.arange(len(x) * 16000 // rate) * rate / 16000, np.arange(len(x)), x)

    def peak():
        return int(re.search(r"VmHWM:\s*(\d+)", open("/proc/self/status").read())[1]) / 1024

    kind, beam = json.loads(args.child)
    extractor = WhisperFeatureExtractor(feature_size=80)
    features = [extractor(samples(f), sampling_rate=16000, return_tensors="np").input_features for f in args.files]
    before = peak()
    model = ctranslate2.models.Whisper(args.folder, compute_type=kind, intra_threads=args.threads)
    encoder = decoder = n = 0
    for x in features:
        begin = time.perf_counter()
        memory = model.encode(ctranslate2.StorageView.from_array(x))
        encoded = time.perf_counter()
        found = model.generate(memory, [[50257, 50362]], beam_size=beam)
        encoder, decoder = encoder + encoded - begin, decoder + time.perf_counter() - encoded
        n += len(found[0].sequences_ids[0])
    print(json.dumps([encoder / len(features) * 1e3, n / decoder, peak() - before]))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("folder")
parser.add_argument("hugging_face")
parser.add_argument("files", nargs="+")
parser.add_argument("--speech", default="target/release/examples/speech")
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--turns", type=int, default=3)
parser.add_argument("--child", help=argparse.SUPPRESS)
args = parser.parse_args()
if args.child:
    child(args)
else:
    print("| numbers | beam | encoder, ms | tokens/s | memory, MiB |\n|---|---|---|---|---|", flush=True)
    for kind in ["float32", "int8"]:
        for beam in [1, 5]:
            turns = [(theirs(args, kind, beam), ours(args, kind, beam)) for _ in range(args.turns)]
            a, b = ([statistics.median(values) for values in zip(*side)] for side in zip(*turns))
            speeds = [f"{a[0]:.0f} / {b[0]:.0f} ({a[0] / b[0]:.2f})", f"{a[1]:.0f} / {b[1]:.0f} ({b[1] / a[1]:.2f})"]
            print(f"| {kind} | {beam} | {' | '.join(speeds)} | {a[2]:.0f} / {b[2]:.0f} |", flush=True)
