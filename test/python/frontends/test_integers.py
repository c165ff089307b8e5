# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Integer operators at the extremes of every type: every target returns eager PyTorch's values, and no program uses
floats."""

import re
from collections.abc import Callable

import pytest
import repro_mlir
import torch

BIG = 2**53 + 1
TYPES = (torch.int8, torch.int16, torch.int32, torch.int64)
TARGETS = ("reference", "cpu")
Function = Callable[..., torch.Tensor]


class _Module(torch.nn.Module):
    def __init__(self, functions: list[Function]) -> None:
        super().__init__()
        self.functions = functions

    def forward(self, *values: torch.Tensor) -> list[torch.Tensor]:
        return [function(*values) for function in self.functions]


def extremes(kind: torch.dtype) -> torch.Tensor:
    low, high = torch.iinfo(kind).min, torch.iinfo(kind).max
    found = {low, low + 1, low // 2, -(high // 3), -7, -2, -1, 0, 1, 2, 3, 7, high // 3, high // 2 + 1, high - 1, high}
    if kind is torch.int64:
        found |= {BIG, -BIG, BIG + 2, 3 * 2**53 + 1, 2**62 + 1, 0x3FF0000000000001}
    if kind is torch.int32:
        found |= {2**24 + 1, -(2**24) - 1}
    return torch.tensor(sorted(found), dtype=kind)


def pairs(kind: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    values = extremes(kind)
    return values.repeat_interleave(len(values)), values.repeat(len(values))


def check(functions: dict[str, Function], *arguments: torch.Tensor) -> None:
    """Checks that all targets return the values of eager PyTorch, and that the program converts no value to a float."""
    program = repro_mlir.capture(_Module(list(functions.values())), arguments)
    assert not re.search(r"\bf(16|32|64)\b", program.text)
    wanted = [function(*arguments) for function in functions.values()]
    for target in TARGETS:
        _, outputs = repro_mlir.compile(program, target, 1)({}, *arguments)
        for name, got, want in zip(functions, outputs.values(), wanted, strict=True):
            assert got.dtype == want.dtype and torch.equal(got, want), (target, name)


DIVISIONS: dict[str, Function] = {
    "//": lambda x, y: x // y,
    "div floor": lambda x, y: torch.div(x, y, rounding_mode="floor"),
    "div trunc": lambda x, y: torch.div(x, y, rounding_mode="trunc"),
    "%": lambda x, y: x % y,
    "fmod": torch.fmod,
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_I1_divisions(kind: torch.dtype) -> None:
    x, y = pairs(kind)
    # For a divisor of 0 and for the least integer divided by -1, PyTorch raises an error or the processor traps.
    defined = (y != 0) & ~((x == torch.iinfo(kind).min) & (y == -1))
    check(DIVISIONS, x[defined], y[defined])


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_I1_divisions_that_pytorch_does_not_define(kind: torch.dtype) -> None:
    values = extremes(kind)
    least = torch.iinfo(kind).min
    x = torch.cat([values, torch.tensor([least], dtype=kind)])
    y = torch.cat([torch.zeros_like(values), torch.tensor([-1], dtype=kind)])
    program = repro_mlir.capture(_Module(list(DIVISIONS.values())), (x, y))
    quotient = torch.cat([torch.full_like(values, -1), torch.tensor([least], dtype=kind)])
    remainder = torch.cat([values, torch.tensor([0], dtype=kind)])
    for target in TARGETS:
        _, outputs = repro_mlir.compile(program, target, 1)({}, x, y)
        wanted = [quotient] * 3 + [remainder] * 2
        assert all(torch.equal(got, want) for got, want in zip(outputs.values(), wanted, strict=True)), target


PAIRS: dict[str, Function] = {
    "add alpha": lambda x, y: torch.add(x, y, alpha=3),
    "mul": torch.mul,
    "neg": lambda x, y: -x - y,
    "abs": lambda x, y: x.abs() + y.sign(),
    "maximum": torch.maximum,
    "minimum": torch.minimum,
    "clamp": lambda x, y: x.clamp(min=y),
    "less": torch.lt,
    "equal": torch.eq,
    "shift left": lambda x, y: x << (y & 127),
    "shift right": lambda x, y: x >> (y & 127),
    "or": lambda x, y: (x | 3) ^ (y & 5),
    "reversed": lambda x, y: (100 // (x | 1)) + (100 % (y | 1)),
    "with numbers": lambda x, y: x // 7 + y // -7 + x % -7 + torch.fmod(y, 7),
    "powers": lambda x, y: x**2 + y**3 + x**10 + y**0,
    "power": torch.pow,
    "power of a number": lambda x, y: torch.pow(3, y.abs() & 63),
    "sort": lambda x, y: y.sort(stable=True).values,
    "greatest": lambda x, y: torch.stack([x, y]).max(0).values,
    "index of the greatest": lambda x, y: torch.stack([x, y]).argmax(0),
    "mixed types": lambda x, y: torch.maximum(x, y.to(torch.int8)),
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_pairs_of_extremes(kind: torch.dtype) -> None:
    x, y = pairs(kind)
    # 0 to a negative power makes PyTorch divide by zero.
    defined = ~((x == 0) & (y < 0))
    check(PAIRS, x[defined], y[defined])


ALL: dict[str, Function] = {
    "sum": lambda x: x.sum(),
    "prod": lambda x: (x | 1).prod(),
    "cumsum": lambda x: x.cumsum(0),
    "cumprod": lambda x: (x | 1).cumprod(0),
    "topk": lambda x: x.topk(5).values,
    "argmin": torch.argmin,
    "max": torch.max,
    "number": lambda x: (x - 1) * 3 - 300,
    "searchsorted": lambda x: torch.searchsorted(x, x.flip(0)),
    "isin": lambda x: torch.isin(x, x[3:6]),
    "i8": lambda x: x.to(torch.int8),
    "i16": lambda x: x.to(torch.int16),
    "i32": lambda x: x.to(torch.int32),
    "i64": lambda x: x.to(torch.int64),
    "i1": lambda x: x.to(torch.bool),
    "scatter mean": lambda x: torch.zeros(8, dtype=x.dtype).scatter_reduce(0, (x & 7).long(), x, "mean"),
}


@pytest.mark.parametrize("kind", TYPES, ids=str)
def test_tensors_of_extremes(kind: torch.dtype) -> None:
    functions = ALL
    if kind is torch.int8:
        # PyTorch counts the elements of each mean in the type of the result. In i8, the counts overflow.
        functions = {name: function for name, function in ALL.items() if name != "scatter mean"}
    check(functions, extremes(kind))


NUMBERS: dict[str, Function] = {
    "add": lambda x: x + BIG,
    "sub": lambda x: BIG - x,
    "mul": lambda x: x * BIG,
    "//": lambda x: x // BIG,
    "%": lambda x: x % -BIG,
    "fmod": lambda x: torch.fmod(x, BIG),
    "alpha": lambda x: torch.add(x, x, alpha=BIG),
    "addcmul": lambda x: torch.addcmul(x, x, x, value=BIG),
    "clamp": lambda x: x.clamp(-BIG, BIG),
    "compare": lambda x: (x < BIG) ^ (x == -BIG) ^ (x >= 2**62 + 1),
    "or": lambda x: x | BIG,
    "where": lambda x: torch.where(x > 0, x, BIG),
    "masked_fill": lambda x: x.masked_fill(x > 0, BIG),
    "full": lambda x: torch.full((4,), BIG) - x[:1],
    "fill": lambda x: x.clone().fill_(BIG),
    "constant": lambda x: x + torch.tensor([BIG]),
    "arange": lambda x: torch.arange(BIG, BIG + 9, 2) + x[0],
    "bucketize": lambda x: torch.bucketize(x, torch.tensor([-BIG, 0, 2**53, BIG]), right=True),
    "linspace": lambda x: torch.linspace(-BIG, 2**40 + 1, 5, dtype=torch.int64),
    "isin": lambda x: torch.isin(x, torch.tensor([BIG, 0, -1])),
    "pad": lambda x: torch.nn.functional.pad(x, (1, 1), value=BIG),
    "threshold": lambda x: torch.nn.functional.threshold(x, 2**53, BIG),
}


def test_numbers_beyond_2_to_53() -> None:
    check(NUMBERS, extremes(torch.int64))


def test_numbers_out_of_the_range_of_a_type() -> None:
    for kind in (torch.int8, torch.int16, torch.int32):
        beyond = torch.iinfo(kind).max + 45
        functions: dict[str, Function] = {
            "less": lambda x, beyond=beyond: x < beyond,
            "equal": lambda x, beyond=beyond: x == beyond,
            "not equal": lambda x, beyond=beyond: x != -beyond,
            "not less": lambda x, beyond=beyond: x >= -8 * beyond,
            "truth": lambda x, beyond=beyond: torch.logical_and(x, torch.tensor(2 * beyond - 88)),
        }
        check(functions, extremes(kind))
        with pytest.raises(repro_mlir.ReproError, match=rf"expected a bound within the range of {kind}, got {beyond}"):
            repro_mlir.capture(_Module([lambda x, beyond=beyond: x.clamp(0, beyond)]), (extremes(kind),))


def _masked(x: torch.Tensor) -> torch.Tensor:
    x = x.clone()
    x[x > 1] = 300
    return x


OVERFLOWS: dict[str, Function] = {
    "full": lambda x: x + torch.full((2, 1), 300, dtype=x.dtype),
    "full_like": lambda x: torch.full_like(x, 300),
    "new_full": lambda x: x + x.new_full((2, 1), 300.0),
    "scalar_tensor": lambda x: torch.where(x > 1, x, 300),
    "fill_": lambda x: x.clone().fill_(300),
    "masked_fill": lambda x: x.masked_fill(x > 1, 300),
    "masked_fill_": _masked,
    "index_fill": lambda x: x.index_fill(0, torch.tensor([0]), 300),
    "scatter": lambda x: x.scatter(0, torch.tensor([0]), 300),
    "constant_pad_nd": lambda x: torch.nn.functional.pad(x, (1, 0), value=300),
}


@pytest.mark.parametrize("name", OVERFLOWS)
def test_numbers_that_do_not_fit_are_refused_as_by_pytorch(name: str) -> None:
    kind = torch.uint8 if len(name) % 2 else torch.int8
    x = torch.arange(4, dtype=kind)
    with pytest.raises(RuntimeError, match="without overflow"):
        OVERFLOWS[name](x)
    with pytest.raises(repro_mlir.ReproError, match=rf"test_integers.py:\d+: aten.{name}.*range of {kind}, got 300"):
        repro_mlir.capture(_Module([OVERFLOWS[name]]), (x,))


def test_a_bound_that_is_an_open_size() -> None:
    model = _Module([lambda x: x.clamp(0, x.shape[0])])
    x = torch.arange(6).reshape(2, 3)
    program = repro_mlir.capture(model, (x,), dynamic_shapes=[{0: torch.export.Dim.AUTO}])
    step = repro_mlir.compile(program, "cpu")
    for rows in (2, 5):
        values = torch.arange(3 * rows).reshape(rows, 3)
        (got,) = step({}, values)[1].values()
        assert torch.equal(got, model(values)[0])


def test_float_bounds_and_exponents_of_integers() -> None:
    x = extremes(torch.int32)
    functions: list[Function] = [lambda x: x.clamp(-2.5, 2.5), lambda x: (x & 15) ** 0.5]
    program = repro_mlir.capture(_Module(functions), (x,))
    _, outputs = repro_mlir.compile(program, "reference")({}, x)
    for got, function in zip(outputs.values(), functions, strict=True):
        torch.testing.assert_close(got, function(x), rtol=1e-6, atol=0)
