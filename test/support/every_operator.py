# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""A step that contains every operation that is allowed in `main`, and returns all of its intermediate values."""

from __future__ import annotations

import dataclasses

import numpy as np
from repro_mlir.program import Program, read_signature
from repro_mlir.program.canonical import to_bytes

from support.block_programs import Form, dequantized, packed, quantized, unpacked
from support.builder import ANY, COLUMN, ROW, SEQUENTIAL, Builder, Value

_UNARY = (
    "arith.negf math.absf math.ceil math.floor math.round math.roundeven math.trunc repro.asinh repro.atan repro.cbrt "
    "repro.cos repro.cosh repro.erf repro.erfc repro.exp repro.exp10 repro.exp2 repro.expm1 repro.sin repro.sinh "
    "repro.tan repro.tanh"
).split()
_UNARY_OF_POSITIVE = "math.sqrt repro.log repro.log10 repro.log1p repro.log2 repro.rsqrt".split()
_UNARY_OF_FRACTION = "repro.acos repro.asin repro.atanh".split()
_BINARY = (
    "arith.addf arith.divf arith.maximumf arith.minimumf arith.mulf arith.remf arith.subf math.copysign repro.atan2 "
    "repro.hypot"
).split()
_INTEGERS = (
    "arith.addi arith.andi arith.divsi arith.divui arith.maxsi arith.maxui arith.minsi arith.minui arith.muli "
    "arith.ori arith.remsi arith.remui arith.shli arith.shrsi arith.shrui arith.subi arith.xori"
).split()
_BITS = "math.absi math.ctlz math.ctpop math.cttz".split()


def _scalars(b: Builder, x: Value, number: Value, table: Value) -> list[Value]:
    """Adds every scalar operation, on an f32, an i64 and a tensor. Returns tensors with the results."""
    three = b.constant("3", None, "i64")
    made: list[Value] = []

    def op(text: str, element: str = "f32") -> Value:
        made.append(b.op(text, None, element))
        return made[-1]

    positive, fraction = op(f"repro.cosh {x.name} : f32"), op(f"repro.tanh {x.name} : f32")
    for names, operands in (
        (_UNARY, (x,)),
        (_UNARY_OF_POSITIVE, (positive,)),
        (["repro.acosh"], (positive,)),
        (_UNARY_OF_FRACTION, (fraction,)),
        (_BINARY, (x, positive)),
        (["repro.pow"], (positive, x)),
        (["math.fma"], (x, positive, fraction)),
    ):
        for name in names:
            op(f"{name} {', '.join(value.name for value in operands)} : f32")
    op(f"repro.powi {positive.name}, {three.name} : f32, i64")
    for name in _INTEGERS:
        op(f"{name} {number.name}, {three.name} : i64", "i64")
    for name in _BITS:
        op(f"{name} {number.name} : i64", "i64")
    made += b.ops(f"arith.addui_extended {number.name}, {three.name} : i64, i1", (None, "i64"), (None, "i1"))
    for name in ("arith.mulsi_extended", "arith.mului_extended"):
        made += b.ops(f"{name} {number.name}, {three.name} : i64", (None, "i64"), (None, "i64"))
    more = op(f"arith.cmpi sgt, {number.name}, {three.name} : i64", "i1")
    op(f"arith.cmpf ogt, {x.name}, {fraction.name} : f32", "i1")
    op(f"arith.select {more.name}, {x.name}, {positive.name} : f32")
    # Conversions to types that tensors cannot have, and back to types that they can have.
    low = op(f"arith.truncf {x.name} : f32 to bf16", "bf16")
    op(f"arith.extf {low.name} : bf16 to f32")
    op(f"arith.fptosi {x.name} : f32 to i32", "i32")
    op(f"arith.fptoui {positive.name} : f32 to i32", "i32")
    op(f"arith.sitofp {number.name} : i64 to f32")
    op(f"arith.uitofp {number.name} : i64 to f32")
    short = op(f"arith.trunci {number.name} : i64 to i32", "i32")
    op(f"arith.bitcast {short.name} : i32 to f32")
    op(f"arith.extsi {short.name} : i32 to i64", "i64")
    op(f"arith.extui {short.name} : i32 to i64", "i64")
    one = b.constant("1", None, "index")
    index = b.op(f"arith.index_castui {short.name} : i32 to index", None, "index")
    extent = b.op(f"tensor.dim {table.name}, {one.name} : {table.type}", None, "index")
    for value in (index, extent):
        op(f"arith.index_cast {value.name} : index to i64", "i64")
    tensors = []
    for element in sorted({value.element for value in made}):
        values = [value for value in made if value.element == element]
        tensors.append(b.from_elements((len(values),), *values))
    return tensors


def every_operator() -> Program:
    """Returns the program. Its states are w f32 [6, 4], and seed, step and count i64; its inputs are lr f32, x f32 [3,
    6] and rows i64 [5, 1]."""
    b = Builder()
    w, seed, step, count = b.argument((6, 4), "f32"), *(b.argument((), "i64") for _ in range(3))
    lr, x, rows = b.argument((), "f32"), b.argument((3, 6), "f32"), b.argument((5, 1), "i64")
    made: list[Value] = []

    def keep(*values: Value) -> Value:
        made.extend(values)
        return values[0]

    def keep_all(*values: Value) -> tuple[Value, ...]:
        made.extend(values)
        return values

    def op(text: str, shape: tuple[int, ...], element: str = "f32") -> Value:
        return keep(b.op(text, shape, element))

    half, one, two = b.constant("0.5", None, "f32"), b.constant("1", None, "i64"), b.constant("2", None, "index")
    # Adds the scalar operations and the checks.
    drawn = [b.extract(v) for v in (seed, step)]
    next_step = b.op(f"arith.addi {drawn[1].name}, {one.name} : i64", None, "i64")
    position = b.op(f"arith.index_cast {next_step.name} : i64 to index", None, "index")
    wrapped = b.op(f"arith.remui {position.name}, {two.name} : index", None, "index")
    element = b.extract(x, wrapped, two)
    halved = b.op(f"arith.mulf {element.name}, {half.name} : f32", None, "f32")
    positive = b.op(f"arith.cmpi sge, {next_step.name}, {one.name} : i64", None, "i1")
    b.ops(f'cf.assert {positive.name}, "expected a step"')
    new_step = b.from_elements((), next_step)
    keep(b.from_elements((2,), element, halved))
    made.extend(_scalars(b, element, next_step, x))
    spread = keep(b.splat(halved, (3, 6)))
    # Adds random numbers and element-wise operations.
    drop = keep(*b.call("repro.random uniform site = 3", drawn, [b.empty((3, 6), "f32")]))
    body = "%s = arith.addf %x0, %x1 : f32\n%r0 = arith.mulf %s, %x2 : f32"
    mixed = keep(b.elementwise(body, x, drop, spread, element="f32"))
    keep(b.generic((6, 3), [(mixed, "d1, d0")], "%r0 = repro.tanh %x0 : f32", "f32")[0])
    keep(b.elementwise("%r0 = arith.truncf %x0 : f32 to bf16", mixed, element="bf16"))
    body = "%r0 = math.absf %x0 : f32\n%z = arith.constant 0.0 : f32\n%r1 = arith.cmpf ogt, %x0, %z : f32"
    keep(*b.generic((3, 6), [(mixed, "d0, d1")], body, "f32", "i1"))
    # Adds folds: a contraction, folds in the other orders, and a convolution.
    table = b.constant("dense<[0.25, -1.0, 3.0, 0.125]>", (4,), "f32")
    init = keep(b.generic((3, 4), [(table, "d1")], "%r0 = arith.addf %x0, %x0 : f32", "f32")[0])
    rows_of, fma = [(mixed, "d0, d1")], "%r0 = math.fma %x0, %x1, %a0 : f32"
    keep(*b.fold(COLUMN, "ppr", [(mixed, "d0, d2"), (w, "d2, d1")], [(init, "d0, d1")], fma))
    zeros, low = b.constant("dense<0.0>", (3,), "f32"), b.constant("dense<0xFF800000>", (3,), "f32")
    keep(*b.fold(ROW.format(run=1), "pr", rows_of, [(zeros, "d0")], "%r0 = arith.addf %x0, %a0 : f32"))
    keep(*b.fold(ANY, "pr", rows_of, [(low, "d0")], "%r0 = arith.maximumf %x0, %a0 : f32"))
    keep(*b.fold(SEQUENTIAL, "pr", rows_of, [(zeros, "d0")], "%r0 = arith.subf %a0, %x0 : f32"))
    body = (
        "%i = repro.index 1 : index\n%j = arith.index_cast %i : index to i64\n%n = arith.sitofp %j : i64 to f32\n"
        "%p = arith.mulf %x0, %n : f32\n%r0 = arith.addf %p, %a0 : f32"
    )
    keep(*b.fold(ROW.format(run=1), "pr", rows_of, [(zeros, "d0")], body))
    signal = keep(b.reshape("expand", x, "[[0], [1, 2]]", (3, 1, 6)))
    kernel = keep(b.slice(w, [0, 0], [2, 3], [3, 1]))
    ground = b.constant("dense<0.0>", (3, 2, 4), "f32")
    taps = [(signal, "d0, d3, d2 + d4"), (kernel, "d1, d4")]
    convolved = keep(*b.fold(COLUMN, "ppprr", taps, [(ground, "d0, d1, d2")], fma))
    # Adds operations that move elements.
    flat = keep(b.reshape("collapse", convolved, "[[0], [1, 2]]", (3, 8)))
    padded = keep(b.pad(flat, [1, 0], [0, 2], half))
    joined = keep(b.concat(1, flat, x))
    keep(b.insert(flat, padded, [0, 1], [3, 8]))
    op(f"tensor.cast {joined.name} : {joined.type} to {joined.type}", (3, 14))
    op(f"repro.barrier {joined.name} : {joined.type}", (3, 14))
    # Adds operations whose accesses depend on data.
    body = (
        "%i = linalg.index 0 : index\n%n = arith.constant 6 : index\n%k = arith.index_cast %x0 : i64 to index\n"
        "%m = arith.remui %k, %n : index\n%j = linalg.index 1 : index\n"
        f"%r0 = tensor.extract {w.name}[%m, %j] : {w.type}"
    )
    gathered = keep(b.generic((5, 4), [(rows, "d0, 0")], body, "f32")[0])
    scattered = keep(*b.call("repro.scatter add", [gathered, rows], [w]))
    out = b.empty((3, 14), "f32")
    keep(*b.call("repro.scan add dimension = 1", [joined], [out]))
    keep(*b.call("repro.sort descending dimension = 1", [joined], [out]))
    extremes = [b.empty((3,), "f32"), b.empty((3,), "i64")]
    keep(*b.call("repro.arg_reduce max dimension = 1", [joined], extremes))
    # Adds operations on block-scaled tensors.
    form = Form("f4E2M1FN", 1, 4, "power_scale<rule = rceil>")
    codes, scales = keep_all(*quantized(b, form, mixed))
    keep(dequantized(b, form, codes, scales))
    keep(unpacked(b, keep(packed(b, codes)), 6))
    sums = b.constant("dense<0.0>", (3, 3), "f32")
    factors = [codes, scales, codes, scales]
    keep(*b.call("repro.block_contraction fused block = 4 rows = [1, 1]", factors, [sums]))
    by = "#repro.fdpa<terms = 4, fraction = 25, round = rz_f32, floor = -133, group = 2>"
    keep(*b.call(f"repro.block_contraction scaled block = 4 rows = [1, 1] accumulator = {by}", factors, [sums]))
    # Adds the operations that compute the new state.
    update = "%t = arith.mulf %x1, %x2 : f32\n%s = arith.subf %x0, %t : f32\n%r0 = repro.tanh %s : f32"
    new_w = b.generic((6, 4), [(scattered, "d0, d1"), (gathered, "d0 floordiv 2, d1"), (lr, "")], update, "f32")[0]
    counted = b.elementwise("%k = arith.constant 3 : i64\n%r0 = arith.addi %x0, %k : i64", count, element="i64")
    program = read_signature(to_bytes(b.program(new_w, seed, new_step, counted, *made, states=4)))
    initial = (
        np.linspace(-1, 1, 24, dtype=np.float32).reshape(6, 4),
        np.array(11, np.int64),
        np.array(0, np.int64),
        np.array(5, np.int64),
    )
    return dataclasses.replace(program, initial=initial)


def inputs(steps: int) -> list[list[np.ndarray]]:
    """Returns random inputs for `steps` steps of `every_operator`."""
    generator = np.random.default_rng(3)
    return [
        [
            np.array(0.1 / (1 + step), np.float32),
            generator.standard_normal((3, 6)).astype(np.float32),
            generator.integers(0, 6, (5, 1)),
        ]
        for step in range(steps)
    ]
