"""Makes a tiny random Whisper, a sound, and what transformers hears in it (greedy, and beams of three).

    pip install torch==2.15 transformers==5.24
    python make.py
"""

import pathlib
import wave

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import GenerationConfig, WhisperConfig, WhisperFeatureExtractor, WhisperForConditionalGeneration

HERE = pathlib.Path(__file__).parent
SPECIAL = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|notimestamps|>"]
WORDS = ["▁" + word for word in "one two three left right front rear side center noise dog house".split()]

torch.manual_seed(9)
ids = {token: i for i, token in enumerate(WORDS + SPECIAL)}  # ids above <|notimestamps|> are timestamps
tokenizer = Tokenizer(models.WordLevel(ids, unk_token="<|endoftext|>"))
tokenizer.add_special_tokens(SPECIAL)
tokenizer.decoder = decoders.Metaspace()
tokenizer.save(str(HERE / "tokenizer.json"))
config = WhisperConfig(
    vocab_size=len(ids), d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
    encoder_ffn_dim=24, decoder_ffn_dim=24, num_mel_bins=8, max_source_positions=1500, max_target_positions=24,
    pad_token_id=12, bos_token_id=12, eos_token_id=12, decoder_start_token_id=13,
)
model = WhisperForConditionalGeneration(config).eval()
for name, parameter in model.named_parameters():
    if parameter.dim() > 1 and "encoder.embed_positions" not in name:
        torch.nn.init.normal_(parameter, std=0.3)
model.generation_config = GenerationConfig(
    pad_token_id=12, bos_token_id=12, eos_token_id=12, decoder_start_token_id=13, begin_suppress_tokens=[12, 0],
    suppress_tokens=[13, 14, 15, 16], forced_decoder_ids=[[1, None], [2, 15]], is_multilingual=True,
    lang_to_id={"<|en|>": 14}, task_to_id={"transcribe": 15}, no_timestamps_token_id=16, return_timestamps=False, max_length=24,
)
model.half().save_pretrained(HERE)
model = WhisperForConditionalGeneration.from_pretrained(HERE, dtype=torch.float32).eval()

rate = 44_100
time = np.arange(rate // 2) / rate
sound = 0.3 * np.sin(2 * np.pi * 300 * time * (1 + time)) + 0.1 * np.random.default_rng(0).normal(size=time.size)
stereo = np.stack([sound, 0.5 * sound], 1)
with wave.open(str(HERE / "sound.wav"), "wb") as file:
    file.setparams((2, 2, rate, 0, "NONE", ""))
    file.writeframes((stereo * 32767).astype("<i2").tobytes())

samples = (stereo * 32767).astype("<i2").astype(np.float32) / 32768
mono = samples.mean(1)
count = len(mono) * 16000 // rate
mono = np.interp(np.arange(count) * rate / 16000, np.arange(len(mono)), mono).astype(np.float32)
features = WhisperFeatureExtractor(8)(mono, sampling_rate=16000, return_tensors="pt").input_features
expected = []
for beams in (1, 3):
    found = model.generate(features, language="en", num_beams=beams)
    expected.append(tokenizer.decode(found[0].tolist()))
(HERE / "expected.txt").write_text("\n".join(expected) + "\n")
