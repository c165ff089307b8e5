# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Writes calls of PyTorch's operators, as text, with unusual parameters and with the values of a random program."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

FLOATS = (torch.float32, torch.float64, torch.bfloat16)
INTEGERS = (torch.int64, torch.int32, torch.int8, torch.uint8)


class Unsuitable(Exception):
    """Raised if an operator accepts none of the available values."""


class Values(Protocol):
    """The values that a program has computed so far.

    Attributes:
      choose: the random generator of the program.
    """

    choose: random.Random

    def take(self, kinds: str = "f", low: int = 0, high: int = 4) -> str:
        """Returns the name of an existing value or of a new input, with `low` to `high` dimensions. `kinds` are the
        element types allowed: f (float), i (integer), b (boolean)."""

    def new(self, like: torch.dtype | None, shape: Sequence[int], values: str = "normal") -> str:
        """Adds an input and returns its name. If `like` is None, its element type is the program's float type."""

    def of(self, name: str) -> torch.Tensor:
        """Returns the value with the given name."""


Write = Callable[[Values], str | list[str]]
"""Writes a call, or alternatives of which one is chosen at random."""
OPERATORS: list[tuple[str, Write, int]] = []
"""The name, the function that writes a call, and the weight of each operator."""


def operator(weight: int = 1) -> Callable[[Write], Write]:
    """Registers a function that writes calls of an operator. `weight` is how often it is chosen, relative to the
    others."""

    def add(write: Write) -> Write:
        OPERATORS.append((write.__name__, write, weight))
        return write

    return add


# --- Choices ---


def dim_of(v: Values, name: str, extra: int = 0) -> int:
    """Returns a random dimension of a value to which `extra` dimensions are added, counted from the end (negative) half
    of the time; for rank 0 it is 0 or -1."""
    rank = max(v.of(name).dim() + extra, 1)
    dim = v.choose.randrange(rank)
    return dim - rank if v.choose.random() < 0.5 else dim


def dims_of(v: Values, name: str) -> list[int]:
    """Returns a random list of distinct dimensions of a value; each is negative half of the time."""
    rank = v.of(name).dim()
    dims = v.choose.sample(range(rank), v.choose.randint(min(1, rank), rank))
    return [dim - rank if v.choose.random() < 0.5 else dim for dim in dims]


def flag(v: Values, chance: float = 0.5) -> bool:
    """Returns True with probability `chance`."""
    return v.choose.random() < chance


def number(v: Values) -> float:
    """Returns a random Python number."""
    return v.choose.choice([0.0, -0.0, 0.5, -1.5, 2.0, 3.0, 1e-3, 7.25])


def broadcast_with(v: Values, name: str, kinds: str = "f") -> str:
    """Returns the name of a value, or of a new input, that broadcasts with the value `name`."""
    value = v.of(name)
    other = v.take(kinds)
    try:
        if torch.broadcast_shapes(v.of(other).shape, value.shape).numel() <= 2000 and flag(v, 0.6):
            return other
    except RuntimeError:
        pass
    shape = [1 if v.choose.random() < 0.25 else extent for extent in value.shape]
    shape = shape[v.choose.randint(0, len(shape)) if flag(v, 0.3) else 0 :]
    if kinds == "b":
        return v.new(torch.bool, shape)
    return v.new(value.dtype if value.dtype != torch.bool else None, shape)


def window(v: Values, rank: int, largest: int = 3) -> str:
    """Returns the text of a window parameter: a number from 1 to `largest`, or a tuple with one for each of `rank`
    dimensions."""
    if flag(v):
        return str(v.choose.randint(1, largest))
    return str(tuple(v.choose.randint(1, largest) for _ in range(rank)))


def image(v: Values, rank: int, channels: int | None = None) -> str:
    """Returns the name of a value, or of a new input, of shape [N, C, ...] with `rank` spatial dimensions."""
    for _ in range(4):
        name = v.take("f", rank + 2, rank + 2)
        shape = v.of(name).shape
        if channels is None or (len(shape) > 1 and shape[1] == channels):
            return name
    spatial = [v.choose.choice([1, 3, 4, 5, 6]) for _ in range(rank)]
    return v.new(None, [v.choose.choice([1, 2]), channels or v.choose.choice([1, 2, 4]), *spatial])


# --- Element by element ---

_FUNCTIONS = (
    "abs acos acosh asin asinh atan atanh ceil cos cosh deg2rad digamma erf erfc erfinv exp exp2 expm1 floor frac "
    "lgamma log log10 log1p log2 neg positive rad2deg reciprocal round rsqrt sgn sigmoid sign sin sinc sinh sqrt "
    "square tan tanh trunc special.log_ndtr special.ndtr special.entr special.i0e logit nan_to_num relu "
    "isnan isinf isfinite isposinf isneginf signbit logical_not"
).split()
_ACTIVATIONS = (
    "celu elu gelu hardshrink hardsigmoid hardswish hardtanh leaky_relu logsigmoid mish relu6 selu silu softplus "
    "softshrink softsign tanhshrink"
).split()


@operator(8)
def function(v: Values) -> str:
    return f"torch.{v.choose.choice(_FUNCTIONS)}({v.take('f')})"


@operator(5)
def activation(v: Values) -> str:
    return f"F.{v.choose.choice(_ACTIVATIONS)}({v.take('f')})"


@operator()
def activation_with_parameters(v: Values) -> list[str]:
    x = v.take("f")
    return [
        f"F.gelu({x}, approximate='tanh')",
        f"F.leaky_relu({x}, -0.5)",
        f"F.elu({x}, alpha=2.0)",
        f"F.celu({x}, alpha=0.5)",
        f"F.softplus({x}, beta=2.0, threshold=1.0)",
        f"F.hardtanh({x}, -0.25, 0.75)",
        f"F.threshold({x}, 0.1, -3.0)",
        f"F.softshrink({x}, 0.0)",
        f"torch.nan_to_num({x}, 1.0, -2.0, 3.0)",
        f"torch.round({x}, decimals=1)",
        f"torch.logit({x}, 1e-3)",
    ]


@operator(2)
def prelu(v: Values) -> str:
    x = v.take("f", 2)
    return f"F.prelu({x}, {v.new(v.of(x).dtype, [v.choose.choice([1, v.of(x).shape[1]])])})"


@operator(2)
def whole_function(v: Values) -> str:
    x = v.take("i")
    return f"torch.{v.choose.choice(['abs', 'neg', 'sign', 'square', 'bitwise_not', 'sgn', 'sqrt', 'sigmoid'])}({x})"


_BINARY = (
    "add sub mul div maximum minimum fmax fmin pow fmod remainder atan2 copysign hypot logaddexp logaddexp2 "
    "heaviside nextafter xlogy true_divide floor_divide special.xlog1py ldexp float_power"
).split()


@operator(8)
def binary(v: Values) -> str:
    x = v.take("f")
    return f"torch.{v.choose.choice(_BINARY)}({x}, {broadcast_with(v, x)})"


@operator(3)
def arithmetic(v: Values) -> str:
    x = v.take("fi")
    a, b = x, broadcast_with(v, x, "fi")
    return f"{a} {v.choose.choice('+-*')} {b}"


@operator(2)
def with_number(v: Values) -> str:
    x, value = v.take("f"), number(v)
    sign = v.choose.choice(["+", "-", "*", "/", "%", "//", "**"])
    return f"{x} {sign} {value!r}" if flag(v) else f"{value!r} {sign} {x}"


@operator(2)
def division(v: Values) -> str:
    x = v.take("f")
    mode = v.choose.choice(["'floor'", "'trunc'", "None"])
    return f"torch.div({x}, {broadcast_with(v, x)}, rounding_mode={mode})"


@operator(2)
def whole_binary(v: Values) -> str:
    x = v.take("i")
    name = v.choose.choice(
        ["bitwise_and", "bitwise_or", "bitwise_xor", "maximum", "minimum", "gcd", "add", "sub", "mul", "div", "lcm"]
    )
    return f"torch.{name}({x}, {broadcast_with(v, x, 'i')})"


@operator()
def whole_division(v: Values) -> list[str]:
    x, by = v.take("i"), v.choose.choice([2, 3, 7] if flag(v) else [-2, -3])
    return [f"{x} // {by}", f"{x} % {by}", f"torch.div({x}, {by}, rounding_mode='trunc')", f"{x} / {by}"]


@operator()
def shift(v: Values) -> str:
    return f"{v.take('i')} {v.choose.choice(['<<', '>>'])} {v.choose.randint(0, 6)}"


@operator(3)
def comparison(v: Values) -> str:
    x = v.take("fi")
    other = repr(number(v)) if flag(v, 0.3) else broadcast_with(v, x, "fi")
    return f"torch.{v.choose.choice(['eq', 'ne', 'lt', 'le', 'gt', 'ge'])}({x}, {other})"


@operator()
def logical(v: Values) -> str:
    x = v.take("bf")
    return f"torch.logical_{v.choose.choice(['and', 'or', 'xor'])}({x}, {broadcast_with(v, x, 'b')})"


@operator()
def isclose(v: Values) -> str:
    x = v.take("f")
    return f"torch.isclose({x}, {broadcast_with(v, x)}, rtol=0.5, atol=0.1, equal_nan={flag(v)})"


@operator(3)
def where(v: Values) -> str:
    x = v.take("f")
    other = repr(number(v)) if flag(v, 0.3) else broadcast_with(v, x)
    return f"torch.where({broadcast_with(v, x, 'b')}, {x}, {other})"


@operator(2)
def clamp(v: Values) -> str:
    x = v.take("fi")
    if v.of(x).is_floating_point() and flag(v):
        return f"torch.clamp({x}, {broadcast_with(v, x)}, {broadcast_with(v, x)})"
    low, high = v.choose.choice([("-1", "2"), ("None", "0"), ("1", "None"), ("2", "-1"), ("0", "0")])
    return f"torch.clamp({x}, {low}, {high})"


@operator()
def ternary(v: Values) -> list[str]:
    x = v.take("f")
    y, z = broadcast_with(v, x), broadcast_with(v, x)
    return [
        f"torch.addcmul({x}, {y}, {z}, value=-0.5)",
        f"torch.addcdiv({x}, {y}, {z}, value=2.0)",
        f"torch.lerp({x}, {y}, 0.75)",
        f"torch.lerp({x}, {y}, {z})",
        f"torch.rsub({x}, {y}, alpha=2)",
        f"torch.add({x}, {y}, alpha=-3)",
    ]


@operator(3)
def cast(v: Values) -> str:
    x = v.take("fib")
    if v.of(x).is_floating_point() and flag(v, 0.4):
        # In C++, converting NaN or a number outside the integer range is undefined, so the operand is limited first.
        kind = v.choose.choice(["int64", "int32", "int8", "uint8"])
        return f"{x}.nan_to_num(1.0, 9.0, 2.0).clamp(0, 100).to(torch.{kind})"
    kind = v.choose.choice(["float32"] * 3 + ["float64", "bfloat16", "bool"])
    if not v.of(x).is_floating_point():
        kind = v.choose.choice([kind, "int64", "int32", "int8", "uint8"])
    return f"{x}.to(torch.{kind})"


# --- Reductions ---


@operator(6)
def reduction(v: Values) -> str:
    x = v.take("f")
    name = v.choose.choice(["sum", "mean", "amax", "amin", "logsumexp", "nansum", "nanmean", "count_nonzero"])
    if name == "count_nonzero":
        return f"torch.count_nonzero({x}, dim={dim_of(v, x)})"
    dims = str(dim_of(v, x) if flag(v) else dims_of(v, x))
    return f"torch.{name}({x}, dim={dims}, keepdim={flag(v)})"


@operator(2)
def whole_reduction(v: Values) -> str:
    x = v.take("ib")
    name = v.choose.choice(["sum", "prod", "any", "all", "amax", "amin", "argmax", "cumsum", "count_nonzero"])
    if name in ("cumsum", "count_nonzero"):
        return f"torch.{name}({x}, {dim_of(v, x)})"
    return f"torch.{name}({x}, dim={dim_of(v, x)}, keepdim={flag(v)})"


@operator(2)
def full_reduction(v: Values) -> str:
    names = ["sum", "mean", "prod", "max", "min", "var", "std", "argmax", "argmin", "any", "all", "norm", "median"]
    return f"torch.{v.choose.choice(names)}({v.take('f')})"


@operator(3)
def selecting_reduction(v: Values) -> str:
    x = v.take("f")
    part = v.choose.randrange(2)
    name = v.choose.choice(["max", "min", "cummax", "cummin"])
    keep = "" if name.startswith("cum") else f", keepdim={flag(v)}"
    return f"torch.{name}({x}, {dim_of(v, x)}{keep})[{part}]"


@operator(2)
def place(v: Values) -> str:
    x = v.take("fi")
    return f"torch.{v.choose.choice(['argmax', 'argmin'])}({x}, {dim_of(v, x)}, keepdim={flag(v)})"


@operator()
def truth(v: Values) -> str:
    x = v.take("fb")
    return f"torch.{v.choose.choice(['any', 'all'])}({x}, {dim_of(v, x)}, keepdim={flag(v)})"


@operator(2)
def spread(v: Values) -> str:
    x = v.take("f")
    return (
        f"torch.{v.choose.choice(['var', 'std'])}({x}, dim={dims_of(v, x) or 0}, "
        f"correction={v.choose.choice([0, 1, 2])}, keepdim={flag(v)})"
    )


@operator(3)
def scan(v: Values) -> str:
    x = v.take("f")
    return f"torch.{v.choose.choice(['cumsum', 'cumprod', 'logcumsumexp'])}({x}, {dim_of(v, x)})"


@operator(2)
def norm(v: Values) -> str:
    x = v.take("f")
    order = v.choose.choice(["2", "1", "0", "float('inf')", "-float('inf')", "3", "0.5", "-1"])
    return f"torch.linalg.vector_norm({x}, {order}, dim={dims_of(v, x) or None}, keepdim={flag(v)})"


@operator()
def product(v: Values) -> str:
    x = v.take("f")
    return f"torch.prod({x}, {dim_of(v, x)}, keepdim={flag(v)})"


@operator()
def median(v: Values) -> str:
    x = v.take("f")
    return f"torch.{v.choose.choice(['median', 'nanmedian'])}({x}, {dim_of(v, x)}, keepdim={flag(v)})[0]"


@operator()
def differences(v: Values) -> list[str]:
    x = v.take("f", 1)
    return [
        f"torch.diff({x}, dim={dim_of(v, x)}, n={v.choose.choice([1, 2])})",
        f"torch.trapezoid({x}, dim={dim_of(v, x)})",
        f"torch.cumulative_trapezoid({x}, dim={dim_of(v, x)})",
        f"torch.gradient({x}, dim={dim_of(v, x)})[0]",
    ]


# --- Shapes ---


@operator(3)
def rearrange(v: Values) -> list[str]:
    x = v.take("fib", 1)
    rank = v.of(x).dim()
    order = v.choose.sample(range(rank), rank)
    return [
        f"{x}.permute({[d - rank if flag(v) else d for d in order]})",
        f"{x}.transpose({dim_of(v, x)}, {dim_of(v, x)})",
        f"torch.movedim({x}, {dim_of(v, x)}, {dim_of(v, x)})",
        f"torch.flip({x}, {dims_of(v, x)})",
        f"torch.roll({x}, {v.choose.randint(-7, 7)}, {dim_of(v, x)})",
        f"torch.roll({x}, {v.choose.randint(-7, 7)})",
        f"torch.rot90({x}, {v.choose.randint(-3, 3)}, (0, -1))",
        f"{x}.flatten({dim_of(v, x)})",
    ]


@operator(3)
def reshape(v: Values) -> str:
    x = v.take("fib")
    extents = list(v.of(x).shape)
    if len(extents) > 1 and flag(v):
        at = v.choose.randrange(len(extents) - 1)
        extents[at : at + 2] = [extents[at] * extents[at + 1]]
    else:
        extents.insert(v.choose.randint(0, len(extents)), 1)
    if v.of(x).numel() and flag(v):
        extents[v.choose.randrange(len(extents))] = -1
    return f"{x}.reshape({extents})"


@operator(3)
def ones(v: Values) -> list[str]:
    x = v.take("fib")
    rank = v.of(x).dim()
    return [
        f"{x}.unsqueeze({dim_of(v, x, 1)})",
        f"{x}.squeeze()",
        f"{x}.squeeze({dim_of(v, x)})",
        f"{x}[None]",
        f"{x}[..., None]",
        f"{x}.expand({[v.choose.choice([1, 2, 3])] + [-1] * rank})",
        f"torch.atleast_2d({x})",
    ]


@operator(3)
def part(v: Values) -> list[str]:
    x = v.take("fib", 1)
    dim = dim_of(v, x)
    extent = v.of(x).shape[dim]
    begin = v.choose.randint(-extent, extent)
    ahead = ":, " * (dim % v.of(x).dim())
    step = v.choose.choice(["", ":2", ":3"])
    return [
        f"{x}[{ahead}{begin}:{step}]",
        f"{x}[{ahead}:{begin}{step}]",
        f"{x}[..., {begin}]",
        f"{x}.select({dim}, {v.choose.randint(-extent, max(extent - 1, 0))})",
        f"{x}.narrow({dim}, {v.choose.randint(0, extent)}, {v.choose.randint(0, 2)})",
        f"torch.chunk({x}, 2, {dim})[-1]",
        f"torch.tensor_split({x}, 3, {dim})[{v.choose.randrange(3)}]",
        f"{x}.split(2, {dim})[-1]",
        f"{x}.unfold({dim}, {v.choose.choice([1, 2])}, {v.choose.choice([1, 2])})",
    ]


@operator(2)
def joined(v: Values) -> list[str]:
    x = v.take("fib")
    dim = dim_of(v, x)
    other = v.new(v.of(x).dtype, v.of(x).shape) if flag(v) else x
    return [
        f"torch.cat([{x}, {other}, {x}], {dim})",
        f"torch.stack([{x}, {other}], {dim_of(v, x, 1)})",
        f"torch.hstack([{x}, {other}])",
        f"torch.cat([{x}, {v.take('fib', 1, 1)}], {dim})",
    ]


@operator(2)
def repeated(v: Values) -> list[str]:
    x = v.take("fib")
    rank = v.of(x).dim()
    times = [v.choose.choice([1, 2, 0 if flag(v, 0.1) else 3]) for _ in range(rank + v.choose.randrange(2))]
    return [
        f"{x}.repeat({times})",
        f"torch.tile({x}, {times[-2:]})",
        f"torch.repeat_interleave({x}, {v.choose.choice([1, 2, 3])}, dim={dim_of(v, x)})",
        f"torch.repeat_interleave({x}, 2)",
    ]


@operator(2)
def triangle(v: Values) -> str:
    x, k = v.take("fi", 2), v.choose.randint(-3, 3)
    return v.choose.choice([f"torch.tril({x}, {k})", f"torch.triu({x}, {k})", f"torch.diagonal({x}, {k}, -1, 0)"])


@operator()
def diagonals(v: Values) -> str:
    x, k = v.take("f", 1, 3), v.choose.randint(-2, 2)
    return v.choose.choice([f"torch.diag_embed({x}, {k})", f"torch.diag({x}, {k})", f"torch.diagflat({x}, {k})"])


@operator(4)
def padding(v: Values) -> str:
    mode = v.choose.choice(["constant", "constant", "reflect", "replicate", "circular"])
    if mode == "constant":
        x = v.take("fi", 1)
        sides = [v.choose.randint(-1, 3) for _ in range(2 * v.choose.randint(1, v.of(x).dim()))]
        return f"F.pad({x}, {sides}, value={v.choose.choice([0, -1, 2])})"
    rank = v.choose.choice([1, 2, 3])
    sides = [v.choose.randint(-1, 2) for _ in range(2 * rank)]
    x = image(v, rank)
    extents = [v.of(x).shape[-1 - d] + sides[2 * d] + sides[2 * d + 1] for d in range(rank)]
    if mode == "reflect" and 0 in extents:
        # PyTorch's gradient of this padding of an empty tensor is uninitialized memory.
        raise Unsuitable
    return f"F.pad({x}, {sides}, mode={mode!r})"


@operator()
def shuffled(v: Values) -> str:
    if flag(v):
        return f"F.pixel_shuffle({v.new(None, [2, 8, 2, 3])}, 2)"
    x = v.new(None, [v.choose.choice([1, 2]), 4, 4, 6])
    return v.choose.choice([f"F.pixel_unshuffle({x}, 2)", f"F.channel_shuffle({x}, 2)"])


# --- Positions ---


@operator(4)
def gathered(v: Values) -> list[str]:
    x = v.take("f", 1)
    dim, shape = dim_of(v, x), list(v.of(x).shape)
    count = v.choose.choice([1, 2, 5])
    if not shape[dim]:
        raise Unsuitable
    index = v.new(torch.int64, [count], f"below {shape[dim]}")
    along = [*shape]
    along[dim] = count
    many = v.new(torch.int64, along, f"below {shape[dim]}")
    ahead = ":, " * (dim % len(shape))
    return [
        f"torch.index_select({x}, {dim}, {index})",
        f"torch.gather({x}, {dim}, {many})",
        f"torch.take_along_dim({x}, {many}, {dim})",
        f"{x}[{ahead}{index}]",
        f"{x}[{ahead}[0, -1]]",
        f"{x}[..., {index} - {v.of(x).shape[-1]}]" if dim % len(shape) == len(shape) - 1 else f"{x}[[-1, 0, -1]]",
        f"torch.take({x}, {index})",
    ]


@operator(3)
def scattered(v: Values) -> list[str]:
    x = v.take("f", 1)
    dim, shape = dim_of(v, x), list(v.of(x).shape)
    if not shape[dim]:
        raise Unsuitable
    places = [*shape]
    places[dim] = v.choose.choice([1, shape[dim], 4])
    index = v.new(torch.int64, places, f"below {shape[dim]}")
    source = v.new(v.of(x).dtype, places)
    line = v.new(torch.int64, [places[dim]], f"below {shape[dim]}")
    reduce = v.choose.choice(["sum", "prod", "mean", "amax", "amin"])
    return [
        f"torch.scatter_add({x}, {dim}, {index}, {source})",
        f"torch.scatter({x}, {dim}, {index}, {number(v)!r})",
        f"torch.scatter_reduce({x}, {dim}, {index}, {source}, {reduce!r}, include_self={flag(v)})",
        f"torch.index_add({x}, {dim}, {line}, {source}, alpha={v.choose.choice([1, -2])})",
        f"torch.index_fill({x}, {dim}, {line}, {number(v)!r})",
    ]


@operator(2)
def placed(v: Values) -> list[str]:
    x = v.take("f", 1)
    dim, shape = dim_of(v, x), list(v.of(x).shape)
    if not shape[dim]:
        raise Unsuitable
    place = v.choose.randint(-shape[dim], shape[dim] - 1)
    rest = [extent for d, extent in enumerate(shape) if d != dim % len(shape)]
    every = [*shape]
    every[dim] = len(range(0, shape[dim], 2))
    return [
        f"torch.select_scatter({x}, {v.new(v.of(x).dtype, rest)}, {dim}, {place})",
        f"torch.slice_scatter({x}, {v.new(v.of(x).dtype, every)}, {dim}, 0, None, 2)",
        f"torch.index_copy({x}, {dim}, torch.tensor([{place % shape[dim]}]), {v.new(v.of(x).dtype, [1 if d == dim % len(shape) else e for d, e in enumerate(shape)])})",  # noqa: E501
        f"{x}.index_put((torch.tensor([{v.choose.randint(-shape[0], max(shape[0] - 1, 0))}]),), {v.new(v.of(x).dtype, shape[1:])}, accumulate={flag(v)})",  # noqa: E501
    ]


@operator(2)
def masked(v: Values) -> str:
    x = v.take("fi")
    return f"{x}.masked_fill({broadcast_with(v, x, 'b')}, {v.choose.choice([0, -1, 3])})"


@operator()
def embedding(v: Values) -> str:
    index = v.new(torch.int64, v.choose.choice([[], [3], [2, 3], [0]]), "below 5")
    table = v.new(None, [5, v.choose.choice([1, 3])])
    padding = v.choose.choice(["None", "1", "-1"])
    return f"F.embedding({index}, {table}, padding_idx={padding})"


@operator()
def one_hot(v: Values) -> str:
    return f"F.one_hot({v.new(torch.int64, v.choose.choice([[], [3], [2, 0]]), 'below 4')}, {v.choose.choice([4, 6])})"


# --- Sorting ---


@operator(3)
def ordered(v: Values) -> list[str]:
    x = v.take("fi")
    dim, down = dim_of(v, x), flag(v)
    extent = v.of(x).shape[dim] if v.of(x).dim() else 1
    # kthvalue may assign the gradient to any of several equal elements.
    unequal = v.new(v.of(x).dtype, v.of(x).shape, "unit")
    return [
        f"torch.sort({x}, dim={dim}, descending={down}, stable=True)[{v.choose.randrange(2)}]",
        f"torch.argsort({x}, dim={dim}, descending={down}, stable=True)",
        f"torch.topk({x}, {v.choose.randint(0, extent)}, dim={dim}, largest={down})[0]",
        f"torch.kthvalue({unequal}, {v.choose.randint(1, max(extent, 1))}, {dim})[0]",
    ]


@operator()
def searched(v: Values) -> str:
    x = v.take("f")
    edges = v.new(v.of(x).dtype, [v.choose.choice([1, 4])], "sorted")
    if flag(v):
        return f"torch.bucketize({x}, {edges}, right={flag(v)})"
    return f"torch.searchsorted({edges}, {x}, right={flag(v)})"


# --- Contractions ---


@operator(5)
def matrices(v: Values) -> str:
    x = v.take("f", 1)
    value = v.of(x)
    inner = value.shape[-1]
    batch = list(value.shape[:-2]) if flag(v) else [v.choose.choice([1, 2])] if flag(v, 0.3) else []
    y = v.new(value.dtype, [*batch, inner, v.choose.choice([1, 2, 5])] if flag(v, 0.8) else [inner])
    return f"{x} @ {y}"


@operator(3)
def linear(v: Values) -> str:
    x = v.take("f", 1)
    value, out = v.of(x), v.choose.choice([1, 3, 4])
    weight = v.new(value.dtype, [out, value.shape[-1]])
    bias = v.new(value.dtype, [out]) if flag(v) else "None"
    return f"F.linear({x}, {weight}, {bias})"


@operator(2)
def sums_of_products(v: Values) -> list[str]:
    x = v.take("f", 2, 2)
    m, k = v.of(x).shape
    kind = v.of(x).dtype
    y = v.new(kind, [k, 3])
    return [
        f"torch.einsum('ij,jk->ki', {x}, {y})",
        f"torch.einsum('ij,jk->j', {x}, {y})",
        f"torch.addmm({v.new(kind, [3])}, {x}, {y}, beta=-0.5, alpha=2)",
        f"torch.outer({v.new(kind, [m])}, {v.new(kind, [k])})",
        f"torch.mv({x}, {v.new(kind, [k])})",
        f"torch.tensordot({x}, {y}, dims=1)",
        f"torch.kron({x}, {v.new(kind, [2, 1])})",
        f"torch.cdist({x}, {v.new(kind, [2, k])})",
        f"F.bilinear({x}, {v.new(kind, [m, 2])}, {v.new(kind, [3, k, 2])})",
        f"torch.baddbmm({v.new(kind, [1, m, 1])}, {x}.unsqueeze(0), {y}.unsqueeze(0), beta=0.0)",
    ]


@operator()
def whole_matrices(v: Values) -> str:
    kind = v.choose.choice([torch.int64, torch.int32])
    return f"{v.new(kind, [2, 3])} @ {v.new(kind, [3, v.choose.choice([1, 4])])}"


@operator(5)
def convolution(v: Values) -> str:
    rank = v.choose.choice([1, 2, 2, 2, 3])
    x = image(v, rank)
    channels = v.of(x).shape[1]
    groups = v.choose.choice([g for g in (1, 1, 2, 4) if channels % g == 0])
    if not channels:
        raise Unsuitable
    out = groups * v.choose.choice([1, 2])
    kernel = [v.choose.choice([1, 2, 3]) for _ in range(rank)]
    # The weights are finite, because (K2) multiplies them by the zeros of the padding, and zero times infinity is NaN.
    # PyTorch skips padding in some gradients.
    weight = v.new(v.of(x).dtype, [out, channels // groups, *kernel], "small")
    bias = v.new(v.of(x).dtype, [out]) if flag(v) else "None"
    stride = window(v, rank)
    pad = v.choose.choice([str(v.choose.randint(0, 2)), str(tuple(v.choose.randint(0, 3) for _ in range(rank)))])
    if stride == "1" and flag(v, 0.3):
        pad = v.choose.choice(["'same'", "'valid'"])
    return (
        f"F.conv{rank}d({x}, {weight}, {bias}, stride={stride}, padding={pad}, dilation={window(v, rank, 2)}, "
        f"groups={groups})"
    )


@operator(3)
def transposed_convolution(v: Values) -> str:
    rank = v.choose.choice([1, 2, 2, 3])
    x = image(v, rank)
    channels = v.of(x).shape[1]
    groups = v.choose.choice([g for g in (1, 1, 2, 4) if channels % g == 0])
    if not channels:
        raise Unsuitable
    out = v.choose.choice([1, 2])
    kernel = [v.choose.choice([1, 2, 3]) for _ in range(rank)]
    weight = v.new(v.of(x).dtype, [channels, out, *kernel], "small")
    bias = v.new(v.of(x).dtype, [out * groups]) if flag(v) else "None"
    return (
        f"F.conv_transpose{rank}d({x}, {weight}, {bias}, stride={window(v, rank)}, "
        f"padding={v.choose.randint(0, 2)}, output_padding={v.choose.randint(0, 2)}, groups={groups}, "
        f"dilation={window(v, rank, 3)})"
    )


@operator()
def attention(v: Values) -> str:
    q = v.new(None, [2, v.choose.choice([1, 2]), 3, 4])
    k, w = (v.new(None, [2, v.of(q).shape[1], v.choose.choice([1, 5]) if i else 5, 4]) for i in range(2))
    if v.of(k).shape != v.of(w).shape:
        w = v.new(None, v.of(k).shape)
    mask = v.choose.choice(["", ", is_causal=True", f", attn_mask={v.new(torch.bool, [3, v.of(k).shape[2]])}"])
    return f"F.scaled_dot_product_attention({q}, {k}, {w}{mask})"


# --- Windows ---


@operator(5)
def pooling(v: Values) -> list[str]:
    rank = v.choose.choice([1, 2, 2, 3])
    x = image(v, rank)
    kernel = window(v, rank)
    stride = v.choose.choice(["None", window(v, rank)])
    pad = v.choose.choice(["0", "0", "1"])
    ceil = flag(v)
    largest = f"F.max_pool{rank}d({x}, {kernel}, {stride}, {pad}, {v.choose.choice([1, 1, 2])}, {ceil}"
    counted = f", divisor_override={v.choose.choice([1, 3])}" if rank > 1 and flag(v, 0.3) else ""
    return [
        largest + ")",
        largest + f", return_indices=True)[{v.choose.randrange(2)}]",
        f"F.avg_pool{rank}d({x}, {kernel}, {stride}, {pad}, {ceil}, {flag(v)}{counted})",
        f"F.lp_pool{min(rank, 2)}d({x}, 2, {kernel.split(',')[0].strip('(')}, ceil_mode={ceil})",
    ]


@operator(2)
def adaptive_pooling(v: Values) -> str:
    rank = v.choose.choice([1, 2, 2, 3])
    size = v.choose.choice([str(v.choose.randint(1, 4)), str(tuple(v.choose.randint(1, 7) for _ in range(rank)))])
    return f"F.adaptive_{v.choose.choice(['avg', 'max'])}_pool{rank}d({image(v, rank)}, {size})"


@operator()
def windows_in_columns(v: Values) -> str:
    if flag(v):
        return (
            f"F.unfold({image(v, 2)}, {window(v, 2)}, dilation={window(v, 2, 2)}, padding={v.choose.randint(0, 1)}, "
            f"stride={window(v, 2, 2)})"
        )
    return f"F.fold({v.new(None, [2, 8, 9])}, (4, 4), 2, stride=1)"


@operator(3)
def resampled(v: Values) -> str:
    rank = v.choose.choice([1, 2, 2, 3])
    x = image(v, rank)
    modes = ["nearest", "nearest-exact", {1: "linear", 2: "bilinear", 3: "trilinear"}[rank], "area"]
    mode = v.choose.choice(modes + ["bicubic"] * (rank == 2))
    if flag(v):
        size = f"size={tuple(v.choose.randint(1, 7) for _ in range(rank))}"
    else:
        size = f"scale_factor={v.choose.choice([0.5, 1.3, 2, 2.7])}"
    align = f", align_corners={flag(v)}" if "linear" in mode or mode == "bicubic" else ""
    return f"F.interpolate({x}, {size}, mode={mode!r}{align})"


@operator()
def sampled_grid(v: Values) -> str:
    x = image(v, 2)
    grid = v.new(v.of(x).dtype, [v.of(x).shape[0], 2, 3, 2], "unit")
    mode, pad = v.choose.choice(["bilinear", "nearest", "bicubic"]), v.choose.choice(["zeros", "border", "reflection"])
    if not v.of(x).isfinite().all():
        # In other padding modes, PyTorch multiplies the gradient of a clamped position, which may be infinite here, by
        # 0.
        pad = "zeros"
    return f"F.grid_sample({x}, {grid} * 3 - 1.5, {mode!r}, {pad!r}, align_corners={flag(v)})"


# --- Normalization and losses ---


@operator(3)
def softmax(v: Values) -> str:
    x = v.take("f")
    return f"F.{v.choose.choice(['softmax', 'log_softmax', 'softmin'])}({x}, {dim_of(v, x)})"


@operator(3)
def normalized(v: Values) -> list[str]:
    x = v.take("f", 2)
    shape, kind = list(v.of(x).shape), v.of(x).dtype
    last = shape[-v.choose.choice([1, 2]) :]
    weight = v.new(kind, last) if flag(v) else "None"
    if not shape[1]:
        raise Unsuitable
    groups = v.choose.choice([g for g in (1, 2, shape[1]) if shape[1] % g == 0])
    channel = v.new(kind, [shape[1]])
    return [
        f"F.layer_norm({x}, {last}, {weight}, eps=1e-3)",
        f"F.rms_norm({x}, {last}, {weight})",
        f"F.group_norm({x}, {groups}, {channel}, eps=1e-2)",
        f"F.batch_norm({x}, None, None, {channel}, {channel}, training=True)",
        f"F.batch_norm({x}, {channel}, {channel}.abs(), training=False)",
        f"F.instance_norm({x})",
        f"F.normalize({x}, p={v.choose.choice([1, 2, 3])}, dim={dim_of(v, x)})",
        f"F.local_response_norm({x}, 2)",
        f"F.glu({x}, {dim_of(v, x)})",
    ]


@operator(3)
def loss(v: Values) -> list[str]:
    x = v.take("f")
    y = v.new(v.of(x).dtype, v.of(x).shape)
    unit = v.new(v.of(x).dtype, v.of(x).shape, "unit")
    how = v.choose.choice(["mean", "sum", "none"])
    return [
        f"F.mse_loss({x}, {y}, reduction={how!r})",
        f"F.l1_loss({x}, {y}, reduction={how!r})",
        f"F.smooth_l1_loss({x}, {y}, reduction={how!r}, beta={v.choose.choice([1.0, 0.0, 0.5])})",
        f"F.huber_loss({x}, {y}, reduction={how!r}, delta=0.5)",
        f"F.binary_cross_entropy_with_logits({x}, {unit}, reduction={how!r})",
        f"F.binary_cross_entropy({unit}, {unit}, reduction={how!r})",
        f"F.kl_div({x}, {unit}, reduction={how!r})",
        f"F.poisson_nll_loss({x}, {unit}, reduction={how!r}, log_input={flag(v)}, full={flag(v)})",
        f"F.gaussian_nll_loss({x}, {y}, {unit}, reduction={how!r})",
        f"F.soft_margin_loss({x}, {y}, reduction={how!r})",
        f"F.cosine_similarity({x}, {y}, dim={dim_of(v, x)})",
        f"F.pairwise_distance({x}, {y}, keepdim={flag(v)})",
        f"F.hinge_embedding_loss({x}, {y}.sign(), reduction={how!r})",
    ]


@operator(2)
def class_loss(v: Values) -> str:
    x = v.take("f", 1)
    shape = list(v.of(x).shape)
    classes = shape[0] if len(shape) == 1 else shape[1]
    if not classes:
        raise Unsuitable
    target = v.new(torch.int64, [] if len(shape) == 1 else [shape[0], *shape[2:]], f"below {classes}")
    how = v.choose.choice(["mean", "sum", "none"])
    weight = f", weight={v.new(v.of(x).dtype, [classes], 'unit')}" if flag(v) else ""
    ignored = v.choose.choice(["", ", ignore_index=0", ", label_smoothing=0.1"])
    if flag(v):
        return f"F.cross_entropy({x}, {target}{weight}{ignored}, reduction={how!r})"
    ignored = "" if "smoothing" in ignored else ignored
    return f"F.nll_loss({x}, {target}{weight}{ignored}, reduction={how!r})"
