# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Runs compiled functions whose arguments and results are next to inaccessible pages, to detect accesses out of
bounds."""

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError
from support.guarded import Guarded

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

from repro_mlir.frontends.torch.compile_backend import graph_calls  # noqa: E402

F = torch.nn.functional


class Memory:
    """Allocates tensors that begin or end at an inaccessible page (support/guarded.py)."""

    def __init__(self) -> None:
        self._kept: list[Guarded] = []

    def empty(self, layout: Any, size: int) -> Any:
        """Replaces `large_results.empty`: returns a tensor with the given layout and without spare bytes."""
        return self.like(torch.empty_strided(*layout[:2], dtype=layout[2]))

    def like(self, tensor: Any) -> Any:
        """Returns a copy of a tensor, with its strides, next to an inaccessible page."""
        reach = sum((extent - 1) * stride for extent, stride in zip(tensor.shape, tensor.stride(), strict=True)) + 1
        whole = tensor.detach().as_strided((reach if tensor.numel() else 0,), (1,), tensor.storage_offset())
        held = Guarded(whole.view(torch.uint8).numpy(), at_end=len(self._kept) % 4 > 0)
        self._kept.append(held)
        copy = torch.from_numpy(held.array).view(tensor.dtype).as_strided(tensor.shape, tensor.stride(), 0)
        return copy.requires_grad_(tensor.requires_grad)

    def require_intact(self) -> None:
        assert self._kept and all(held.is_intact() for held in self._kept)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[Memory]:
    torch._dynamo.reset()
    torch.manual_seed(0)
    made = Memory()
    monkeypatch.setattr(graph_calls, "empty", made.empty)
    yield made
    torch._dynamo.reset()


def _real(*shape: int) -> Any:
    return torch.randn(shape).requires_grad_()


def _upsample(x: Any, weight: Any) -> Any:
    line = F.conv_transpose1d(x[:, :, 0], weight[:, :, 0], dilation=3, output_padding=2, groups=4)
    return F.conv_transpose2d(x, weight, dilation=2, output_padding=1, groups=4), line


def _normalize(x: Any, mean: Any, variance: Any) -> Any:
    return F.batch_norm(x, mean, variance, training=True)


def _rotate(x: Any, angles: Any) -> Any:
    turned = torch.view_as_complex(x) * torch.polar(torch.ones_like(angles), angles)
    return torch.view_as_real(turned), turned.T, torch.fft.fft(turned)[:, 1:]


def _write(x: Any, y: Any) -> Any:
    x[1:].mul_(2)
    y.add_(x.sum())
    return x[::2], y.T * 3


def _choose(table: Any, places: Any) -> Any:
    rows = F.embedding(places, table)
    return rows.amax(0), rows.cumsum(1), *torch.sort(rows, 1, descending=True)


def _narrow(x: Any, codes: Any) -> Any:
    return x.to(torch.bfloat16) * 3, x > 0, codes + 1, codes.to(torch.uint16)


CASES: dict[str, tuple[Callable[..., Any], Callable[[], list[Any]]]] = {
    "upsample": (_upsample, lambda: [_real(1, 4, 5, 5), _real(4, 1, 3, 3)]),
    "strided": (
        lambda x, w: F.conv2d(x, w, stride=2, padding=1).mT,
        lambda: [torch.randn(2, 7, 7, 3).permute(0, 3, 1, 2).requires_grad_(), _real(4, 3, 3, 3)],
    ),
    "pool": (lambda x: F.max_pool2d(x, 2, 1, ceil_mode=True), lambda: [_real(2, 3, 5, 5)]),
    "normalize": (_normalize, lambda: [_real(3, 5, 2), torch.zeros(5), torch.ones(5)]),
    "rotate": (_rotate, lambda: [_real(3, 4, 2), _real(3, 4)]),
    "write": (_write, lambda: [torch.randn(3, 5), torch.randn(6, 3)[::2, ::2]]),
    "choose": (_choose, lambda: [_real(7, 5), torch.tensor([[0, 3], [6, 3]])]),
    "narrow": (_narrow, lambda: [torch.randn(3, 1), torch.arange(7, dtype=torch.uint8)]),
    "empty": (lambda x, y: (torch.cat([x, y]), x.sum(1), (x * 2).T), lambda: [_real(0, 3), _real(2, 3)]),
    "attention": (F.scaled_dot_product_attention, lambda: [_real(1, 2, 5, 4), _real(1, 2, 3, 4), _real(1, 2, 3, 4)]),
}


@pytest.mark.parametrize("name", CASES)
def test_nothing_is_written_outside_of_arguments_and_results(name: str, memory: Memory) -> None:
    function, make = CASES[name]
    arguments = make()
    given = [memory.like(value) for value in arguments]
    compiled = torch.compile(function, backend=repro_mlir.backend(threads=1), fullgraph=True)
    for got, want in zip(_run(compiled, given), _run(function, arguments), strict=True):
        assert (got.dtype, got.shape) == (want.dtype, want.shape)
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    memory.require_intact()


def _run(function: Callable[..., Any], arguments: list[Any]) -> list[Any]:
    """Calls the function and a backward pass. Returns the results, the arguments after the call, and the arguments'
    gradients."""
    found = function(*arguments)
    results = list(found) if isinstance(found, tuple) else [found]
    parts = [value.abs() if value.is_complex() else value for value in results if value.requires_grad]
    if parts:
        sum((part * torch.arange(part.numel()).reshape(part.shape)).sum() for part in parts).backward()
    return [value.detach() for value in (*results, *arguments, *(a.grad for a in arguments if a.grad is not None))]


def test_results_of_another_size_than_torch_compile_allocates_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    torch._dynamo.reset()
    layouts = graph_calls.Calls.__init__

    def shrink(self: Any, executable: Any, state: Any, inputs: Any, outputs: Any, graph: Any) -> None:
        (shape, strides, dtype) = graph.layouts[0]
        smaller = dataclasses.replace(graph, layouts=(((shape[0] - 1, *shape[1:]), strides, dtype),))
        layouts(self, executable, state, inputs, outputs, smaller)

    monkeypatch.setattr(graph_calls.Calls, "__init__", shrink)
    message = r"result0: the program returns f32 of shape \[3, 2\], torch.compile expects float32 of shape \[2, 2\]"
    with pytest.raises((ReproError, torch._dynamo.exc.BackendCompilerFailed), match=message):
        torch.compile(lambda x: x * 2, backend=repro_mlir.backend(threads=1))(torch.randn(3, 2))
    torch._dynamo.reset()
