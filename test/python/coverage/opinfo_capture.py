# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Captures single operators as programs: PyTorch's OpInfo entries, forward and backward, as imported linalg text."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
import torch.utils._pytree as pytree
from repro_mlir.frontends.torch.lower.lowering import lower
from repro_mlir.frontends.torch.trace.random_sites import RandomSites
from repro_mlir.frontends.torch.trace.representation import represented
from support.tracing import trace
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo


class NoSampleError(Exception):
    """Raised for an OpInfo entry without a sample that has a tensor result."""


class NoGradientError(Exception):
    """Raised for an OpInfo entry without gradients that can be compared."""


@dataclass
class OperatorProgram:
    """One OpInfo entry as a program.

    Attributes:
      name: name of the entry, with its variant.
      text: imported linalg text.
      graph: the functional graph that was lowered.
      arguments: the values of the program's arguments (seed and step first, if it draws random numbers).
      expected: the results of eager PyTorch; None for an entry with random or uninitialised numbers.
      has_backward: whether the results contain gradients, after the forward results.
    """

    name: str
    text: str
    graph: torch.fx.GraphModule
    arguments: list[torch.Tensor]
    expected: list[torch.Tensor] | None
    has_backward: bool


@dataclass
class ForwardProgram:
    """The forward program of one OpInfo entry, and its expected gradients.

    Attributes:
      text: imported linalg text.
      arguments: the values of its arguments, then a gradient for each of `results`.
      results: the positions of its float results that depend on the sources.
      sources: the positions of its arguments that have gradients.
      gradients: the gradients of `sources` that autograd computes.
    """

    text: str
    arguments: list[torch.Tensor]
    results: list[int]
    sources: list[int]
    gradients: list[torch.Tensor]


def entries(dtype: torch.dtype = torch.float32) -> dict[str, OpInfo]:
    """Returns the OpInfo entries that support an element type on the CPU, by name and variant."""
    found = {}
    for entry in op_db:
        if entry.supports_dtype(dtype, "cpu"):
            name = entry.name + (f".{entry.variant_test_name}" if entry.variant_test_name else "")
            found[name] = entry
    return found


def _has_gradient(entry: OpInfo, dtype: torch.dtype) -> bool:
    return entry.supports_autograd and dtype in entry.supported_backward_dtypes("cpu")


def _samples(entry: OpInfo, dtype: torch.dtype) -> Iterator[Any]:
    torch.manual_seed(0)
    yield from entry.sample_inputs("cpu", dtype, requires_grad=_has_gradient(entry, dtype))


def _function(entry: OpInfo, sample: Any) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Returns a function and the tensors in `sample`. The function applies the entry's operator to the sample, with the
    function's arguments in place of the sample's tensors. It returns the list of the results that are tensors."""
    leaves, spec = pytree.tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]

    def forward(*values: torch.Tensor) -> list[torch.Tensor]:
        remaining = iter(values)
        rebuilt = [next(remaining) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        first, args, kwargs = pytree.tree_unflatten(rebuilt, spec)
        results = pytree.tree_leaves(entry(first, *args, **kwargs))
        return [value for value in results if isinstance(value, torch.Tensor)]

    return forward, tensors


def _with_gradients(
    forward: Callable[..., list[torch.Tensor]], wanted: Sequence[bool]
) -> Callable[..., list[torch.Tensor]]:
    """Returns a function whose results are those of `forward` and then the gradients of the `wanted` arguments. Its
    arguments are those of `forward` and then a cotangent for each result that requires a gradient."""

    def run(*values: torch.Tensor) -> list[torch.Tensor]:
        inputs = [v.detach().requires_grad_(w) for v, w in zip(values, wanted, strict=False)]
        results = forward(*inputs)
        differentiable = [r for r in results if r.requires_grad]
        sources = [v for v in inputs if v.requires_grad]
        found = torch.autograd.grad(differentiable, sources, list(values[len(wanted) :]), allow_unused=True)
        return [
            *(r.detach() for r in results),
            *(torch.zeros_like(v) if g is None else g for v, g in zip(sources, found, strict=True)),
        ]

    return run


def choose(entry: OpInfo, dtype: torch.dtype = torch.float32) -> tuple[Callable[..., Any], list[torch.Tensor]]:
    """Chooses the entry's first sample with a result of at least two elements, or else the first sample with a tensor
    result. Returns it as a function and its tensors (see `_function`).

    Raises:
      NoSampleError: the entry has no such sample.
    """
    chosen = None
    for sample in _samples(entry, dtype):
        forward, tensors = _function(entry, sample)
        torch.manual_seed(1)
        results = forward(*(t.detach().clone() for t in tensors))
        if any(r.numel() >= 2 for r in results):
            chosen = forward, tensors
            break
        if chosen is None and results:
            chosen = forward, tensors
    if chosen is None:
        raise NoSampleError(entry.name)
    return chosen


def capture_entry(name: str, dtype: torch.dtype = torch.float32) -> OperatorProgram:
    """Captures the sample that `choose` chooses, with its gradients if the entry has any.

    Raises:
      NoSampleError: the entry has no such sample.
      CaptureError: the frontend does not support it.
    """
    entry = entries(dtype)[name]
    forward, tensors = choose(entry, dtype)
    wanted = [t.requires_grad and t.dtype == dtype for t in tensors]
    tensors = [t.detach() for t in tensors]
    results = forward(*(t.clone().requires_grad_(w) for t, w in zip(tensors, wanted, strict=True)))
    cotangents = [torch.randn(r.shape, dtype=r.dtype) for r in results if r.requires_grad]
    if _has_gradient(entry, dtype) and any(wanted) and cotangents:
        return _capture(name, _with_gradients(forward, wanted), [*tensors, *cotangents], True)
    return _capture(name, forward, tensors, False)


def capture_forward(name: str) -> ForwardProgram:
    """Captures the same sample as `capture_entry`, without its gradients, and computes the expected gradients with
    autograd.

    Raises:
      NoSampleError, CaptureError: as for `capture_entry`.
      NoGradientError: autograd computes no gradient, or the entry draws random numbers.
    """
    entry = entries()[name]
    forward, tensors = choose(entry)
    sources = [i for i, t in enumerate(tensors) if t.requires_grad and t.dtype == torch.float32]
    tensors = [t.detach() for t in tensors]
    inputs = [t.clone().requires_grad_(i in sources) for i, t in enumerate(tensors)]
    results = forward(*inputs)
    positions = [i for i, r in enumerate(results) if r.requires_grad and r.dtype == torch.float32]
    if not entry.supports_autograd or not sources or not positions:
        raise NoGradientError("autograd gives none")
    if any(r.dtype != torch.float32 for r in results if r.requires_grad):
        raise NoGradientError("of complex results")
    cotangents = [torch.randn(results[i].shape) for i in positions]
    found = torch.autograd.grad(
        [results[i] for i in positions], [inputs[i] for i in sources], cotangents, allow_unused=True
    )
    gradients = [torch.zeros_like(tensors[i]) if g is None else g for i, g in zip(sources, found, strict=True)]
    captured = _capture(name, forward, tensors, False)
    if captured.expected is None:
        raise NoGradientError("random numbers")
    return ForwardProgram(captured.text, [*tensors, *cotangents], positions, sources, gradients)


def _capture(
    name: str, function: Callable[..., Sequence[torch.Tensor]], arguments: list[torch.Tensor], has_backward: bool
) -> OperatorProgram:
    def seeded(seed: torch.Tensor, step: torch.Tensor, *values: torch.Tensor) -> list[torch.Tensor]:
        with RandomSites(seed, step):
            return [seed, step + 1, *function(*values)]

    random_state = [torch.tensor(7), torch.tensor(0)]
    graph = trace(seeded, [*random_state, *arguments])
    draws = any(getattr(node.target, "namespace", None) == "repro" for node in graph.graph.nodes)
    uninitialised = "empty" in name
    num_state = 2 if draws else 0
    if draws:
        arguments = [*random_state, *arguments]
    else:
        graph = trace(lambda *values: list(function(*values)), arguments)
    count = len(next(node for node in graph.graph.nodes if node.op == "output").args[0])
    text = lower(graph, num_state, [f"arg{i}" for i in range(len(arguments))], [f"result{i}" for i in range(count)])
    expected = None if draws or uninitialised else [r.detach() for r in function(*(a.clone() for a in arguments))]
    if expected is not None:
        # (Z1) A program represents complex numbers as pairs of real numbers.
        expected = [*map(represented, expected)]
    return OperatorProgram(name, text, graph, [*map(represented, arguments)], expected, has_backward)
