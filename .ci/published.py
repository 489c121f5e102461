"""Compares what the example `speech` hears with what transformers hears: published.py SPEECH FOLDER WAV..

FOLDER has Whisper tiny.en as CTranslate2 converts it (`model.bin` in float16, `config.json`, `tokenizer.json`). It becomes
a folder of transformers in it, `float32`, and one in `float16`. Texts must be equal, greedily and with a beam of five.
`float32.json` has what transformers computes from the first recording, for `stacks_of_whisper_compute_what_transformers_computes`
in `crates/transformer/tests/models.rs`.
"""

import json
import pathlib
import shutil
import struct
import subprocess
import sys
import wave

import numpy as np
import torch
from tokenizers import Tokenizer
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

WIDTH, LAYERS = 384, 4


def variables(path):
    """Returns the tensors of a `model.bin`, by name."""
    with open(path, "rb") as file:
        number = lambda code: struct.unpack("<" + code, file.read(struct.calcsize(code)))[0]
        text = lambda: file.read(number("H")).rstrip(b"\0").decode()
        number("I"), text(), number("I")
        found = {}
        for _ in range(number("I")):
            name, rank = text(), number("B")
            shape = [number("I") for _ in range(rank)]
            kind, size = number("B"), number("I")
            dtype = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}[kind]
            values = np.frombuffer(file.read(size), dtype).reshape(shape)
            found[name] = torch.from_numpy(values.copy()).float()
        return found


def convert(folder):
    """Returns the model as transformers has it."""
    theirs, ours = variables(folder / "model.bin"), {}

    def norm(to, name):
        ours[to + ".weight"], ours[to + ".bias"] = theirs[name + "/gamma"], theirs[name + "/beta"]

    def linear(names, name):
        """A packed layer becomes one layer for each name; keys have no bias."""
        for part, to in enumerate(names):
            rows = slice(part * WIDTH, (part + 1) * WIDTH) if len(names) > 1 else slice(None)
            ours[to + ".weight"] = theirs[name + "/weight"][rows]
            if not to.endswith("k_proj"):
                ours[to + ".bias"] = theirs[name + "/bias"][rows]

    for stack in ("encoder", "decoder"):
        ours[f"model.{stack}.embed_positions.weight"] = theirs[f"{stack}/position_encodings/encodings"]
        norm(f"model.{stack}.layer_norm", f"{stack}/layer_norm")
        for layer in range(LAYERS):
            to, name = f"model.{stack}.layers.{layer}.", f"{stack}/layer_{layer}/"
            linear([f"{to}self_attn.{part}_proj" for part in "qkv"], name + "self_attention/linear_0")
            linear([to + "self_attn.out_proj"], name + "self_attention/linear_1")
            norm(to + "self_attn_layer_norm", name + "self_attention/layer_norm")
            if stack == "decoder":
                linear([to + "encoder_attn.q_proj"], name + "attention/linear_0")
                linear([f"{to}encoder_attn.{part}_proj" for part in "kv"], name + "attention/linear_1")
                linear([to + "encoder_attn.out_proj"], name + "attention/linear_2")
                norm(to + "encoder_attn_layer_norm", name + "attention/layer_norm")
            linear([to + "fc1"], name + "ffn/linear_0")
            linear([to + "fc2"], name + "ffn/linear_1")
            norm(to + "final_layer_norm", name + "ffn/layer_norm")
    for conv in ("conv1", "conv2"):
        linear([f"model.encoder.{conv}"], f"encoder/{conv}")
    table = theirs["decoder/embeddings/weight"]
    ours["model.decoder.embed_tokens.weight"] = ours["proj_out.weight"] = table
    config = WhisperConfig(
        vocab_size=len(table), d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=6,
        decoder_attention_heads=6, encoder_ffn_dim=1536, decoder_ffn_dim=1536, pad_token_id=50256, bos_token_id=50257,
        eos_token_id=50256, decoder_start_token_id=50257,
    )
    model = WhisperForConditionalGeneration(config).eval()
    settings = json.loads((folder / "config.json").read_text())
    model.generation_config = GenerationConfig(
        pad_token_id=50256, bos_token_id=50257, eos_token_id=50256, decoder_start_token_id=50257, max_length=448,
        forced_decoder_ids=[[1, 50362]], no_timestamps_token_id=50362, is_multilingual=False, return_timestamps=False,
        suppress_tokens=settings["suppress_ids"], begin_suppress_tokens=settings["suppress_ids_begin"],
        alignment_heads=settings["alignment_heads"],
    )
    model.load_state_dict(ours)
    return model


def samples(path):
    with wave.open(path) as file:
        values = np.frombuffer(file.readframes(file.getnframes()), np.int16).astype(np.float32) / 32768
        values, rate = values.reshape(-1, file.getnchannels()).mean(1), file.getframerate()
    places = np.arange(len(values) * 16000 // rate) * rate / 16000
    return np.interp(places, np.arange(len(values)), values).astype(np.float32)


speech, folder, *sounds = sys.argv[1:]
folder = pathlib.Path(folder)
model, tokenizer = convert(folder), Tokenizer.from_file(str(folder / "tokenizer.json"))
features = WhisperFeatureExtractor(80)
wrong = 0
for dtype in (torch.float32, torch.float16):
    kept = folder / str(dtype).removeprefix("torch.")
    model.to(dtype).save_pretrained(kept)
    model.to(torch.float32)
    shutil.copy(folder / "tokenizer.json", kept)
    for beams in (1, 5):
        options = [] if beams == 1 else [f"--beam={beams}"]
        heard = subprocess.run([speech, *options, kept, *sounds], check=True, capture_output=True, text=True).stdout
        for sound, line in zip(sounds, heard.splitlines(), strict=True):
            inputs = features(samples(sound), sampling_rate=16000, return_tensors="pt").input_features
            found = model.generate(inputs, num_beams=beams)
            expected = f"{sound}: {tokenizer.decode(found[0].tolist()).strip()}"
            print("  " if line == expected else "! ", dtype, beams, line)
            wrong += line != expected
inputs = features(samples(sounds[0]), sampling_rate=16000, return_tensors="pt").input_features
ids = torch.tensor([[50257, 50362, *model.generate(inputs)[0].tolist()]])
with torch.no_grad():
    found = model(inputs, decoder_input_ids=ids)
about = {"features": inputs, "rows": ids, "states": found.encoder_last_hidden_state, "logits": found.logits}
(folder / "float32.json").write_text(json.dumps({name: x.flatten(1).tolist() for name, x in about.items()}))
sys.exit(wrong > 0)
