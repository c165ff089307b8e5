# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Special functions composed of other functions, compared with mpmath: maximum error in ulps, and special values.

The compositions run in eager mode here, in f64 and f32; the coverage suite checks that targets agree.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from repro_mlir.frontends.torch.lower.lowering import lower
from repro_mlir.frontends.torch.operators.special_functions import DECOMPOSITIONS
from repro_mlir.program import canonicalize
from repro_mlir.program.canonical import to_bytes
from repro_mlir.program.differentiation import differentiate
from repro_mlir.reference.interpreter import Interpreter
from support.tracing import trace

aten = torch.ops.aten
INF, NAN = float("inf"), float("nan")
COUNT = 60


def _geometric(low: float, high: float) -> NDArray[np.float32]:
    return np.geomspace(low, high, COUNT).astype(np.float32)


def _uniform(low: float, high: float) -> NDArray[np.float32]:
    return np.random.default_rng(5).uniform(low, high, COUNT).astype(np.float32)


def _erfc_inverse(q: mp.mpf) -> mp.mpf:
    return mp.findroot(lambda y: mp.log(mp.erfc(y) / q), mp.sqrt(-mp.log(q)))


def _erfinv(x: mp.mpf) -> mp.mpf:
    return mp.erfinv(x) if abs(x) < 0.9 else mp.sign(x) * _erfc_inverse(1 - abs(x))


def _ndtri(p: mp.mpf) -> mp.mpf:
    return -mp.sqrt(2) * _erfc_inverse(2 * p) if p < 0.1 else mp.sqrt(2) * _erfinv(2 * p - 1)


def _erfcx(x: mp.mpf) -> mp.mpf:
    if x < 50:
        return mp.exp(x * x) * mp.erfc(x)
    return 2 / mp.sqrt(mp.pi) * mp.quad(lambda t: mp.exp(-t * t - 2 * x * t), [0, 8 / x, 1])


def _order(order: int) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda x: DECOMPOSITIONS[aten.polygamma.default](order, x)


GAMMA_ARGUMENTS = [_geometric(1e-30, 1e30), _uniform(0.5, 3), _uniform(-20, 0)]
POLYGAMMA_ARGUMENTS = [_geometric(1e-4, 1e4), _uniform(-20, 0)]
BESSEL_ARGUMENTS = [_uniform(-85, 85), _uniform(-9, 9), _geometric(1e-20, 1)]
#: Name, our function, mpmath's function, arguments, and the error bound in ulps (as in docs/reference/functions.md).
ACCURACY: list[tuple[str, Callable[..., Any], Callable[..., Any], list[NDArray[np.float32]], float]] = [
    ("lgamma", DECOMPOSITIONS[aten.lgamma.default], lambda x: mp.re(mp.loggamma(x)), GAMMA_ARGUMENTS, 0.51),
    ("digamma", DECOMPOSITIONS[aten.digamma.default], mp.digamma, GAMMA_ARGUMENTS, 0.51),
    *((f"polygamma{n}", _order(n), lambda x, n=n: mp.polygamma(n, x), POLYGAMMA_ARGUMENTS, 0.51) for n in (1, 2, 3, 4)),
    (
        "erfinv",
        DECOMPOSITIONS[aten.erfinv.default],
        _erfinv,
        [_uniform(-1, 1), 1 - _geometric(2**-24, 0.5), _geometric(1e-30, 1e-3)],
        0.51,
    ),
    ("ndtri", DECOMPOSITIONS[aten.special_ndtri.default], _ndtri, [_geometric(1e-38, 0.4), _uniform(0.6, 1)], 0.51),
    ("i0", DECOMPOSITIONS[aten.i0.default], lambda x: mp.besseli(0, x), BESSEL_ARGUMENTS, 2.2),
    ("i1", DECOMPOSITIONS[aten.special_i1.default], lambda x: mp.besseli(1, x), BESSEL_ARGUMENTS, 2.2),
    (
        "i0e",
        DECOMPOSITIONS[aten.special_i0e.default],
        lambda x: mp.besseli(0, x) * mp.exp(-abs(x)),
        [*BESSEL_ARGUMENTS, _geometric(10, 1e4)],
        1.6,  # includes up to one ulp of PyTorch's exp on some processors
    ),
    (
        "i1e",
        DECOMPOSITIONS[aten.special_i1e.default],
        lambda x: mp.besseli(1, x) * mp.exp(-abs(x)),
        [*BESSEL_ARGUMENTS, _geometric(10, 1e4)],
        1.6,  # includes up to one ulp of PyTorch's exp on some processors
    ),
    (
        "log_ndtr",
        DECOMPOSITIONS[aten.special_log_ndtr.default],
        lambda x: mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(mp.ncdf(x)),
        [_uniform(-40, 12), _uniform(-3, 3)],
        2.2,
    ),
    ("erfcx", DECOMPOSITIONS[aten.special_erfcx.default], _erfcx, [_uniform(-9, 20), _geometric(20, 1e4)], 1.1),
]


@pytest.mark.parametrize(("name", "function", "exact", "arguments", "bound"), ACCURACY, ids=[a[0] for a in ACCURACY])
def test_accuracy(
    name: str,
    function: Callable[..., torch.Tensor],
    exact: Callable[..., Any],
    arguments: list[NDArray[np.float32]],
    bound: float,
) -> None:
    x = np.concatenate(arguments)
    result = function(torch.from_numpy(x)).numpy()
    assert result.dtype == np.float32
    with mp.workdps(25):
        for argument, value in zip(x.tolist(), result.tolist(), strict=True):
            right = exact(mp.mpf(argument))
            unit = float(np.spacing(np.abs(np.float32(right))))
            assert abs(value - right) <= bound * unit, (name, argument, value, float(right))


@pytest.mark.parametrize(
    ("operator", "argument", "right"),
    [
        (aten.lgamma, 1.0, 0.0),
        (aten.lgamma, 2.0, 0.0),
        (aten.lgamma, 0.0, INF),
        (aten.lgamma, -3.0, INF),
        (aten.lgamma, -INF, INF),
        (aten.lgamma, INF, INF),
        (aten.digamma, 0.0, -INF),
        (aten.digamma, -0.0, INF),
        (aten.digamma, -2.0, NAN),
        (aten.digamma, INF, INF),
        (aten.digamma, -INF, NAN),
        (aten.erfinv, 1.0, INF),
        (aten.erfinv, -1.0, -INF),
        (aten.erfinv, -0.0, -0.0),
        (aten.erfinv, 1.5, NAN),
        (aten.special_ndtri, 0.0, -INF),
        (aten.special_ndtri, 1.0, INF),
        (aten.special_ndtri, 0.5, 0.0),
        (aten.special_ndtri, 2.0, NAN),
        (aten.i0, 0.0, 1.0),
        (aten.i0, -INF, INF),
        (aten.special_i0e, INF, 0.0),
        (aten.special_i1, -INF, -INF),
        (aten.special_i1, 0.0, 0.0),
        (aten.special_i1e, -INF, 0.0),
        (aten.special_log_ndtr, INF, 0.0),
        (aten.special_log_ndtr, -INF, -INF),
        (aten.special_log_ndtr, NAN, NAN),
        (aten.special_erfcx, 0.0, 1.0),
        (aten.special_erfcx, INF, 0.0),
        (aten.special_erfcx, -INF, INF),
        *((operator, NAN, NAN) for operator in (aten.lgamma, aten.digamma, aten.erfinv, aten.special_ndtri)),
        *((operator, NAN, NAN) for operator in (aten.i0, aten.special_i0e, aten.special_i1, aten.special_erfcx)),
    ],
    ids=str,
)
def test_special_value(operator: Any, argument: float, right: float) -> None:
    result = DECOMPOSITIONS[operator.default](torch.tensor([argument])).numpy()
    assert np.array_equal(result, np.array([right], np.float32), equal_nan=True), result


def test_poles_of_polygamma() -> None:
    for order in (1, 2, 3, 4):
        x = torch.tensor([0.0, -1.0, INF])
        right = [INF if order % 2 else NAN] * 2 + [0.0]
        assert np.array_equal(_order(order)(x).numpy(), np.array(right, np.float32), equal_nan=True)


def test_other_types_are_left_to_the_default() -> None:
    for operator in (aten.lgamma, aten.i0, aten.erfinv):
        assert DECOMPOSITIONS[operator.default](torch.ones(2, dtype=torch.float64)) is NotImplemented


def test_own_gradients_at_single_points() -> None:
    """Tests gradients at points where a function has a case of its own or changes from one case to another."""

    def functions(x: torch.Tensor) -> list[torch.Tensor]:
        zero, one = x[:2], x[2:]
        return [
            torch.special.erfcx(zero),
            torch.special.log_ndtr(zero),
            torch.special.i1(zero),
            torch.special.i1e(zero),
            torch.sinc(zero),
            torch.erfinv(zero),
            torch.lgamma(one),
            torch.digamma(one),
            torch.logcumsumexp(torch.stack([one[0], one[0], one[1] / 2]), 0),
        ]

    def function(x: torch.Tensor) -> list[torch.Tensor]:
        return [torch.cat([(i + 1.0) * result for i, result in enumerate(functions(x))])]

    x = torch.tensor([0.0, -0.0, 1.0, 2.0])
    weights = torch.linspace(1, 2, 19)
    text = differentiate(lower(trace(function, [x]), 0, ["x"], ["y"]), [0], [0])
    _, got = Interpreter(to_bytes(canonicalize(text))).run(x.numpy(), weights.numpy())
    given = x.clone().requires_grad_()
    (want,) = torch.autograd.grad(function(given), given, weights)
    np.testing.assert_allclose(got, want.numpy(), 1e-5)
