# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures TensorFlow functions: tf.function traces a function, and XLA converts the graph to HLO."""

from __future__ import annotations

import contextlib
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.client import pywrap_tf_session

from repro_mlir.base.numerics.environment import require_default_environment
from repro_mlir.frontends.stablehlo.arguments import argument_names
from repro_mlir.frontends.stablehlo.arrays import element_of
from repro_mlir.frontends.stablehlo.errors import CaptureError, users_place
from repro_mlir.frontends.stablehlo.hlo import Parameter, lower_hlo
from repro_mlir.frontends.tensorflow.bindings import TensorFlowBindings, paths_of
from repro_mlir.frontends.tensorflow.graphs import Nodes
from repro_mlir.program.imported import ImportedProgram

_DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"


def capture_function(function: Callable[..., Any], arguments: Sequence[Any]) -> ImportedProgram[TensorFlowBindings]:
    """Implements `programs.import_function`. Raises CaptureError if the function cannot be captured."""
    if not callable(function):
        raise CaptureError(f"expected a function, got a {type(function).__name__}")
    roots = argument_names(getattr(function, "python_function", function), len(arguments))
    names = [name for value, root in zip(arguments, roots, strict=True) for name, _ in paths_of(value, root)]
    return capture_named(function, arguments, names, "output", has_lines=True)


def capture_named(
    function: Callable[..., Any], arguments: Sequence[Any], names: Sequence[str], root: str, *, has_lines: bool
) -> ImportedProgram[TensorFlowBindings]:
    """Captures `function(*arguments)`.

    Args:
      names: the names of the leaves of the arguments.
      root: the prefix of the names of results.
      has_lines: as for `Nodes`.
    """
    require_default_environment()
    leaves = tf.nest.flatten(tuple(arguments))
    if len(leaves) != len(names):
        raise CaptureError("expected arguments that are tensors, or dictionaries, lists and tuples of tensors")
    specs = [_spec(leaf, name) for leaf, name in zip(leaves, names, strict=True)]
    structure = tf.nest.pack_sequence_as(tuple(arguments), specs)

    def flat(*tensors: tf.Tensor) -> Any:
        return function(*tf.nest.pack_sequence_as(structure, list(tensors)))

    # The traced function has flat arguments, because TensorFlow would treat values inside nests as constants.
    jitted = tf.function(flat, jit_compile=True)
    try:
        traced = jitted.get_concrete_function(*specs)
    except (TypeError, ValueError, NotImplementedError, AttributeError, tf.errors.OpError) as error:
        raise _untraced(error) from error
    nodes = Nodes(traced, has_lines)
    nodes.require_no_effects(traced)
    variables, parameters = _parameters(traced, names)
    outputs = [(name, leaf) for name, leaf in paths_of(traced.structured_outputs, root) if leaf is not None]
    lowered = lower_hlo(_hlo(jitted, specs, nodes), parameters, [name for name, _ in outputs], nodes.place)
    bindings = TensorFlowBindings(
        lowered.state, lowered.inputs, lowered.outputs, variables, structure, traced.structured_outputs
    )
    return ImportedProgram(
        text=lowered.text,
        state=lowered.state,
        initial=tuple(bindings.flatten_state().values()),
        inputs=lowered.inputs,
        outputs=lowered.outputs,
        num_hyper_parameters=0,
        random=None,
        bindings=bindings,
    )


def _spec(leaf: Any, name: str) -> tf.TensorSpec:
    if isinstance(leaf, tf.Variable):
        raise CaptureError(f"{name} is a tf.Variable, expected a tensor: the function reads its variables itself")
    if not isinstance(leaf, tf.Tensor | tf.TensorSpec | np.ndarray | np.generic):
        raise CaptureError(
            f"{name} is a {type(leaf).__name__}, expected tensors; bind Python values with functools.partial"
        )
    if not tf.TensorShape(leaf.shape).is_fully_defined():
        raise CaptureError(f"{name} has the shape {leaf.shape}, expected known extents")
    dtype = tf.as_dtype(leaf.dtype)
    element_of(np.dtype(dtype.as_numpy_dtype), name)
    return tf.TensorSpec(leaf.shape, dtype)


def _parameters(traced: Any, names: Sequence[str]) -> tuple[tuple[tf.Variable, ...], list[Parameter]]:
    """Returns the state variables and the roles of the parameters: the arguments, then the captured tensors."""
    known = {id(variable.handle): variable for variable in traced.variables}
    variables: list[tf.Variable] = []
    parameters = [Parameter(name) for name in names]
    used: set[str] = {*names}
    for tensor, given in zip(traced.captured_inputs, traced.inputs[len(names) :], strict=True):
        if tensor.dtype != tf.resource:
            parameters.append(Parameter("constant", value=tensor.numpy()))
            continue
        if id(tensor) not in known:
            raise CaptureError(f"node {given.op.name}: resources other than variables are not supported")
        variable = known[id(tensor)]
        name = _unused(variable.name.partition(":")[0], used)
        variables.append(variable)
        parameters.append(Parameter(name, is_state=True))
    return tuple(variables), parameters


def _unused(name: str, used: set[str]) -> str:
    count, found = 0, name
    while found in used:
        count += 1
        found = f"{name}_{count}"
    used.add(found)
    return found


def _hlo(jitted: Any, specs: Any, nodes: Nodes) -> bytes:
    try:
        return _export(jitted, specs)
    except (ValueError, tf.errors.OpError) as error:
        raise _refused(str(error), nodes) from None


def _export(jitted: Any, specs: Any) -> bytes:
    with _unfolded(), warnings.catch_warnings():
        # Suppresses a warning about device_name. Without a name, TensorFlow would draw a random number to find the
        # current device.
        warnings.simplefilter("ignore")
        return jitted.experimental_get_compiler_ir(*specs)(stage="hlo_serialized", device_name=_DEVICE)


@contextlib.contextmanager
def _unfolded() -> Iterator[None]:
    """A context manager that disables TensorFlow's constant folding, which would compute constants with this machine's
    functions (S5)."""
    before = pywrap_tf_session.TF_GetXlaConstantFoldingDisabled()
    pywrap_tf_session.TF_SetXlaConstantFoldingDisabled(True)
    try:
        yield
    finally:
        pywrap_tf_session.TF_SetXlaConstantFoldingDisabled(before)


_NODE = re.compile(r"\{\{node ([^}]+)\}\}")
_UNKNOWN = re.compile(r"on \S+: (\w+) \(No registered")


def _refused(message: str, nodes: Nodes) -> CaptureError:
    """Converts XLA's message to an error that names the node."""
    found = _NODE.search(message)
    operation = _UNKNOWN.search(message)
    said = re.sub(r"^Failed getting HLO text: '", "", message.splitlines()[0])
    said = re.sub(r"to node `\S+` with op", "of", said)
    if operation is not None:
        said = f"operation {operation[1]} is not supported: XLA cannot compile it"
    return nodes.error(found[1], said) if found else CaptureError(f"XLA cannot compile the function: {said}")


_LINE = re.compile(r'File "([^"]+)", line (\d+), in')


def _untraced(error: Exception) -> CaptureError:
    """Converts TensorFlow's tracing error to an error with the user's source line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    place = users_place([(file, int(line), 0) for file, line in reversed(_LINE.findall(str(error)))])
    said = f"TensorFlow cannot trace the function: {lines[-1] if lines else type(error).__name__}"
    return CaptureError(f"{place[0]}:{place[1]}: {said}" if place else said)
