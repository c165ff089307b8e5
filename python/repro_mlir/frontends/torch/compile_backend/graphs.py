# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures a graph of ATen operators from torch.compile as an imported program.

The arguments that the graph writes in place are the state of the program.
"""

import contextlib
import functools
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.fx

from repro_mlir.base.errors import ReproError
from repro_mlir.base.files.cache import cached
from repro_mlir.base.numerics.tensors import TensorType
from repro_mlir.base.tensors.torch_tensors import kind_of
from repro_mlir.frontends.torch.base import torch_internals as internals
from repro_mlir.frontends.torch.base.errors import CaptureError
from repro_mlir.frontends.torch.base.source_lines import is_user_file, source_name
from repro_mlir.frontends.torch.base.value_requests import reason_of
from repro_mlir.frontends.torch.lower.graph_hash import contents_of, frontend_identity
from repro_mlir.frontends.torch.trace.constant_indices import bound_indices
from repro_mlir.frontends.torch.trace.random_sites import RandomSites
from repro_mlir.frontends.torch.trace.representation import represent, represented
from repro_mlir.frontends.torch.trace.tracing import decompose, errors_with_lines, record, tracing_environment
from repro_mlir.program.imported import ImportedProgram

_RANDOM = (TensorType("seed", "i64", ()), TensorType("step", "i64", ()))


@dataclass(frozen=True)
class _Argument:
    """A result that is an argument of the graph."""

    position: int

    def of(self, arguments: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        """Returns the result of a call with these arguments of the graph and outputs of the program."""
        return arguments[self.position]


@dataclass(frozen=True)
class _Constant:
    """A result that is not a tensor."""

    value: Any

    def of(self, arguments: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> Any:
        return self.value


@dataclass(frozen=True)
class _View:
    """A result that must be a view of an argument's memory.

    Attributes:
      position: the index of the argument.
      source: a triple: the argument's strides, whether its memory contains the conjugates of its elements, and whether
        it contains their negatives.
      dtype, shape, strides: the element type, shape and strides of the result.
      offset: the offset of the result from the argument, in bytes.
      is_conj, is_neg: whether the memory contains the conjugates, or the negatives, of the result's elements.
    """

    position: int
    source: tuple[tuple[int, ...], bool, bool]
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_conj: bool
    is_neg: bool

    @classmethod
    def captured(cls, position: int, base: torch.Tensor, view: torch.Tensor) -> "_View":
        """Creates the view from an argument and a result with the same memory; `position` is the argument's index."""
        begin, end = (int(each.storage_offset()) * each.element_size() for each in (base, view))
        shape, strides = tuple(view.shape), view.stride()
        return cls(position, _form(base), view.dtype, shape, strides, end - begin, view.is_conj(), view.is_neg())

    def of(self, arguments: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        argument = arguments[self.position]
        if _form(argument) != self.source:
            strides, is_conj, is_neg = self.source
            made = torch.empty_strided(argument.shape, strides, dtype=argument.dtype, device=argument.device)
            argument = _read_as(made, is_conj, is_neg).copy_(argument)
        argument = _read_as(argument, False, False)
        size = self.dtype.itemsize
        begin = argument.storage_offset() * argument.element_size() + self.offset
        if begin % size:
            raise CaptureError(f"a view of argument {self.position} as {self.dtype} begins within an element")
        if argument.dtype is not self.dtype:
            # A view of the whole memory shares the argument's version counter, through which autograd detects writes.
            widest = max(size, argument.element_size())
            count = argument.untyped_storage().nbytes() // widest * widest // argument.element_size()
            argument = argument.as_strided((count,), (1,), 0).view(self.dtype)
        return _read_as(argument.as_strided(self.shape, self.strides, begin // size), self.is_conj, self.is_neg)


def _form(tensor: torch.Tensor) -> tuple[tuple[int, ...], bool, bool]:
    """Returns the `_View.source` of an argument."""
    return tensor.stride(), tensor.is_conj(), tensor.is_neg()


def _read_as(tensor: torch.Tensor, is_conj: bool, is_neg: bool) -> torch.Tensor:
    """Returns a view of a tensor's memory with the given conjugate and negative bits."""
    if tensor.is_conj() != is_conj:
        tensor = internals.conj_view(tensor)
    return internals.neg_view(tensor) if tensor.is_neg() != is_neg else tensor


@dataclass(frozen=True)
class _Output:
    """A result that is an output of the program.

    Attributes:
      position: the index of the output. The output's elements are in the memory order of the result if the result is
        dense; the output also has the result's strides if `is_whole` (`CapturedGraph.layouts`).
      dtype, shape, strides: the element type, shape and strides of the result.
      offset: the position of the result's first element in its memory if other results share this memory, otherwise 0.
        The caller creates views of shared memory from shape, strides and offset.
      is_dense: whether the output contains the elements of the result in memory order.
      is_whole: whether the result can use the memory of the output.
    """

    position: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int
    is_dense: bool

    @functools.cached_property
    def is_whole(self) -> bool:
        return self.is_dense and not self.offset

    def of(self, arguments: Sequence[torch.Tensor], outputs: Sequence[torch.Tensor]) -> torch.Tensor:
        output = outputs[self.position]
        if self.is_whole:
            return output
        if self.dtype.is_complex:
            output = torch.view_as_complex(output)
        elif output.dtype is not self.dtype:
            # An unsigned result has the bits of the signed output.
            output = output.view(self.dtype)
        if not self.is_dense:
            return _with_strides(output, self.strides, self.offset)
        memory = torch.empty(self.offset + output.numel(), dtype=output.dtype, device=output.device)
        memory[self.offset :] = output.flatten()
        return memory.as_strided(self.shape, self.strides, self.offset)


@dataclass(frozen=True)
class CapturedGraph:
    """The bindings of a program to the graph from which it was captured (`program.imported.Bindings`).

    Attributes:
      draws: whether the graph draws random numbers; if so, seed and step, i64 of shape [], are the last two inputs.
      orders: for each of `tensors`, the permutation of its dimensions to the program's order; None for the identity.
      layouts: per output, shape, strides and element type of the tensor that receives the output; the tensor's elements
        in memory order are the elements of the output.
    """

    draws: bool
    orders: tuple[tuple[int, ...] | None, ...] = field(repr=False)
    layouts: tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...] = field(repr=False)
    _num_state: int = field(repr=False)
    _positions: tuple[int, ...] = field(repr=False)
    _represented: tuple[int, ...] = field(repr=False)
    _gaps: tuple[int, ...] = field(repr=False)
    _results: tuple[Any, ...] = field(repr=False)

    def hyper_parameters(self) -> list[Any]:
        """Returns an empty list: a graph has no hyper-parameters."""
        return []

    def flatten_batch(self, batch: Any) -> list[torch.Tensor]:
        """Returns, in the order of the inputs, those tensors among a call's arguments that the graph only reads."""
        pairs = [*zip(self.tensors(batch), self.orders, strict=False)][self._num_state :]
        return [in_order(value, order).resolve_neg() for value, order in pairs]

    def tensors(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Returns the tensors among the arguments of a call: the states, then the inputs without seed and step."""
        found = [arguments[position] for position in self._positions]
        for i in self._represented:
            found[i] = represented(found[i])
        for i in self._gaps:
            found[i] = found[i].contiguous()
        return found

    def written(self, arguments: Sequence[Any], tensors: Sequence[torch.Tensor]) -> None:
        """Copies new states from `tensors` to those arguments of a call whose memory the program could not use.

        The memory of such an argument contains the conjugates or negatives of complex numbers.
        """
        for i in self._represented:
            argument, value = arguments[self._positions[i]], tensors[i]
            if i < self._num_state and argument.is_complex() and (argument.is_conj() or argument.is_neg()):
                # Writes through `data`, which does not increment the version counter, because AOTAutograd already
                # increments it.
                argument.data.copy_(torch.view_as_complex(value))

    def write_state(self, values: Sequence[Any]) -> None:
        """Always raises CaptureError, because a graph stores no state: the state of a call is among the call's
        arguments."""
        raise CaptureError("a graph of torch.compile has no state of its own")

    def results(self, arguments: Sequence[Any], outputs: Sequence[torch.Tensor]) -> list[Any]:
        """Returns the results of a call: tensors, numbers and None, as the graph returns them.

        Args:
          arguments: the arguments of the graph.
          outputs: the outputs of the program, with the layouts of `layouts`.
        """
        return [result.of(arguments, outputs) for result in self._results]


def in_order(tensor: torch.Tensor, order: tuple[int, ...] | None) -> torch.Tensor:
    """Returns the tensor, detached, with its dimensions permuted to `order`."""
    value = tensor.detach()
    return value if order is None else value.permute(order)


def _with_strides(value: torch.Tensor, strides: tuple[int, ...], offset: int) -> torch.Tensor:
    """Copies a contiguous tensor to new memory with other strides and an offset.

    Returns `value` unchanged if its elements would overlap with these strides.
    """
    repeated = [extent > 1 and stride == 0 for extent, stride in zip(value.shape, strides, strict=True)]
    once = value[tuple(slice(0, 1) if each else slice(None) for each in repeated)]
    reach = sum(stride * (extent - 1) for extent, stride in zip(once.shape, strides, strict=True)) + 1
    memory = torch.empty(offset + (reach if once.numel() else 0), dtype=value.dtype, device=value.device)
    made = memory.as_strided(once.shape, strides, offset)
    if may_overlap(made):
        return value
    return made.copy_(once).expand(value.shape)


def may_overlap(tensor: torch.Tensor) -> bool:
    """Whether two elements may share an address; they cannot if each stride exceeds the span of the smaller strides."""
    reach = 0
    for stride, extent in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if extent > 1 and stride <= reach:
            return True
        reach += stride * (extent - 1)
    return False


def _order(tensor: torch.Tensor) -> tuple[int, ...] | None:
    """Returns the dimensions of a dense tensor in memory order; None if it is contiguous or not dense."""
    if tensor.is_contiguous():
        return None
    strides = tensor.stride()
    order = tuple(sorted(range(tensor.dim()), key=lambda i: -strides[i]))
    return order if tensor.permute(order).is_contiguous() else None


def _inverse(order: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(order.index(i) for i in range(len(order)))


def is_random(node: torch.fx.Node) -> bool:
    """Whether a node draws random numbers."""
    return torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())


def draws(graph: torch.fx.Graph) -> bool:
    """Whether a graph draws random numbers."""
    return any(map(is_random, graph.nodes))


def reads_written(forward: torch.fx.Graph, backward: torch.fx.Graph) -> bool:
    """Whether a backward graph reads the memory of an argument that the forward graph writes at its end."""
    targets = [node.args[0] for node in forward.nodes if node.target is torch.ops.aten.copy_.default]
    written = {_memory(node.meta["val"]) for node in targets}
    kept = [node for node in backward.nodes if node.op == "placeholder" and isinstance(node.meta["val"], torch.Tensor)]
    return any(_reads(user, node) for node in kept if _memory(node.meta["val"]) in written for user in node.users)


def _reads(user: torch.fx.Node, argument: torch.fx.Node) -> bool:
    """Whether the used results of `user` depend on `argument`; True if this is unknown.

    In training, for example, the normalized batch does not depend on the running averages.
    """
    if user.target is torch.ops.aten._native_batch_norm_legit_functional.default and user.args[5]:
        new = [each for each in user.users if each.args[1] in (3, 4)]
        return argument in user.args[:3] or any(_reads(next_user, each) for each in new for next_user in each.users)
    if user.target is torch.ops.aten.native_batch_norm_backward.default and user.args[7]:
        return argument in (*user.args[:3], *user.args[5:7])
    return True


def capture_graph(module: torch.fx.GraphModule, arguments: Sequence[Any]) -> ImportedProgram[CapturedGraph]:
    """Captures a graph of ATen operators that has no parameters, and that writes to tensors only by copies into its
    arguments.

    Args:
      module: the graph; `stack_trace` and `nn_module_stack` of its nodes determine the user's lines.
      arguments: the graph's arguments. Only the shape, strides and element type of a tensor matter, so it may be fake.
        A whole number, such as a size in a graph for any size, becomes a constant of the program.
    Returns:
      the program. The program's state is the arguments that the graph writes, with zeros as initial values. A graph
      that draws random numbers (R1) has seed and step as two additional inputs.
    Raises:
      CaptureError: the graph cannot be captured.
    """
    # The active modes and the tracing context belong to the trace that created the graph, not to this one.
    with internals.tracing_context(None), internals.disable_current_modes():
        return _capture(module, [concrete(value) for value in arguments])


def concrete(value: Any) -> Any:
    """Returns an uninitialized CPU tensor with the shape, strides and element type of a tensor; returns a number
    unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    made = torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="cpu")
    return _read_as(made, value.is_conj(), value.is_neg())


def _capture(module: torch.fx.GraphModule, arguments: Sequence[Any]) -> ImportedProgram[CapturedGraph]:
    name_origins(module.graph)
    bound_indices(module.graph)
    placeholders = [node for node in module.graph.nodes if node.op == "placeholder"]
    written = {node.args[0] for node in module.graph.nodes if node.target is torch.ops.aten.copy_.default}
    states = [i for i, node in enumerate(placeholders) if node in written]
    read = [i for i, value in enumerate(arguments) if isinstance(value, torch.Tensor) and i not in states]
    positions = [*states, *read]
    parts = [*map(represented, arguments)]
    orders = [_order(parts[i]) for i in positions]
    given_tensors = [
        parts[i] if order is None else parts[i].permute(order) for i, order in zip(positions, orders, strict=True)
    ]
    kinds = [kind_of(f"argument{i}", value) for i, value in zip(positions, given_tensors, strict=True)]
    random = draws(module.graph)
    (given,) = next(node for node in module.graph.nodes if node.op == "output").args
    examples, found = _examples(module, arguments, placeholders, given)
    memory = {_memory(value): i for i, value in enumerate(examples) if isinstance(value, torch.Tensor)}
    shared = Counter(_memory(value) for value in found.values())
    with errors_with_lines({}), tracing_environment():
        real = represent(module, arguments)
    results: list[Any] = []

    def call(run: Callable[..., Any], *values: torch.Tensor) -> list[torch.Tensor]:
        whole = [*parts]
        for position, order, value in zip(positions, orders, values, strict=False):
            whole[position] = value if order is None else value.permute(_inverse(order))
        outputs: dict[torch.fx.Node, torch.Tensor] = {}
        results.clear()
        for node, value in zip(given, run(*whole), strict=True):
            if node in placeholders:
                results.append(_Argument(placeholders.index(node)))
            elif isinstance(value, torch.Tensor) and _memory(found[node]) in memory:
                source = memory[_memory(found[node])]
                results.append(_View.captured(source, examples[source], found[node]))
            elif isinstance(value, torch.Tensor):
                example = found[node]
                order = _order(example)
                if order is None:
                    outputs.setdefault(node, value)
                else:
                    # The dimension of a complex result's real and imaginary parts stays last.
                    outputs.setdefault(node, value.permute(*order, *range(len(order), value.dim())))
                is_dense = order is not None or example.is_contiguous()
                offset = int(example.storage_offset()) if shared[_memory(example)] > 1 else 0
                place = [*outputs].index(node)
                shape = tuple(example.shape)
                results.append(_Output(place, example.dtype, shape, example.stride(), offset, is_dense))
            elif isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
                raise CaptureError("a result is a number that depends on tensor values, expected the tensor itself")
            else:
                results.append(_Constant(value))
        # The graph has written the new states to `values`.
        return [*values[: len(states)], *outputs.values()]

    def draw(*values: torch.Tensor) -> list[torch.Tensor]:
        with RandomSites(*values[-2:]):
            return call(torch.fx.Interpreter(real).run, *values)

    tensors = given_tensors
    if random:
        tensors += [torch.zeros((), dtype=torch.int64) for _ in _RANDOM]
        graph = decompose(record(draw, tensors), tensors)
    else:
        graph = decompose(real, tensors, call)
    output = next(node for node in graph.graph.nodes if node.op == "output")
    values = [node.meta["val"] for node in output.args[0][len(states) :]]
    outputs = tuple(kind_of(f"result{i}", value) for i, value in enumerate(values))
    state, inputs = tuple(kinds[: len(states)]), tuple(kinds[len(states) :])
    if random:
        inputs += _RANDOM
        orders += [None] * len(_RANDOM)
    gaps = [i for i, value in enumerate(given_tensors) if i >= len(states) and not value.is_contiguous()]
    return ImportedProgram(
        text=_lowered(
            graph,
            len(state),
            [kind.name for kind in (*state, *inputs)],
            [kind.name for kind in (*state, *outputs)],
        ),
        state=state,
        initial=tuple(np.zeros(kind.shape, kind.dtype) for kind in state),
        inputs=inputs,
        outputs=outputs,
        num_hyper_parameters=0,
        random=None,
        bindings=CapturedGraph(
            draws=random,
            orders=tuple(orders),
            layouts=_layouts(values, results),
            _num_state=len(state),
            _positions=tuple(positions),
            _represented=tuple(i for i, position in enumerate(positions) if parts[position] is not arguments[position]),
            _gaps=tuple(gaps),
            _results=tuple(results),
        ),
    )


def _lowered(graph: torch.fx.GraphModule, num_state: int, arguments: list[str], results: list[str]) -> str:
    """Lowers a graph as `lower` does; an equal graph, for example of another model instance, is read from the cache."""
    identity, contents = frontend_identity(), contents_of(graph)

    def run() -> bytes:
        # Imported here because the import of torch-mlir takes half a second, which a cache hit saves.
        from repro_mlir.frontends.torch.lower.lowering import lower

        return lower(graph, num_state, arguments, results).encode()

    if identity is None or contents is None:
        return run().decode()
    names = json.dumps([num_state, arguments, results, str(torch.get_default_dtype())]).encode()
    return cached([b"graph", identity, contents, names], run).decode()


def _layouts(
    values: Sequence[torch.Tensor], results: Sequence[Any]
) -> tuple[tuple[tuple[int, ...], tuple[int, ...], torch.dtype], ...]:
    """Returns the `CapturedGraph.layouts` of the outputs `values` (fake tensors) from which `results` are made."""
    found = [(tuple(value.shape), torch.empty_like(value, memory_format=torch.contiguous_format)) for value in values]
    layouts = [(shape, like.stride(), like.dtype) for shape, like in found]
    for result in results:
        if isinstance(result, _Output) and result.is_whole:
            layouts[result.position] = (result.shape, result.strides, result.dtype)
    return tuple(layouts)


def _examples(
    module: torch.fx.GraphModule, arguments: Sequence[Any], placeholders: Sequence[torch.fx.Node], given: Sequence[Any]
) -> tuple[list[Any], dict[torch.fx.Node, torch.Tensor]]:
    """Returns the arguments, and the tensor results keyed by node, with the memory and strides that PyTorch gives
    them."""
    nodes = [node for node in given if isinstance(node, torch.fx.Node)]
    examples = [node.meta["val"] for node in placeholders]
    values = [node.meta["val"] for node in nodes]
    if not all(isinstance(value, torch.Tensor) for value in arguments):
        with internals.FakeTensorMode(allow_non_fake_inputs=True) as mode:
            examples = [mode.from_tensor(each) if isinstance(each, torch.Tensor) else each for each in arguments]
            found = torch.fx.Interpreter(module).run(*examples)
        values = [value for node, value in zip(given, found, strict=True) if isinstance(node, torch.fx.Node)]
    return examples, {node: value for node, value in zip(nodes, values, strict=True) if isinstance(value, torch.Tensor)}


def _memory(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage()._cdata


_FRAME = re.compile(r'File "([^"]*)", line (\d+), in (\S+)')


def _user_frames(stack_trace: str) -> list[tuple[str, str, str]]:
    """Returns file, line and function per frame of user code in PyTorch's `stack_trace`."""
    return [frame for frame in _FRAME.findall(stack_trace) if is_user_file(frame[0])]


@contextlib.contextmanager
def errors_of_nodes() -> Iterator[None]:
    """Converts an error of the block to a one-line CaptureError, without the node that PyTorch's interpreter appends to
    messages."""
    try:
        yield
    except Exception as error:
        reason, _, trace = str(error).partition("\n\nWhile executing ")
        # Other errors of PyTorch are raised unchanged, because Dynamo breaks the graph at them.
        if not trace or not (isinstance(error, ReproError) or type(error) in (IndexError, RuntimeError, ValueError)):
            raise
        place = "".join(f"{source_name(path)}:{line}: " for path, line, _ in _user_frames(trace)[-1:])
        raise CaptureError(place + (reason if isinstance(error, ReproError) else reason_of(error))) from None


def name_origins(graph: torch.fx.Graph) -> None:
    """Sets each node's `stack_trace` in the format of source_lines.py: the innermost user line; without one, the
    innermost module; without a module, "step"."""
    for node in graph.nodes:
        frames = _user_frames(node.stack_trace or "")
        modules = [path for path, _ in (node.meta.get("nn_module_stack") or {}).values()]
        if frames:
            path, line, code = frames[-1]
            node.stack_trace = f'File "{source_name(path)}", line {line}, in {code}\n'
        elif modules:
            node.stack_trace = f"module {modules[-1]}"
        elif not (node.stack_trace or "").startswith("module "):
            node.stack_trace = "step"
