# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests our backend of torch.compile: values, gradients, sizes, views, random numbers, and refused functions."""

import copy
import math
import re
import resource
import runpy
import unittest.mock
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir.base.errors import ReproError

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")

from repro_mlir.frontends.torch.base import torch_internals  # noqa: E402

F = torch.nn.functional
nn = torch.nn
BackendCompilerFailed = torch._dynamo.exc.BackendCompilerFailed
TARGETS = ("cpu", "cpu:x86-64-v2", "reference", "ptx-emulator")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """Removes what earlier tests have compiled, and sets Dynamo's options and the seed for this test."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=False, recompile_limit=8, allow_rnn=True):
        yield
    torch._dynamo.reset()


def compiled(function: Any, **options: Any) -> Any:
    keywords = {name: options.pop(name) for name in ("dynamic", "fullgraph") if name in options}
    return torch.compile(function, backend=repro_mlir.backend(**{"threads": 1} | options), **keywords)


def same_bits(a: Any, b: Any) -> bool:
    return a.shape == b.shape and a.dtype == b.dtype and a.detach().numpy().tobytes() == b.detach().numpy().tobytes()


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out, self.norm = nn.Linear(16, 48), nn.Linear(16, 16), nn.LayerNorm(16)

    def forward(self, x: Any) -> Any:
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.out(mixed.transpose(1, 2).flatten(-2))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(6, 5, batch_first=True), nn.Linear(5, 2)

    def forward(self, x: Any) -> Any:
        return self.head(self.lstm(x)[0][:, -1])


MODELS: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {
    "mlp": (lambda: nn.Sequential(nn.Linear(7, 9), nn.GELU(), nn.Linear(9, 3)), lambda: torch.randn(5, 7)),
    "cnn": (
        lambda: nn.Sequential(nn.Conv2d(2, 4, 3, 2, 1), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 3)),
        lambda: torch.randn(3, 2, 5, 6),
    ),
    "attention": (Attention, lambda: torch.randn(2, 6, 16)),
    "recurrent": (Recurrent, lambda: torch.randn(2, 4, 6)),
    "embedding": (
        lambda: nn.Sequential(nn.Embedding(11, 8, padding_idx=0), nn.Linear(8, 4)),
        lambda: torch.randint(0, 11, (3, 5)),
    ),
}


def gradients(model: Any, x: Any, run: Any) -> tuple[Any, list[Any], list[Any]]:
    """Calls `run(model, x)`, which returns a loss, and the loss's backward pass. Returns the loss, the gradients and
    the buffers."""
    model.zero_grad()
    loss = run(model, x)
    loss.backward()
    return loss.detach(), [p.grad.clone() for p in model.parameters()], [b.clone() for b in model.buffers()]


def square(model: Any, x: Any) -> Any:
    return model(x).float().square().mean()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.diagonal(name=["cnn", "attention"])
@pytest.mark.exhaustive("attention")
def test_models_as_in_eager_and_equal_on_all_targets(name: str) -> None:
    make, inputs = MODELS[name]
    model, x = make(), inputs()
    loss, grads, buffers = gradients(copy.deepcopy(model), x, square)
    found = {}
    for target in TARGETS:
        for threads in (1, 2) if target == "cpu" else (1,):
            torch._dynamo.reset()
            function = compiled(square, target=target, threads=threads, fullgraph=True)
            found[target, threads] = gradients(copy.deepcopy(model), x, function)
    first = found["cpu", 1]
    for ours, theirs in zip([first[0], *first[1], *first[2]], [loss, *grads, *buffers], strict=True):
        torch.testing.assert_close(ours, theirs)
    for other in found.values():
        assert same_bits(other[0], first[0])
        assert all(map(same_bits, [*other[1], *other[2]], [*first[1], *first[2]]))


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_steps_are_those_of_the_trainer(dropout: float) -> None:
    """Compiles two functions: one computes the loss and its gradients, the other one makes the optimizer's step. The
    results are those of `Trainer`."""

    def make() -> Any:
        layers = nn.Linear(7, 33), nn.BatchNorm1d(33), nn.Dropout(dropout), nn.Tanh(), nn.Linear(33, 5)
        return repro_mlir.initialize(nn.Sequential(*layers), 3)

    def optimizer_of(model: Any) -> Any:
        return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-2, nesterov=True)

    x, y = torch.randn(9, 7), torch.randint(0, 5, (9,))
    model, other = make(), make()
    trainer = repro_mlir.Trainer(model, F.cross_entropy, optimizer_of(model), seed=7)
    optimizer = optimizer_of(other)
    function = compiled(lambda x, y: F.cross_entropy(other(x), y), seed=7, fullgraph=True)
    step = compiled(optimizer.step)
    for _ in range(4):
        optimizer.zero_grad()
        loss = function(x, y)
        loss.backward()
        step()
        assert trainer.step(x, y) == loss.item()
        trainer.sync()
        assert all(map(same_bits, model.parameters(), other.parameters()))
        assert all(map(same_bits, model.buffers(), other.buffers()))


OPTIMIZERS: dict[str, Callable[[Any], torch.optim.Optimizer]] = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "adam": lambda p: torch.optim.Adam(p, lr=0.01, weight_decay=0.01),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, amsgrad=True),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01, centered=True, momentum=0.5),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "nadam": lambda p: torch.optim.NAdam(p, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.diagonal(name=["sgd", "adamw", "rmsprop"])
def test_compiled_optimizer_steps(name: str) -> None:
    found = []
    weight = torch.randn(6, 5)
    for target in ("eager", *TARGETS):
        torch._dynamo.reset()
        parameter = nn.Parameter(weight.clone())
        optimizer = OPTIMIZERS[name]([parameter])
        step = optimizer.step if target == "eager" else compiled(optimizer.step, target=target)
        for number in range(3):
            parameter.grad = torch.linspace(-1, 1 + number, 30).reshape(6, 5)
            step()
        found.append(parameter.detach())
    torch.testing.assert_close(found[1], found[0])
    assert all(same_bits(other, found[1]) for other in found[2:])


# --- Sizes ---


@pytest.mark.parametrize("dynamic", [None, True, False])
def test_each_size_has_a_program(dynamic: bool | None) -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2))
    backend = repro_mlir.backend(threads=1)
    function = torch.compile(model, backend=backend, dynamic=dynamic, fullgraph=True)
    rows = {}
    for size in (5, 3, 8, 5, 3, 1):
        x = torch.arange(size * 4.0).reshape(size, 4).sin()
        y = function(x)
        torch.testing.assert_close(y, model(x))
        y.sum().backward()
        for row in range(size):
            # (P0) The bits of a row do not depend on the number of rows.
            assert same_bits(rows.setdefault(row, y[row].detach().clone()), y[row])
    # Each of the four sizes has a forward and a backward program; none is compiled again.
    assert len({program.hash for program in backend.programs}) == 8


def test_sizes_in_the_results() -> None:
    def function(x: Any) -> Any:
        return x.new_ones(x.shape[0] + 1), x.shape[0] * 2, x.flatten().unsqueeze(0), x.mT

    run = compiled(function, dynamic=True, fullgraph=True)
    for size in (3, 4, 7):
        x = torch.randn(size, 5)
        for ours, theirs in zip(run(x), function(x), strict=True):
            assert type(ours) is type(theirs)
            assert ours == theirs if isinstance(ours, int) else torch.equal(ours, theirs)


def test_empty_tensors() -> None:
    run = compiled(lambda x: torch.cat([x, x[:0]]).sum(0), dynamic=True)
    for size in (0, 2, 3):
        assert torch.equal(run(torch.ones(size, 4)), torch.full((4,), float(size)))


def test_the_limit_of_recompilations_is_an_error() -> None:
    """At its limit of recompilations, Dynamo would continue in eager mode, with other bits. The backend raises an error
    instead."""
    run = compiled(lambda x, form: x * 2 if form else x, dynamic=False)
    with torch._dynamo.config.patch(recompile_limit=1):
        run(torch.ones(2), True)
        with pytest.raises(torch._dynamo.exc.FailOnRecompileLimitHit):
            run(torch.ones(3), True)
    # The backend also increases the limit, because Dynamo's default suits compilers that may fall back to eager mode.
    run(torch.ones(3), True)
    assert torch._dynamo.config.recompile_limit > 8


def test_models_of_one_form_share_programs() -> None:
    x, backends = torch.randn(3, 4), []
    for _ in range(3):
        model = nn.Linear(4, 2)
        backends.append(repro_mlir.backend(threads=1))
        torch.testing.assert_close(torch.compile(model, backend=backends[-1])(x), model(x))
    assert [len(each.programs) for each in backends] == [1, 0, 0]
    other = repro_mlir.backend(threads=2)
    torch.compile(nn.Linear(4, 2), backend=other)(x)
    assert len(other.programs) == 1
    # A backend with a seed counts its calls from zero, so two such backends are not equal.
    seeded = [repro_mlir.backend(threads=1, seed=0) for _ in range(2)]
    assert seeded[0] != seeded[1] and seeded[0] != backends[0] != repro_mlir.backend(threads=1, exact_digits=2)


# --- Views and writes ---


VIEWS: dict[str, Callable[[Any], Any]] = {
    "the argument": lambda x: x,
    "the argument twice": lambda x: (x, x, x + 1),
    "a view of it": lambda x: (x.t(), x * 2),
    "two views of one result": lambda x: (lambda y: (y.t(), y[1:], y))(x.exp()),
    "a transposed result": lambda x: (x.t() * 2, x.exp().t()),
    "an expanded result": lambda x: x.sum(1, keepdim=True).expand(3, 4),
    "channels last": lambda x: F.relu(x.reshape(1, 3, 2, 2).to(memory_format=torch.channels_last)),
    "a write": lambda x: x.clone().add_(1).mul_(2),
    "a part": lambda x: x.clone().index_put_((torch.tensor([0]),), torch.zeros(4)),
    "detached": lambda x: (x.detach() * 2, x * 3),
    "a constant": lambda x: (torch.arange(3), x + torch.tensor([1.0, 2.0, 3.0, 4.0])),
    "whole numbers": lambda x: (x.argmax(1), x > 0, x.to(torch.float64)),
    "gaps": lambda x: ((x * 2)[:, :2], (x * 3)[:, ::2], x.exp().t()[::2]),
    "windows": lambda x: x.detach().exp().unfold(1, 2, 1),
    "nothing": lambda x: None,
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.diagonal
def test_results_are_the_views_and_strides_of_eager(name: str, gradient: bool) -> None:
    function = VIEWS[name]
    outputs = []
    for run in (function, compiled(function, fullgraph=True)):
        x = torch.linspace(-2, 2, 12).reshape(3, 4).requires_grad_(gradient)
        result = run(x)
        results = result if isinstance(result, tuple) else (result,)
        losses = [r.sum() for r in results if isinstance(r, torch.Tensor) and r.requires_grad]
        if losses:
            sum(losses).backward()
        outputs.append([*results, x.grad])
    for ours, theirs in zip(outputs[1], outputs[0], strict=True):
        if theirs is None:
            assert ours is None
            continue
        torch.testing.assert_close(ours, theirs)
        assert ours.stride() == theirs.stride() or name == "windows"


def test_gradients_of_empty_matrices_are_empty() -> None:
    for function in (torch.linalg.det, lambda x: sum(torch.linalg.slogdet(x)), torch.logdet):
        x = torch.zeros(0, 0, requires_grad=True)
        result = compiled(function, fullgraph=True)(x)
        assert result.item() == function(x).item()
        (gradient,) = torch.autograd.grad(result, [x])
        assert gradient.shape == (0, 0)


DTYPES = (torch.int32, torch.int16, torch.int64, torch.uint8, torch.complex64)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("part", [slice(None), slice(1, 3), slice(1, None, 2)], ids=str)
@pytest.mark.diagonal
def test_an_argument_is_viewed_as_another_type(dtype: torch.dtype, part: slice) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x.view(dtype)[part]

    # `x` is a view that begins after two elements of its memory, so its offset is not 0.
    x = torch.linspace(-2, 2, 12)[2:10]
    found, expected = compiled(function, fullgraph=True)(x), function(x)
    assert found.dtype is dtype and found.shape == expected.shape and found.stride() == expected.stride()
    assert found.data_ptr() == expected.data_ptr() and torch.equal(found, expected)


class TimesItsBits(torch.autograd.Function):
    """A function whose gradient is multiplied by the bits of its argument, which are saved as integers."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x.view(torch.int16))
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        (bits,) = ctx.saved_tensors
        return gradient * bits[1::2].float()


def test_a_view_as_another_type_is_kept_for_the_backward() -> None:
    run = compiled(lambda x: TimesItsBits.apply(x), fullgraph=True)
    x = torch.linspace(-2, 2, 8).requires_grad_()
    run(x).sum().backward()
    assert torch.equal(x.grad, x.detach().view(torch.int16)[1::2].float())
    result = run(x)
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_bits_are_numbers_of_another_type() -> None:
    for function in (lambda x: x.view(torch.int32) + 1, lambda x: (x + 1).view(torch.int32)):
        assert torch.equal(compiled(function, fullgraph=True)(torch.ones(3)), function(torch.ones(3)))


def test_views_of_another_width_are_refused() -> None:
    for function in (lambda x: x.view(torch.int8) + 1, lambda x: (x + 1).view(torch.int8)):
        with pytest.raises(BackendCompilerFailed, match=r"aten\.view\.dtype is not supported"):
            compiled(function, fullgraph=True)(torch.ones(3))


PARTS = {
    "of an argument": lambda x: torch.hsplit(x, 2),
    "of a value": lambda x: torch.hsplit(x * 2, 2),
    "that overlap": lambda x: ((y := x + 1)[1:], y[:3], y[2:].reshape(-1, 2).T),
    "one part": lambda x: [(x * 2)[2:]],
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.diagonal
def test_parts_of_tensors_of_any_size(name: str, gradient: bool) -> None:
    function = PARTS[name]
    run = compiled(function, dynamic=True)
    for size in (6, 10):
        x = torch.arange(float(size)).requires_grad_(gradient)
        found, wanted = run(x), function(x)
        assert [each.tolist() for each in found] == [each.tolist() for each in wanted]
        if gradient:
            gradients = [torch.autograd.grad(sum(each.sum() for each in values), x)[0] for values in (found, wanted)]
            assert torch.equal(*gradients)


@pytest.mark.parametrize("gradient", [False, True])
def test_parts_with_gaps_of_any_size(gradient: bool) -> None:
    def halves(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return y, y[:, : x.shape[1] // 2], y[:, x.shape[1] // 2 :], y[1:, 1::2]

    run = compiled(halves, dynamic=True)
    for size in (6, 10):
        x = torch.arange(4.0 * size).reshape(4, size).requires_grad_(gradient)
        for ours, theirs in zip(run(x), halves(x), strict=True):
            assert ours.stride() == theirs.stride() and torch.equal(ours, theirs)
            if gradient:
                wanted, found = (torch.autograd.grad(r.exp().sum(), x, retain_graph=True)[0] for r in (theirs, ours))
                torch.testing.assert_close(found, wanted)


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_results_are_on_the_cpu_whatever_the_default_device(device: str) -> None:
    run = compiled(lambda x: x * 2)
    x = torch.ones(3)
    run(x)
    with torch.device(device):
        assert run(x).tolist() == [2, 2, 2]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_functions_of_no_tensor(target: str) -> None:
    assert compiled(lambda: torch.arange(5.0) * 2, target=target)().tolist() == [0, 2, 4, 6, 8]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_factorizations(target: str) -> None:
    a = torch.eye(3) + torch.ones(3, 3)
    found = compiled(torch.linalg.inv, target=target)(a)
    torch.testing.assert_close(found, torch.linalg.inv(a))


def test_writes_into_arguments() -> None:
    def function(x: Any, buffer: Any) -> Any:
        buffer.mul_(0.5).add_(x.mean(0))
        x[0] = 7
        return x + buffer

    first = [torch.ones(3, 4), torch.full((4,), 2.0)]
    second = [each.clone() for each in first]
    run = compiled(function, fullgraph=True)
    for _ in range(3):
        torch.testing.assert_close(run(*first), function(*second))
        for ours, theirs in zip(first, second, strict=True):
            torch.testing.assert_close(ours, theirs)


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "whole": lambda base: base[:3, :4],
    "transposed": lambda base: base.t(),
    "gaps": lambda base: base[:, ::2],
    "not aligned": lambda base: torch.frombuffer(bytearray(21), dtype=torch.float32, offset=1, count=5).fill_(2),
}


@pytest.mark.parametrize("target", ["cpu", "reference", "ptx-emulator"])
@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.diagonal
def test_written_arguments_are_the_state_of_a_program(name: str, target: str) -> None:
    """Covers written tensors whose memory a program cannot use directly; NaNs become canonical (V4)."""

    def function(x: Any, y: Any) -> None:
        old = x.clone()
        x.mul_(y).add_(1)
        y.copy_(old)

    def arguments() -> tuple[Any, Any]:
        base = torch.linspace(-1, 1, 12).reshape(3, 4)
        base[0, 2] = torch.tensor([-1], dtype=torch.int32).view(torch.float32)[0]
        return LAYOUTS[name](base), torch.full_like(LAYOUTS[name](base), 0.5)

    backend = repro_mlir.backend(target=target, threads=1)
    run = torch.compile(function, backend=backend, fullgraph=True)
    expected = arguments()
    found = [arguments() for _ in range(2)]
    function(*expected)
    for x, y in found:
        before, versions = (x.data_ptr(), y.data_ptr()), (x._version, y._version)
        run(x, y)
        assert (x.data_ptr(), y.data_ptr()) == before and min(x._version - versions[0], y._version - versions[1]) > 0
        torch.testing.assert_close((x, y), expected, equal_nan=True, rtol=0, atol=0)
        nans = [0x7FC00000] if name != "not aligned" else []
        assert x[x != x].view(torch.int32).tolist() == y[y != y].view(torch.int32).tolist() == nans
    (program,) = backend.programs
    assert (len(program.state), len(program.inputs), len(program.outputs)) == (2, 0, 0)


def test_a_parameter_whose_strides_change_is_computed_with_the_new_ones() -> None:
    """Dynamo recognizes the parameters of an optimizer by their identity, so it does not notice that strides have
    changed."""

    def weights(step_of: Callable[[Any], Callable[[], Any]]) -> Any:
        weight = torch.nn.Parameter(torch.arange(16.0).reshape(4, 4))
        step = step_of(torch.optim.SGD([weight], lr=1.0))
        for change in (lambda value: value, lambda value: value.t().contiguous().t(), torch.Tensor.contiguous):
            weight.data = change(weight.data)
            weight.grad = torch.arange(16.0).reshape(4, 4) / 8
            step()
        return weight.detach()

    found = weights(lambda optimizer: compiled(optimizer.step))
    assert torch.equal(found, weights(lambda optimizer: optimizer.step))


class Writing(nn.Module):
    """A module that calls a step which reads and writes the module's buffer `state`."""

    def __init__(self, step: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self.layer, self.step = nn.Linear(4, 4), step
        self.register_buffer("state", torch.tensor([0.5, 1.0, 1.5, 2.0]))

    def forward(self, x: Any) -> Any:
        return self.step(self, x)


def write_before(model: Any, x: Any) -> Any:
    model.state.add_(1)
    return model.layer(x) * model.state


def write_behind(model: Any, x: Any) -> Any:
    result = model.layer(x) * model.state.view(2, 2).t().flatten().exp()
    model.state.mul_(2)
    return result


def write_parameter(model: Any, x: Any) -> Any:
    with torch.no_grad():
        model.layer.weight.mul_(0.5)
    return model.layer(model.layer(x))


def write_averages(model: Any, x: Any) -> Any:
    moved = model.layer(x)
    distance = (moved - model.state.clone()).square()
    model.state.lerp_(moved.detach().mean(0), 0.1)
    return distance


@pytest.mark.parametrize("step", [write_before, write_behind, write_parameter, write_averages])
def test_gradients_use_the_values_before_a_write(step: Any) -> None:
    model = Writing(step)
    other = copy.deepcopy(model)
    function = compiled(other, fullgraph=True)
    for number in range(2):
        x = torch.linspace(-1, 1 + number, 12).reshape(3, 4)
        found, expected = function(x), model(x)
        found.sum().backward()
        expected.sum().backward()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(other.state, model.state)
        for a, b in zip(other.parameters(), model.parameters(), strict=True):
            torch.testing.assert_close(a.grad, b.grad)


def test_recomputation_of_written_values_is_refused() -> None:
    def checkpointed(model: Any, x: Any) -> Any:
        result = torch.utils.checkpoint.checkpoint(lambda x: model.layer(x) * model.state.exp(), x, use_reentrant=False)
        model.state.mul_(2)
        return result

    with pytest.raises(BackendCompilerFailed, match="the backward pass reads an argument or buffer as it was before"):
        compiled(Writing(checkpointed), fullgraph=True)(torch.ones(3, 4))
    # Recomputing a batch normalization in the backward pass must not update its running averages again.
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.BatchNorm1d(4), nn.Tanh())
    other, x = copy.deepcopy(model), torch.linspace(-1, 1, 12).reshape(3, 4).sin()
    layers = compiled(lambda x: torch.utils.checkpoint.checkpoint(other, x, use_reentrant=False), fullgraph=True)
    for found in (layers(x), model(x)):
        found.square().sum().backward()
    for a, b in zip(other.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(a.grad, b.grad, atol=1e-3, rtol=1e-3)


def test_a_failed_check_writes_nothing() -> None:
    def function(x: Any, y: Any, count: Any) -> Any:
        count.add_(1)
        return F.cross_entropy(x, y)

    run, count = compiled(function, fullgraph=True), torch.zeros(3)
    with pytest.raises(repro_mlir.base.errors.StepFailed):
        run(torch.zeros(2, 3), torch.tensor([0, 3]), count)
    assert count.tolist() == [0, 0, 0]
    run(torch.zeros(2, 3), torch.tensor([0, 2]), count)
    assert count.tolist() == [1, 1, 1]


@pytest.mark.parametrize("target", ["cpu", "reference"])
def test_arguments_that_share_written_memory_are_refused(target: str) -> None:
    """torch.compile checks only at the first call whether arguments share memory. In later calls, a program would read
    old values of shared memory, so the program refuses arguments that share memory."""

    def function(x: Any, y: Any) -> Any:
        x.mul_(2)
        return x + y

    run, base = compiled(function, target=target, fullgraph=True), torch.arange(12.0)
    assert run(base[:4], base[4:8]).tolist() == [4, 7, 10, 13]
    for other in (base[:4], base[3:7]):
        with pytest.raises(ReproError, match=r"of shapes \[4\] and \[4\], share memory that it writes"):
            run(base[:4], other)
    # Two arguments that are only read may share memory.
    assert run(torch.zeros(4), base[8:]).tolist() == [8, 9, 10, 11]
    torch._dynamo.reset()
    assert run(base[8:], base[8:]).tolist() == [32, 36, 40, 44]
    # Two arguments whose elements alternate in memory.
    torch._dynamo.reset()
    pairs = torch.arange(8.0).reshape(2, 4)
    run(torch.zeros(2, 4)[:, ::2], torch.zeros(2, 4)[:, ::2])
    assert run(pairs[:, ::2], pairs[:, 1::2]).tolist() == [[1, 7], [13, 19]]


def test_memory_of_released_large_results_is_reused() -> None:
    run, x = compiled(lambda x: x.t() * 2, fullgraph=True), torch.ones(4096, 2049)
    first, second = run(x), run(2 * x)
    assert first.stride() == (1, 2049) and not first._is_view()
    assert first.mean().item() == 2 and second.mean().item() == 4
    places, part = [first.data_ptr(), second.data_ptr()], first[5:]
    del first, second
    third = run(3 * x)
    assert third.data_ptr() == places[1] and part.mean().item() == 2 and third.mean().item() == 6
    del part
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    assert run(x).data_ptr() == places[0] and third.mean().item() == 6
    # A page fault for each of the 8196 pages would show that the memory comes from the system instead of the released
    # result.
    assert resource.getrusage(resource.RUSAGE_SELF).ru_minflt < before + 2000


def test_memory_of_several_large_results_is_used_again() -> None:
    """Reused memory still contains the former results; new memory from the system would contain zeros."""
    from repro_mlir.frontends.torch.objects.large_results import empty

    for step in range(3):
        made = [empty(((rows, 1024), (1024, 1), torch.float32), rows << 12) for rows in (8192, 8193, 8192)]
        assert len({each.data_ptr() for each in made}) == 3
        assert step == 0 or [each[-1, -1].item() for each in made] == [7, 7, 7]
        for each in made:
            each[-1, -1] = 7
        del made, each


def test_a_model_that_shares_a_weight() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding, self.head = nn.Embedding(9, 6), nn.Linear(6, 9, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, x: Any) -> Any:
            return self.head(self.embedding(x).tanh())

    model, x = Tied(), torch.arange(8).reshape(2, 4)
    loss, grads, _ = gradients(model, x, square)
    ours, found, _ = gradients(model, x, compiled(square, fullgraph=True))
    torch.testing.assert_close([ours, *found], [loss, *grads])


@pytest.mark.parametrize("context", [torch.no_grad, torch.inference_mode])
def test_inference(context: Any) -> None:
    model, x = nn.Sequential(nn.Linear(4, 3), nn.Dropout(0.5), nn.Softmax(-1)).eval(), torch.randn(2, 4)
    run = compiled(model, fullgraph=True)
    with context():
        y = run(x)
        torch.testing.assert_close(y, model(x))
    assert not y.requires_grad and y.is_inference() == (context is torch.inference_mode)
    # Calls with gradients return the same values.
    assert same_bits(run(x), y)


def test_gradients_are_added() -> None:
    model = nn.Linear(4, 3)
    run = compiled(square)
    expected = copy.deepcopy(model)
    for _ in range(3):
        x = torch.randn(2, 4)
        run(model, x).backward()
        square(expected, x).backward()
    torch.testing.assert_close(model.weight.grad, expected.weight.grad)


def test_gradients_of_results_whose_elements_overlap() -> None:
    x = torch.zeros(4, requires_grad=True)
    compiled(lambda x: (x * 2).unfold(0, 2, 1), fullgraph=True)(x).backward(torch.arange(6.0).reshape(3, 2))
    assert x.grad.tolist() == [0, 6, 14, 10]


def test_some_gradients_only() -> None:
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2))
    model[0].requires_grad_(False)
    run = compiled(square)
    x = torch.randn(5, 4, requires_grad=True)
    run(model, x).backward()
    expected = torch.autograd.grad(square(model, x), [x, model[1].weight])
    assert model[0].weight.grad is None
    torch.testing.assert_close([x.grad, model[1].weight.grad], [*expected])
    # A parameter that is unfrozen after the compilation gets a gradient.
    model[0].requires_grad_(True)
    run(model, x).backward()
    torch.testing.assert_close(model[0].weight.grad, torch.autograd.grad(square(model, x), model[0].weight)[0])


def test_checkpointed_layers() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.ReLU(), nn.Linear(8, 4))
    x = torch.randn(5, 4, requires_grad=True)

    def plain(x: Any) -> Any:
        return model(x).square().sum()

    def checkpointed(x: Any) -> Any:
        return torch.utils.checkpoint.checkpoint(model, x, use_reentrant=False).square().sum()

    results = []
    for function in (plain, checkpointed):
        torch._dynamo.reset()
        x.grad = None
        loss = compiled(function, seed=1, fullgraph=True)(x)
        loss.backward()
        results.append((loss.detach(), x.grad.clone()))
    assert same_bits(results[0][0], results[1][0]) and same_bits(results[0][1], results[1][1])


def test_autocast() -> None:
    model, x = nn.Linear(8, 8), torch.randn(4, 8)

    def function(x: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return model(x)

    found = []
    for target in ("cpu", "cpu:x86-64-v2", "reference"):
        torch._dynamo.reset()
        y = compiled(function, target=target, fullgraph=True)(x)
        assert y.dtype is torch.bfloat16
        torch.testing.assert_close(y, function(x))
        found.append(y.detach().view(torch.int16))
    assert torch.equal(found[0], found[1]) and torch.equal(found[0], found[2])


def test_subnormals_infinities_nans_and_signed_zeros() -> None:
    x = torch.tensor([1e-40, -1e-45, math.inf, -math.inf, math.nan, -0.0, 0.0, 3e38])
    found = []
    for target in ("cpu", "cpu:x86-64-v2", "reference", "ptx-emulator"):
        torch._dynamo.reset()
        run = compiled(lambda x: (x * 0.5, x + x, -x, x.exp(), x.clamp(-1, 1)), target=target, fullgraph=True)
        found.append(np.stack([each.numpy() for each in run(x)]).view(np.int32).tolist())
    assert found[1:] == found[:1] * 3
    assert found[0][0][0] != 0 and found[0][2][6] == -(2**31)


# --- Random numbers ---


def test_R1_random_numbers_follow_the_generator() -> None:
    run = compiled(lambda x: F.dropout(x, 0.5) + torch.randn_like(x), fullgraph=True)
    x = torch.ones(50)
    torch.manual_seed(5)
    first, second = run(x), run(x)
    torch.manual_seed(5)
    assert same_bits(run(x), first) and same_bits(run(x), second) and not same_bits(first, second)
    with torch.random.fork_rng(devices=[]):
        third = run(x)
    assert same_bits(run(x), third)


def test_R1_the_gradient_has_the_mask_of_the_forward() -> None:
    run = compiled(lambda x: F.dropout(x, 0.5), fullgraph=True)
    x = torch.ones(100, requires_grad=True)
    for _ in range(3):
        x.grad = None
        y = run(x)
        y.sum().backward()
        assert torch.equal(x.grad, y.detach())


# --- Rejected functions and messages ---


def test_a_division_is_a_warning_with_the_line() -> None:
    def function(x: Any) -> Any:
        y = x * 2
        torch._dynamo.graph_break()
        return y + 1

    with pytest.warns(RuntimeWarning, match=r"test_backend\.py:\d+: torch\.compile breaks the graph here"):
        y = compiled(function)(torch.ones(3))
    assert torch.equal(y, torch.full((3,), 3.0))
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.Unsupported):
        compiled(function, fullgraph=True)(torch.ones(3))


def test_whole_functions_do_not_warn() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        compiled(lambda x: x * 2)(torch.ones(3))


def test_errors_of_a_capture_name_the_line() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.eigvalsh(x)

    with pytest.raises(BackendCompilerFailed, match=r"test_backend\.py:\d+: operator aten\._linalg_eigh is not"):
        compiled(function)(torch.eye(4))
    with pytest.raises(BackendCompilerFailed, match=r"expected one of the element types .*, got float8_e5m2fnuz"):
        compiled(lambda x: x.clone())(torch.ones(4).to(torch.float8_e5m2fnuz))


def test_refused_functions_are_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused function is traced a second time only if it selects elements by a mask. All other errors are final."""
    traced = unittest.mock.Mock(side_effect=torch_internals.aot_module_simplified)
    monkeypatch.setattr(torch_internals, "aot_module_simplified", traced)
    with pytest.raises(BackendCompilerFailed):
        compiled(torch.linalg.eigvalsh)(torch.eye(4))
    traced.assert_called_once()


def test_refusals_of_a_composition_have_one_line() -> None:
    with pytest.raises(BackendCompilerFailed) as caught:
        compiled(lambda x: F.interpolate(x, size=3, mode="linear"))(torch.zeros(1, 2, 4, dtype=torch.uint8))
    assert re.fullmatch(r"test_backend\.py:\d+: linear interpolation of uint8, .*", str(caught.value.inner_exception))


def test_unsigned_integers() -> None:
    """Results have PyTorch's unsigned types, also if they are transposed, have an offset, or are in the memory of an
    argument."""

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        y = x + 200
        x.mul_(3)
        return [y, y.t(), y[1:], x > 100, x.float() / 255, y.to(torch.uint16), x]

    x = torch.arange(0, 240, 10, dtype=torch.uint8).reshape(4, 6)
    given, own = x.clone(), x.clone()
    for found, expected in zip(compiled(function, fullgraph=True)(given), function(own), strict=True):
        assert found.dtype is expected.dtype and found.stride() == expected.stride()
        assert torch.equal(found, expected)
    assert torch.equal(given, own)


@torch._dynamo.config.patch(capture_scalar_outputs=True)
def test_numbers_that_depend_on_values_are_not_results() -> None:
    def function(x: Any) -> Any:
        return x.item(), x * 2

    value = torch.tensor(3)
    with pytest.raises(BackendCompilerFailed, match="a result is a number that depends on tensor values"):
        compiled(function, fullgraph=True)(value)
    with pytest.warns(RuntimeWarning, match="PyTorch runs a graph"):
        assert compiled(function, fallback="eager")(value) == (3, torch.tensor(6))
    # A float argument is a tensor in Dynamo's graph, unlike an integer.
    assert compiled(function, fullgraph=True)(torch.tensor(4.5)) == (4.5, torch.tensor(9.0))


def test_operators_with_graphs_of_their_own() -> None:
    while_loop = torch._higher_order_ops.while_loop
    run = compiled(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,)), fullgraph=True)
    for x in (torch.ones(3), -torch.ones(3)):
        torch.testing.assert_close(run(x), torch.sin(x) if x.sum() > 0 else torch.cos(x))
    torch._dynamo.reset()
    with pytest.raises(BackendCompilerFailed, match="while_loop"):
        compiled(lambda x: while_loop(lambda x: x.sum() < 9, lambda x: (x + 1,), (x,)), fullgraph=True)(torch.ones(3))


def test_fallback_to_eager_says_so() -> None:
    def function(x: Any) -> Any:
        return torch.linalg.matrix_exp(x.reshape(2, 2))

    run = compiled(function, fallback="eager")
    x = torch.arange(4.0, requires_grad=True)
    with pytest.warns(RuntimeWarning, match="PyTorch runs a graph, so its bits are not defined: .*matrix_exp"):
        y = run(x)
    torch.testing.assert_close(y, function(x))
    y.sum().backward()
    assert x.grad is not None


def test_a_failed_check_raises() -> None:
    run = compiled(lambda x, y: F.cross_entropy(x, y), fullgraph=True)
    with pytest.raises(repro_mlir.base.errors.StepFailed):
        run(torch.zeros(2, 3), torch.tensor([0, 3]))
    assert run(torch.zeros(2, 3), torch.tensor([0, 2])).item() == pytest.approx(math.log(3))


@pytest.mark.parametrize("target", ["cpu", "reference"])
@pytest.mark.parametrize("form", ["with a message", "without", "beside random numbers"])
def test_assertions_on_values_are_checks_of_the_step(form: str, target: str) -> None:
    """Calls the operator into which Dynamo converts an `assert`. An `assert` in this file would be rewritten by
    pytest."""

    def function(x: Any) -> Any:
        if form == "without":
            torch._assert_async(x.sum() > 0)
        else:
            torch._assert_async(x.sum(), "expected a sum above zero")
        return F.dropout(x, 0.5) if form == "beside random numbers" else x * 2

    run = compiled(function, target=target, fullgraph=True)
    for gradient in (False, True):
        x = torch.zeros(3, requires_grad=gradient)
        message = "an assertion failed" if form == "without" else "expected a sum above zero"
        with pytest.raises(repro_mlir.base.errors.StepFailed, match=rf"test_backend\.py:\d+.*: {message}"):
            run(x)
        assert run(x + 1).shape == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"target": "abacus"}, "unknown target 'abacus'"),
        ({"fallback": "silent"}, "expected fallback 'error' or 'eager', got 'silent'"),
        ({"seed": 1.5}, "expected a whole number of 64 bits as seed, got 1.5"),
    ],
)
def test_options_are_checked_at_once(options: Any, message: str) -> None:
    with pytest.raises(ReproError, match=message):
        repro_mlir.backend(**options)


def test_wrapped_in_data_parallel_is_refused(tmp_path: Path) -> None:
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        # The wrapped module must be a class of our own: Dynamo runs a torch.nn module in eager mode if another PyTorch
        # module, here DistributedDataParallel, calls it.
        model = nn.parallel.DistributedDataParallel(Attention())
        with pytest.raises(BackendCompilerFailed, match="wrapped in DistributedDataParallel"):
            compiled(model)(torch.ones(2, 3, 16))
    finally:
        torch.distributed.destroy_process_group()


def test_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Finds the backend by its name, through the entry point that `make build` adds to the environment."""
    build = runpy.run_path(str(Path(__file__).parents[3] / "tools" / "build.py"))
    build["publish"](tmp_path, tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    for cached in ("_lazy_import", "_discover_entrypoint_backends"):
        getattr(torch._dynamo.backends.registry, cached).cache_clear()
    assert "repro_mlir" in torch._dynamo.list_backends()
    run = torch.compile(lambda x: x.exp(), backend="repro_mlir", options={"target": "reference"})
    x = torch.linspace(-1, 1, 5)
    assert same_bits(run(x), compiled(lambda x: x.exp())(x))
    torch._dynamo.reset()
    with pytest.raises(BackendCompilerFailed, match=r"expected options among target, .* got 'level'"):
        torch.compile(lambda x: x + 1, backend="repro_mlir", options={"level": 3})(x)
    torch._dynamo.reset()
    with pytest.raises(BackendCompilerFailed, match=r"expected no mode, got 'max-autotune': .* leave it out"):
        torch.compile(lambda x: x + 1, backend="repro_mlir", mode="max-autotune")(x)
    torch._dynamo.reset()
    # If a backend is given by name, each graph gets its own backend, which counts calls from zero. With one seed, all
    # graphs would draw equal random numbers.
    with pytest.raises(BackendCompilerFailed, match=r"by name takes no seed: .*backend\(seed="):
        torch.compile(F.dropout, backend="repro_mlir", options={"seed": 3})(x)
