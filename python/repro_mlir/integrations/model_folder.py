# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A directory with a model of transformers and its tokenizer, read without a hub and without code of the model's."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

# Before transformers reads it: nothing is fetched, whatever a file of the directory names.
os.environ["HF_HUB_OFFLINE"] = "1"

import jinja2
import torch
import transformers

from ..errors import ReproError
from ..printing import foreign
from .decoder import Decoder

_POSITIONS = 1 << 17
"""Of a model whose configuration does not say how many it has: a receipt may name any capacity."""

_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def versions() -> dict[str, str]:
    """Of what makes a program of a model: with others it may have another identity."""
    import repro_mlir

    return {
        "repro_mlir": repro_mlir.__version__,
        "torch": torch.__version__.partition("+")[0],
        "transformers": transformers.__version__,
    }


class ModelFolder:
    """What a directory holds.

    Attributes:
      path: the directory.
      positions: how many tokens the model takes at most, by its configuration.
      tokenizer: a `serving.tokenizer.Tokenizer`.
    """

    def __init__(self, path: str | Path) -> None:
        """Reads the configuration and the tokenizer. ReproError where they are not there, or bring code."""
        self.path = Path(path)
        if not (self.path / "config.json").is_file():
            raise ReproError(f"{path}: expected a directory with config.json, safetensors and a tokenizer")
        self._config = self._read(transformers.AutoConfig, "a configuration")
        if getattr(self._config, "quantization_config", None) is not None:
            raise ReproError(f"{path}: expected a model that is not quantized")
        if (self.path / "adapter_config.json").exists():
            raise ReproError(f"{path}: expected a whole model, got an adapter of one")
        positions = getattr(self._config, "max_position_embeddings", None)
        self.positions = positions if isinstance(positions, int) and positions > 0 else _POSITIONS
        tokenizer = self._read(transformers.AutoTokenizer, "a tokenizer")
        # Without its files transformers makes one that has no words.
        if not any((self.path / name).is_file() for name in tokenizer.vocab_files_names.values()):
            raise ReproError(f"{path}: expected a tokenizer, such as tokenizer.json")
        self.tokenizer = FolderTokenizer(tokenizer, self._ends())

    @cached_property
    def model(self) -> Decoder:
        """The model in float32, which holds every bf16 and f16 exactly. ReproError where it is not all there."""
        model, report = self._read(
            transformers.AutoModelForCausalLM,
            "a model",
            use_safetensors=True,
            dtype=torch.float32,
            output_loading_info=True,
        )
        # transformers would draw what is missing, on each machine anew.
        for kind in ("missing_keys", "mismatched_keys", "error_msgs"):
            if wrong := sorted(map(str, report.get(kind) or ())):
                raise ReproError(f"{self.path}: {kind.replace('_', ' ')} of the model: {foreign(', '.join(wrong))}")
        return Decoder(model).eval()

    def check_capacity(self, capacity: int) -> None:
        """ReproError for more tokens than the model has positions for."""
        if capacity > self.positions:
            raise ReproError(f"expected a capacity of at most {self.positions}, got {capacity}")

    def _ends(self) -> set[int]:
        """The tokens behind which an answer ends, by whichever file says so."""
        found: set[int] = set()
        sources = [self._config]
        if (self.path / "generation_config.json").is_file():
            sources.append(self._read(transformers.GenerationConfig, "a configuration of generation"))
        for source in sources:
            given = getattr(source, "eos_token_id", None)
            found.update(given if isinstance(given, list) else [] if given is None else [given])
        return found

    def _read(self, kind: Any, what: str, **options: Any) -> Any:
        given = {"local_files_only": True} if kind is transformers.GenerationConfig else _LOCAL
        try:
            with _silence():
                return kind.from_pretrained(str(self.path), **given, **options)
        except Exception as error:
            # Whatever is in the files: transformers has no exception of its own.
            raise ReproError(f"{self.path}: cannot read {what}: {foreign(str(error))}") from None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """No bars and warnings of transformers: what is wrong is an error of ours."""
    log = transformers.utils.logging
    level, has_bars = log.get_verbosity(), log.is_progress_bar_enabled()
    log.set_verbosity(log.CRITICAL)
    log.disable_progress_bar()
    try:
        yield
    finally:
        log.set_verbosity(level)
        if has_bars:
            log.enable_progress_bar()


class FolderTokenizer:
    """A tokenizer of transformers as the server takes it."""

    def __init__(self, tokenizer: Any, ends: set[int]) -> None:
        self._encoding = tokenizer
        # Fast tokenizers refuse to be used by two threads at a time.
        self._decoding = copy.deepcopy(tokenizer)
        own = tokenizer.eos_token_id
        self.stop_tokens = frozenset(ends if own is None else {*ends, own})
        self.has_chat = tokenizer.chat_template is not None

    def encode(self, text: str) -> list[int]:
        """The tokens of a prompt, with those that the tokenizer puts around one."""
        return _plain(self._encoding.encode(text))

    def encode_chat(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """The tokens of a conversation. ReproError where the template does not take it."""
        try:
            text = self._encoding.apply_chat_template(list(messages), add_generation_prompt=True, tokenize=False)
        except (jinja2.TemplateError, ValueError, TypeError) as error:
            raise ReproError(f"the chat template refuses the messages: {foreign(str(error))}") from None
        return _plain(self._encoding.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """The text of tokens, without special ones."""
        text: str = self._decoding.decode(list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return text


def _plain(tokens: Any) -> list[int]:
    return [int(token) for token in tokens]
