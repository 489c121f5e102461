"""Writes seeds of the fuzz targets pytorch and safetensors: tiny models of two layouts.

    .venv/bin/python fuzz/seeds.py
"""
import io
import pathlib
import sys
import zipfile

import torch
from safetensors.torch import save

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE / "../crates/transformer/tests/fixtures/layouts"))
from layouts import LAYOUTS

torch.manual_seed(1)
for folder in ("safetensors", "pytorch"):
    (HERE / "seeds" / folder).mkdir(parents=True, exist_ok=True)
for name in ("torch-nn", "marian"):
    tied = "all" if name == "marian" else "none"
    state = LAYOUTS[name](3, 3, 2, 1, 1, 1, 2, max_len=2, tied=tied).state_dict()
    state = {key: value.clone() for key, value in state.items()}
    (HERE / "seeds/safetensors" / name).write_bytes(save(state))
    archive = io.BytesIO()
    torch.save(state, archive)
    (HERE / "seeds/pytorch" / f"{name}.zip").write_bytes(archive.getvalue())
    with zipfile.ZipFile(archive) as opened:
        (HERE / "seeds/pytorch" / f"{name}.pkl").write_bytes(opened.read("archive/data.pkl"))
    legacy = io.BytesIO()
    torch.save(state, legacy, _use_new_zipfile_serialization=False)
    (HERE / "seeds/pytorch" / f"{name}.legacy").write_bytes(legacy.getvalue())
