# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures pure JAX functions as programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.frontends.base.tried_versions import warn_if_untried
from repro_mlir.frontends.jax.bindings import JaxBindings, array_of, names_of
from repro_mlir.frontends.stablehlo.arguments import argument_names
from repro_mlir.frontends.stablehlo.arrays import array_type_of
from repro_mlir.frontends.stablehlo.errors import CaptureError
from repro_mlir.frontends.stablehlo.lowering import lower
from repro_mlir.program.imported import ImportedProgram

warn_if_untried("jax", "jaxlib")

_PLATFORM = "tpu"
"""The platform whose lowerings JAX uses: they consist of StableHLO operations, but those for CPUs and GPUs call
libraries and kernels.
"""


def capture_function(
    function: Callable[..., Any], arguments: Sequence[Any], state: int
) -> ImportedProgram[JaxBindings]:
    """Implements `programs.import_function`. Raises CaptureError if the function cannot be captured."""
    require_default_environment()
    if not callable(function):
        raise CaptureError(f"expected a function, got a {type(function).__name__}")
    if type(state) is not int or not 0 <= state <= len(arguments):
        raise CaptureError(f"expected state, a number of leading arguments, from 0 to {len(arguments)}, got {state!r}")
    roots = argument_names(function, len(arguments))
    leaves, trees, names = [], [], []
    for part, part_roots in ((arguments[:state], roots[:state]), (arguments[state:], roots[state:])):
        flat, tree = jax.tree.flatten(part)
        leaves.append(flat)
        trees.append(tree)
        names.append([name for value, root in zip(part, part_roots, strict=True) for name in names_of(value, root)])
    try:
        traced = jax.jit(function, keep_unused=True).trace(*arguments)
    except (
        TypeError,
        ValueError,
        NotImplementedError,
        OverflowError,
        jax.errors.NonConcreteBooleanIndexError,
    ) as error:
        hint = "; bind static arguments with functools.partial instead" if _has_static(error) else ""
        raise CaptureError(f"JAX cannot trace the function: {_first_line(error)}{hint}") from error
    if traced.jaxpr.effects:
        shown = ", ".join(sorted(str(each) for each in traced.jaxpr.effects))
        raise CaptureError(f"expected a pure function, got one that prints or calls back into Python (effects {shown})")
    results = traced.out_info
    new_state, outputs = (), results
    if state:
        new_state, outputs = _split(results, arguments, state)
    kinds = [
        [_kind(name, leaf) for name, leaf in zip(part_names, part, strict=True)]
        for part_names, part in zip(names, leaves, strict=True)
    ]
    _check_state(new_state, kinds[0], names[0], arguments[:state])
    output_names = _output_names(outputs, state)
    output_leaves, output_tree = jax.tree.flatten(outputs)
    output_kinds = [_kind(name, leaf) for name, leaf in zip(output_names, output_leaves, strict=True)]
    try:
        lowered = traced.lower(lowering_platforms=(_PLATFORM,))
    except (NotImplementedError, RuntimeError, ValueError) as error:
        # JAX cannot lower a Python callback for this platform, and its message then mentions the lowering platform.
        hint = " (a program cannot call back into Python)" if "lowering platform" in str(error) else ""
        raise CaptureError(f"JAX cannot lower the function: {_first_line(error)}{hint}") from error
    text = lower(
        lowered.as_text(debug_info=True),
        len(kinds[0]),
        [kind.name for part in kinds for kind in part],
        [kind.name for kind in (*kinds[0], *output_kinds)],
    )
    state_kinds, inputs, outputs_kinds = (tuple(part) for part in (*kinds, output_kinds))
    return ImportedProgram(
        text=text,
        state=state_kinds,
        initial=tuple(
            np.ascontiguousarray(array_of(leaf, kind)).reshape(kind.shape)
            for leaf, kind in zip(leaves[0], state_kinds, strict=True)
        ),
        inputs=inputs,
        outputs=outputs_kinds,
        num_hyper_parameters=0,
        random=None,
        bindings=JaxBindings(
            state_kinds,
            inputs,
            outputs_kinds,
            (trees[0], trees[1], output_tree),
            ([_dtype(leaf) for leaf in leaves[0]], [_dtype(leaf) for leaf in output_leaves]),
        ),
    )


def _has_static(error: Exception) -> bool:
    return "static arguments" in str(error)


def _split(results: Any, arguments: Sequence[Any], state: int) -> tuple[tuple[Any, ...], Any]:
    """Returns the new state and the outputs. The outputs are a tuple, or the output itself if there is only one."""
    if not isinstance(results, tuple) or len(results) < state:
        found = f"a tuple of {len(results)}" if isinstance(results, tuple) else f"a {type(results).__name__}"
        raise CaptureError(
            f"expected a tuple of results that begins with the new values of {state} state arguments, got {found}"
        )
    outputs = results[state:]
    return results[:state], outputs[0] if len(outputs) == 1 else outputs


def _check_state(
    new_state: tuple[Any, ...], kinds: Sequence[TensorType], names: Sequence[str], arguments: Sequence[Any]
) -> None:
    leaves, tree = jax.tree.flatten(new_state)
    expected: Any = jax.tree.structure(tuple(arguments))
    if tree != expected:
        raise CaptureError(f"the new state has the structure {tree}, expected that of the state, {expected}")
    for leaf, kind in zip(leaves, kinds, strict=True):
        new = _kind(kind.name, leaf)
        if new != kind:
            raise CaptureError(f"the new value of {kind.name} is {new}, expected the type of the old one, {kind}")


def _output_names(outputs: Any, state: int) -> list[str]:
    if isinstance(outputs, tuple):
        return [name for number, output in enumerate(outputs) for name in names_of(output, f"output.{number}")]
    return names_of(outputs, "output")


def _dtype(leaf: Any) -> Any:
    dtype = leaf.dtype if hasattr(leaf, "dtype") else np.asarray(leaf).dtype
    is_key = jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key)
    return dtype if is_key else jax.dtypes.canonicalize_dtype(dtype)


def _kind(name: str, leaf: Any) -> TensorType:
    dtype = _dtype(leaf)
    if jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(np.shape(leaf), dtype))
        return array_type_of(name, data.dtype, tuple(data.shape))
    return array_type_of(name, np.dtype(dtype), tuple(np.shape(leaf)))


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0]
