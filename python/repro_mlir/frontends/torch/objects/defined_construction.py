# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(G5) Tensors that a model computes in its constructor, such as rotary tables, with the same bits on every machine.

The results of PyTorch's elementary functions and sums depend on the vector level (ATEN_CPU_CAPABILITY).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.multiprocessing.reductions import StorageWeakRef

from repro_mlir.base.numerics.environment import float_environment
from repro_mlir.frontends.torch.base.torch_internals import TorchDispatchMode, pytree
from repro_mlir.reference.functions import DOUBLE, NAMES, evaluate

_MOVES = frozenset(
    """_reshape_alias _to_copy _unsafe_view alias arange as_strided cat chunk clone constant_pad_nd contiguous copy
    detach diag_embed diagonal expand eye fill flip full full_like gather index index_put index_select lift lift_fresh
    lift_fresh_copy masked_fill new_full new_ones new_zeros ones ones_like permute repeat reshape roll scalar_tensor
    select select_scatter slice slice_scatter split split_with_sizes squeeze stack t to transpose tril triu unbind
    unfold unsqueeze view where zero zeros zeros_like""".split()
)
"""Operators whose results are elements of their operands or Python numbers, each rounded at most once."""

_ARITHMETIC = frozenset(
    """abs add amax amin ceil clamp clamp_max clamp_min div floor floor_divide fmod max maximum min minimum mul neg
    reciprocal remainder round rsub sign sqrt sub trunc""".split()
)
"""(S1), (S2), (S4): operators with one rounding per element at every vector level."""

_QUESTIONS = frozenset("eq ge gt isfinite isinf isnan le logical_and logical_not logical_or lt ne signbit".split())

_FUNCTIONS = frozenset(NAMES) & frozenset(dir(torch.ops.aten))
"""The elementary functions of (S5)."""

_WHOLE_WRITES = frozenset({"copy", "fill", "zero"})


class DefinedConstruction(TorchDispatchMode):
    """Computes elementary functions of f32 and f64 as (S5) defines, and tracks which tensors depend only on defined
    operations.

    Tensors on the device `meta` have no elements and are not tracked.
    """

    def __init__(self) -> None:
        super().__init__()
        # The weak reference prevents the key from being reused by another storage.
        self._defined: dict[int, StorageWeakRef] = {}
        self._environment = float_environment()

    def __enter__(self) -> DefinedConstruction:
        self._environment.__enter__()
        super().__enter__()
        return self

    def __exit__(self, *exception: Any) -> None:
        super().__exit__(*exception)
        self._environment.__exit__(*exception)

    def knows(self, tensor: torch.Tensor) -> bool:
        """Whether the elements of a tensor result only from defined operations."""
        return tensor.untyped_storage()._cdata in self._defined

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [each for each in pytree.tree_leaves((args, kwargs)) if isinstance(each, torch.Tensor)]
        name = func.overloadpacket.__name__
        name = name if name.startswith("__") else name.rstrip("_")
        operands = given[1:] if name in _WHOLE_WRITES and _is_whole(given[0]) else given
        is_known = _is_lifted(name, given) or all(map(self.knows, operands))
        # Copied before the call, because an in-place operator overwrites its operands.
        values = _operands(args) if name in _FUNCTIONS and not kwargs and is_known else None
        result = func(*args, **kwargs)
        results = [each for each in pytree.tree_leaves(result) if isinstance(each, torch.Tensor)]
        written = [each for each in results if each.device.type != "meta"]
        if is_known and values is not None and len(written) == 1 and _computes(name, values, written[0]):
            element = np.float32 if written[0].dtype == torch.float32 else np.float64
            found = evaluate(name, *(np.asarray(value).astype(element) for value in values))
            written[0].copy_(torch.from_numpy(np.array(found)))
        elif not is_known or not _is_exact(func, name, args, kwargs, [*given, *results]):
            for each in written:
                self._defined.pop(each.untyped_storage()._cdata, None)
            return result
        for each in written:
            storage = each.untyped_storage()
            self._defined[storage._cdata] = StorageWeakRef(storage)
        return result


def _is_lifted(name: str, given: list[torch.Tensor]) -> bool:
    """Whether a call is PyTorch's `lift` of a tensor with defined elements: Python numbers, or integers of any origin.

    Memory that cannot be resized is NumPy's, and NumPy's functions of floats depend on the vector level.
    """
    return name.startswith("lift") and (given[0].untyped_storage().resizable() or is_whole(given[0]))


def _is_whole(tensor: torch.Tensor) -> bool:
    """Whether a tensor contains all elements of its storage."""
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


def _operands(args: tuple[Any, ...]) -> list[Any] | None:
    """Returns the operands of a function; None if any of them is not a number or a dense tensor on the CPU."""
    found: list[Any] = []
    for each in args:
        if isinstance(each, torch.Tensor) and each.device.type == "cpu" and each.layout == torch.strided:
            found.append(each.detach().double().numpy().copy())
        elif isinstance(each, bool | int | float):
            found.append(each)
        else:
            return None
    return found


def _computes(name: str, values: list[Any], result: torch.Tensor) -> bool:
    if result.dtype == torch.float32:
        return len(values) == (2 if name in ("atan2", "hypot", "pow") else 1)
    return result.dtype == torch.float64 and name in DOUBLE and len(values) == 1


def _is_exact(
    func: Any, name: str, args: tuple[Any, ...], kwargs: dict[str, Any], tensors: Sequence[torch.Tensor]
) -> bool:
    """Whether an operation yields the same bits at every vector level; operations on integers do."""
    if torch.Tag.nondeterministic_seeded in func.tags or name.startswith("empty") or name.startswith("new_empty"):
        return False
    if not any(each.is_floating_point() or each.is_complex() for each in tensors):
        return True
    # `arange` computes a product and a sum, with one rounding at some levels and two at others.
    if name == "arange":
        return all(float(each).is_integer() for each in args)
    if any(each.is_complex() for each in tensors):
        return name in _MOVES | _QUESTIONS
    has_factor = kwargs.get("alpha", 1) != 1 or (name == "rsub" and args[2:] not in ((), (1,)))
    return name in _MOVES | _ARITHMETIC | _QUESTIONS and not has_factor


def is_whole(tensor: torch.Tensor) -> bool:
    """Whether all elements of a tensor, if it has any, are integers, infinities or NaN, which no machine's rounding
    affects."""
    if not (tensor.is_floating_point() or tensor.is_complex()) or tensor.device.type == "meta":
        return True
    values = _real(tensor)
    return bool(((values == values.round()) | values.isnan()).all())


def is_plain(tensor: torch.Tensor) -> bool:
    """Whether the elements of a tensor of unknown origin are whole or all equal, and thus most likely not computed."""
    return is_whole(tensor) or bool((_real(tensor) == _real(tensor).flatten()[0]).all())


def _real(tensor: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(tensor) if tensor.is_complex() else tensor).detach().double()
