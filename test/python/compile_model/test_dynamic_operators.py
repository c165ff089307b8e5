# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Operators whose lowering depends on sizes: a program is valid for all sizes, or the capture raises an error."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import repro_mlir
from repro_mlir import ReproError
from support.applied import Applied

torch = pytest.importorskip("torch")
pytest.importorskip("torch_mlir")
import torch.nn.functional as functional  # noqa: E402

N = torch.export.Dim("n", min=1, max=64)


def outputs(program: Any, inputs: Sequence[Any], target: str = "reference") -> np.ndarray:
    (value,) = repro_mlir.compile(program, target, 1)({}, *(each.numpy() for each in inputs))[1].values()
    return np.asarray(value)


def check(function: Callable[..., Any], shapes: Sequence[tuple[Any, ...]], sizes: Sequence[int]) -> None:
    """Checks that the program with the dynamic size N has PyTorch's results, which are exact here, for each of
    `sizes`."""

    def inputs(size: int) -> tuple[Any, ...]:
        made = [[size if extent is N else extent for extent in shape] for shape in shapes]
        return tuple(torch.arange(float(np.prod(shape))).reshape(shape) - 3 for shape in made)

    dynamic = tuple({dim: N for dim, extent in enumerate(shape) if extent is N} for shape in shapes)
    program = repro_mlir.capture(Applied(function).eval(), inputs(5), dynamic_shapes=dynamic)
    for size in sizes:
        want = function(*inputs(size)).numpy()
        np.testing.assert_array_equal(outputs(program, inputs(size)), want)
    for size in sizes[:1]:
        np.testing.assert_array_equal(outputs(program, inputs(size), "cpu:x86-64-v2"), function(*inputs(size)).numpy())


@pytest.mark.parametrize(
    ("function", "sizes"),
    [
        (lambda x: x[1:] - x[:-1], (1, 2, 5)),
        (lambda x: x[1::3], (1, 2, 7)),
        (lambda x: functional.pad(x, (0, 0, -1, 0)), (1, 2, 5)),
        (lambda x: torch.roll(x, 1, 0), (2, 3, 7)),
        (lambda x: torch.roll(x, (-2, 1), (0, 1)), (3, 4, 7)),
        (lambda x: torch.roll(x, 2), (2, 5)),
        (lambda x: torch.roll(x, 0, 0), (1, 5)),
        (lambda x: torch.max_pool2d(x[None, None], 2, 1), (2, 5)),
        (lambda x: torch.max_pool2d(x[None], 2), (2, 5)),
        (lambda x: functional.interpolate(x.T[None], size=1, mode="linear"), (1, 2, 5)),
    ],
)
def test_one_program_for_all_sizes(function: Callable[..., Any], sizes: Sequence[int]) -> None:
    check(function, [(N, 3)], sizes)


@pytest.mark.parametrize("extents", [(1,), (2,), (3,)])
def test_empty_slices_and_one_element_of_static_sizes(extents: tuple[int]) -> None:
    x = torch.arange(float(extents[0])) - 1
    for function in (lambda x: x[1:] - x[:-1], lambda x: functional.interpolate(x[None, None], size=1, mode="linear")):
        program = repro_mlir.capture(Applied(function).eval(), (x,))
        np.testing.assert_array_equal(outputs(program, (x,)), function(x).numpy())


@pytest.mark.parametrize(
    ("equation", "shapes"),
    [("ii->", [(N, N)]), ("ii->i", [(N, N)]), ("bii->bi", [(N, 4, 4)]), ("bii->bi", [(2, N, N)]),
     ("ii,ij->j", [(N, N), (N, 3)])],
)  # fmt: skip
def test_letters_that_einsum_repeats(equation: str, shapes: Sequence[tuple[Any, ...]]) -> None:
    check(lambda *inputs: torch.einsum(equation, *inputs), shapes, (3, 4))


@pytest.mark.parametrize(
    ("function", "shape", "message"),
    [
        (lambda x: torch.einsum("ii->", x), (N, 4), "subscript i is repeated"),
        (lambda x: torch.einsum("ii->i", x), (N, 5), "the model only runs with size 5 of n"),
        (lambda x: torch.split(x, [1, x.shape[0] - 1])[1], (N, 3), "operator aten.split_with_sizes is not supported"),
        (lambda x: x * (x.shape[0] % 3), (N, 3), "operator aten.fmod.int is not supported with dynamic sizes"),
        (lambda x: x / x.shape[0] ** 0.5, (N, 3), "operator sym_float is not supported with dynamic sizes"),
        (lambda x: x - torch.tensor(x.shape[0]), (N, 3), "the model only runs with size 5 of n"),
    ],
)
def test_one_clear_error(function: Callable[..., Any], shape: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ReproError, match=message) as error:
        check(function, [shape], ())
    assert "\n" not in str(error.value) and len(str(error.value)) < 200


def test_sizes_for_which_a_roll_does_not_hold() -> None:
    program = repro_mlir.capture(
        Applied(lambda x: torch.roll(x, 2, 0)).eval(), (torch.zeros(5),), dynamic_shapes=({0: N},)
    )
    with pytest.raises(ReproError, match=r"n = 2: the program holds for sizes with n > 2"):
        outputs(program, (torch.zeros(2),))
