# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Traces a Python function on tensors to a functional ATen graph, in two stages.

Stage 1 runs the function on fake tensors and records the mutable ATen operators below autograd: forward, backward
and update in one graph. Stage 2 runs that graph through functionalization, f32 arithmetic for low precision, and
the decomposition table. (torch.export does not support gradients in the graph; decomposition during stage 1 would
only reach operators that autograd has not seen yet.)
"""

import contextlib
import logging
import operator
import pickle
import random
import sys
import threading
import types
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import torch.fx
import torch.fx.traceback
from torch.fx.experimental.proxy_tensor import make_fx
from torch.nn.attention import SDPBackend, sdpa_kernel

from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base import value_checks
from repro_mlir.frontends.torch.base.caught_errors import CaughtErrors, noted_errors
from repro_mlir.frontends.torch.base.errors import CaptureError, located
from repro_mlir.frontends.torch.base.interpreters import NodeInterpreter, require_declared
from repro_mlir.frontends.torch.base.recomputation import insert_barriers
from repro_mlir.frontends.torch.base.source_lines import (
    SourceLines,
    layer_of_traceback,
    origin_of_frame,
    origin_of_node,
    origin_of_traceback,
    phase_of_error,
)
from repro_mlir.frontends.torch.base.torch_internals import pytree
from repro_mlir.frontends.torch.base.value_requests import numbers_without_values, reason_of
from repro_mlir.frontends.torch.operators import pool_indices
from repro_mlir.frontends.torch.operators.decompositions import decomposition_table
from repro_mlir.frontends.torch.trace import foreach, fused, opmath
from repro_mlir.frontends.torch.trace.attention import BlockedAttention
from repro_mlir.frontends.torch.trace.compositions import Compositions
from repro_mlir.frontends.torch.trace.constant_indices import bound_indices
from repro_mlir.frontends.torch.trace.control_flow import calls_of_operators
from repro_mlir.frontends.torch.trace.known_values import follows_from_constants
from repro_mlir.frontends.torch.trace.recording import Recording
from repro_mlir.frontends.torch.trace.repeated_calls import Repeats, only_computes
from repro_mlir.frontends.torch.trace.representation import represent, represented
from repro_mlir.frontends.torch.trace.size_decisions import general_sizes
from repro_mlir.frontends.torch.trace.written_indices import with_positive_indices


@contextlib.contextmanager
def _without_mkldnn() -> Iterator[None]:
    """Disables mkldnn, with which an LSTM is one operator. `torch.backends.mkldnn.flags` is not used, because it also
    sets TF32, which causes a warning on machines without an Intel GPU."""
    enabled = internals.get_mkldnn_enabled()
    internals.set_mkldnn_enabled(False)
    try:
        yield
    finally:
        internals.set_mkldnn_enabled(enabled)


TRACE_LOCK = threading.RLock()
"""Held while a thread traces: a trace replaces functions of modules that all threads share. Other threads must not take
these replacements for changes by the user."""


@contextlib.contextmanager
def tracing_environment() -> Iterator[None]:
    """Sets the PyTorch settings under which both stages trace; one thread traces at a time."""
    with (
        TRACE_LOCK,
        # The backward functions of the other attention kernels misread the values that their forward decompositions
        # save.
        sdpa_kernel(SDPBackend.MATH),
        _without_mkldnn(),
        torch.fx.traceback.preserve_node_meta(),
        _without_log(),
        _known_elements(),
        general_sizes(),
        # Generating Python code for each graph would take a third of the capture time, and most graphs are only read.
        internals.use_lazy_graph_module(True),
    ):
        yield


_MOST_KNOWN = 64


def _known_elements() -> contextlib.AbstractContextManager[None]:
    """Returns a context in which a trace knows the elements of small constants, such as sizes in a tensor.

    By default PyTorch knows only constants of one element. PyTorch does not notice writes through another view, so
    constants that were written are excluded here.
    """

    def make(former: Any) -> Callable[..., Any]:
        def checked(mode: Any, function: Any, *rest: Any) -> Any:
            if torch.Tag.data_dependent_output in function.tags:
                for tensor in filter(torch.is_tensor, pytree.tree_leaves(rest)):
                    slot: Any = internals.get_proxy_slot(tensor, mode.tracer, None)
                    if slot is not None and slot.constant is not None and not follows_from_constants(slot.proxy.node):
                        slot.constant = None
            return former(mode, function, *rest)

        return checked

    return internals.replace_proxy_call(make, _MOST_KNOWN)


@contextlib.contextmanager
def _without_log() -> Iterator[None]:
    """Suppresses the traceback that PyTorch logs for a shape error, because PyTorch also raises the error."""

    def is_shown(record: logging.LogRecord) -> bool:
        return record.exc_info is None

    log = logging.getLogger(internals.FakeTensor.__module__)
    log.addFilter(is_shown)
    try:
        yield
    finally:
        log.removeFilter(is_shown)


_SQUEEZES = {torch.ops.aten.squeeze.default, torch.ops.aten.squeeze.dim, torch.ops.aten.squeeze.dims}


def _require_kept(tensor: torch.Tensor, dims: Any = None) -> None:
    """Records that the symbolic extents of the dimensions to squeeze are not 1."""
    asked = range(tensor.dim()) if dims is None else [dims] if isinstance(dims, int) else dims
    # PyTorch allows dimension 0 for a tensor of shape [], which has no extent to check.
    for dim in asked if tensor.dim() else ():
        if isinstance(tensor.shape[dim], torch.SymInt):
            internals.check(tensor.shape[dim] != 1)


def _gives_nothing(operator: Any, results: Any) -> bool:
    """Returns whether an operator writes nothing and all its results are tensors without elements."""
    if not isinstance(operator, internals.OpOverload) or operator._schema.is_mutable:
        return False
    found = pytree.tree_leaves(results)
    return all(isinstance(each, torch.Tensor) and _is_static(each) and not each.numel() for each in found)


def _used(node: torch.fx.Node, values: Any) -> Any:
    """Returns the results of a node, with None for each unused tensor of a tuple, because rules do not compute unused
    tensors."""
    if not isinstance(values, tuple | list):
        return values
    read = {user.args[1] for user in node.users if user.target is operator.getitem and user.users}
    return [None if i not in read and isinstance(value, torch.Tensor) else value for i, value in enumerate(values)]


class _SecondStage(NodeInterpreter):
    """Runs the first stage's graph, but expands list operators and computes low precision in f32."""

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target is torch.ops.aten._linalg_check_errors.default:
            # A factorization of a singular matrix returns infinities or NaN: a program cannot raise exceptions.
            return None
        if target is torch.ops.higher_order.with_effects:
            # The first argument orders side effects, which a program does not need; the others are an operator and its
            # arguments.
            token, operator, *rest = args
            result = self.call_function(operator, tuple(rest), kwargs)
            return (token, *result) if isinstance(result, tuple) else (token, result)
        if foreach.is_foreach(target):
            return foreach.call_foreach(target, args, kwargs)
        if fused.is_fma(target):
            return fused.call_fma(*args)
        if value_checks.is_assert(target):
            return value_checks.call_assert(*args)
        if target in _SQUEEZES:
            _require_kept(*args)
        args = with_positive_indices(target, args)
        expected = self.current.meta.get("val")
        if _gives_nothing(target, expected):
            # Some operators whose results have no elements crash the lowering or divide by the number of elements, so
            # none of these operators is lowered.
            return pytree.tree_map(lambda each: torch.zeros(each.shape, dtype=each.dtype), expected)
        if pool_indices.is_pool(target):
            return pool_indices.call_pool(
                lambda *args, **kwargs: opmath.call_in_f32(target, args, kwargs, expected), target, args, kwargs
            )
        result = opmath.call_in_f32(target, args, kwargs, expected)
        require_declared(target, result, _used(self.current, expected))
        return result


class _SecondStageOfPure(_SecondStage):
    """The second stage of a graph without mutation; values between operators are nodes of the new graph."""

    def run(self, *arguments: Any, **options: Any) -> Any:
        self._repeats = Repeats()
        results = super().run(*arguments, **options)
        return pytree.tree_map_only(torch.fx.Node, self._repeats.tensor_of, results)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._value(super().placeholder(target, args, kwargs))

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self._value(super().get_attr(target, args, kwargs))

    def _value(self, given: Any) -> Any:
        node = self._repeats.node_of(given) if isinstance(given, torch.Tensor) else None
        return given if node is None else node

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        traced = super().call_function
        if target is operator.getitem:
            return traced(target, args, kwargs)
        leaves, spec = pytree.tree_flatten((args, kwargs))

        # Each operator is functionalized by itself, because PyTorch's functionalization also decomposes operators.
        @torch.func.functionalize
        def call(*values: Any) -> Any:
            args, kwargs = pytree.tree_unflatten(values, spec)
            if target is torch.ops.aten.view.default:
                # A view may be impossible, because strides may differ from those of the first stage, for example those
                # of the gradient of a convolution's kernel.
                return torch.reshape(*args)
            return traced(target, args, kwargs)

        if not all(isinstance(leaf, _PLAIN) for leaf in leaves):
            return self._repeats.uncopied(call, leaves)
        expected = pytree.tree_map_only(torch.Tensor, _element_type, self.current.meta.get("val"))
        exact = tuple(map(_exact, leaves))
        return self._repeats.call((target, spec, exact, str(expected)), call, leaves)


_PLAIN = (
    *(torch.fx.Node, bool, int, float, str, type(None)),
    *(torch.dtype, torch.device, torch.layout, torch.memory_format),
)
"""Types of operator arguments that can be compared."""


def _element_type(tensor: torch.Tensor) -> torch.dtype:
    return tensor.dtype


def _exact(value: Any) -> Hashable:
    """Returns the key of an operator argument, which distinguishes 0.0 from -0.0 and 1 from True."""
    if isinstance(value, torch.fx.Node):
        return None
    return type(value), value.hex() if isinstance(value, float) else value


def first_stage(
    function: Callable[..., Sequence[torch.Tensor]],
    arguments: Sequence[torch.Tensor],
    attention_block: int | None = None,
    modules: Mapping[int, str] | None = None,
    recording: Recording | None = None,
) -> torch.fx.GraphModule:
    """Records the operators that a function calls below autograd.

    Args:
      function: accepts tensors like `arguments`, returns a sequence of tensors; may compute gradients and write to
        tensors.
      arguments: tensors with the shapes and element types of the function's arguments.
      attention_block: (K5) the number of queries, or keys, of an attention block; None: attention is not divided.
      modules: names of the model's modules (`source_lines.module_names`), for operators without a line of the user.
      recording: the code that runs in the trace, if it is recorded, for lines of the user in errors.
    Returns:
      a graph module with the arguments as placeholders. The module's `meta["constants"]` are the tensors that the
      function read in addition to its arguments.
    Raises:
      CaptureError: the function has data-dependent control flow or an operator that cannot be traced, or draws random
        numbers from Python or NumPy.
    """
    modules = {} if modules is None else modules
    with errors_with_lines(modules), tracing_environment():
        with (
            _without_caught_refusals(sys._getframe(), modules),
            internals.entering_compiled_functions(),
            calls_of_operators(),
            value_checks.checked_matrices(),
            value_checks.checked_numbers(),
            internals.enable_python_dispatcher(),
            without_other_random_numbers(recording),
            numbers_without_values(),
        ):
            first = make_fx(
                _with_modes(function, attention_block, modules), tracing_mode="fake", _allow_non_fake_inputs=True
            )(*arguments)
    _drop_profiling(first.graph)
    bound_indices(first.graph)
    first.meta["constants"] = _constants(first)
    first.meta["default_dtype"] = torch.get_default_dtype()
    return first


def _drop_profiling(graph: torch.fx.Graph) -> None:
    """Removes the marks of `torch.profiler.record_function`, for example those of nn.DataParallel."""
    for node in reversed(graph.nodes):
        if getattr(node.target, "namespace", None) == "profiler":
            graph.erase_node(node)


def second_stage(first: torch.fx.GraphModule) -> torch.fx.GraphModule:
    """Converts a graph that `first_stage` has returned to the graph to lower: a functional graph with the same
    arguments and `meta`.

    A graph without blocked attention also runs on real tensors. Raises CaptureError if an operator cannot be
    decomposed.
    """
    former = torch.get_default_dtype()
    torch.set_default_dtype(first.meta["default_dtype"])
    try:
        with errors_with_lines({}), tracing_environment(), torch.autocast("cpu", enabled=False):
            arguments = [node.meta["val"] for node in first.graph.nodes if node.op == "placeholder"]
            second = _functional(represent(first, arguments), [*map(represented, arguments)])
            insert_barriers(second.graph)
            second.recompile()
    finally:
        torch.set_default_dtype(former)
    second.meta.update(first.meta)
    return second


def record(function: Callable[..., Any], arguments: Sequence[torch.Tensor]) -> torch.fx.GraphModule:
    """Records the ATen operators that a function calls on tensors like the arguments. Raises the errors of
    `first_stage`."""
    with errors_with_lines({}), tracing_environment():
        return make_fx(function, tracing_mode="fake", _allow_non_fake_inputs=True)(*arguments)


def decompose(
    graph: torch.fx.GraphModule,
    arguments: Sequence[torch.Tensor],
    call: Callable[..., Sequence[torch.Tensor]] = lambda run, *values: run(*values),
) -> torch.fx.GraphModule:
    """Runs only the second stage, on a functional graph of ATen operators that was recorded below autograd.

    Args:
      graph: its nodes have the `stack_trace` that `source_lines` writes.
      arguments: tensors with the shapes and element types of the graph's arguments.
      call: the second stage traces `call(run, *values)`; `run` has the arguments and results of the graph.
    Returns:
      as `second_stage`.
    Raises:
      CaptureError: as `first_stage`.
    """
    with errors_with_lines({}), tracing_environment():
        return _functional(graph, arguments, call)


def _functional(
    first: torch.fx.GraphModule,
    arguments: Sequence[Any],
    call: Callable[..., Sequence[torch.Tensor]] = lambda run, *values: run(*values),
) -> torch.fx.GraphModule:
    """Returns the graph that the second stage makes from a graph. It is functional and has only operators that
    torch-mlir lowers."""
    graph = None
    if only_computes(first.graph.nodes) and all(_is_static(each) for each in arguments):
        graph = _second(lambda *values: call(_SecondStageOfPure(first).run, *values), arguments)
    if graph is None or not only_computes(graph.graph.nodes):
        # The new graph is checked too, because some operators write to arguments although their schemas do not declare
        # this.
        graph = _second(torch.func.functionalize(lambda *values: call(_SecondStage(first).run, *values)), arguments)
        _drop_argument_writes(graph.graph)
    _broadcast_equal_choices(graph.graph)
    graph.graph.eliminate_dead_code()
    graph.recompile()
    return graph


def _broadcast_equal_choices(graph: torch.fx.Graph) -> None:
    """Replaces `where(condition, x, x)` by x expanded to the result's shape: torch-mlir would return x unexpanded."""
    for node in graph.find_nodes(op="call_function", target=torch.ops.aten.where.self):
        _, x, other = node.args
        shape = node.meta["val"].shape
        if x is other and x.meta["val"].shape != shape:
            with graph.inserting_before(node):
                made = graph.call_function(torch.ops.aten.expand.default, (x, [*shape]))
            made.meta = {**node.meta}
            node.replace_all_uses_with(made)


def _second(function: Callable[..., Any], arguments: Sequence[Any]) -> torch.fx.GraphModule:
    with torch.no_grad():
        return make_fx(
            function,
            decomposition_table=decomposition_table(),
            tracing_mode="fake",
            _allow_non_fake_inputs=True,
        )(*arguments)


def _is_static(value: Any) -> bool:
    extents = value.shape if isinstance(value, torch.Tensor) else [value]
    return not any(isinstance(extent, torch.SymInt) for extent in extents)


@contextlib.contextmanager
def errors_with_lines(modules: Mapping[int, str]) -> Iterator[None]:
    """Converts each exception of the block, which runs user functions, to a CaptureError with the user's line."""
    try:
        yield
    except CaptureError as error:
        origin = origin_of_traceback(error.__traceback__, modules)
        # A rule that replaces an operator raises its error without the line.
        if origin and not str(error).startswith(f"{origin.partition(': ')[0]}: "):
            raise located(origin, str(error)) from None
        raise
    except (Exception, SystemExit) as error:
        # A single line is easier to read than a hundred frames of PyTorch.
        reason = reason_of(error)
        if isinstance(error, RuntimeError | ValueError) and reason.startswith(f"{type(error).__name__}: "):
            layer = layer_of_traceback(error.__traceback__, modules)
            reason = f"{reason.rstrip('.')}: {layer}: change the layer or the shape of its input" if layer else reason
        origin = origin_of_traceback(error.__traceback__, modules) or phase_of_error(error)
        raise located(origin, reason) from None


@contextlib.contextmanager
def _without_caught_refusals(boundary: types.FrameType, modules: Mapping[int, str]) -> Iterator[None]:
    """Raises a CaptureError if the block, which runs user functions, catches an error that eager PyTorch does not
    raise. `boundary` is the frame of the caller."""
    with noted_errors(lambda: origin_of_frame(boundary, modules)) as caught:
        try:
            yield
        except (Exception, SystemExit) as error:
            if not caught.has(error):
                _refuse_caught(caught)
            raise
        _refuse_caught(caught)


def _refuse_caught(caught: CaughtErrors) -> None:
    found = caught.first_refusal()
    if found is not None:
        error, origin = found
        reason = f"{reason_of(error)}; the step catches this error, which PyTorch does not raise without a compiler"
        raise located(None if getattr(error, "is_located", False) else origin, reason)


@contextlib.contextmanager
def without_other_random_numbers(recording: Recording | None = None) -> Iterator[None]:
    """Raises a CaptureError for random numbers that would be drawn only once, when the step is traced. The recording,
    if there is one, has the user's lines."""
    lines = (lambda _: "") if recording is None else recording.lines_with_method
    python, numpy = random.getstate(), pickle.dumps(np.random.get_state(legacy=False))
    yield
    if python != random.getstate():
        line = lines(random._inst)
        raise CaptureError(f"{line}the step draws random numbers with Python's module random: use torch's")
    if numpy != pickle.dumps(np.random.get_state(legacy=False)):
        line = lines(np.random.mtrand._rand)
        raise CaptureError(f"{line}the step draws random numbers with numpy.random: use torch's")


def _constants(graph: torch.fx.GraphModule) -> list[torch.Tensor]:
    """Returns the tensors that a graph contains as attributes. Raises CaptureError if the graph reads a tensor that an
    earlier trace has stored."""
    found = []
    for node in graph.graph.nodes:
        value = getattr(graph, node.target) if node.op == "get_attr" else None
        if isinstance(value, internals.FakeTensor) and node.users:
            reason = "the step reads a tensor that an earlier call of the step has stored: use a buffer of the model"
            raise located(origin_of_node(next(iter(node.users))), reason)
        if isinstance(value, torch.Tensor) and not isinstance(value, internals.FakeTensor):
            found.append(value)
    return found


def _drop_argument_writes(graph: torch.fx.Graph) -> None:
    """Removes functionalization's final copies into mutated arguments: a program's arguments are values."""
    for node in list(graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[1])
            graph.erase_node(node)


def _with_modes(
    function: Callable[..., Any], attention_block: int | None, modules: Mapping[int, str]
) -> Callable[..., Any]:
    def traced(*arguments: torch.Tensor) -> Any:
        attention = contextlib.nullcontext() if attention_block is None else BlockedAttention(attention_block)
        compositions = Compositions()

        def entering(run_backward: Callable[..., Any]) -> Callable[..., Any]:
            def run(*args: Any, **kwargs: Any) -> Any:
                # PyTorch has left the modes to call the backward pass, which runs hooks and recomputations.
                with compositions, attention:
                    return run_backward(*args, **kwargs)

            return run

        with (
            SourceLines(traced.__code__, modules),
            compositions,
            attention,
            internals.replace_run_backward(entering),
        ):
            return function(*arguments)

    return traced
