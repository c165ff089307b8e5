# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(T4) Folds that are cut at chunks among cores have the bits of the reference interpreter."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from support import inputs as values
from support import kit
from support.builder import ANY, Builder, order
from support.cores import check, core_plan, mapped, tool

SHAPES = ((3 * 8192 + 1,), (5 * 8192,), (9, 4096), (3, 70000))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("zeros", [False, True])
def test_t4_sums_of_whole_tensors(shape: tuple[int, ...], zeros: bool) -> None:
    b = Builder()
    x, init = b.argument(shape, "f32"), b.argument((), "f32")
    ordering = f"#repro.order<chunk = 8192, lanes = 64, run = {len(shape)}, totals = refold>"
    dims = ", ".join(f"d{i}" for i in range(len(shape)))
    step = "%r0 = arith.addf %a0, %x0 : f32"
    program = b.program(*b.fold(ordering, "r" * len(shape), [(x, dims)], [(init, "")], step))
    random = np.random.default_rng(1).standard_normal(shape).astype(np.float32)
    array = np.full(shape, -0.0, np.float32) if zeros else random
    report = check(program, (array, np.array(-0.0, np.float32)), "tiny-2x2").report
    # Several cores compute chunks.
    assert sum(core["run"] > 0 for core in report["cores"]) > 1


# All folds that can be cut ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Loops:
    """The loops of a fold, and the shapes of its two inputs and of its result with their maps."""

    iterators: str
    inputs: tuple[tuple[tuple[int, ...], str], ...]
    result: tuple[tuple[int, ...], str]


LOOPS = {
    # The reduced dimension is the first or the last one; the last chunk is full or shorter.
    "transposed": Loops("ppr", (((37, 3), "d2, d0"), ((37, 5), "d2, d1")), ((3, 5), "d0, d1")),
    "rows": Loops("ppr", (((3, 32), "d0, d2"), ((5, 32), "d1, d2")), ((5, 3), "d1, d0")),
    "vector": Loops("rp", (((50,), "d0"), ((50, 4), "d0, d1")), ((4,), "d1")),
    # Two reduction loops count as one, a chunk consists of rows, or a row consists of chunks.
    "joined": Loops("prr", (((5, 7, 3), "d1, d2, d0"), ((5, 7, 3), "d1, d2, d0")), ((3,), "d0")),
    "few rows": Loops("prr", (((5, 4, 3), "d1, d2, d0"), ((4, 5), "d2, d1")), ((3,), "d0")),
    "long rows": Loops("prr", (((3, 16, 3), "d1, d2, d0"), ((16, 3), "d2, d1")), ((3,), "d0")),
    "windows": Loops("prr", (((9, 6), "d1, d2 + d0"), ((9, 4), "d1, d2")), ((3,), "d0")),
    "all": Loops("rr", (((6, 7), "d0, d1"), ((6, 7), "d0, d1")), ((), "")),
}

STEPS = {
    "fma": "%r0 = math.fma {x}, {y}, %a0 : {t}",
    "add": "%p = arith.mulf {x}, {y} : {t}\n%r0 = arith.addf %a0, %p : {t}",
    "mul": "%p = arith.addf {x}, {y} : {t}\n%r0 = arith.mulf %a0, %p : {t}",
    "maximum": "%p = arith.mulf {x}, {y} : {t}\n%r0 = arith.maximumf %a0, %p : {t}",
}

ORDERS = (order(8, 1), order(8, 4), order(8, 8, totals="refold"), order(4, 2, totals="refold"), order(16, 1, run=1))

# Products that underflow to -0, zeros, ordinary numbers, and all bit patterns.
CONTENTS = ("underflow", "zeros", "random", "mixed")


def contents(kind: str, element: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    if kind == "random":
        return values.random(element, shape, seed)
    if kind == "mixed":
        return values.mixed(element, shape, seed)
    # The factors of a product have different signs.
    number = {"underflow": 1e-200 if element == "f64" else 1e-30, "zeros": 0.0}[kind]
    array = np.full(shape, number if seed % 2 else -number, "f8" if element == "f64" else "f4")
    return (array.view(np.uint32) >> 16).astype(np.uint16) if element == "bf16" else array


def folds(element: str) -> Iterator[tuple[Loops, str, str, str | None]]:
    """Yields loops, orders, steps and, if it is constant, the literal of init."""
    inits = itertools.cycle([None, "0.0", None, "-0.0", None, "2.5", None])
    for (name, loops), (number, ordering) in itertools.product(LOOPS.items(), enumerate(ORDERS)):
        yield loops, ordering, ("fma", "fma", "add", "mul")[(number + len(name)) % 4], next(inits)
    if element == "f32":
        for loops in LOOPS.values():
            yield loops, ANY, "maximum", next(inits)


def program(element: str) -> tuple[str, list[tuple[int, ...]]]:
    """Returns a program with all folds, and the shapes of its arguments: two inputs and the init of each fold."""
    b = Builder()
    results = []
    wide = "f32" if element == "bf16" else element
    for loops, ordering, step, literal in folds(element):
        (shape, result) = loops.result
        inputs = [(b.argument(size, element), names) for size, names in loops.inputs]
        init = b.argument(shape, element)
        if literal is not None:
            value = b.constant(literal, None, element)
            init = b.generic(shape, [], "", element, yields=[value.name])[0]
        x, y, body = "%x0", "%x1", ""
        if element == "bf16":
            x, y = "%u", "%v"
            body = "%u = arith.extf %x0 : bf16 to f32\n%v = arith.extf %x1 : bf16 to f32\n"
        body += STEPS[step].format(x=x, y=y, t=wide)
        results += b.fold(ordering, loops.iterators, inputs, [(init, result)], body, [wide])
    return b.program(*results), [argument.shape or () for argument in b.arguments]


@pytest.mark.parametrize("element", ["f32", "f64", "bf16"])
def test_t4_all_folds(element: str) -> None:
    text, shapes = program(element)
    split = "builtin.module(schedule,repro-map-split{machine=tiny-2x2 cuts=all})"
    kernels = tool("repro-opt", f"--pass-pipeline={split}", text=text).decode().split("func.func private @")
    uncut = [kernel for kernel in kernels if kernel.startswith("kernel") and "repro.fold" in kernel]
    # Totals begin with +0, so no other operation can add an init of -0 to a total of -0.
    assert len(uncut) == 2
    assert all("repro.init = [-0.0" in kernel and "math.fma" in kernel for kernel in uncut)
    plan = core_plan(mapped(text, "tiny-2x2", "cuts=all"))
    for kind in CONTENTS:
        inputs = [contents(kind, element, shape, seed) for seed, shape in enumerate(shapes)]
        # An init of -0, to which -0 may be added, and other values.
        for i in range(2, len(inputs), 3 if kind in ("underflow", "zeros") else 6):
            inputs[i] = contents("zeros", element, shapes[i], 0)
        check(text, inputs, "tiny-2x2", plan=plan)
        if kind == "underflow":
            # Several contractions really end with -0.
            sign = 1 << (8 * values.dtype(element).itemsize - 1)
            results = zip(folds(element), kit.reference(text, inputs), strict=True)
            assert sum(step == "fma" and (bits == sign).any() for (_, _, step, _), bits in results) > 4
