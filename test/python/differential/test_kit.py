# Part of repro-mlir, under the Apache License v2.0 with LLVM Exceptions.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

"""Tests support.kit: it reports each difference between two outcomes, and none if the outcomes are equal."""

from __future__ import annotations

import numpy as np
import pytest
from repro_mlir.base.errors import StepFailed
from support import catalogue, kit

SOFTMAX = next(case for case in catalogue.whole_programs() if case.name == "softmax")
HERE = kit.Configuration("x86-64-v3", 1)


def test_one_bit_is_a_mismatch() -> None:
    want = kit.reference(SOFTMAX.program, SOFTMAX.inputs)
    assert isinstance(want, list)
    program = kit.read(SOFTMAX.program)
    kit.compare(program, want, [array.copy() for array in want], "copy")
    wrong = [array.copy() for array in want]
    wrong[1][3] ^= 1
    with pytest.raises(kit.Mismatch, match=r"result 1 \(tensor<9xf32>\): 1 of 9 elements differ, first at \[3\]"):
        kit.compare(program, want, wrong, "flipped")
    with pytest.raises(kit.Mismatch, match="expected results, got a failed step"):
        kit.compare(program, want, StepFailed("no"), "failed")


def test_first_difference_names_the_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the compiler returns wrong bits for each program that contains an exponential."""

    def wrong_exponential(program: str, inputs: tuple, configuration: kit.Configuration, runs: int) -> kit.Outcome:
        outcome = kit.reference(program, inputs)
        assert isinstance(outcome, list)
        return [array ^ array.dtype.type("repro.exp" in program) for array in outcome]

    monkeypatch.setattr(kit, "compiled", wrong_exponential)
    found = kit.first_difference(SOFTMAX.program, SOFTMAX.inputs, HERE)
    assert found is not None and "repro.exp" in found and "repro.fold" not in found
    monkeypatch.setattr(kit, "compiled", lambda program, inputs, configuration, runs: kit.reference(program, inputs))
    assert kit.first_difference(SOFTMAX.program, SOFTMAX.inputs, HERE) is None


def test_inputs_cover_special_values() -> None:
    from support import inputs

    values = inputs.special("f32")
    assert np.isnan(values).any() and np.isinf(values).any() and (values == 0).sum() == 2
    assert (np.abs(values[np.isfinite(values)]) < 2.0**-126).sum() > 4
    assert len(set(values.view(np.uint32).tolist())) == len(values)
