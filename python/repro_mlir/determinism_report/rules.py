# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""The rules that define the results of each operation of a canonical program (docs/reference/numerics.md)."""

from __future__ import annotations

from typing import NamedTuple


class Rules(NamedTuple):
    """The rules of a group of operations.

    Attributes:
      labels: the labels of the rules in docs/reference/numerics.md.
      text: what the rules define.
    """

    labels: tuple[str, ...]
    text: str


_GROUPS = {
    Rules(("F1", "F2", "F3", "F4", "K1", "P1", "P2"), "the order of the additions, by chunks and lanes"): (
        "repro.fold repro.yield repro.index"
    ),
    Rules(("D1",), "the order of the values of one element"): "repro.scatter",
    Rules(("D2",), "the smallest index among equal elements"): "repro.arg_reduce repro.sort",
    Rules(("D3", "D4"), "the order of the additions, by chunks"): "repro.scan",
    Rules(("R1", "R2"), "Philox, and functions of its bits"): "repro.random",
    Rules(("Q1", "Q2", "Q3"), "formats, scales and roundings of blocks"): (
        "repro.quantize repro.dequantize repro.pack_codes repro.unpack_codes"
    ),
    Rules(("Q4", "M1", "M5"), "the order of the additions, by blocks"): (
        "repro.block_contraction repro.accumulated_block_contraction"
    ),
    Rules(("S5",), "elementary functions, as sequences of arithmetic"): (
        "repro.acos repro.acosh repro.asin repro.asinh repro.atan repro.atan2 repro.atanh repro.cbrt repro.cos "
        "repro.cosh repro.erf repro.erfc repro.exp repro.exp10 repro.exp2 repro.expm1 repro.hypot repro.log "
        "repro.log10 repro.log1p repro.log2 repro.pow repro.powi repro.sin repro.sinh repro.tan repro.tanh"
    ),
    Rules(("S1", "V2", "V3"), "correctly rounded, without fusion or reassociation"): (
        "arith.addf arith.subf arith.mulf arith.divf math.sqrt math.fma repro.rsqrt"
    ),
    Rules(("S2",), "maximum and minimum of IEEE 754-2019"): "arith.maximumf arith.minimumf",
    Rules(("S3",), "conversions"): (
        "arith.bitcast arith.extf arith.extsi arith.extui arith.fptosi arith.fptoui arith.index_cast "
        "arith.index_castui arith.sitofp arith.truncf arith.trunci arith.uitofp"
    ),
    Rules(("S4",), "exact operations of IEEE 754"): (
        "arith.cmpf arith.negf arith.remf arith.select math.absf math.ceil math.copysign math.floor math.round "
        "math.roundeven math.trunc"
    ),
    Rules(("I1",), "integers"): (
        "arith.addi arith.addui_extended arith.andi arith.cmpi arith.divsi arith.divui arith.maxsi arith.maxui "
        "arith.minsi arith.minui arith.muli arith.mulsi_extended arith.mului_extended arith.ori arith.remsi "
        "arith.remui arith.shli arith.shrsi arith.shrui arith.subi arith.xori math.absi math.ctlz math.ctpop "
        "math.cttz"
    ),
    Rules(("E1",), "a failed check leaves the state unchanged"): "cf.assert",
    Rules(("A1", "A2", "A3", "A4"), "loops and moves of elements"): (
        "linalg.generic linalg.index linalg.yield arith.constant tensor.cast tensor.collapse_shape tensor.concat "
        "tensor.dim tensor.empty tensor.expand_shape tensor.extract tensor.extract_slice tensor.from_elements "
        "tensor.insert_slice tensor.pad tensor.splat tensor.yield"
    ),
    Rules(("V5",), "the operand itself"): "repro.barrier",
}

RULES: dict[str, Rules] = {name: rules for rules, names in _GROUPS.items() for name in names.split()}
"""The rules of each operation, by its name, in the order in which reports list them."""

UNKNOWN = Rules((), "unknown: the report knows no rule")
"""The rules of an operation that `RULES` does not have; nothing is claimed."""

TERMINATORS = frozenset(["func.return"])
"""Operations that compute nothing, and so have no rules."""
