# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests the choice of cases that `make test` runs for the markers `diagonal` and `exhaustive`."""

import itertools

import pytest
from support.diagonal import diagonal, with_parts

SIZES, KINDS = (1, 2, 3), ("f32", "bf16")
CASES = [{"size": size, "kind": kind} for size, kind in itertools.product(SIZES, KINDS)]
NAMES = ["floats/exp-f32", "floats/exp-f64", "floats/log-f32", "floats/log-f64", "sums/row-f32-5x7", "sums/row-f32-9x1"]


def test_each_value_of_each_parameter_is_chosen() -> None:
    chosen = [CASES[number] for number in diagonal(CASES, [["size"], ["kind"]])]
    assert [case["size"] for case in chosen] == [1, 2, 3]
    assert [case["kind"] for case in chosen] == ["f32", "bf16", "f32"]
    assert diagonal(CASES, [["size", "kind"]]) == list(range(6))


def test_kept_values() -> None:
    assert diagonal(CASES, [["size"], ["kind"]], size=[2]) == [2, 3]
    assert diagonal(CASES, [["size"], ["kind"]], size=[2], kind=["bf16"]) == [3]
    with pytest.raises(ValueError, match="no size is 4"):
        diagonal(CASES, [["size"], ["kind"]], size=[2, 4])


def test_each_word_of_a_name_is_chosen() -> None:
    chosen = diagonal([{"case": name} for name in NAMES], [["case"]], ["case"])
    assert [NAMES[number] for number in chosen] == ["floats/exp-f32", "floats/log-f64", "sums/row-f32-5x7"]


def test_cases_with_a_part() -> None:
    ids = ["mlp-x86-64-v2", "mlp-x86-64-v4", "cnn-x86-64-v4", "cnn-x86-64-v4-vnni"]
    assert with_parts(ids, ["mlp", "v4-vnni"]) == {0, 1, 3}
    assert with_parts(ids, ["x86-64-v4"]) == {1, 2, 3}
    with pytest.raises(ValueError, match="no case has 'v' in its id"):
        with_parts(ids, ["mlp", "v"])
