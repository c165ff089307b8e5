# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""(M5) Compares contractions of block-scaled tensors in accumulators of matrix units with the rules in fractions."""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from fractions import Fraction

import fraction_rules as rules
import numpy as np
import pytest
from repro_mlir import Accumulator
from support import accumulated_blocks, kit
from support.accumulated_blocks import DRAWS, SUMS, Sum
from support.catalogue import Case

INFINITIES = rules.INF, -rules.INF


def scale_value(code: np.generic, name: str) -> rules.Value:
    """(Q1) Returns the value of a scale; if the scale is an f8E4M3FN, its sign bit is ignored."""
    if name == "f32":
        return rules.from_bits(int(np.float32(code).view(np.uint32)))
    value = rules.value_of(int(code) & (0x7F if name == "f8E4M3FN" else 0xFF), name)
    return value if value != value else Fraction(value)


def is_number(x: rules.Value) -> bool:
    return x == x and x not in INFINITIES


def add_block(
    x: Sequence[Fraction],
    y: Sequence[Fraction],
    c: rules.Value,
    by: Accumulator,
    of: tuple[str, str],
    scales: list[tuple[Fraction, Fraction]] | None = None,
    of_scales: tuple[str, str] = ("", ""),
) -> rules.Value:
    """(M1), (M2) Returns c after one block of finite products has been added to it."""
    if not is_number(c):
        return c
    return rules.fdpa(x, y, Fraction(c), of, by.fraction, by.round, by.floor, by.group, scales, of_scales)


def chain(x: Sequence[rules.Value], y: Sequence[rules.Value], by: Accumulator, of: tuple[str, str]) -> rules.Value:
    """(M1), (M3) Returns the sum of the products x[k] * y[k], added block after block to +0."""
    if not all(map(is_number, (*x, *y))):
        return rules.NAN
    a, b = [*map(Fraction, x)], [*map(Fraction, y)]
    c: rules.Value = Fraction(0)
    size = 2 * by.terms if by.late else by.terms
    for first in range(0, len(a), size):
        block = range(first, min(first + size, len(a)))
        if not by.late:
            c = add_block([a[k] for k in block], [b[k] for k in block], c, by, of)
            continue
        total: rules.Value = Fraction(0)
        for half in (False, True):
            chosen = [k for k in block if ((k - first) % 4 >= 2) == half]
            total = add_block([a[k] for k in chosen], [b[k] for k in chosen], total, by, of)
        if by.round != "rne_f16" or not (is_number(total) and is_number(c)):
            c = rules.plus(total, c)
        else:
            c = rules.round_sum(Fraction(total) + Fraction(c), "rne_f16")
    return c


def scaled_chain(
    x: Sequence[rules.Value],
    y: Sequence[rules.Value],
    scales: list[tuple[rules.Value, rules.Value]],
    chosen: Sum,
) -> rules.Value:
    """(M2) Returns the sum of the products, each multiplied by its scales; the sum starts from +0."""
    if not all(map(is_number, (*x, *y, *itertools.chain(*scales)))):
        return rules.NAN
    a, b = [*map(Fraction, x)], [*map(Fraction, y)]
    factors = [(Fraction(p), Fraction(q)) for p, q in scales]
    c: rules.Value = Fraction(0)
    terms = chosen.by.terms
    for first in range(0, len(a), terms):
        part = slice(first, first + terms)
        c = add_block(a[part], b[part], c, chosen.by, chosen.codes, factors[part], chosen.scales)
    return c


def step(d: rules.Value, s: rules.Value, total: rules.Value, is_split: bool) -> rules.Value:
    """(Q4) Returns fma(d, s, total), or total + d * s if `is_split`."""
    if is_number(d) and is_number(s):
        if not is_number(total) and not is_split:
            return total
        if not is_split:
            return rules.plus(d, total, s)
    return rules.plus(rules.times(d, s), total)


def element(chosen: Sum, arrays: Sequence[np.ndarray], i: int, j: int) -> rules.Value:
    """Returns element (i, j) of the result before the initial operand is added."""
    x_codes, x_scales, y_codes, y_scales = arrays
    x = [rules.value_of(int(code), chosen.codes[0]) for code in x_codes[i]]
    y = [rules.value_of(int(code), chosen.codes[1]) for code in y_codes[j]]
    alphas = [scale_value(code, chosen.scales[0]) for code in x_scales[i // chosen.rows[0]]]
    betas = [scale_value(code, chosen.scales[1]) for code in y_scales[j // chosen.rows[1]]]
    pairs = [*zip(alphas, betas, strict=True)]
    if chosen.step == "scaled":
        return scaled_chain(x, y, [pairs[k // chosen.block] for k in range(len(x))], chosen)
    total: rules.Value = Fraction(0)
    for index, (alpha, beta) in enumerate(pairs):
        part = slice(index * chosen.block, (index + 1) * chosen.block)
        d = chain(x[part], y[part], chosen.by, chosen.codes)
        total = step(d, rules.times(alpha, beta), total, chosen.step == "split")
    return total


def check(case: Case, chosen: Sum) -> None:
    """Compares the results of the reference interpreter with the rules in fractions. The program must have no outer
    dimensions."""
    outcome = kit.reference(case.program, case.inputs)
    assert isinstance(outcome, list)
    *arrays, init = case.inputs
    (got,) = outcome
    for i, j in np.ndindex(init.shape):
        before = rules.from_bits(int(init[i, j].view(np.uint32)))
        want = rules.plus(before, element(chosen, arrays, i, j))
        assert int(got[i, j]) == rules.bits_of(want), (case.name, i, j)


@pytest.mark.parametrize("draw", DRAWS)
@pytest.mark.parametrize("name", SUMS)
@pytest.mark.diagonal
def test_classes_and_others_M5(name: str, draw: str) -> None:
    """Uses extents for which the last blocks of products, of scales and of a group are partial."""
    check(accumulated_blocks.product(f"{name}-{draw}", SUMS[name], (3, 5, 149), DRAWS[draw]), SUMS[name])


@pytest.mark.parametrize("number", range(40))
@pytest.mark.diagonal(number=range(12))
def test_random_sums_M5(number: int) -> None:
    choose = random.Random(1000 + number)
    chosen = accumulated_blocks.random_sum(choose)
    draw = DRAWS[choose.choice(list(DRAWS))]
    check(accumulated_blocks.product(f"random-{number}", chosen, (2, 3, choose.choice([0, 1, 37, 150])), draw), chosen)
