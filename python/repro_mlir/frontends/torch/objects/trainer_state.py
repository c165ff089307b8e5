# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""State of a trainer that no object of the user contains: scales from earlier steps (Q6), residuals of compressed
gradients (B5). `Trainer.state_dict` has an entry for each of the two."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.storage import write_file
from repro_mlir.base.files.tensor_file import read_all_tensors, write_tensors
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.tensors import TensorType, canonical_of
from repro_mlir.base.tensors.arrays import as_array, as_arrays
from repro_mlir.base.tensors.torch_tensors import is_tensor, kind_of, to_tensor
from repro_mlir.frontends.torch.base.capture_options import CaptureOptions
from repro_mlir.gradient_compression.apply import PREFIX
from repro_mlir.gradient_compression.chosen import compression_to_json
from repro_mlir.precision.apply import HISTORY, SCALE
from repro_mlir.precision.recipe import OPERANDS
from repro_mlir.precision.recipe_json import recipe_to_json

_PRECISION = "precision"
OWN_ENTRIES = (_PRECISION, PREFIX)
"""The keys of the entries in a `state_dict`, which are also the names of the trainer's options."""

_DEFINITION = "definition"
"""The tensor of an entry that identifies its recipe or method: the bytes of its JSON."""

Expected = Callable[[str, Any], TensorType]


def own_entries(own: Mapping[str, np.ndarray], options: CaptureOptions) -> dict[str, dict[str, torch.Tensor]]:
    """Returns the entries of a state with copies of the arrays in `own`, which are keyed by the names of the program's
    state.

    Arrays that belong to no entry are left out.
    """
    found = {owner: {_DEFINITION: definition} for owner, definition in _definitions(options).items()}
    for name, array in own.items():
        owner = _PRECISION if name.startswith((HISTORY, SCALE)) else name.partition(".")[0]
        if owner in found:
            found[owner][name.removeprefix(f"{owner}.")] = torch.from_numpy(array.copy())
    return found


def own_arrays(state: Mapping[str, Any], model: torch.nn.Module, options: CaptureOptions) -> dict[str, np.ndarray]:
    """Returns copies of the arrays in the entries of a state, keyed by the names of the program's state.

    A layer without values in the state starts from initial values, like a layer that was frozen until now.

    Raises:
      ReproError: the state has an entry that the options do not use, an entry of another recipe or method, or a name or
        tensor that no run with these options has.
    """
    definitions = _definitions(options)
    found: dict[str, np.ndarray] = {}
    for owner in OWN_ENTRIES:
        if owner not in definitions:
            if owner in state:
                raise ReproError(f"the state has {owner}, but the trainer keeps none: pass {owner}= to Trainer")
            continue
        if owner not in state:
            if state["steps"]:
                raise ReproError(f"the state has no {owner}, which the trainer keeps: an empty dict starts again")
            continue
        entry = state[owner]
        if not isinstance(entry, Mapping):
            raise ReproError(f"{owner}: expected a dict of tensors, got a {type(entry).__name__}")
        if not entry:
            continue
        definition = entry.get(_DEFINITION)
        if not is_tensor(definition) or not torch.equal(definition, definitions[owner]):
            raise ReproError(f"{owner}: the state has other settings than the trainer: an empty dict starts again")
        entry = {name: value for name, value in entry.items() if name != _DEFINITION}
        expected = (_scales if owner == _PRECISION else _residuals)(entry, model, options)
        for name, value in entry.items():
            kind = expected(name, value)
            array = canonical_of(as_array(value, kind, f"{owner}:").copy(), "f32")
            if owner == _PRECISION:
                _check_number(name, array)
            found[name if owner == _PRECISION else f"{owner}.{name}"] = array
    return found


def _definitions(options: CaptureOptions) -> dict[str, torch.Tensor]:
    """Returns the definition of each entry that a state has with these options, as the bytes of a JSON text: the
    recipe, in which a fixed name replaces its own, and the compression method."""
    texts = {}
    recipe, compression = options.precision, options.gradient_compression
    if recipe is not None and recipe.is_delayed:
        texts[_PRECISION] = recipe_to_json(dataclasses.replace(recipe, name=_PRECISION))
    if compression is not None and compression.has_feedback:
        texts[PREFIX] = compression_to_json(compression)
    return {owner: torch.tensor([*text.encode()], dtype=torch.uint8) for owner, text in texts.items()}


def _scales(entry: Mapping[str, Any], model: torch.nn.Module, options: CaptureOptions) -> Expected:
    """(Q6) Returns a function that checks the name of a scale or history and returns its type."""
    assert options.precision is not None
    layers = {name for named in (model.named_parameters, model.named_buffers) for name, _ in named("", True, False)}
    operands = {operand for names in OPERANDS.values() for operand in names}
    lengths = options.precision.histories

    def expected(name: str, value: Any) -> TensorType:
        kind = next((each for each in (HISTORY, SCALE) if str(name).startswith(each)), None)
        subject, _, operand = str(name).removeprefix(kind or "").rpartition(".")
        layer, _, role = subject.rpartition(".")
        is_known = not {subject, layer if role in OPERANDS else subject}.isdisjoint(layers)
        is_product = re.fullmatch(r"product\.\d+(\.product)?", subject) is not None
        if kind is None or operand not in operands or not (is_known or is_product):
            raise ReproError(f"{_PRECISION}: unexpected {name}")
        other = {HISTORY: SCALE, SCALE: HISTORY}[kind] + f"{subject}.{operand}"
        if other not in entry:
            raise ReproError(f"{_PRECISION}: missing {other}")
        if kind == SCALE:
            return TensorType(name, "f32", ())
        length = len(value) if is_tensor(value) and value.dim() == 1 else -1
        return TensorType(name, "f32", (length if length in lengths else min(lengths),))

    return expected


def _residuals(entry: Mapping[str, Any], model: torch.nn.Module, options: CaptureOptions) -> Expected:
    """(B5) Returns a function that checks the name of a residual and returns its type.

    Raises:
      ReproError: the entry has some of the tensors of a parameter, but not all of them.
    """
    assert options.microbatches is not None and options.gradient_compression is not None
    count = options.microbatches.count
    kinds: dict[str, TensorType] = {}
    for parameter, tensor in model.named_parameters(remove_duplicate=False):
        shape = tuple(tensor.shape)
        kept = options.gradient_compression.kept(shape)
        for each in kept:
            name = f"{each.name}.{parameter}"
            kinds[name] = TensorType(name, "f32", (count, *each.shape) if each.is_own else each.shape)
        missing = [each.name for each in kept if f"{each.name}.{parameter}" not in entry]
        if 0 < len(missing) < len(kept):
            raise ReproError(f"{PREFIX}: missing {missing[0]}.{parameter}")

    def expected(name: str, value: Any) -> TensorType:
        if name not in kinds:
            raise ReproError(f"{PREFIX}: unexpected {name}")
        return kinds[name]

    return expected


def _check_number(name: str, array: np.ndarray) -> None:
    """(Q6) Checks that a scale is a finite number of at least 0, and that a history contains no negative number."""
    if name.startswith(SCALE) and not 0 <= float(array) < np.inf:
        raise ReproError(f"{_PRECISION}: {name}: expected a finite number of at least 0, got {float(array)}")
    if (array < 0).any():
        raise ReproError(f"{_PRECISION}: {name}: expected magnitudes of at least 0, got {float(array.min())}")


def save_own_entries(path: str | Path, state: Mapping[str, Any]) -> None:
    """Writes to a safetensors file those entries of a state that `own_entries` returns.

    Raises:
      ReproError: the file cannot be written.
    """
    tensors = {f"{owner}.{name}": value for owner in OWN_ENTRIES for name, value in state.get(owner, {}).items()}
    kinds = [kind_of(name, value) for name, value in tensors.items()]
    arrays = as_arrays([*tensors.values()], kinds, "state")
    write_file(path, write_tensors(kinds, arrays, {owner: "" for owner in OWN_ENTRIES if owner in state}))


def load_own_entries(path: str | Path) -> dict[str, dict[str, torch.Tensor]]:
    """Returns the entries that `save_own_entries` wrote; raises ReproError for any other file."""
    kinds, arrays, metadata = read_all_tensors(read_regular(path, limits().archive_bytes), str(path))
    found: dict[str, dict[str, torch.Tensor]] = {owner: {} for owner in metadata if owner in OWN_ENTRIES}
    for kind, array in zip(kinds, arrays, strict=True):
        owner, _, name = kind.name.partition(".")
        if owner not in found:
            raise ReproError(f"{path}: expected the state of a trainer, got the unknown tensor {kind.name}")
        found[owner][name] = to_tensor(array, kind)
    return found
