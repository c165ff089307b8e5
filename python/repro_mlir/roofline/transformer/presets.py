# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Configurations of published transformers, and configurations read from files."""

from __future__ import annotations

from pathlib import Path

from repro_mlir.base.errors import ReproError
from repro_mlir.base.field_checks import check_among
from repro_mlir.base.files import json_text
from repro_mlir.base.files.regular import read_regular
from repro_mlir.roofline.transformer.config import TransformerConfig, config_of

_LIMIT = 1 << 16


def _megatron(layers: int, hidden: int, heads: int) -> TransformerConfig:
    """Returns a configuration of Korthikanti et al., arXiv:2205.05198, Table 3."""
    return TransformerConfig(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, head_size=hidden // heads, ffn=4 * hidden,
        vocabulary=51200, sequence=2048, gated=False, rotary=False, tied=True, dropout=True, attention_block=0,
    )  # fmt: skip


def _llama3(layers: int, hidden: int, heads: int, ffn: int) -> TransformerConfig:
    """Returns a configuration of Llama Team, arXiv:2407.21783, Table 3."""
    return TransformerConfig(
        layers=layers, hidden=hidden, heads=heads, kv_heads=8, head_size=128, ffn=ffn, vocabulary=128256, sequence=8192
    )


_LLAMA2_7B = TransformerConfig(
    layers=32, hidden=4096, heads=32, kv_heads=32, head_size=128, ffn=11008, vocabulary=32000, sequence=4096
)
_LLAMA2_70B = TransformerConfig(
    layers=80, hidden=8192, heads=64, kv_heads=8, head_size=128, ffn=28672, vocabulary=32000, sequence=4096
)
_MIXTRAL = TransformerConfig(
    layers=32, hidden=4096, heads=32, kv_heads=8, head_size=128, ffn=14336, vocabulary=32000, sequence=4096, experts=8,
    active_experts=2,
)  # fmt: skip
_QWEN3 = TransformerConfig(
    layers=48, hidden=2048, heads=32, kv_heads=4, head_size=128, ffn=768, vocabulary=151936, sequence=4096,
    experts=128, active_experts=8,
)  # fmt: skip
_GPT2 = TransformerConfig(
    layers=12, hidden=768, heads=12, kv_heads=12, head_size=64, ffn=3072, vocabulary=50304, sequence=1024, gated=False,
    rotary=False, tied=True,
)  # fmt: skip

PRESETS = {
    "gpt2-124m": _GPT2,
    "gpt3-175b": _megatron(96, 12288, 96),
    "llama2-70b": _LLAMA2_70B,
    "llama2-7b": _LLAMA2_7B,
    "llama3-405b": _llama3(126, 16384, 128, 53248),
    "llama3-70b": _llama3(80, 8192, 64, 28672),
    "llama3-8b": _llama3(32, 4096, 32, 14336),
    "megatron-1t": _megatron(128, 25600, 160),
    "megatron-22b": _megatron(48, 6144, 64),
    "mixtral-8x7b": _MIXTRAL,
    "qwen3-30b-a3b": _QWEN3,
    "turing-530b": _megatron(105, 20480, 128),
}
"""Configurations by name."""


def read_transformer(name: str) -> TransformerConfig:
    """Reads a transformer of `PRESETS` or of a file.

    Args:
      name: a preset, or a path if it ends with `.json`; the file has the attributes of `TransformerConfig`.
    Raises:
      ReproError: no such preset, or a file that does not describe a transformer.
    """
    if not name.endswith(".json"):
        check_among("a transformer", name, PRESETS)
        return PRESETS[name]
    given = json_text.parse(read_regular(name, _LIMIT), name, _LIMIT)
    try:
        return config_of(given)
    except ReproError as error:
        raise ReproError(f"{Path(name)}: {error}") from None
