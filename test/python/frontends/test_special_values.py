# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Results of operators for NaN, infinities, zeros of both signs, subnormals and large numbers, compared with those of
PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import repro_mlir
import torch
import torch.nn.functional as F
from operator_checks import check, gradients
from torch import nn

_INF, _NAN = float("inf"), float("nan")
VALUES = torch.tensor(
    [float("nan"), _INF, -_INF, -0.0, 0.0, 5.0, -5.0, 0.3, 1e-42, 1e20, -1e20, 2.5, 3.5, -2.5, 2.0**31, 0.5, -0.5]
)

Function = Callable[[torch.Tensor], torch.Tensor]

# Functions of PyTorch whose vector code and scalar loop return zeros of different signs, so that the sign of a zero
# depends on its position in the tensor.
_SIGN_OF_ZERO = {
    "clamp from below",
    "maximum",
    "maximum of bf16",
    "maximum with zero",
    "minimum",
    "relu",
    "relu6",
    "softshrink",
}

FUNCTIONS: dict[str, Function] = {
    "equal to itself": lambda x: (x == x).float(),
    "equal after the same operation": lambda x: ((x * 2) == (x * 2)).float(),
    "unequal to itself": lambda x: (x != x).float(),
    "at most itself": lambda x: (x <= x).float(),
    "below itself": lambda x: (x < x).float(),
    "self-test in where": lambda x: torch.where(x == x, x, 0.0),
    "difference with itself": lambda x: x - x,
    "quotient by itself": lambda x: x / x,
    "times zero": lambda x: x * 0,
    "plus zero": lambda x: x + 0.0,
    "minus zero": lambda x: x - 0.0,
    "zero minus": lambda x: 0 - x,
    "equal to zero": lambda x: (x == 0).float(),
    "clamp": lambda x: x.clamp(-1, 1),
    "clamp from below": lambda x: x.clamp(min=0.0),
    "clamp from above": lambda x: x.clamp(max=1.0),
    "clamp by tensors": lambda x: x.clamp(torch.tensor(-1.0), torch.tensor(1.0)),
    "maximum": lambda x: torch.maximum(x, x.flip(0)),
    "minimum": lambda x: torch.minimum(x, x.flip(0)),
    "maximum of bf16": lambda x: torch.maximum(x.bfloat16(), x.flip(0).bfloat16()).float(),
    "maximum with zero": lambda x: torch.maximum(x, torch.tensor(0.0)),
    "fmax": lambda x: torch.fmax(x, x.flip(0)),
    "fmin": lambda x: torch.fmin(x, x.flip(0)),
    "greatest": lambda x: x.amax(),
    "least": lambda x: x.amin(),
    "place of the greatest": lambda x: x.argmax().float(),
    "pooled": lambda x: F.max_pool1d(x[None, None], 3)[0, 0],
    "sorted": lambda x: x.sort()[0],
    "top": lambda x: x.topk(5)[0],
    "running maximum": lambda x: x.cummax(0)[0],
    "reciprocal": torch.reciprocal,
    "power -1": lambda x: x**-1,
    "power 3": lambda x: x**3,
    "power -1.5": lambda x: x**-1.5,
    "square root": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "sign": torch.sign,
    "copysign": lambda x: torch.copysign(torch.ones_like(x), torch.where(x == x, x, 1.0)),
    "floor": torch.floor,
    "ceil": torch.ceil,
    "round": torch.round,
    "trunc": torch.trunc,
    "frac": torch.frac,
    "remainder": lambda x: torch.remainder(x, 3.0),
    "remainder of a negative divisor": lambda x: x % -3.0,
    "fmod": lambda x: torch.fmod(x, -3.0),
    "floor division": lambda x: x // 3.0,
    "floor division by tensors": lambda x: torch.div(x, x.flip(0), rounding_mode="floor"),
    "floor division by a tenth": lambda x: x // 0.1,
    "truncated division": lambda x: torch.div(x, 3.0, rounding_mode="trunc"),
    "nan_to_num": torch.nan_to_num,
    "isfinite": lambda x: torch.isfinite(x).float(),
    "isclose": lambda x: torch.isclose(x, x.flip(0)).float(),
    "truth": lambda x: x.bool().float(),
    "any": lambda x: x.any().float(),
    "relu": F.relu,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardsigmoid": F.hardsigmoid,
    "hardswish": F.hardswish,
    "leaky relu": F.leaky_relu,
    "elu": F.elu,
    "softplus": F.softplus,
    "softshrink": F.softshrink,
    "hardshrink": F.hardshrink,
    "threshold": lambda x: F.threshold(x, 0.1, 7.0),
    "softmax": lambda x: F.softmax(x, 0),
    "logsumexp": lambda x: torch.logsumexp(x[1:2], 0),
    "logaddexp": lambda x: torch.logaddexp(x, x),
    "logcumsumexp": lambda x: x.flip(0).logcumsumexp(0),
    "logcumsumexp of infinities": lambda x: torch.cat([x[2:3], x[2:3], x[3:6], x[1:2], x[2:3], x[1:2]]).logcumsumexp(0),
    "logcumsumexp of bf16": lambda x: x.flip(0).bfloat16().logcumsumexp(0).float(),
    "gradient of the smooth L1 loss": lambda x: torch.ops.aten.smooth_l1_loss_backward(
        torch.ones_like(x), x, x.flip(0), 0, 0.5
    ),
    "xlogy": lambda x: torch.xlogy(torch.tensor(0.0), x),
    "bf16": lambda x: x.bfloat16().float(),
    "f16": lambda x: x.half().float(),
    "f8E5M2": lambda x: x.to(torch.float8_e5m2).float(),
    "f8E4M3FN": lambda x: x.to(torch.float8_e4m3fn).float(),
    "f8E4M3FN from bf16": lambda x: x.bfloat16().to(torch.float8_e4m3fn).float(),
}


class _All(nn.Module):
    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [function(x) for function in FUNCTIONS.values()]


@pytest.fixture(scope="module")
def results() -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Returns, for the name of each function, our result and PyTorch's. One program computes all of our results."""
    program = repro_mlir.capture(_All(), VALUES)
    _, outputs = repro_mlir.compile(program, "cpu", threads=1)(program.initial_state(), VALUES)
    return dict(zip(FUNCTIONS, zip(outputs.values(), _All()(VALUES), strict=True), strict=True))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_special_values(name: str, results: dict[str, tuple[torch.Tensor, torch.Tensor]]) -> None:
    got, expected = results[name]
    assert got.dtype == expected.dtype
    assert torch.allclose(got, expected, rtol=1e-5, atol=0, equal_nan=True), (got, expected)
    if name not in _SIGN_OF_ZERO:
        zero = expected == 0
        assert torch.equal(torch.signbit(got[zero]), torch.signbit(expected[zero])), (got, expected)


def test_searches_with_nan() -> None:
    x = torch.cat([VALUES, torch.tensor([1.0, 2.0])])
    functions = {
        f"{name} {right}": lambda x, edges=edges, right=right: (
            torch.searchsorted(edges, x, right=right),
            torch.bucketize(x, edges, right=right),
            torch.searchsorted(edges.expand(2, -1).contiguous(), torch.stack([x, x.flip(0)]), right=right),
            torch.searchsorted(edges, _NAN, right=right),
            torch.bucketize(2.0, edges, right=right),
        )
        for name, edges in {
            "numbers": torch.tensor([-0.0, 1.0, 2.0, 5.0]),
            "infinities": torch.tensor([-_INF, 0.3, _INF]),
            "NaN at the end": torch.tensor([-_INF, 0.0, 1.0, _NAN, _NAN]),
            "none": torch.tensor([]),
        }.items()
        for right in (False, True)
    }
    check(functions, x)


def test_mode_with_nan() -> None:
    rows = torch.tensor(
        [[_NAN, 1.0, 1.0, _NAN], [_NAN, 3.0, 2.0, 1.0], [3.0, _NAN, 1.0, _NAN], [_NAN] * 4, [0.0, -0.0, 1.0, 1.0]]
    )
    check({"mode": gradients(lambda x: torch.mode(x, -1)), "index": lambda x: torch.mode(x, 1, True)[1]}, rows)


def test_ldexp_by_a_power_out_of_range() -> None:
    # PyTorch computes the gradient with an integer power of 2, which is 0 for negative exponents and overflows for
    # large ones.
    values, powers = (
        torch.tensor([1e-40, 1e30, 0.0, -0.0, 1.0, _INF, 3e-45]),
        torch.tensor([200, -170, 200, 9, 300, -200, 149]),
    )
    compiled = torch.compile(torch.ldexp, backend=repro_mlir.backend(target="reference"), fullgraph=True)
    given = values.clone().requires_grad_()
    found = compiled(given, powers)
    assert found.tolist() == torch.ldexp(values, powers).tolist()
    found.backward(torch.full((7,), 2.0**-140))
    assert given.grad is not None
    assert given.grad[0].item() == 2.0**60


@pytest.mark.parametrize("padding", ["border", "reflection"])
def test_places_that_are_not_numbers_in_grid_sample(padding: str) -> None:
    places = torch.tensor([[_NAN, 0.25], [0.25, _NAN], [_INF, 0.25], [-_INF, 0.25], [0.5, -0.5]]).reshape(1, 5, 1, 2)
    image = torch.arange(1.0, 13.0).reshape(1, 1, 4, 3)

    def sampled(image: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        volume = F.grid_sample(image.unsqueeze(2), F.pad(places, (0, 1)).unsqueeze(1), "nearest", padding)
        return torch.cat([F.grid_sample(image, places, "bilinear", padding), volume.squeeze(2)])

    compiled = torch.compile(sampled, backend=repro_mlir.backend(target="reference"), fullgraph=True)
    torch.testing.assert_close(compiled(image, places), sampled(image, places))
