# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(Q1) to (Q3) Tests that the interpreter's repro.quantize and repro.dequantize call the block functions with the right
arguments."""

from __future__ import annotations

import re

import numpy as np
import pytest
from repro_mlir.base.errors import StepFailed
from repro_mlir.base.numerics.formats import element_type, to_bits
from repro_mlir.program.canonical import to_bytes
from repro_mlir.reference.interpreter import Interpreter
from repro_mlir.reference.low_precision.binary_formats import ELEMENT_FORMATS
from repro_mlir.reference.low_precision.block_quantization import BlockFormat, Quantized, dequantize, quantize
from repro_mlir.reference.low_precision.block_rounding import Rounding, ptx_site_bits, site_bits
from repro_mlir.reference.low_precision.block_scales import (
    Encoding,
    Given,
    InfiniteAmax,
    OneLevelQuotient,
    PowerOfTwo,
    PowerRule,
    ScaleRule,
    Single,
    TwoLevel,
    TwoLevelQuotient,
)
from repro_mlir.reference.low_precision.exact_rounding import Direction
from support import block_programs, kit
from support.block_programs import GIVEN, Form


def words(text: str) -> dict[str, str]:
    return dict(re.findall(r"(\w+) = ([-\w.+]+)", text))


def scale_of(form: Form) -> ScaleRule:
    given = words(form.scale)
    if form.scale.startswith("power"):
        infinity = InfiniteAmax(given.get("infinity", "nan"))
        least = int(given["least"]) if "least" in given else None
        return PowerOfTwo(PowerRule(given["rule"]), infinity, int(given.get("nan", 255)), least)
    if form.scale.startswith("two_level"):
        return TwoLevel(int(given["largest"]))
    if form.scale.startswith("quotient"):
        return TwoLevelQuotient() if given["levels"] == "2" else OneLevelQuotient()
    if form.scale == GIVEN:
        return Given()
    return Single(float(given["least"]), Encoding(given["encoding"]), "inverse" in given, "power" in given)


def format_of(form: Form, shape: tuple[int, ...]) -> BlockFormat:
    given = words(form.rounding)
    directions = {"rne": Direction.NEAREST_EVEN, "away": Direction.NEAREST_AWAY, "rz": Direction.TOWARD_ZERO}
    rounding = Rounding(
        directions.get(given["direction"], Direction.STOCHASTIC), int(given.get("bits", 0)), "saturate" not in given,
        given.get("nan", "largest"), "signed_zero" not in given,
    )  # fmt: skip
    name = form.element if form.element != "i8" else "mxint8" if form.symmetric else "mxint8_full"
    # Limits a block to the tensor's rows: the functions pad partial blocks, and a block may have 2^31 rows.
    rows = min(form.rows, max(shape[-2], 1))
    return BlockFormat(ELEMENT_FORMATS[name], (rows or None, form.columns or None), scale_of(form), rounding)


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_Q1_Q2_Q3_random_programs(first: int) -> None:
    for number in range(first, first + 50):
        case, form = block_programs.program(number)
        x, *others = case.inputs
        tensor = others.pop(0) if form.takes_tensor else None
        of, random = format_of(form, x.shape), None
        if form.is_stochastic:
            seed, step = map(int, others)
            site = int(re.search(r"site = (\d+)", case.program)[1])
            if "ptx" in form.rounding:
                random = ptx_site_bits(x.shape, of.element, seed, site, step)
            else:
                random = site_bits(x.shape, of.rounding.bits, seed, site, step)
        with np.errstate(all="ignore"):
            want = quantize(x, of, tensor, random)
            # (V4) NaNs are canonical in stored tensors, and in codes when they are read again.
            value = dequantize(Quantized(want.codes, want.scales, tensor), of)
        codes, scales, result = kit.reference(case.program, case.inputs)
        assert codes.shape == x.shape and scales.shape == form.scale_shape(x.shape)
        assert (codes == want.codes).all(), case.name
        kind = element_type(form.scale_element)
        assert (scales == (to_bits(want.scales, kind) if kind.name == "f32" else want.scales)).all(), case.name
        assert (result == to_bits(value, element_type("f32"))).all(), case.name


def test_R1_steps() -> None:
    cases = [case for case in block_programs.blocks() if "step" in case.name]
    assert [case.name.startswith("empty") for case in cases] == [False, True]
    for case in cases:
        with pytest.raises(StepFailed, match=r"\(R1\) expected a step within 0 .. 4294967295, got 4294967296"):
            Interpreter(to_bytes(case.program)).run(*case.inputs)


def test_Q1_the_sign_of_a_scale_is_not_read() -> None:
    form = Form("f4E2M1FN", 1, 2, "quotient_scale<levels = 1>")
    text = (
        f"func.func @main(%c: tensor<1x4xf4E2M1FN>, %s: tensor<1x2xf8E4M3FN>) -> tensor<1x4xf32>\n"
        f"    attributes {{repro.num_state = 0 : i64}} {{\n"
        f"  %0 = repro.dequantize {form.text} %c, %s\n"
        f"      : tensor<1x4xf4E2M1FN>, tensor<1x2xf8E4M3FN> -> tensor<1x4xf32>\n  return %0 : tensor<1x4xf32>\n}}\n"
    )
    codes, scales = np.array([[1, 2, 9, 10]], np.uint8), np.array([[0x38, 0xB8]], np.uint8)
    (result,) = Interpreter(to_bytes(text)).run(codes, scales)
    assert result.tolist() == [[0.5, 1.0, -0.5, -1.0]]


@pytest.mark.parametrize("columns", [5, 6])
def test_Q7_two_codes_in_a_byte(columns: int) -> None:
    codes = np.arange(2 * columns, dtype=np.uint8).reshape(2, columns)
    b = block_programs.Builder()
    given = b.argument(codes.shape, "f4E2M1FN")
    data = b.argument((2, 3), "i8")
    results = block_programs.packed(b, given), block_programs.unpacked(b, data, columns)
    # If a row has an odd number of codes, the high bits of its last byte are zeros when written and ignored when read.
    held = np.array(
        [[sum(int(x) << 4 * i for i, x in enumerate(row[at : at + 2])) for at in (0, 2, 4)] for row in codes]
    )
    read = held | (0 if columns == 6 else np.array([0, 0, 0xF0]))
    packed, unpacked = Interpreter(to_bytes(b.program(*results))).run(codes, read.astype(np.uint8).view(np.int8))
    np.testing.assert_array_equal(packed.astype(np.uint8), held)
    np.testing.assert_array_equal(to_bits(unpacked, element_type("f4E2M1FN")), codes)


def test_one_layout_differs_from_the_other() -> None:
    """The same site draws different bits for the layouts `ptx` and `site`."""
    codes = []
    for layout in ("", ", layout = ptx"):
        form = Form("f4E2M1FN", 1, 4, "power_scale<rule = floor>", f"direction = sr, bits = 16{layout}")
        b = block_programs.Builder()
        x, seed, step = b.argument((8, 64), "f32"), b.argument((), "i64"), b.argument((), "i64")
        scalars = [b.op(f"tensor.extract {v.name}[] : {v.type}", None, "i64") for v in (seed, step)]
        found = block_programs.quantized(b, form, x, key=(5, scalars[0], scalars[1]))
        arrays = block_programs.values.random("f32", (8, 64), 1), np.array(3), np.array(4)
        codes.append(kit.reference(b.program(*found), arrays)[0])
    assert (codes[0] != codes[1]).any()
