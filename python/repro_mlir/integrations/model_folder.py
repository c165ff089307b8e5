# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Reads a directory with a transformers model and its tokenizer, without downloading files or running Python code from
the directory."""

from __future__ import annotations

import contextlib
import copy
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

# transformers reads this variable when it is imported. The value 1 keeps files of the directory from causing downloads.
os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from safetensors import safe_open

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.canonical_json import LIMIT
from repro_mlir.base.files.json_text import parse
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.printing import foreign
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.objects.defined_construction import DefinedConstruction, is_whole
from repro_mlir.integrations.chat_template import TemplateRenderer
from repro_mlir.integrations.decoder import Decoder

_POSITIONS = 1 << 17
"""The number of positions if the configuration does not define it: a receipt may contain any capacity."""

_EXACT = ("F32", "F16", "BF16")
"""Safetensors types whose numbers are all representable in f32."""

_TEXT_FILES = (".json", ".jinja", ".txt", ".model", ".tiktoken")
_TEXT_FILE_LIMIT = 1 << 27
"""The limit on bytes of a configuration, tokenizer or template file."""

_POSITIONS_LIMIT = 1 << 27

_BUFFER_LIMIT = 1 << 31
"""The limit on elements of a buffer, such as a mask of all positions."""

_EXTENTS = (
    *("hidden_size", "vocab_size", "intermediate_size", "num_attention_heads", "num_key_value_heads", "head_dim"),
    *("num_local_experts", "num_experts", "n_routed_experts", "moe_intermediate_size", "num_experts_per_tok"),
)
"""Fields of configurations that must not exceed twice the greatest extent of a tensor in the model's files."""

_LOCAL: dict[str, Any] = {"local_files_only": True, "trust_remote_code": False}


def versions() -> dict[str, str]:
    """Returns the versions of the packages that determine a model's program. With other versions, the model's identity
    may differ."""
    import repro_mlir

    return {
        "repro_mlir": repro_mlir.__version__,
        "torch": torch.__version__.partition("+")[0],
        "transformers": transformers.__version__,
    }


class ModelFolder:
    """The model and tokenizer in a directory.

    Attributes:
      path: the directory.
      positions: the greatest number of tokens that the model accepts according to its configuration.
      tokenizer: a `serving.tokenizer.Tokenizer`.
    """

    def __init__(self, path: str | Path) -> None:
        """Reads the configuration and the tokenizer. Raises ReproError if either is missing or needs its own code."""
        self.path = Path(path)
        if not (self.path / "config.json").is_file():
            raise ReproError(f"{path}: expected a directory with config.json, safetensors and a tokenizer")
        # transformers silently ignores an entry that it cannot open, such as a chat template, so this loop rejects such
        # entries.
        for each in sorted(self.path.iterdir()):
            if not each.is_file() and not each.is_dir():
                raise ReproError(f"{path}: expected {foreign(each.name)} to be a file")
            size = each.stat().st_size
            if each.suffix in _TEXT_FILES and size > _TEXT_FILE_LIMIT:
                raise ReproError(
                    f"{path}: {foreign(each.name)}: expected at most {_TEXT_FILE_LIMIT:,} bytes, got {size:,}"
                )
        # Rejects JSON that is nested too deeply or ambiguous, before transformers reads it.
        parse(read_regular(self.path / "config.json", LIMIT, follow=True), f"{path}: config.json")
        self._config = self._read(transformers.AutoConfig, "a configuration")
        if getattr(self._config, "quantization_config", None) is not None:
            raise ReproError(f"{path}: expected a model that is not quantized, got a quantization_config")
        if (self.path / "adapter_config.json").exists():
            raise ReproError(f"{path}: expected a whole model, got an adapter")
        positions = getattr(self._config, "max_position_embeddings", None)
        self.positions = positions if isinstance(positions, int) and positions > 0 else _POSITIONS
        tokenizer = self._read(transformers.AutoTokenizer, "a tokenizer")
        # Without tokenizer files, transformers creates a tokenizer with an empty vocabulary.
        if not any((self.path / name).is_file() for name in tokenizer.vocab_files_names.values()):
            raise ReproError(f"{path}: expected a tokenizer, such as tokenizer.json")
        self.tokenizer = FolderTokenizer(tokenizer, self._ends())

    @cached_property
    def model(self) -> Decoder:
        """The model, with all weights converted to f32, which represents bf16 and f16 numbers exactly. Raises
        ReproError if weights are missing or do not fit the configuration."""
        stored = self._check_weights()
        self._check_sizes(stored)
        try:
            # Rotary tables are not in the files. DefinedConstruction computes them by (G5), because PyTorch's results
            # depend on the vector instructions of this machine.
            with _bounded_modules(len(stored)), DefinedConstruction() as construction:
                model, report = self._read(
                    transformers.AutoModelForCausalLM,
                    "a model",
                    use_safetensors=True,
                    dtype=torch.float32,
                    output_loading_info=True,
                )
        except ReproError:
            # If the shape of a tensor differs, the error of transformers does not name the tensor; that of
            # `_check_shapes` does.
            self._check_shapes(stored)
            raise
        # transformers only reports tensors that are missing, unexpected or of another shape. It would initialize
        # missing ones randomly, and ignore unexpected ones.
        for kind in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs"):
            if wrong := sorted(map(str, report.get(kind) or ())):
                raise ReproError(f"{self.path}: {kind.replace('_', ' ')} of the model: {foreign(', '.join(wrong))}")
        for name, tensor in _computed_tensors(model, stored):
            if not (construction.knows(tensor) or is_whole(tensor)):
                raise ReproError(
                    f"{self.path}: expected tensors from the files or computed by (G5), got {name}, which the model "
                    "computes in another way"
                )
        for tensor in (*model.parameters(), *model.buffers()):
            # The f32 tensors are memory-mapped from the file, which other processes may change, so they are copied.
            tensor.data = tensor.data.clone()
        return Decoder(model).eval()

    def _check_sizes(self, stored: Mapping[str, tuple[int, ...]]) -> None:
        """Raises ReproError if the configuration asks for more layers, or for larger extents, than the weights in the
        files can have."""
        config = self._config.get_text_config()
        extents = [extent for shape in stored.values() for extent in shape]
        bounds = dict.fromkeys(_EXTENTS, 2 * max(extents, default=0))
        bounds |= {"num_hidden_layers": len(stored), "max_position_embeddings": _POSITIONS_LIMIT}
        for field, most in bounds.items():
            value = getattr(config, field, None)
            if type(value) is int and value > most:
                name = getattr(config, "attribute_map", {}).get(field, field)
                raise ReproError(
                    f"{self.path}: config.json: expected {name} of at most {most}, as in the weights, got {value}"
                )

    def _check_shapes(self, stored: Mapping[str, tuple[int, ...]]) -> None:
        """Raises ReproError for the first tensor whose shape in the files is not that of the configuration."""
        with _refusal(f"{self.path}: cannot read a model"), _silence(), _bounded_modules(len(stored)):
            with torch.device("meta"):
                skeleton = transformers.AutoModelForCausalLM.from_config(copy.deepcopy(self._config))
        for name, parameter in skeleton.named_parameters():
            shape = stored.get(name, parameter.shape)
            if tuple(parameter.shape) != tuple(shape):
                raise ReproError(
                    f"{self.path}: mismatched keys of the model: {foreign(name)}: expected the shape "
                    f"{list(parameter.shape)} of config.json, got {list(shape)}"
                )

    def _check_weights(self) -> dict[str, tuple[int, ...]]:
        """Returns the shapes of the tensors in the files.

        Raises ReproError for weights that are not in safetensors files of this directory, or that f32 cannot represent
        exactly.
        """
        if getattr(self._config, "transformers_weights", None) is not None:
            raise ReproError(f"{self.path}: expected weights in model.safetensors, got other files in config.json")
        index = self.path / "model.safetensors.index.json"
        names = ["model.safetensors"]
        if not (self.path / names[0]).is_file() and index.is_file():
            described = parse(read_regular(index, LIMIT, follow=True), str(index))
            weights = described.get("weight_map") if isinstance(described, dict) else None
            given = list(weights.values()) if isinstance(weights, dict) else []
            named = {each for each in given if isinstance(each, str) and Path(each).name == each}
            if not given or not named.issuperset(given) or not all(each.endswith(".safetensors") for each in named):
                raise ReproError(f"{index}: expected names of safetensors files in this directory")
            names = sorted(named)
        stored: dict[str, tuple[int, ...]] = {}
        for name in names:
            path = self.path / name
            try:
                with safe_open(path, framework="pt") as file:
                    kinds = {key: file.get_slice(key).get_dtype() for key in file.keys()}
                    stored |= {key: tuple(file.get_slice(key).get_shape()) for key in kinds}
            except Exception as error:
                raise ReproError(f"{self.path}: cannot read a model: {foreign(f'{name}: {error}')}") from None
            # Only floats and tensors named `weight` must have one of these types: the files of old models contain masks
            # and positions as integers.
            for key, kind in kinds.items():
                if kind not in _EXACT and (kind.startswith("F") or key.endswith(".weight")):
                    raise ReproError(
                        f"{self.path}: expected weights of f32, bf16 or f16, got {kind}: {foreign(key)} in {name}"
                    )
        return stored

    def check_capacity(self, capacity: int) -> None:
        """Raises ReproError if the capacity exceeds the model's number of positions."""
        if capacity > self.positions:
            raise ReproError(f"expected a capacity of at most {self.positions}, got {capacity}: choose a smaller one")

    def _ends(self) -> set[int]:
        """Returns the tokens that end an answer, according to config.json and generation_config.json."""
        found: set[int] = set()
        sources = [self._config]
        if (self.path / "generation_config.json").is_file():
            sources.append(self._read(transformers.GenerationConfig, "a configuration of generation"))
        for source in sources:
            given = getattr(source, "eos_token_id", None)
            for each in given if isinstance(given, list) else [] if given is None else [given]:
                if type(each) is not int or each < 0:
                    raise ReproError(f"{self.path}: expected tokens as eos_token_id, got {foreign(repr(each), 40)}")
                found.add(each)
        return found

    def _read(self, kind: Any, what: str, **options: Any) -> Any:
        given = {"local_files_only": True} if kind is transformers.GenerationConfig else _LOCAL
        with _refusal(f"{self.path}: cannot read {what}"), _silence():
            return kind.from_pretrained(str(self.path), **given, **options)


def _computed_tensors(model: torch.nn.Module, stored: Iterable[str]) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors that become constants: buffers that are in no file, and tensors in other attributes of
    modules."""
    # transformers loads only persistent buffers. A file may contain an outdated table for another buffer; such a table
    # is ignored.
    persistent = model.state_dict().keys()
    for name, buffer in model.named_buffers():
        if not (name in persistent and _is_stored(name, stored)):
            yield name, buffer
    for name, module in model.named_modules():
        for attribute, value in vars(module).items():
            if attribute not in ("_parameters", "_buffers"):
                yield from (
                    (f"{name}.{attribute}", each) for each in pytree.tree_leaves(value) if torch.is_tensor(each)
                )


def _is_stored(name: str, stored: Iterable[str]) -> bool:
    """Returns whether the files contain a buffer. Its name may have additional leading levels, such as `model.`, in the
    model or in the files."""
    return any(f".{key}".endswith(f".{name}") or f".{name}".endswith(f".{key}") for key in stored)


@contextlib.contextmanager
def _bounded_modules(stored: int) -> Iterator[None]:
    """A context manager that raises ReproError if the model gets a very large buffer, or far more modules and
    parameters than `stored` tensors imply. Must be inside `_refusal`."""
    # The factor and the constant leave room for tied weights, buffers, and stored tensors that are split into several
    # parameters.
    left = 8 * stored + 256

    def count(module: torch.nn.Module, name: str, value: Any) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise ReproError(
                f"expected a model of {stored} tensors, as in the weights, got more at {type(module).__name__}.{name}"
            )

    def measure(module: torch.nn.Module, name: str, value: Any) -> None:
        if isinstance(value, torch.Tensor) and value.numel() > _BUFFER_LIMIT:
            raise ReproError(
                f"expected buffers of at most {_BUFFER_LIMIT} elements, got {type(module).__name__}.{name} of "
                f"{list(value.shape)}"
            )

    hooks = torch.nn.modules.module
    handles = [
        hooks.register_module_module_registration_hook(count),
        hooks.register_module_parameter_registration_hook(count),
        hooks.register_module_buffer_registration_hook(measure),
    ]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextlib.contextmanager
def _refusal(message: str) -> Iterator[None]:
    """A context manager that converts any exception, except an interrupt or exit, to a ReproError with this message,
    because the libraries raise exceptions of many types."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # BaseException rather than Exception, because a panic in Rust code is not an Exception.
        raise ReproError(f"{message}: {foreign(str(error) or type(error).__name__)}") from None


@contextlib.contextmanager
def _silence() -> Iterator[None]:
    """A context manager that disables progress bars and warnings of transformers, since errors are raised as
    exceptions."""
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
    """A tokenizer of transformers that implements `serving.tokenizer.Tokenizer`."""

    def __init__(self, tokenizer: Any, ends: set[int]) -> None:
        """Raises ReproError for a tokenizer that draws random numbers."""
        model = getattr(getattr(tokenizer, "backend_tokenizer", None), "model", None)
        options = tokenizer.init_kwargs.get("sp_model_kwargs") or {}
        if getattr(model, "dropout", None) or options.get("enable_sampling"):
            raise ReproError("expected a deterministic tokenizer, got one that draws random numbers")
        self._encoding = tokenizer
        # Decoding uses a separate copy, because two threads must not use a fast tokenizer at once.
        with _refusal("cannot read a tokenizer"):
            self._decoding = copy.deepcopy(tokenizer)
        own = tokenizer.eos_token_id
        self.stop_tokens = frozenset(ends if own is None else {*ends, own})
        self.has_chat = tokenizer.chat_template is not None
        with _refusal("cannot read a chat template"):
            self._template = (
                TemplateRenderer(tokenizer.get_chat_template(), tokenizer.special_tokens_map) if self.has_chat else None
            )

    def prepare(self) -> None:
        """Starts the child process that renders conversations, without waiting for it."""
        if self._template is not None:
            self._template.start()

    def encode(self, text: str) -> list[int]:
        """Returns the tokens of a prompt, with the special tokens that the tokenizer adds. Raises ReproError if
        encoding fails."""
        with _refusal("the tokenizer refuses the text"):
            return _plain(self._encoding.encode(text))

    def encode_chat(self, messages: Sequence[dict[str, Any]]) -> list[int]:
        """Returns the tokens of a conversation. Raises ReproError if the template rejects it or encoding fails."""
        assert self._template is not None
        text = self._template.render(messages)
        with _refusal("the tokenizer refuses the text"):
            return _plain(self._encoding.encode(text, add_special_tokens=False))

    def decode(self, tokens: Sequence[int]) -> str:
        """Returns the text of tokens, without special tokens. Raises ReproError if decoding fails."""
        with _refusal("the tokenizer refuses the answer"):
            text: str = self._decoding.decode(
                list(tokens), skip_special_tokens=True, clean_up_tokenization_spaces=False
            )
        return text


def _plain(tokens: Any) -> list[int]:
    return [int(token) for token in tokens]
