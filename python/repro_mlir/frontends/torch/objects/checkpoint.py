# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The state that a trainer needs to resume (`Trainer.state_dict`): its validation, and its safetensors file."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.regular import read_regular
from repro_mlir.base.files.storage import check_can_write, write_whole
from repro_mlir.base.files.tensor_file import read_all_tensors, write_tensors
from repro_mlir.base.limits import limits
from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.base.numerics.tensors import canonical_of
from repro_mlir.base.output_paths import refuse_other_format
from repro_mlir.base.tensors.arrays import as_arrays
from repro_mlir.base.tensors.torch_tensors import is_tensor, kind_of, to_tensor
from repro_mlir.frontends.torch.objects.trainer_state import OWN_ENTRIES
from repro_mlir.frontends.torch.optimizers.optimizer_rules import RULES

CHECKPOINT_FORMAT = 1
_METADATA = "trainer"
_NAMED = ("model", "average", *OWN_ENTRIES)
"""The entries of a state that map names to tensors."""
_NUMBERS = ("format", "steps", "cursor", "seed", "random_step")
_COMPLEX = "complex"
"""The metadata key with the names of complex tensors, which the file stores as pairs of real numbers."""


def check_fits(
    state: Any,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    average: torch.nn.Module | None,
    scaler: torch.amp.GradScaler | None,
) -> None:
    """Checks a state that `Trainer.state_dict` has returned, except for the entries that `own_arrays` checks.

    Raises:
      ReproError: the state does not fit these objects.
    """
    _check_form(state)
    _check_tensors("model", state["model"], model.state_dict())
    for key, given in (("average", average), ("loss_scale", scaler)):
        if given is None and key in state:
            raise ReproError(f"the state has {key}, but the trainer has none: pass {key}= to Trainer")
        if given is not None and key not in state:
            raise ReproError(f"the state has no {key}, but the trainer has one: expected a state with {key}")
    if scaler is not None:
        _check_scaler(state["loss_scale"], scaler.state_dict())
    if average is not None:
        if not isinstance(state["average"], Mapping):
            raise ReproError(f"average: expected a state_dict, got a {type(state['average']).__name__}")
        _check_tensors("average", state["average"], average.state_dict())
    own = optimizer.state_dict()
    groups, own_groups = state["optimizer"]["param_groups"], own["param_groups"]
    if len(groups) != len(own_groups):
        raise ReproError(f"expected {len(own_groups)} parameter groups of the optimizer, got {len(groups)}")
    for index, (group, own_group) in enumerate(zip(groups, own_groups, strict=True)):
        missing = sorted(optimizer.defaults.keys() - group)
        if missing:
            raise ReproError(
                f"parameter group {index}: expected the options of {_name(optimizer)}, got no {missing[0]}: the "
                "checkpoint is of another optimizer"
            )
        if list(group["params"]) != own_group["params"]:
            raise ReproError(
                f"parameter group {index}: expected the {len(own_group['params'])} parameters of the optimizer in the "
                f"same order, got {len(group['params'])} parameters"
            )
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    for number, values in state["optimizer"]["state"].items():
        if not isinstance(number, int) or not 0 <= number < len(parameters) or not isinstance(values, Mapping):
            raise ReproError(f"optimizer: expected state of the parameters 0 to {len(parameters) - 1}, got {number!r}")
        for key, value in values.items():
            held = optimizer.state.get(parameters[number], {}).get(key)
            if is_tensor(held):
                due: tuple[torch.Size, ...] = (held.shape,)
            elif type(optimizer) in RULES:
                due = parameters[number].shape, torch.Size()
            else:
                # The shapes are unknown until the first step of the optimizer.
                continue
            if is_tensor(value) and value.shape not in due:
                raise ReproError(
                    f"optimizer: state {key} of parameter {number}: expected shape {list(due[0])}, "
                    f"got {list(value.shape)}"
                )


def _check_scaler(found: Any, own: Mapping[str, Any]) -> None:
    if not isinstance(found, Mapping) or found.keys() != own.keys():
        raise ReproError("loss_scale: expected the state_dict of a GradScaler")
    for key, value in own.items():
        if type(found[key]) is not type(value):
            raise ReproError(f"loss_scale: {key}: expected a {type(value).__name__}, got {found[key]!r}")


def _check_form(state: Any) -> None:
    # The format is checked first, because another format may have other entries.
    found = state.get("format") if isinstance(state, Mapping) else None
    if type(found) is int and found != CHECKPOINT_FORMAT:
        raise ReproError(f"expected format {CHECKPOINT_FORMAT} of a trainer's state, got {found}")
    if not isinstance(state, Mapping) or any(key not in state for key in (*_NUMBERS, "model", "optimizer")):
        raise ReproError(
            "expected a state of Trainer.state_dict, with the entries model, optimizer, steps, cursor and seed"
        )
    for key in _NUMBERS:
        value = state[key]
        least = -(2**63) if key in ("seed", "random_step") else 0
        # Each number is an i64; only the seed may also be unsigned.
        most = 2**64 if key == "seed" else 2**63
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value < most:
            raise ReproError(f"{key}: expected a whole number of 64 bits, got {value!r}")
    optimizer = state["optimizer"]
    if not isinstance(state["model"], Mapping):
        raise ReproError(f"model: expected a state_dict, got a {type(state['model']).__name__}")
    groups = optimizer.get("param_groups") if isinstance(optimizer, Mapping) else None
    if (
        not isinstance(groups, list)
        or not all(isinstance(group, Mapping) and isinstance(group.get("params"), list) for group in groups)
        or not isinstance(optimizer.get("state"), Mapping)
    ):
        raise ReproError("optimizer: expected a state_dict with state and param_groups")


def _check_tensors(what: str, found: Mapping[str, Any], own: Mapping[str, Any]) -> None:
    for name in sorted(own.keys() ^ found.keys()):
        raise ReproError(f"{what}: {'missing' if name in own else 'unexpected'} {name}")
    for name, value in own.items():
        other = found[name]
        if not is_tensor(value):
            continue
        if not is_tensor(other) or other.shape != value.shape or other.dtype != value.dtype:
            got = f"shape {list(other.shape)} of {other.dtype}" if is_tensor(other) else f"a {type(other).__name__}"
            raise ReproError(f"{what}: {name}: expected shape {list(value.shape)} of {value.dtype}, got {got}")


def _name(optimizer: object) -> str:
    return type(optimizer).__name__


def save_checkpoint(path: str | Path, state: Mapping[str, Any]) -> None:
    """Writes the state atomically: a former file remains until the new one is complete.

    Raises:
      ReproError: the file cannot represent a value, its name ends as those of another format, or it cannot be written.
    """
    refuse_other_format(path, ".safetensors")
    tensors = {f"{owner}.{name}": value for owner in _NAMED for name, value in state.get(owner, {}).items()}
    rest: dict[str, Any] = {key: state[key] for key in _NUMBERS}
    if "loss_scale" in state:
        rest["loss_scale"] = state["loss_scale"]
    # An entry without tensors would otherwise be missing from the file.
    rest |= {owner: {} for owner in OWN_ENTRIES if owner in state}
    rest["param_groups"] = [
        {key: _as_json(f"parameter group {i}: {key}", value) for key, value in group.items()}
        for i, group in enumerate(state["optimizer"]["param_groups"])
    ]
    others: dict[str, dict[str, Any]] = {}
    for number, values in state["optimizer"]["state"].items():
        for key, value in values.items():
            name = f"optimizer.{number}.{key}"
            if is_tensor(value):
                tensors[name] = value
            else:
                others.setdefault(str(number), {})[key] = _as_json(name, value)
    if others:
        rest["optimizer_state"] = others
    for name, value in tensors.items():
        if not is_tensor(value):
            raise ReproError(f"{name}: expected a tensor, got a {type(value).__name__}: use torch.save(state_dict())")
    kinds = [kind_of(name, value) for name, value in tensors.items()]
    if names := [kind.name for kind in kinds if kind.complex]:
        rest[_COMPLEX] = names
    given = as_arrays([*tensors.values()], kinds, "state")
    # The user may have written NaNs that are not canonical.
    arrays = [canonical_of(array, kind.element) for array, kind in zip(given, kinds, strict=True)]
    data = write_tensors(kinds, arrays, {_METADATA: json.dumps(rest, sort_keys=True)})
    # A symbolic link is followed, not replaced.
    file = Path(os.path.realpath(path))
    if file.exists() and not file.is_file():
        raise ReproError(f"cannot write {path}: expected a regular file")
    check_can_write(path)
    try:
        write_whole(file, [data])
    except OSError as error:
        raise ReproError(f"cannot write {path}: {error.strerror}") from None


@float_environment()
def load_checkpoint(path: str | Path) -> dict[str, Any]:
    """Returns the state that `save_checkpoint` wrote; raises ReproError for any other file."""
    data = read_regular(path, limits().archive_bytes, follow=True)
    if data.startswith(b"PK"):
        raise ReproError(
            f"{path}: expected a safetensors file of save_checkpoint, got a zip file: load a file of torch.save with "
            "load_state_dict(torch.load(file))"
        )
    kinds, arrays, metadata = read_all_tensors(data, str(path))
    modules: dict[str, dict[str, Any]] = {"model": {}}
    optimizer: dict[int, dict[str, Any]] = {}
    try:
        rest = json.loads(metadata[_METADATA])
        pairs = {*rest.pop(_COMPLEX, ())}
        kinds = [replace(kind, complex=kind.name in pairs) for kind in kinds]
        for kind, array in zip(kinds, arrays, strict=True):
            owner, _, name = kind.name.partition(".")
            if owner in _NAMED:
                modules.setdefault(owner, {})[name] = to_tensor(array, kind)
            else:
                number, _, key = name.partition(".")
                optimizer.setdefault(int(number), {})[key] = to_tensor(array, kind)
        for number, values in rest.pop("optimizer_state", {}).items():
            optimizer.setdefault(int(number), {}).update(values)
        groups = [{key: _from_json(key, value) for key, value in group.items()} for group in rest.pop("param_groups")]
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, RuntimeError):
        raise ReproError(f"{path}: expected a checkpoint of a trainer") from None
    return {**rest, **modules, "optimizer": {"state": optimizer, "param_groups": groups}}


def _as_json(where: str, value: Any) -> Any:
    if is_tensor(value):
        # A learning rate may be a tensor; a Python float represents every f64 and f32 exactly.
        return {"tensor": [str(value.dtype).removeprefix("torch."), value.item()]}
    if isinstance(value, tuple | list):
        return [_as_json(where, item) for item in value]
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ReproError(f"{where}: expected a number, got a {type(value).__name__}: use torch.save(state_dict())")


def _from_json(key: str, value: Any) -> Any:
    if isinstance(value, dict):
        dtype, number = value["tensor"]
        if dtype not in ("float32", "float64"):
            raise ValueError(dtype)
        return torch.tensor(number, dtype=getattr(torch, dtype))
    if isinstance(value, list) and key != "params":
        return tuple(_from_json(key, item) for item in value)
    return value
