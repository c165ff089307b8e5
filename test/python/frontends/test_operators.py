# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Compares decompositions with eager PyTorch: special values must be equal, other values equal up to rounding."""

import math

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from repro_mlir.frontends.torch import CaptureError
from repro_mlir.frontends.torch.lower.lowering import lower
from support.tracing import trace

SPECIAL = torch.tensor([math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.5, 1e-40, -3e38, 0.1, 7.25])
PAIRS = (SPECIAL.repeat_interleave(len(SPECIAL)), SPECIAL.repeat(len(SPECIAL)))


def _results(function, *arguments: torch.Tensor) -> list[torch.Tensor]:
    graph = trace(lambda *values: [function(*values)], list(arguments))
    return graph(*arguments)


def test_a_scalar_has_a_dimension_to_squeeze() -> None:
    (got,) = _results(lambda x: x.squeeze(0).squeeze(-1), torch.tensor(2.0))
    assert got.shape == () and got == 2.0


def test_the_gelu_of_a_tanh_has_all_digits_of_its_constant() -> None:
    x = torch.linspace(-6, 6, 1001)
    program = repro_mlir.capture(_TanhGelu(), (x,))
    executable = repro_mlir.compile(program, "reference")
    (got,) = executable(program.initial_state(), x)[1].values()
    expected = F.gelu(x.double(), approximate="tanh")
    torch.testing.assert_close(torch.as_tensor(got).double(), expected, rtol=0, atol=1e-6)


def test_indices_of_32_bits() -> None:
    class Model(torch.nn.Module):
        def forward(self, x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return x[i, :, i], x[:, i]

    x, i = torch.arange(24.0).reshape(2, 3, 4), torch.tensor([1, 0], dtype=torch.int32)
    program = repro_mlir.capture(Model(), (x, i))
    found = repro_mlir.compile(program, "reference")({}, x, i)[1].values()
    for got, want in zip(found, Model()(x, i), strict=True):
        torch.testing.assert_close(torch.as_tensor(got), want, rtol=0, atol=0)


class _TanhGelu(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x, approximate="tanh")


@pytest.mark.parametrize(
    "function",
    [
        lambda x: x.clamp(-1, 1),
        lambda x: x.clamp(min=0.1),
        lambda x: x.clamp(max=-0.5),
        lambda x: F.hardtanh(x),
        lambda x: F.relu6(x),
        lambda x: torch.isinf(x),
        lambda x: torch.isfinite(x),
        lambda x: x == 0.1,
        lambda x: x < 0.1,
        lambda x: x >= 0.1,
        lambda x: torch.sign(x),
        lambda x: torch.sgn(x),
        lambda x: torch.logical_not(x),
        lambda x: torch.fmod(x, 0.7),
        lambda x: x**2,
        lambda x: x**0.5,
        lambda x: x**3,
        lambda x: x**-1,
        lambda x: F.elu(x),
        lambda x: torch.nan_to_num(x),
        lambda x: x.angle(),
    ],
)
def test_special_values(function) -> None:
    (got,) = _results(function, SPECIAL)
    torch.testing.assert_close(got, function(SPECIAL), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize(
    "function",
    [
        torch.fmax,
        torch.fmin,
        torch.maximum,
        torch.minimum,
        torch.fmod,
        torch.logical_and,
        torch.logical_or,
        torch.logical_xor,
        lambda x, y: x.clamp(min=y),
    ],
)
def test_special_pairs(function) -> None:
    (got,) = _results(function, *PAIRS)
    torch.testing.assert_close(got, function(*PAIRS), rtol=0, atol=0, equal_nan=True)


def test_V4_copysign_and_signbit_read_the_sign_of_nan_as_plus() -> None:
    x, y = PAIRS
    keep = ~torch.isnan(y)
    (got,) = _results(torch.copysign, x, y)
    want = torch.copysign(x, y)
    torch.testing.assert_close(got[keep], want[keep], rtol=0, atol=0, equal_nan=True)
    assert torch.equal(1 / got[keep & (x == 0)], 1 / want[keep & (x == 0)])
    (got,) = _results(torch.signbit, SPECIAL)
    assert got.tolist() == [False, *torch.signbit(SPECIAL)[1:].tolist()]


def test_sign_of_zero_of_fmod() -> None:
    (got,) = _results(torch.fmod, torch.tensor([-4.0, 4.0, -0.0, 0.0]), torch.full([4], 2.0))
    assert torch.signbit(got).tolist() == [True, False, True, False]


def test_integer_clamp_keeps_large_values() -> None:
    x = torch.tensor([2**62 + 1, -5, 7])
    assert _results(lambda x: x.clamp(min=0), x)[0].tolist() == [2**62 + 1, 0, 7]


def test_variance_has_no_f64() -> None:
    x = torch.randn(4, 7)
    graph = trace(lambda x: [x.var(1), x.std(), *torch.var_mean(x, 0, correction=0)], [x])
    assert not any(
        isinstance(n.meta.get("val"), torch.Tensor) and n.meta["val"].dtype == torch.float64 for n in graph.graph.nodes
    )
    for got, want in zip(graph(x), [x.var(1), x.std(), *torch.var_mean(x, 0, correction=0)], strict=True):
        torch.testing.assert_close(got, want)


def _matrix() -> torch.Tensor:
    torch.manual_seed(0)
    return torch.randn(2, 5, 5) + 3 * torch.eye(5)


@pytest.mark.parametrize(
    "function",
    [
        torch.linalg.inv,
        torch.linalg.det,
        lambda a: torch.linalg.slogdet(a)[1],
        lambda a: torch.linalg.cholesky(a @ a.mT),
        lambda a: torch.linalg.solve(a, a[..., :2] * 2),
        lambda a: torch.linalg.solve_triangular(a, a.mT, upper=True),
        lambda a: torch.linalg.qr(a[..., :3])[1],
        lambda a: torch.cholesky_solve(a, torch.linalg.cholesky(a @ a.mT)),
        lambda a: torch.linalg.lu(a)[2],
    ],
)
def test_linear_algebra(function) -> None:
    def with_gradient(a: torch.Tensor) -> list[torch.Tensor]:
        a = a.detach().requires_grad_()
        result = function(a)
        return [result.detach(), *torch.autograd.grad(result, a, torch.cos(result.detach()))]

    a = _matrix()
    graph = trace(with_gradient, [a])
    for got, want in zip(graph(a), with_gradient(a), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


def test_large_matrices_are_refused() -> None:
    with pytest.raises(CaptureError, match=r"at most 64 rows or columns, got 65"):
        trace(lambda a: [torch.linalg.inv(a)], [torch.eye(65)])


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.cdist(x, x[:3] + 1),
        lambda x: torch.cdist(x, x),
        lambda x: F.pdist(x, 1.0),
        lambda x: torch.cov(x),
        lambda x: torch.corrcoef(x),
        lambda x: F.gaussian_nll_loss(x, x + 1, x * x + 0.1, full=True),
        lambda x: F.embedding_bag(torch.tensor([0, 2, 1, 1]), x, torch.tensor([0, 3])),
        lambda x: F.embedding_bag(torch.tensor([[0, 2], [1, 1]]), x, mode="sum", padding_idx=1),
        lambda x: F.grouped_mm(x, torch.stack([x[:4], x[1:], x[:4]]), offs=torch.tensor([2, 2, 5], dtype=torch.int32)),
        lambda x: F.grid_sample(x.reshape(1, 1, 5, 4), torch.tanh(x[:, :2]).reshape(1, 1, 5, 2), align_corners=False),
        lambda x: x.roll((1, -2), (0, 1)),
        lambda x: torch.diagonal(x, 1),
        lambda x: x.as_strided((3, 2), (2, 5), 1),
        lambda x: torch.logaddexp(x, x.flip(0)),
        lambda x: torch.nanmedian(x, 1)[0],
        lambda x: torch.scatter_reduce(x, 0, torch.tensor([[0, 1, 1, 4]]), x[:1] * 2, "mean"),
        lambda x: torch.renorm(x, 2, 0, 0.5),
        lambda x: torch.searchsorted(x.sort(1)[0].contiguous(), x) * x,
        lambda x: torch.histc(x.detach(), 5, -1, 1) * x.sum(),
        lambda x: (x * 100).logcumsumexp(-1),
        lambda x: (x + 1000).logcumsumexp(0),
    ],
)
def test_functions_with_gradient(function) -> None:
    def with_gradient(x: torch.Tensor) -> list[torch.Tensor]:
        x = x.detach().requires_grad_()
        result = function(x)
        return [result.detach(), *torch.autograd.grad(result, x, torch.cos(result.detach()))]

    torch.manual_seed(0)
    x = torch.randn(5, 4)
    graph = trace(with_gradient, [x])
    for got, want in zip(graph(x), with_gradient(x), strict=True):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    lower(graph, 0, ["x"], ["y", "gradient"])
